"""Event streams that break, lie or differ: the events of a run stay the same, and each run ends once."""

import json
import random
from pathlib import Path

import anyio
import pytest

from agentctl.core.events import (
    MessageChunk,
    PermissionResolved,
    Plan,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.words import Outcome, ToolStatus
from agentctl_adapters.opencode import turns
from agentctl_adapters.opencode.stream import Pace, SseDecoder
from tests.adapters.opencode.live import Live, Run, fake, running, text
from tests.adapters.opencode.scenarios import ODD

pytestmark = pytest.mark.anyio
QUICK = Pace(silence_s=1.0, quiet_s=0.3, tick_s=0.1, retry_s=0.01, retry_most_s=0.05)
SCRIPT = f"TODO || TOOL echo out || WRITE n.txt x || SAYTEXT {json.dumps(ODD)}"


async def whole_run(live: Live) -> Run:
    session = await live.session()
    await live.begin(session, SCRIPT)
    await live.approve(session, 1)
    await live.approve(session, 2)
    return await live.ended(session)


def essence(run: Run) -> tuple[object, ...]:
    """What must not depend on the stream."""
    tools = [(u.tool_call_id, u.status) for u in run.of(ToolUpdate) if u.status]
    last = dict(tools)
    output = "".join(u.output_delta or u.output_replace or "" for u in run.of(ToolUpdate))
    plan = [entry.status for entry in run.of(Plan)[-1].entries] if run.of(Plan) else []
    answers = sorted(r.decision.value for r in run.of(PermissionResolved))
    cards = [card.name for card in run.of(ToolCall)]
    return run.text, cards, list(last.values()), output, plan, answers, run.complete.outcome


@pytest.mark.proves("S3", "M1", "M2", "T1")
@pytest.mark.parametrize(
    "fault",
    ["drops", "double_idle", "no_deltas", "delta_first", "slow_accept", "flat", "heartless", "old"],
)
async def test_a_run_is_the_same_on_a_server_that_differs(tmp_path: Path, fault: str) -> None:
    async with running(workspace=str(tmp_path / "."), pace=QUICK, **fake()) as live:
        expected = essence(await whole_run(live))
    (tmp_path / "n.txt").unlink()
    async with running(workspace=str(tmp_path), pace=QUICK, **fake(fault)) as live:
        run = await whole_run(live)

    assert essence(run) == expected
    assert expected[-1] is Outcome.COMPLETED


@pytest.mark.proves("S3")
async def test_fifty_cuts_at_random_moments_change_nothing_of_a_run(tmp_path: Path) -> None:
    dice = random.Random(7)
    async with running(workspace=str(tmp_path), pace=QUICK, **fake()) as live:
        expected = essence(await whole_run(live))
        for cut in range(50):
            (tmp_path / "n.txt").unlink()
            session = await live.session()
            before = len(live.events)
            wait_for = dice.randrange(1, 40)
            await live.begin(session, SCRIPT)
            async with anyio.create_task_group() as group:
                group.start_soon(live.approve, session, 1)
                group.start_soon(live.approve, session, 2)
                await live.until(
                    lambda start=before, n=wait_for: (
                        len(live.events) >= start + n or live.completes(session)  # noqa: B023
                    )
                )
                live.connection._host.streams.readers[0].cut()  # pyright: ignore[reportPrivateUsage]  # the break itself
            run = await live.ended(session)
            assert essence(run) == expected, f"cut {cut} after {wait_for} events"


@pytest.mark.proves("S3", "T4")
async def test_a_stream_with_only_heartbeats_is_found_out(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), pace=QUICK, **fake("deaf")) as live:
        run = await whole_run(live)

    assert run.complete.outcome is Outcome.COMPLETED
    assert run.text.endswith("".join(ODD))


@pytest.mark.proves("T1", "S3")
async def test_an_idle_that_was_lost_is_found(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), pace=QUICK, **fake("forgets")) as live:
        session = await live.session()
        run = await live.ask(session, "SAYTEXT done")

    assert run.text == "done"
    assert run.complete.outcome is Outcome.COMPLETED


@pytest.mark.proves("T10")
async def test_a_prompt_that_is_accepted_and_never_begun_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "ACCEPT_MS", 300)
    async with running(workspace=str(tmp_path), **fake("loses_prompts")) as live:
        run = await live.ask(await live.session(), "SAYTEXT x")

    assert run.complete.error and "never began it" in run.complete.error.message


async def test_a_long_text_that_hangs_is_not_disturbed_by_our_own_looks(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), pace=QUICK, **fake()) as live:
        session = await live.session()
        run = await live.ask(session, "SLOW 3 700")

    assert run.text == "slow0 slow1 slow2 "
    assert run.of(MessageChunk)


@pytest.mark.proves("M6")
async def test_twenty_sessions_over_four_directories_share_one_server(tmp_path: Path) -> None:
    folders = [tmp_path / f"w{n}" for n in range(4)]
    for folder in folders:
        folder.mkdir()
    async with running(workspace=str(tmp_path), **fake()) as live:
        sessions = {
            await live.session(workspace=str(folders[n % 4])): f"SAYTEXT mine{n}" for n in range(20)
        }
        for session, prompt in sessions.items():
            await live.begin(session, f"{prompt} ")
        for n, session in enumerate(sessions):
            run = await live.ended(session)
            assert run.text.strip() == f"mine{n}"
            assert {e.session_id for e in run.events} == {session}
        assert len({live.connection.info.pid}) == 1


@pytest.mark.proves("A1", "A7")
async def test_approvals_of_two_sessions_of_one_directory_stay_apart(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        one, two = await live.session(), await live.session()
        await live.begin(one, "TOOL echo one")
        await live.begin(two, "TOOL echo two")
        await live.approve(two)
        first = await live.ended(two)
        assert first.complete.outcome is Outcome.COMPLETED
        assert live.completes(one) == []
        await live.approve(one)
        await live.ended(one)
        assert first.of(ToolUpdate)[-1].status is ToolStatus.COMPLETED


async def test_words_can_be_added_to_a_running_turn(tmp_path: Path) -> None:
    async with running(workspace=str(tmp_path), **fake()) as live:
        session = await live.session()
        assert await live.connection.steer(session, text("nobody listens")) is False
        await live.begin(session, "TOOL echo one || SAYTEXT two")
        request = await live.asked(session)
        assert await live.connection.steer(session, text("by the way")) is True
        await live.until(lambda: request)
        await live.approve(session)
        await live.ended(session)
        assert len(live.completes(session)) == 1


def test_events_are_read_whatever_way_their_bytes_are_cut() -> None:
    data = b': hi\n\ndata: {"a":1}\n\ndata:two\ndata: lines\r\n\r\nevent: x\ndata: last\n\n'
    for size in range(1, len(data)):
        decoder = SseDecoder()
        cuts = [data[at : at + size] for at in range(0, len(data), size)]
        assert [event for cut in cuts for event in decoder.feed(cut)] == [
            b'{"a":1}',
            b"two\nlines",
            b"last",
        ]


@pytest.mark.proves("P8")
def test_an_event_of_megabytes_is_one_event() -> None:
    line = b'data: {"x":"' + b"a" * 3_000_000 + b'"}\n\n'
    decoder = SseDecoder()
    (event,) = [*decoder.feed(line[:1_000_000]), *decoder.feed(line[1_000_000:])]
    assert isinstance(event, bytes)
    assert len(event) == 3_000_008
