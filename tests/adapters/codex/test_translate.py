"""The Codex translator, sentence by sentence: what is told is what becomes of it."""

from typing import Any

import orjson
import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import (
    ContextWindow,
    Error,
    FileChange,
    Log,
    Message,
    Plan,
    RateLimit,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import (
    ChangeKind,
    McpState,
    Origin,
    Outcome,
    PlanStatus,
    SessionChange,
    ToolKind,
    ToolStatus,
)
from agentctl_adapters.codex.errors import error_of
from agentctl_adapters.codex.tools import bare_command
from agentctl_adapters.codex.translate import CodexTranslator
from tests.adapters.codex.telling import Codex

COMMAND = {"type": "commandExecution", "id": "c", "command": "/bin/bash -lc 'ls -l'", "cwd": "/w"}


def test_a_refused_prompt_is_a_run_that_failed() -> None:
    codex = Codex()
    codex.refuse(codex.ask("turn/start", threadId="t", input=[]), "thread not found: t")
    (end,) = codex.ends()
    assert end.error is not None
    assert (end.outcome, end.error.code) == (Outcome.FAILED, "AGENT_FAILED")
    assert "resume the session" in end.error.message


@pytest.mark.proves("T8")
def test_a_second_prompt_to_a_busy_turn_is_folded_into_it() -> None:
    codex = Codex()
    codex.prompt("T")
    second = codex.ask("turn/start", threadId="t", input=[])
    codex.answer(second, turn={"id": "T"})
    codex.end()
    first, folded = codex.ends()
    assert (first.folded_into, folded.folded_into) == (None, "run_1")


def test_an_own_turn_that_starts_before_our_answer_keeps_its_own_run() -> None:
    codex = Codex()
    request = codex.ask("turn/start", threadId="t", input=[])
    codex.hear("turn/started", turn={"id": "OWN", "rootTurnId": "OWN"})
    codex.answer(request, turn={"id": "T"})
    codex.end(turn="OWN")
    codex.end(turn="T")
    origins = [e.origin for e in codex.of(RunStatus) if e.status == "started"]
    assert origins == [Origin.CLIENT, Origin.AGENT]
    assert len(codex.ends()) == 2


def test_a_review_is_one_run_although_it_has_two_names() -> None:
    codex = Codex()
    told = {"type": "userMessage", "content": [{"type": "text", "text": "current changes"}]}
    request = codex.ask("review/start", threadId="t", target={"type": "uncommittedChanges"})
    codex.answer(request, turn={"id": "R", "items": [told]}, reviewThreadId="t")
    codex.hear("turn/started", turn={"id": "S", "rootTurnId": "R"})
    codex.end(turn="R")
    assert len(codex.ends()) == 1
    created = codex.of(RunStatus)[0]
    assert created.prompt is not None
    assert (created.origin, created.prompt[0].text) == (Origin.CLIENT, "current changes")


@pytest.mark.parametrize("method", ["thread/compact/start", "thread/shellCommand"])
def test_what_we_ask_for_by_another_name_is_a_run_of_ours(method: str) -> None:
    codex = Codex()
    codex.answer(codex.ask(method, threadId="t", command="ls"))
    codex.hear("turn/started", turn={"id": "T", "rootTurnId": "T"})
    codex.item("completed", type="contextCompaction", id="k")
    codex.end()
    assert codex.of(RunStatus)[0].origin is Origin.CLIENT
    assert [each.status for each in codex.of(SessionStatus)] == [SessionChange.COMPACTED]


def test_a_refused_compaction_leaves_no_run_behind() -> None:
    codex = Codex()
    codex.refuse(codex.ask("thread/compact/start", threadId="t"), "no")
    codex.hear("turn/started", turn={"id": "T", "rootTurnId": "T"})
    assert codex.of(RunStatus)[0].origin is Origin.AGENT


def test_a_refused_interrupt_cancels_nothing() -> None:
    codex = Codex()
    codex.prompt()
    codex.refuse(codex.ask("turn/interrupt", threadId="t", turnId="x"), "expected another")
    codex.end()
    assert codex.ends()[0].outcome is Outcome.COMPLETED


@pytest.mark.proves("T5")
def test_a_death_after_an_interrupt_is_a_cancel() -> None:
    codex = Codex()
    codex.prompt()
    codex.ask("turn/interrupt", threadId="t", turnId="")
    codex.gone()
    assert codex.ends()[0].outcome is Outcome.CANCELLED


def test_a_new_process_starts_with_fresh_ids() -> None:
    codex = Codex()
    codex.prompt()
    codex.gone()
    codex.ask("initialize")
    codex.prompt("T")
    codex.end()
    assert [end.outcome for end in codex.ends()] == [Outcome.FAILED, Outcome.COMPLETED]


@pytest.mark.proves("M3")
def test_a_retry_takes_back_only_what_was_open() -> None:
    codex = Codex()
    codex.prompt()
    codex.delta("kept", "m0")
    codex.item("completed", type="agentMessage", id="m0", text="kept")
    codex.delta("lost", "m1")
    codex.hear("item/reasoning/summaryTextDelta", turnId="T", itemId="r", summaryIndex=0, delta="x")
    error = {"message": "Reconnecting... 2/5", "additionalDetails": "closed"}
    codex.hear("error", turnId="T", willRetry=True, error=error)
    assert [each.message_id for each in codex.of(Message)] == ["m1"]
    assert [each.retracted for each in codex.of(Reasoning)] == [None, True]
    told = codex.of(RateLimit)[0]
    assert (told.attempt, told.message) == (2, "Reconnecting... 2/5: closed")


@pytest.mark.proves("M1")
def test_an_item_that_ends_otherwise_than_it_was_told_replaces_it() -> None:
    codex = Codex()
    codex.prompt()
    codex.delta("one two")
    codex.item("completed", type="agentMessage", id="m1", text="one three")
    assert codex.of(Message)[0].content[0].text == "one three"


def test_thoughts_come_in_parts_and_once() -> None:
    codex = Codex()
    codex.prompt()
    for part, text in ((0, "a "), (0, "b"), (1, "c")):
        codex.hear(
            "item/reasoning/summaryTextDelta",
            turnId="T",
            itemId="r",
            summaryIndex=part,
            delta=text,
        )
    codex.item("completed", type="reasoning", id="r", summary=["a b", "c"], content=["raw"])
    told = [(each.message_id, each.text) for each in codex.of(Reasoning)]
    assert told == [("r/0", "a "), ("r/0", "b"), ("r/1", "c"), ("r/r0", "raw")]


def test_plans_are_lists_or_documents() -> None:
    codex = Codex()
    codex.prompt()
    steps = [{"step": "one", "status": "inProgress"}, {"step": "two", "status": "pending"}]
    codex.hear("turn/plan/updated", turnId="T", plan=steps)
    codex.hear("item/plan/delta", turnId="T", itemId="p", delta="# Pl")
    codex.item("completed", type="plan", id="p", text="# Plan")
    codex.hear("item/plan/delta", turnId="T", itemId="q", delta="# cut")
    codex.end()
    entries, whole, cut = codex.of(Plan)
    assert [e.status for e in entries.entries] == [PlanStatus.IN_PROGRESS, PlanStatus.PENDING]
    assert (whole.document, cut.document) == ("# Plan", "# cut")


@pytest.mark.proves("M8")
def test_a_command_shows_what_is_run_what_came_out_and_how_it_ended() -> None:
    codex = Codex()
    codex.prompt()
    codex.item("started", **COMMAND, processId="7", status="inProgress")
    codex.hear("item/commandExecution/outputDelta", turnId="T", itemId="c", delta="late part")
    done: dict[str, Any] = {"status": "failed", "aggregatedOutput": "all of it", "exitCode": 2}
    codex.item("completed", **COMMAND, **done)
    (card,) = codex.of(ToolCall)
    assert (card.command, card.kind, card.status) == ("ls -l", ToolKind.EXECUTE, "running")
    last = codex.of(ToolUpdate)[-1]
    told = (last.status, last.exit_code, last.output_replace)
    assert told == (ToolStatus.FAILED, 2, "all of it")


@pytest.mark.parametrize(
    ("actions", "kind", "paths"),
    [
        ([{"type": "read", "path": "/w/a"}], ToolKind.READ, ["/w/a"]),
        ([{"type": "search", "query": "x"}, {"type": "read", "path": "b"}], "search", ["b"]),
        ([{"type": "read", "path": "a"}, {"type": "unknown"}], ToolKind.EXECUTE, []),
        ([], ToolKind.EXECUTE, []),
    ],
)
def test_a_command_that_only_looks_is_a_look(
    actions: list[dict[str, str]], kind: ToolKind, paths: list[str]
) -> None:
    codex = Codex()
    codex.prompt()
    codex.item("started", **COMMAND, commandActions=actions, status="inProgress")
    (card,) = codex.of(ToolCall)
    assert (card.kind, card.paths) == (kind, paths)


def test_a_bare_command_is_what_the_shell_was_given() -> None:
    assert bare_command("/bin/zsh -lc 'a && b'") == "a && b"
    assert bare_command("/bin/bash -lc ls") == "ls"
    assert bare_command("python x.py") == "python x.py"
    assert bare_command("echo 'half") == "echo 'half"


@pytest.mark.proves("M11")
def test_a_patch_tells_each_file_with_its_diff() -> None:
    codex = Codex()
    codex.prompt()
    hunks = "@@ -1,2 +1,2 @@\n-a\n+b\n c\n"
    changes = [
        {"path": "/w/new", "kind": {"type": "add"}, "diff": "x\n"},
        {"path": "/w/old", "kind": {"type": "delete"}, "diff": "y\nz\n"},
        {"path": "/w/a", "kind": {"type": "update", "move_path": None}, "diff": hunks},
        {"path": "/w/b", "kind": {"type": "update", "move_path": "/w/c"}, "diff": hunks},
    ]
    patch: dict[str, Any] = {"type": "fileChange", "id": "p", "changes": changes}
    codex.item("started", **patch, status="inProgress")
    assert codex.of(FileChange) == []
    codex.item("completed", **patch, status="completed")
    told = [(c.change, c.path, c.additions, c.deletions) for c in codex.of(FileChange)]
    assert told == [
        (ChangeKind.CREATE, "/w/new", 1, 0),
        (ChangeKind.DELETE, "/w/old", 0, 2),
        (ChangeKind.MODIFY, "/w/a", 1, 1),
        (ChangeKind.RENAME, "/w/c", 1, 1),
    ]
    assert codex.of(FileChange)[2].diff == f"--- /w/a\n+++ /w/a\n{hunks}"


@pytest.mark.proves("M10")
def test_the_usage_of_a_run_is_what_the_thread_has_grown_by() -> None:
    codex = Codex()
    zero = {"totalTokens": 0, "inputTokens": 0, "outputTokens": 0}
    old = {"totalTokens": 110, "inputTokens": 100, "outputTokens": 10}
    both = {"totalTokens": 330, "inputTokens": 300, "outputTokens": 30}
    new = {"totalTokens": 220, "inputTokens": 200, "outputTokens": 20}
    codex.hear("thread/tokenUsage/updated", turnId="before", tokenUsage={"total": old, "last": old})
    codex.prompt()
    for total, last in ((both, new), (both, new), (both, {**zero, "totalTokens": 50})):
        told = {"total": total, "last": last, "modelContextWindow": 1000}
        codex.hear("thread/tokenUsage/updated", turnId="T", tokenUsage=told)
    codex.end()
    usage = codex.ends()[0].usage
    assert usage is not None
    assert (usage.total, usage.input, usage.output) == (220, 200, 20)
    assert [window.used for window in codex.of(ContextWindow)] == [220, 50]


@pytest.mark.parametrize(
    ("info", "message", "code"),
    [
        ("unauthorized", "no", "AUTH_REQUIRED"),
        ({"httpConnectionFailed": {"httpStatusCode": 403}}, "no", "AUTH_REQUIRED"),
        ("other", "Missing environment variable: `KEY`.", "AUTH_REQUIRED"),
        ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "no", "RATE_LIMITED"),
        ("usageLimitExceeded", "no", "RATE_LIMITED"),
        ("modelNotFound", "no", "INVALID_MODEL"),
        ("contextWindowExceeded", "no", "MODEL_ERROR"),
        (None, '{"error": {"message": "inner words"}}', "MODEL_ERROR"),
    ],
)
def test_an_error_says_what_to_do(info: object, message: str, code: str) -> None:
    error = error_of({"message": message, "codexErrorInfo": info})
    assert error.code == code
    assert error.recoverable is (code in ("RATE_LIMITED",) or info is None)
    assert "inner words" in error.message or "{" not in error.message


def test_names_settings_servers_and_warnings_reach_the_session() -> None:
    codex = Codex()
    codex.hear("thread/name/updated", threadName="A title")
    sandbox = {"type": "workspaceWrite"}
    codex.hear(
        "thread/settings/updated",
        threadSettings={"model": "n", "approvalPolicy": "on-request", "sandboxPolicy": sandbox},
    )
    codex.hear("mcpServer/startupStatus/updated", name="s", status="failed", error="boom")
    codex.hear("warning", message="careful")
    codex.hear("warning", message="careful")
    codex.hear("configWarning", summary="Invalid configuration; using defaults.", details="line 1")
    codex.hear("deprecationNotice", summary="old")
    assert codex.of(SessionStatus)[0].title == "A title"
    changed, servers = codex.of(SessionOptions)
    assert (changed.model, changed.mode) == ("n", "auto")
    assert servers.mcp_servers[0].state is McpState.FAILED
    assert [e.code for e in codex.of(Error)] == ["AGENT_WARNING", "AGENT_CONFIG"]
    assert codex.of(Log)[-1].text == "old"


def test_a_limit_of_the_account_says_when_it_resets() -> None:
    codex = Codex()
    limits = {"primary": {"usedPercent": 100, "resetsAt": 5}, "rateLimitReachedType": None}
    codex.hear("account/rateLimits/updated", rateLimits=limits)
    assert codex.of(RateLimit) == []
    reached = {**limits, "rateLimitReachedType": "rate_limit_reached"}
    codex.hear("account/rateLimits/updated", rateLimits=reached)
    assert codex.of(RateLimit)[0].resets_at == 5000


def test_the_models_are_offered_with_the_session() -> None:
    codex = Codex()
    rows = [
        {
            "model": "a",
            "displayName": "A",
            "supportedReasoningEfforts": [{"reasoningEffort": "low"}],
        },
        {"model": "b", "hidden": True},
    ]
    codex.answer(codex.ask("model/list"), data=rows)
    codex.answer(codex.ask("thread/start", cwd="/w"), thread={"id": "u"}, model="a")
    options = codex.of(SessionOptions)[0]
    assert [model.id for model in options.models] == ["a"]
    assert [choice.id for choice in options.config_options[0].choices] == ["low"]


@pytest.mark.proves("M7")
def test_a_child_is_known_by_its_root_turn_when_its_start_was_missed() -> None:
    codex = Codex()
    codex.prompt()
    codex.hear("turn/started", threadId="kid", turn={"id": "K", "rootTurnId": "T"})
    codex.hear(
        "item/agentMessage/delta", threadId="kid", turnId="K", itemId="k", delta="child words"
    )
    codex.hear("turn/completed", threadId="kid", turn={"id": "K", "status": "completed"})
    assert codex.ends() == []
    assert codex.events[-1].parent_tool_call_id == "kid"
    assert {event.session_id for event in codex.events} == {"ses_1"}


@pytest.mark.proves("M8")
def test_nothing_that_is_said_makes_it_raise_and_all_of_it_is_counted() -> None:
    translator = CodexTranslator()
    frames = [
        Frame("from_agent", orjson.loads(text))
        for text in (
            '{"method":"turn/started","params":{"threadId":"t","turn":5}}',
            '{"method":"item/completed","params":{"threadId":[],"item":{}}}',
            '{"method":"item/started","params":{"threadId":"t","item":{"type":"new"}}}',
            '{"method":"brand/new","params":7}',
            '{"id":4,"result":null}',
            '{"id":"x","method":"who/knows"}',
        )
    ]
    frames += [Frame("to_agent", {"id": [], "method": "turn/start", "params": None})]
    for frame in frames:
        translator.feed(frame)
    assert translator.unknown == {"item:new": 1, "brand/new": 1, "who/knows": 1}
