"""Text, thoughts, plans and history of ACP as events; what is not the model's is filtered."""

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    ContextWindow,
    Error,
    Log,
    MessageChunk,
    Plan,
    RateLimit,
    Reasoning,
    SessionOptions,
    SessionStatus,
)
from agentctl.core.words import LogStream, Outcome, PlanStatus, Role
from tests.replaying import Acp, one, payloads

CODEX = "@agentclientprotocol/codex-acp"


def texts(acp: Acp) -> list[str]:
    told = payloads(acp.events, MessageChunk)
    return [chunk.text for chunk in told if chunk.role is Role.ASSISTANT]


def prompted(agent: str = "some-agent") -> tuple[Acp, int]:
    acp = Acp(agent)
    acp.session()
    return acp, acp.prompt()


@pytest.mark.proves("M1", "M6")
def test_chunks_come_once_in_order_and_byte_for_byte() -> None:
    acp, _ = prompted()
    told = ["a", " ", "\n", "\u2028 b\u0085", "🎈"]
    for text in told:
        acp.text(text)
    assert texts(acp) == told


def test_a_message_id_of_the_agent_is_kept_and_numbered_per_block() -> None:
    acp, _ = prompted()
    acp.text("a", messageId="x")
    acp.text("b", messageId="x")
    acp.update("tool_call", toolCallId="c", title="t")
    acp.text("c", messageId="x")
    acp.update("agent_thought_chunk", content={"type": "text", "text": "t"}, messageId="x")
    ids = [
        e.payload.message_id for e in acp.events if isinstance(e.payload, MessageChunk | Reasoning)
    ]
    assert ids == ["x", "x", "x/1", "x/2"]


@pytest.mark.proves("M7")
def test_two_messages_written_at_once_are_not_mixed() -> None:
    acp, _ = prompted()
    for own, text in (("x", "a"), ("y", "1"), ("x", "b"), ("y", "2")):
        acp.text(text, messageId=own)
    assert [c.message_id for c in payloads(acp.events, MessageChunk)] == ["x", "y", "x", "y"]


@pytest.mark.proves("M7")
def test_a_subagents_words_carry_the_call_that_it_is() -> None:
    acp, _ = prompted()
    (event,) = acp.text("sub", _meta={"claudeCode": {"parentToolUseId": "agent"}})
    assert event.parent_tool_call_id == "agent"


def test_content_that_is_no_text_is_a_block() -> None:
    acp, _ = prompted()
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    chunk = one(acp.update("agent_message_chunk", content=image), MessageChunk)
    assert (chunk.text, chunk.content.data, chunk.content.mime_type) == (None, b"hi", "image/png")


@pytest.mark.proves("M4")
def test_the_prompt_does_not_come_back_but_another_clients_words_do() -> None:
    acp = Acp()
    acp.session()
    acp.prompt("fix the test")
    assert acp.update("user_message_chunk", content={"type": "text", "text": "fix the test"}) == []
    chunk = one(
        acp.update("user_message_chunk", content={"type": "text", "text": "stop"}), MessageChunk
    )
    assert (chunk.role, chunk.text) == (Role.USER, "stop")


def history(acp: Acp, session: str) -> None:
    acp.update("user_message_chunk", session, content={"type": "text", "text": "old"})
    acp.text("old answer", session)
    acp.update("tool_call", session, toolCallId="c", title="t", status="completed")
    acp.update("plan", session, entries=[{"content": "x", "status": "pending"}])
    acp.update("usage_update", session, used=5, size=10)
    acp.update("current_mode_update", session, currentModeId="plan")


@pytest.mark.proves("M5")
@pytest.mark.parametrize("answer_first", [False, True])
def test_history_of_a_loaded_session_is_not_told_but_its_mode_is(answer_first: bool) -> None:
    acp = Acp()
    load = acp.ask("session/load", sessionId="s", cwd="/code", mcpServers=[])
    if answer_first:
        acp.answer(load, {})
        history(acp, "s")
    else:
        history(acp, "s")
        acp.answer(load, {})
    kinds = {type(event.payload) for event in acp.events}
    assert kinds == {SessionOptions}
    acp.prompt()
    acp.text("new")
    acp.update("usage_update", used=5, size=10)
    assert texts(acp) == ["new"]
    assert one(acp.events, ContextWindow).used == 5


@pytest.mark.proves("M5")
def test_history_of_a_fork_is_not_told_while_its_parent_goes_on() -> None:
    acp, _ = prompted()
    fork = acp.ask("session/fork", sessionId="s", cwd="/code", mcpServers=[])
    history(acp, "forked")
    acp.answer(fork, {"sessionId": "forked"})
    acp.text("parent")
    acp.prompt(session="forked")
    acp.text("child", "forked")
    assert texts(acp) == ["parent", "child"]


def test_a_load_that_is_refused_leaves_the_session_as_it_was() -> None:
    acp, run = prompted()
    acp.end(run)
    acp.refuse(acp.ask("session/load", sessionId="s"), -32602, "already loaded")
    acp.text("late")
    assert texts(acp) == ["late"]


def test_a_plan_is_told_whole_each_time() -> None:
    acp, _ = prompted()
    entries = [{"content": "a", "priority": "high", "status": "in_progress"}, {"content": "b"}]
    plan = one(acp.update("plan", entries=entries), Plan)
    assert [(e.content, e.status) for e in plan.entries] == [
        ("a", PlanStatus.IN_PROGRESS),
        ("b", PlanStatus.PENDING),
    ]


def test_geminis_mode_update_is_a_change_of_mode_and_no_text() -> None:
    acp, _ = prompted("gemini-cli")
    assert one(acp.text("[MODE_UPDATE] yolo"), SessionOptions).mode == "yolo"
    assert texts(acp) == []


@pytest.mark.parametrize("text", ["[MODE_UPDATE] x", "Error: x", "Info: x"])
def test_an_agent_that_was_not_measured_keeps_all_its_text(text: str) -> None:
    acp, run = prompted()
    acp.text(text)
    assert texts(acp) == [text]
    acp.end(run)
    assert acp.events[-1].payload.outcome is Outcome.COMPLETED  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # the last is a complete


@pytest.mark.proves("T9")
def test_copilots_retries_are_rate_limits_with_their_attempt() -> None:
    acp, _ = prompted("Copilot")
    for _ in range(2):
        acp.text("Info: Request failed due to a transient API error. Retrying...")
    assert [limit.attempt for limit in payloads(acp.events, RateLimit)] == [1, 2]
    assert one(acp.text("Info: /code/a.txt"), Log).stream is LogStream.NOTE
    assert texts(acp) == []


@pytest.mark.proves("T9")
def test_an_error_in_copilots_text_fails_the_run_when_nothing_follows() -> None:
    acp, run = prompted("Copilot")
    assert one(acp.text("Error: 401 no such key"), Error).code == "AUTH_REQUIRED"
    complete = acp.end(run)[-1].payload
    assert (complete.outcome, complete.error.code) == (Outcome.FAILED, "AUTH_REQUIRED")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportOptionalMemberAccess]  # a complete


@pytest.mark.parametrize("recovery", ["text", "tool"])
def test_an_error_after_which_copilot_went_on_fails_nothing(recovery: str) -> None:
    acp, run = prompted("Copilot")
    acp.text("Error: 500")
    if recovery == "text":
        acp.text("recovered")
    else:
        acp.update("tool_call", toolCallId="c", title="t", status="completed")
    assert acp.end(run)[-1].payload.outcome is Outcome.COMPLETED  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # a complete


def codex_status(acp: Acp, status: str) -> None:
    meta = {"codex": {"threadStatus": {"type": status}}}
    acp.update("session_info_update", _meta=meta)


@pytest.mark.proves("T9")
def test_codex_speaks_without_a_message_id_and_its_last_error_fails_the_run() -> None:
    acp, run = prompted(CODEX)
    acp.text("Warning: no metadata")
    error = {"message": "Reconnecting... 2/5", "willRetry": True, "additionalDetails": "busy"}
    acp.update("session_info_update", _meta={"codex": {"error": error}})
    assert one(acp.events, RateLimit) == RateLimit("Reconnecting... 2/5: busy", attempt=2)
    acp.text("partial", messageId="m")
    codex_status(acp, "systemError")
    acp.text("last status: 429 Too Many Requests\n\n")
    assert texts(acp) == ["partial"]
    complete = acp.end(run, usage=None)[-1].payload
    assert (complete.outcome, complete.error.code) == (Outcome.FAILED, "RATE_LIMITED")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportOptionalMemberAccess]  # a complete


def test_codex_says_other_things_as_the_system() -> None:
    acp, run = prompted(CODEX)
    codex_status(acp, "active")
    assert one(acp.text("Context compacted"), MessageChunk).role is Role.SYSTEM
    assert acp.end(run)[-1].payload.outcome is Outcome.COMPLETED  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # a complete


def test_a_title_is_told_when_it_changes() -> None:
    acp, _ = prompted()
    assert one(acp.update("session_info_update", title="A"), SessionStatus).title == "A"
    assert acp.update("session_info_update", title="A") == []


@pytest.mark.parametrize(("severity", "kind"), [("error", Error), ("info", Log)])
def test_a_notice_is_an_error_only_when_the_agent_calls_it_one(
    severity: str, kind: type[Error] | type[Log]
) -> None:
    acp, _ = prompted()
    events = acp.update("notice", severity=severity, title="Disk", description="full")
    told = one(events, kind)
    assert "Disk: full" in (told.message if kind is Error else told.text)


@pytest.mark.proves("M8", "E4")
def test_unknown_updates_methods_and_lines_are_noted_and_never_fatal() -> None:
    acp, run = prompted()
    told = acp.update("plan_removed") + acp.hear(method="_x/y", params={"a": 1})
    told += acp.hear(id=9, method="_x/ask") + acp.frame(Frame("from_agent", raw="npm warn"))
    told += acp.hear(method="session/update", params={"sessionId": 5}) + acp.hear(id=77, result={})
    logs = payloads(told, Log)
    assert [log.stream for log in logs].count(LogStream.STDOUT) == 1
    assert len(logs) == len(told) == 6
    acp.text("on")
    assert texts(acp) == ["on"]
    assert acp.end(run)[-1].payload.outcome is Outcome.COMPLETED  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # a complete
