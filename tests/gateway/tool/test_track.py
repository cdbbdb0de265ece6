"""A reader who comes back with a cursor: at whatever event it left, it hears exactly the rest."""

from typing import Any

import pytest

from agentctl.gateway.tool.errors import ToolError
from agentctl.gateway.tool.track import Place, Track, places

Json = dict[str, Any]


class Journal:
    """Events as they lie in a journal, with seqs that have holes."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self._seq = 3

    def add(self, kind: str, session: str, run: str | None, /, **data: Any) -> None:
        self._seq += 2
        ids = {"session_id": session, "run_id": run} if run else {"session_id": session}
        base = {"seq": self._seq, "ts": 1_764_500_000_000 + self._seq, "type": kind}
        self.events.append({**base, **ids, "data": data})

    def say(self, session: str, run: str | None, text: str, message: str = "m") -> None:
        self.add("message_chunk", session, run, message_id=message, role="assistant", text=text)


def busy() -> Journal:
    """Two sessions at once: texts in pieces, commands, reads, a plan, late text."""
    j = Journal()
    j.add("session_status", "s1", None, status="created")
    j.add("run_status", "s1", "r1", status="created")
    j.say("s1", "r1", "Hel")
    j.add("run_status", "s2", "r2", status="created")
    j.add("tool_call", "s2", "r2", tool_call_id="t", kind="execute", status="running", command="ls")
    j.say("s1", "r1", "lo")
    j.add("plan", "s2", "r2", entries=[{"content": "a", "status": "in_progress"}])
    j.add(
        "tool_call", "s1", "r1", tool_call_id="t", kind="read", status="running", paths=["a", "b"]
    )
    j.add("tool_update", "s2", "r2", tool_call_id="t", status="completed", exit_code=0)
    j.say("s2", "r2", "done", "n")
    j.add("run_status", "s1", "r3", status="queued")
    j.add("complete", "s2", "r2", outcome="completed")
    j.add("tool_update", "s1", "r1", tool_call_id="t", status="completed")
    j.say("s2", None, "late", "o")
    j.say("s2", None, " words", "o")
    j.add("complete", "s1", "r1", outcome="completed")
    j.say("s1", "r3", "more", "p")
    j.add("run_status", "s2", "r4", status="created")
    j.add("complete", "s1", "r3", outcome="failed", error={"message": "broke"})
    j.add("complete", "s2", "r4", outcome="cancelled")
    j.add("session_status", "s1", None, status="closed")
    return j


def told(journal: Journal, place: Place | None) -> list[tuple[Json, Place]]:
    """What a reader hears that comes with this place."""
    track = Track("j", place.told, place.rows) if place else Track("j", 0)
    base = 0 if place is None else place.base
    return [row for event in journal.events if event["seq"] > base for row in track.feed(event)]


@pytest.mark.proves("TL5")
def test_wherever_a_reader_left_it_hears_exactly_the_rest() -> None:
    journal = busy()
    everything = told(journal, None)
    assert len(everything) == 12
    for number, (_, place) in enumerate(everything):
        again = places(str(place))["j"]
        rest = [row for row, _ in everything[number + 1 :]]
        assert [row for row, _ in told(journal, again)] == rest


def test_a_place_at_rest_is_a_plain_cursor() -> None:
    journal = busy()
    everything = told(journal, None)
    assert "~" not in str(everything[-1][1])
    assert any("~" in str(place) for _, place in everything)


def test_a_text_that_is_open_is_read_again_from_its_first_piece() -> None:
    journal = Journal()
    journal.say("s1", None, "a")
    journal.add("file_change", "s2", None, path="/x", change="modify")
    journal.say("s1", None, "b")
    journal.add("session_status", "s1", None, status="closed")
    (_, place), *_ = told(journal, None)
    assert place == Place("j", 7, 4)
    assert [row["content"] for row, _ in told(journal, place)] == ["ab"]


@pytest.mark.proves("TL2")
@pytest.mark.parametrize("text", ["x", "j", "j:", "j:x", "j:1~2", "j:5,", "a b:1", "j:-1", ":1"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ToolError) as caught:
        places(text)
    assert caught.value.details["parameters"] == ["after"]


def test_a_cursor_of_the_daemon_and_one_of_several_daemons_are_read() -> None:
    assert places("ab12:7") == {"ab12": Place("ab12", 7, 7)}
    assert places("a:7+2~3,b:9+1,c:8~0") == {
        "a": Place("a", 7, 3, 2),
        "b": Place("b", 9, 9, 1),
        "c": Place("c", 8, 0),
    }
