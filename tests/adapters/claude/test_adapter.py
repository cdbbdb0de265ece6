"""The Claude Code adapter against a fake that keeps to the protocol: what is asked and answered."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.adapter import Feature, PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid, Refused, Unsupported
from agentctl.core.events import Complete, SessionOptions
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import Answer, ContentBlock
from agentctl.core.spec import Command, McpServer, PromptSpec
from agentctl.core.words import (
    ContentType,
    Decision,
    Outcome,
    PermissionKind,
    QuestionOutcome,
)
from tests.adapters.claude.claude_harness import (
    Seen,
    faulty,
    good,
    request_of,
    say,
    spec,
    text,
)

pytestmark = pytest.mark.anyio


def given(seen: Seen) -> dict[str, Any]:
    """What the fake was answered, which it repeats as text."""
    return json.loads(seen.text)


async def test_a_session_gets_an_id_of_ours_and_prompts_get_their_ends(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        assert connection.info.pid is None
        native = await connection.new_session(spec(tmp_path))
        assert connection.info.version == "9.9.9" and connection.info.pid
        assert Feature.MANY_SESSIONS not in connection.info.features
        for words in ("say one", "say two"):
            assert good(await say(connection, seen, native, words))
        with pytest.raises(Unsupported):
            await connection.new_session(spec(tmp_path))
    assert seen.text == "onetwo"
    assert len({prompt["uuid"] for prompt in seen.sent("user")}) == 2
    assert {getattr(draft, "session", None) for draft in seen.drafts} == {native, None}
    assert seen.gone()[-1].exit_code == 0


@pytest.mark.proves("A4")
async def test_allow_once_sends_the_input_and_no_more(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        asked = await seen.asked()
        assert [option.option_id for option in asked.options] == ["allow", "allow_always", "reject"]
        answer = PermissionAnswer(Decision.APPROVED, "allow")
        await connection.answer_permission(request_of(asked), answer)
        assert good(await seen.ended())
        await connection.answer_permission(request_of(asked), answer)
    assert given(seen) == {"behavior": "allow", "updatedInput": {"command": "touch a"}}
    assert len(seen.sent("control_response")) == 1


@pytest.mark.proves("A4")
async def test_always_sends_the_one_rule_for_this_session_only(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        asked = await seen.asked()
        with pytest.raises(Invalid) as refused:
            other = PermissionAnswer(Decision.APPROVED, "accept_edits")
            await connection.answer_permission(request_of(asked), other)
        assert refused.value.reason == "OPTION_NOT_OFFERED"
        always = PermissionAnswer(Decision.APPROVED, "allow_always")
        await connection.answer_permission(request_of(asked), always)
        await seen.ended()
    rule = {"toolName": "Bash", "ruleContent": "touch *"}
    assert given(seen)["updatedPermissions"] == [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "session"}
    ]


@pytest.mark.proves("A6")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (PermissionAnswer(Decision.DENIED, "reject", "too risky"), "too risky"),
        (PermissionAnswer(Decision.DENIED, "reject"), "User denied this tool use request"),
        (PermissionAnswer(Decision.EXPIRED), "Nobody answered in time."),
        (PermissionAnswer(Decision.CANCELLED), "The request was cancelled."),
    ],
)
async def test_a_denial_says_why(tmp_path: Path, answer: PermissionAnswer, words: str) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        await connection.answer_permission(request_of(await seen.asked()), answer)
        await seen.ended()
    assert given(seen) == {"behavior": "deny", "message": words}


async def test_an_input_is_changed_with_the_answer(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("ask"))
        key = request_of(await seen.asked())
        for wrong in (b"[1]", b'"x"'):
            with pytest.raises(Invalid):
                nonsense = PermissionAnswer(Decision.APPROVED, "allow", updated_input_json=wrong)
                await connection.answer_permission(key, nonsense)
        other = b'{"command": "touch b"}'
        answer = PermissionAnswer(Decision.APPROVED, "allow", updated_input_json=other)
        await connection.answer_permission(key, answer)
        await seen.ended()
    assert given(seen)["updatedInput"] == {"command": "touch b"}


@pytest.mark.proves("A8")
async def test_questions_are_answered_by_their_words(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("question"))
        asked = await seen.questioned()
        assert asked.questions[0].multiple and asked.questions[0].custom
        key = request_of(asked)
        await connection.answer_permission(key, PermissionAnswer(Decision.APPROVED, "allow"))
        both = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["Red", "Blue"]),))
        await connection.answer_question(key, both)
        await seen.ended()
    assert given(seen)["updatedInput"]["answers"] == {"Which?": "Red, Blue"}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (QuestionAnswer(QuestionOutcome.REJECTED), {"behavior": "deny"}),
        (QuestionAnswer(QuestionOutcome.CANCELLED), {"behavior": "deny"}),
        (
            QuestionAnswer(QuestionOutcome.ANSWERED, content_json=b'{"Which?": "green"}'),
            {"behavior": "allow"},
        ),
    ],
)
async def test_a_question_may_be_refused_or_answered_in_free_words(
    tmp_path: Path, answer: QuestionAnswer, expected: dict[str, str]
) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("question"))
        await connection.answer_question(request_of(await seen.questioned()), answer)
        await seen.ended()
    assert expected.items() <= given(seen).items()


async def test_a_plan_is_approved_with_or_without_accepting_edits(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("plan"))
        asked = await seen.asked()
        assert (asked.kind, asked.document) == (PermissionKind.PLAN, "# Leap")
        answer = PermissionAnswer(Decision.APPROVED, "accept_edits")
        await connection.answer_permission(request_of(asked), answer)
        await seen.ended()
    assert given(seen)["updatedPermissions"] == [
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    ]


@pytest.mark.proves("T6")
async def test_a_cancel_drops_what_waits_too_and_twice_is_once(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("work"))
        await seen.until(lambda: seen.text)
        await connection.cancel(native)
        await connection.cancel(native)
        assert (await seen.ended()).outcome is Outcome.CANCELLED
        assert good(await say(connection, seen, native, "say on"))
    assert [c["cancel_queued"] for c in seen.controls("interrupt")] == [True, True]
    assert len(seen.of(Complete)) == 2


@pytest.mark.proves("P2")
async def test_a_cancel_stops_shells_in_the_background_which_an_interrupt_leaves(
    tmp_path: Path,
) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, text("leave"))
        await seen.until(lambda: seen.text)
        await connection.cancel(native)
        assert (await seen.ended()).outcome is Outcome.CANCELLED
    assert [each["task_id"] for each in seen.controls("stop_task")] == ["b1"]


async def test_model_and_mode_are_switched_and_what_the_agent_refuses_is_the_callers_mistake(
    tmp_path: Path,
) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.set_model(native, "opus")
        await connection.set_mode(native, "plan")
        with pytest.raises(Invalid) as refused:
            await connection.set_model(native, "nonsense")
        assert refused.value.reason == "INVALID_MODEL"
        with pytest.raises(Invalid, match="effort"):
            await connection.set_option(native, "colour", "red")
        with pytest.raises(Invalid, match="medium"):
            await connection.set_option(native, "effort", "enormous")
        with pytest.raises(Unsupported):
            await connection.steer(native, text("more"))
        await seen.until(lambda: [o.mode for o in seen.of(SessionOptions) if o.mode][-1] == "plan")
    assert [o.model for o in seen.of(SessionOptions) if o.model] == ["opus"]


async def test_all_that_is_asked_of_a_session_is_in_its_command_line(tmp_path: Path) -> None:
    seen = Seen()
    server = McpServer("tools", command="run", args=("x",), env={"K": "v"})
    web = McpServer("web", transport="http", url="http://h/", headers={"A": "b"})
    asked = spec(
        tmp_path,
        model="haiku",
        mode="default",
        additional_directories=("/other",),
        mcp_servers=(server, web),
        options={"effort": "low"},
    )
    how: dict[str, Any] = {"trust": False, "config": {"flags": ["--extra"]}}
    async with faulty(tmp_path, seen, **how) as connection:
        native = await connection.new_session(asked)
        process = connection.process
        assert process is not None
        argv, env = process.spec.argv, process.spec.env
    told = dict(arg.split("=", 1) for arg in argv if arg.startswith("--") and "=" in arg)
    assert told["--session-id"] == native
    assert (told["--model"], told["--permission-mode"], told["--effort"]) == (
        "haiku",
        "manual",
        "low",
    )
    assert (told["--add-dir"], told["--setting-sources"]) == ("/other", "user")
    assert argv[-1] == "--extra"
    assert json.loads(told["--mcp-config"])["mcpServers"] == {
        "tools": {"type": "stdio", "command": "run", "args": ["x"], "env": {"K": "v"}},
        "web": {"type": "http", "url": "http://h/", "headers": {"A": "b"}},
    }
    assert json.loads(told["--settings"]) == {
        "disableAllHooks": True,
        "permissions": {"disableAutoMode": "disable"},
    }
    assert env["CLAUDE_CODE_ENABLE_TODO_TOOLS"] == "1"
    assert env["TMPDIR"] == env["CLAUDE_CODE_TMPDIR"]
    assert not await anyio.Path(env["TMPDIR"]).exists()


@pytest.mark.proves("S4")
async def test_resume_and_fork_name_the_old_conversation(tmp_path: Path) -> None:
    old = NativeSessionId("22222222-2222-4222-8222-222222222222")
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        assert await connection.resume_session(old, spec(tmp_path)) == old
        process = connection.process
        assert process is not None and f"--resume={old}" in process.spec.argv
    async with faulty(tmp_path, Seen()) as connection:
        native = await connection.fork_session(old, spec(tmp_path))
        process = connection.process
        assert process is not None and native != old
        wanted = {f"--resume={old}", "--fork-session", f"--session-id={native}"}
        assert wanted <= set(process.spec.argv)


@pytest.mark.proves("S5")
async def test_two_processes_never_hold_one_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentctl_adapters.claude.connection.HELD_TIMEOUT_S", 0.05)
    old = NativeSessionId("33333333-3333-4333-8333-333333333333")
    async with faulty(tmp_path, Seen()) as first:
        await first.resume_session(old, spec(tmp_path))
        with pytest.raises(Refused) as busy:
            async with faulty(tmp_path, Seen()) as second:
                await second.resume_session(old, spec(tmp_path))
        assert busy.value.reason == "SESSION_BUSY"
    with anyio.fail_after(20):
        async with faulty(tmp_path, Seen()) as third:
            await third.resume_session(old, spec(tmp_path))


@pytest.mark.parametrize(
    ("prompt", "content"),
    [
        (PromptSpec(compact=True), "/compact"),
        (PromptSpec(review=True), "/review"),
        (PromptSpec(command=Command("cost", "all")), "/cost all"),
    ],
)
async def test_commands_are_prompts(tmp_path: Path, prompt: PromptSpec, content: str) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        await connection.prompt(native, prompt)
        await seen.until(lambda: seen.text)
    assert seen.sent("user")[0]["message"]["content"] == content


async def test_what_the_api_cannot_take_becomes_words(tmp_path: Path) -> None:
    seen = Seen()
    async with faulty(tmp_path, seen) as connection:
        native = await connection.new_session(spec(tmp_path))
        blocks = (
            ContentBlock(ContentType.IMAGE, data=b"png", mime_type="image/png"),
            ContentBlock(ContentType.AUDIO, data=b"wav", mime_type="audio/wav"),
            ContentBlock(ContentType.RESOURCE, text="body", uri="file:///a"),
            ContentBlock(ContentType.RESOURCE_LINK, uri="file:///b"),
            ContentBlock(ContentType.TEXT, text="say hi"),
        )
        await connection.prompt(native, PromptSpec(blocks))
        await seen.ended()
        with pytest.raises(Unsupported):
            await connection.prompt(native, PromptSpec(output_schema_json=b"{}"))
    told = seen.sent("user")[0]["message"]["content"]
    assert told[0]["source"] == {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    assert [block["text"] for block in told[1:]] == [
        "[audio of type audio/wav]",
        '<file path="file:///a">\nbody\n</file>',
        "@file:///b",
        "say hi",
    ]
