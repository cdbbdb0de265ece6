"""A turn as an ACP client sees it: text, thoughts, tools, requests, questions and every kind of end."""

import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.demo.driver import Json
from tests.gateway.acp.client import Client
from tests.gateway.acp.conftest import House

PNG = b64encode(b"\x89PNG\r\n\x1a\n").decode()


def result(response: Json) -> Json:
    assert "result" in response, response
    return response["result"]


@pytest.mark.proves("GA2")
def test_the_text_of_a_turn_comes_once_and_before_its_end(demo: Client) -> None:
    end = result(demo.turn("think hm || say one, || say two"))
    assert end["stopReason"] == "end_turn"
    assert demo.text() == "one,two"
    assert [u["content"]["text"] for u in demo.updates("agent_thought_chunk")] == ["hm"]
    assert not demo.updates("user_message_chunk")
    assert demo.seen[-1]["id"] == demo.prompt("say more") - 1


@pytest.mark.proves("GA2")
def test_a_prompt_tells_what_it_used_and_which_run_it_was(demo: Client) -> None:
    end = result(demo.turn("say hello || usage"))
    assert end["usage"].keys() >= {"inputTokens", "outputTokens", "totalTokens"}
    assert end["_meta"]["agentctl"]["runId"].startswith("run_")
    (used,) = demo.updates("usage_update")
    assert used["size"] >= used["used"] > 0
    assert used["cost"]["currency"] == "USD"


@pytest.mark.proves("GA2")
def test_a_command_is_shown_with_its_output_and_exit_code(demo: Client) -> None:
    request = demo.prompt("run echo first; echo second; exit 3")
    demo.choose(demo.asked(), "allow_once")
    demo.response(request)
    (card,) = demo.updates("tool_call")
    assert card["kind"] == "execute"
    assert card["rawInput"]["command"].startswith("echo first")
    last = [u for u in demo.updates("tool_call_update") if "status" in u][-1]
    assert last["status"] == "failed"
    assert last["rawOutput"] == {"exitCode": 3}
    assert last["content"][0]["content"]["text"] == "first\nsecond\n"


@pytest.mark.proves("GA2")
def test_output_that_grows_is_seen_while_the_command_runs(demo: Client) -> None:
    request = demo.prompt("run! echo waiting; sleep 60")
    shown = demo.until("tool_call_update", content=[_text("waiting\n")])
    assert "status" not in shown
    demo.cancel()
    assert result(demo.response(request))["stopReason"] == "cancelled"


def _text(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


@pytest.mark.proves("GA2")
def test_an_edit_is_shown_as_the_text_before_and_after(demo: Client, workspace: Path) -> None:
    (workspace / "a.txt").write_text("old\n")
    request = demo.prompt("write a.txt new")
    asked = demo.asked()
    before = asked["params"]["toolCall"]["content"]
    assert [(d["type"], d["oldText"], d["newText"]) for d in before] == [("diff", "old\n", "new")]
    demo.choose(asked, "allow_once")
    demo.response(request)
    content = demo.updates("tool_call_update")[-1]["content"]
    assert [(d["path"], d["newText"]) for d in content] == [(str(workspace / "a.txt"), "new")]
    assert (workspace / "a.txt").read_text() == "new"


@pytest.mark.proves("GA3")
def test_a_request_offers_the_agents_own_options_and_the_picked_one_reaches_it(
    demo: Client, house: House
) -> None:
    request = demo.prompt("run echo hi")
    asked = demo.asked()
    kinds = {o["optionId"]: o["kind"] for o in asked["params"]["options"]}
    assert kinds == {
        "once": "allow_once",
        "always": "allow_always",
        "no": "reject_once",
        "never": "reject_always",
    }
    demo.pick(asked, "always")
    demo.response(request)
    # The agent itself remembers: it asks no more.
    assert result(demo.turn("run echo again"))["stopReason"] == "end_turn"
    rows = house.agentctl("approvals", "--history", "--json").splitlines()
    assert json.loads(rows[0])["option_id"] == "always"


@pytest.mark.proves("GA3")
def test_a_denied_command_does_not_run_and_the_turn_goes_on(demo: Client, workspace: Path) -> None:
    request = demo.prompt("run touch never || say on")
    demo.choose(demo.asked(), "reject_once")
    assert result(demo.response(request))["stopReason"] == "end_turn"
    assert demo.text() == "on"
    assert not (workspace / "never").exists()


@pytest.mark.proves("GA3")
def test_a_request_that_is_dismissed_is_a_denial(demo: Client, workspace: Path) -> None:
    request = demo.prompt("run touch never || say on")
    demo.answer(demo.asked(), {"outcome": {"outcome": "cancelled"}})
    assert result(demo.response(request))["stopReason"] == "end_turn"
    assert not (workspace / "never").exists()


@pytest.mark.proves("GA3")
@pytest.mark.parametrize("answer_first", [True, False])
def test_a_cancel_ends_the_turn_and_what_it_asks(
    demo: Client, workspace: Path, house: House, *, answer_first: bool
) -> None:
    request = demo.prompt("run touch never || say on")
    asked = demo.asked()
    dismissed = {"outcome": {"outcome": "cancelled"}}
    if answer_first:
        demo.answer(asked, dismissed)
    demo.cancel()
    if not answer_first:
        demo.answer(asked, dismissed)
    assert result(demo.response(request))["stopReason"] == "cancelled"
    assert demo.text() == ""
    assert not (workspace / "never").exists()
    rows = house.agentctl("approvals", "--history", "--json").splitlines()
    assert json.loads(rows[0])["decision"] == "cancelled"


@pytest.mark.proves("GA3")
def test_a_request_that_is_answered_elsewhere_is_taken_back(demo: Client, house: House) -> None:
    request = demo.prompt("run echo hi")
    asked = demo.asked()
    approval = asked["params"]["_meta"]["agentctl"]["approvalId"]
    house.agentctl("approve", approval)
    taken = demo.asked("$/cancel_request")
    assert taken["params"] == {"requestId": asked["id"]}
    assert result(demo.response(request))["stopReason"] == "end_turn"
    # What the client says of it now means nothing.
    demo.choose(asked, "reject_once")
    assert result(demo.turn("say on"))["stopReason"] == "end_turn"


@pytest.mark.proves("GA3")
def test_what_a_policy_answers_is_not_asked(
    connect: Callable[..., Client], workspace: Path
) -> None:
    client = connect("--agent", "demo", "--approve", "allow")
    client.open(workspace)
    assert result(client.turn("run touch made"))["stopReason"] == "end_turn"
    assert (workspace / "made").exists()
    denying = connect("--agent", "demo", "--approve", "deny")
    denying.open(workspace)
    assert result(denying.turn("run touch never"))["stopReason"] == "end_turn"
    assert not (workspace / "never").exists()
    methods = {m.get("method") for c in (client, denying) for m in c.seen}
    assert methods == {None, "session/update"}


@pytest.mark.proves("GA4")
def test_a_question_is_a_form_and_its_answer_reaches_the_agent(
    connect: Callable[..., Client], workspace: Path
) -> None:
    client = connect("--agent", "demo", elicitation={"form": {}})
    client.open(workspace)
    request = client.prompt("ask Which colour?")
    asked = client.asked("elicitation/create")
    assert asked["params"]["message"] == "Which colour?"
    client.answer(asked, {"action": "accept", "content": {"answer": "Blue"}})
    client.response(request)
    assert client.text() == "You answered: Blue"


@pytest.mark.proves("GA4")
@pytest.mark.parametrize("answer", [{"action": "decline"}, {"action": "cancel"}])
def test_a_question_that_is_declined_is_rejected(
    connect: Callable[..., Client], workspace: Path, answer: Json
) -> None:
    client = connect("--agent", "demo", elicitation={"form": {}})
    client.open(workspace)
    request = client.prompt("ask Which colour?")
    client.answer(client.asked("elicitation/create"), answer)
    client.response(request)
    assert client.text() == "No answer: decline"


@pytest.mark.proves("GA4")
def test_a_question_that_a_client_cannot_show_is_rejected_with_a_note(
    demo: Client, house: House
) -> None:
    assert result(demo.turn("ask Which colour?"))["stopReason"] == "end_turn"
    assert demo.text() == "No answer: decline"
    rows = house.agentctl("events", "--type", "question_resolved", "--json").splitlines()
    assert json.loads(rows[-1])["data"]["outcome"] == "rejected"
    assert b"no way to show this question" in demo.stderr


@pytest.mark.proves("GA2")
def test_a_slash_command_that_the_agent_offers_runs(demo: Client) -> None:
    (commands,) = [demo.until("available_commands_update")]
    assert {"help", "history"} <= {c["name"] for c in commands["availableCommands"]}
    demo.turn("/history")
    assert "1 user turns" in demo.text()


@pytest.mark.proves("GA2")
def test_every_kind_of_content_reaches_the_agent(demo: Client, workspace: Path) -> None:
    (workspace / "note.md").write_text("x")
    blocks: list[Json] = [
        {"type": "text", "text": "hello"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource_link", "uri": (workspace / "note.md").as_uri(), "name": "note.md"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "told"}},
    ]
    request = demo.request("session/prompt", {"sessionId": demo.session_id, "prompt": blocks})
    demo.choose(demo.asked(), "reject_once")
    demo.response(request)
    assert demo.text().startswith("Thank you for the image and the ")


@pytest.mark.proves("GA2")
def test_a_prompt_that_the_agent_cannot_take_is_refused_with_our_reason(demo: Client) -> None:
    sound = {"type": "audio", "data": PNG, "mimeType": "audio/wav"}
    prompt: dict[str, Any] = {"sessionId": demo.session_id, "prompt": [sound]}
    error = demo.call("session/prompt", **prompt)["error"]
    assert error["data"]["reason"] == "UNSUPPORTED"
    assert "audio" in error["message"]


@pytest.mark.proves("GA5")
def test_a_failed_run_is_an_error_with_our_reason(demo: Client) -> None:
    error = demo.turn("say before || model-error 500 boom")["error"]
    assert (error["code"], error["data"]["reason"]) == (-32603, "MODEL_ERROR")
    assert "boom" in error["message"]
    assert demo.text() == "before"
    error = demo.turn("auth-error")["error"]
    assert (error["code"], error["data"]["reason"]) == (-32000, "AUTH_REQUIRED")
    assert result(demo.turn("say alive"))["stopReason"] == "end_turn"


@pytest.mark.proves("GA5")
def test_an_agent_that_dies_ends_its_prompt_with_an_error_and_the_next_prompt_works(
    demo: Client,
) -> None:
    error = demo.turn("say before || crash 7")["error"]
    assert error["data"]["reason"] == "AGENT_EXITED"
    assert error["data"]["exitCode"] == 7
    assert result(demo.turn("say after"))["stopReason"] == "end_turn"
    assert demo.text() == "beforeafter"


@pytest.mark.proves("GA5")
def test_two_prompts_at_once_wait_for_their_turn(demo: Client) -> None:
    first, second = demo.prompt("say one || hang"), demo.prompt("say two")
    third = demo.prompt("say three")
    demo.until("agent_message_chunk")
    demo.send({"method": "$/cancel_request", "params": {"requestId": first}})
    ends = [result(each)["stopReason"] for each in demo.responses(first, second, third)]
    assert ends == ["cancelled", "end_turn", "end_turn"]
    assert demo.text() == "onetwothree"


@pytest.mark.proves("GA5")
def test_a_cancel_ends_every_prompt_that_waits(demo: Client) -> None:
    requests = [demo.prompt("say one || hang"), demo.prompt("say two"), demo.prompt("say three")]
    demo.until("agent_message_chunk")
    demo.cancel()
    ends = [result(each)["stopReason"] for each in demo.responses(*requests)]
    assert ends == ["cancelled"] * 3
    assert demo.text() == "one"


@pytest.mark.proves("GA5")
def test_a_cancel_right_behind_its_prompt_is_not_lost(demo: Client) -> None:
    request = demo.prompt("hang")
    demo.cancel()
    assert result(demo.response(request))["stopReason"] == "cancelled"


@pytest.mark.proves("GA5")
def test_a_cancel_means_no_prompt_that_came_after_it(demo: Client) -> None:
    demo.cancel()
    assert result(demo.turn("say one"))["stopReason"] == "end_turn"
    first = demo.prompt("hang")
    demo.cancel()
    second = demo.prompt("say two")
    ends = [result(each)["stopReason"] for each in demo.responses(first, second)]
    assert ends == ["cancelled", "end_turn"]
    assert demo.text() == "onetwo"


@pytest.mark.proves("GA2")
def test_a_large_turn_comes_whole(demo: Client) -> None:
    demo.turn("chunks 5000 100")
    assert demo.text() == "c" * 500_000


@pytest.mark.proves("GA2")
def test_what_the_agent_says_late_is_still_told(demo: Client) -> None:
    demo.turn("say now || late later")
    late = demo.until("agent_message_chunk", content={"type": "text", "text": "later"})
    assert late["_meta"]["afterRunId"].startswith("run_")
