"""A recording becomes the events that its conversation was, with deterministic ids and its own clock."""

from typing import Any

import pytest

from agentctl.core.adapter import Frame
from agentctl.core.events import Complete, PermissionRequest
from agentctl.core.replay import frame_of
from tests.replaying import Acp, Line, one, payloads, replayed

LINES: list[tuple[Line, Frame | None]] = [
    ({"dir": "to_agent", "msg": {"id": 1}}, Frame("to_agent", {"id": 1})),
    ({"dir": "from_agent", "raw": "npm"}, Frame("from_agent", None, "npm")),
    ({"dir": "sse", "msg": {"type": "x"}}, Frame("sse", {"type": "x"})),
    ({"dir": "stderr", "msg": {"text": "oops"}}, Frame("stderr", raw="oops")),
    ({"dir": "note", "msg": {"event": "spawn"}}, Frame("spawn")),
    ({"dir": "note", "msg": {"event": "stdout_end"}}, Frame("stdout_end")),
    (
        {"dir": "note", "msg": {"event": "exit", "code": 1}},
        Frame("exit", {"code": 1, "signal": None}),
    ),
    (
        {"dir": "note", "msg": {"event": "exit", "code": -9}},
        Frame("exit", {"code": None, "signal": 9}),
    ),
    ({"dir": "note", "msg": {"event": "eof"}}, None),
    ({"dir": "note", "msg": "text"}, None),
    ({"dir": "elsewhere", "msg": {}}, None),
    ({}, None),
]


@pytest.mark.parametrize(("line", "frame"), LINES)
def test_a_line_is_the_frame_that_it_recorded(line: Line, frame: Frame | None) -> None:
    assert frame_of(line) == frame


def test_ids_count_from_one_in_the_order_of_their_making() -> None:
    acp = Acp()
    acp.session("a")
    acp.session("b")
    acp.prompt(session="b")
    acp.permission(0, {"toolCallId": "c"}, session="b")
    acp.prompt(session="a")
    acp.finish()
    assert [event.seq for event in acp.events] == list(range(1, len(acp.events) + 1))
    runs = {event.run_id: event.session_id for event in acp.events if event.run_id}
    assert runs == {"run_1": "ses_2", "run_2": "ses_1"}
    assert one(acp.events, PermissionRequest).approval_id == "apr_1"


def test_events_carry_the_lines_time_and_a_run_its_start_and_end() -> None:
    def line(t: int, direction: str, **msg: Any) -> Line:
        return {"t": t, "dir": direction, "msg": msg}

    prompt: Line = {"sessionId": "s", "prompt": []}
    events = replayed(
        [
            line(100, "to_agent", id=1, method="session/prompt", params=prompt),
            line(250, "from_agent", id=1, result={"stopReason": "end_turn"}),
        ]
    )
    end = one(events, Complete)
    assert (end.started_at, end.ended_at) == (100, 250)
    assert [event.ts for event in events] == [100, 100, 250]


@pytest.mark.proves("T1")
def test_the_end_of_the_file_ends_what_is_open_and_a_closed_stdin_does_not() -> None:
    acp = Acp()
    acp.session()
    acp.prompt()
    assert frame_of({"dir": "note", "msg": {"event": "eof"}}) is None
    assert payloads(acp.events, Complete) == []
    assert one(acp.finish(), Complete).error.code == "AGENT_EXITED"


def test_a_second_process_in_one_file_starts_with_fresh_ids() -> None:
    acp = Acp()
    acp.session()
    first = acp.prompt()
    acp.frame(Frame("spawn"))
    acp.session("t")
    second = acp.prompt(session="t")
    acp.answer(first, {"stopReason": "end_turn"})
    acp.end(second)
    ends = [
        (e.session_id, e.payload.outcome) for e in acp.events if isinstance(e.payload, Complete)
    ]
    assert ends == [("ses_1", "failed"), ("ses_2", "completed")]
