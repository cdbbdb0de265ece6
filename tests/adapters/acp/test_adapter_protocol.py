"""The protocol object as the daemon uses it, and what the link does with the strangest agents."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import anyio
import pytest

from agentctl.core.adapter import (
    AnyDraft,
    Connection,
    Draft,
    Frame,
    PermissionAnswer,
    ProcessGone,
    ProcessStarted,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.errors import AgentFailed
from agentctl.core.events import MessageChunk, PermissionRequest
from agentctl.core.words import Decision, Outcome
from agentctl_adapters.acp import PROTOCOL
from tests.adapters.acp.adapter_harness import (
    PATIENCE_S,
    Seen,
    Spy,
    alive,
    connect,
    demo,
    launch,
    one_turn,
    puppet,
    running,
    spec,
    steps,
    text,
)

pytestmark = pytest.mark.anyio

STRANGE = (
    "null",
    "7",
    '"text"',
    "[]",
    '[{"jsonrpc":"2.0","method":"session/update"}]',
    "{}",
    '{"jsonrpc":"2.0"}',
    '{"id":[1],"method":["x"],"params":7}',
    '{"id":{},"result":1}',
    '{"id":null,"error":{"code":-32700}}',
    '{"id":9007199254740993,"method":"x/y"}',
    '{"method":"session/update"}',
    '{"method":"session/update","params":[]}',
    '{"method":"session/update","params":{"update":{"sessionUpdate":["x"]},"sessionId":3}}',
    '{"method":"session/update","params":{"update":{"sessionUpdate":"config_option_update","configOptions":[7]}}}',
    '{"method":"session/update","params":{"update":{"sessionUpdate":"available_commands_update"}}}',
    '{"method":"$/cancel_request","params":{"requestId":{"a":1}}}',
    '{"method":"elicitation/complete","params":null}',
    '{"id":"a","method":"session/request_permission","params":{"options":[7,{"optionId":[]}]}}',
    '{"id":"b","method":"elicitation/create","params":{"requestedSchema":{"properties":[1]}}}',
    '{"id":"c","method":null}',
)


def _of(drafts: Sequence[AnyDraft], kind: type) -> list[AnyDraft]:
    return [d for d in drafts if isinstance(d, kind)]


def test_the_protocol_is_found_by_its_entry_point() -> None:
    (found,) = entry_points(group="agentctl.adapters", name="acp")
    assert found.load() is PROTOCOL
    assert PROTOCOL.name == "acp"


def test_naming_the_protocol_loads_nothing_heavy() -> None:
    script = (
        "import sys, agentctl_adapters.acp as a; assert a.PROTOCOL.name == 'acp';"
        "print(sorted(m for m in ('anyio', 'asyncio', 'orjson', 'acp') if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=30, check=True
    )
    assert done.stdout.decode().strip() == "[]"


async def test_a_turn_with_a_permission_comes_out_as_drafts(tmp_path: Path) -> None:
    seen = Seen()
    start = launch(**demo(tmp_path), seen=seen)

    def asked() -> list[Draft]:
        drafts = [d for d in seen.drafts if isinstance(d, Draft)]
        return [d for d in drafts if isinstance(d.payload, PermissionRequest)]

    with anyio.fail_after(PATIENCE_S):
        async with PROTOCOL.connect(start, seen.sink, seen.progress.append) as connection:
            assert isinstance(connection, Connection)
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, text("run echo done"))
            await seen.until(asked)
            request = asked()[0].request
            assert request is not None
            await connection.answer_permission(request, PermissionAnswer(Decision.APPROVED, "once"))
            await seen.until(lambda: _of(seen.drafts, TurnEnded))
    assert isinstance(seen.drafts[0], ProcessStarted)
    (started,), (ended,) = _of(seen.drafts, TurnStarted), _of(seen.drafts, TurnEnded)
    assert isinstance(started, TurnStarted)
    assert isinstance(ended, TurnEnded)
    assert started.turn == ended.turn
    assert ended.outcome is Outcome.COMPLETED
    gone = _of(seen.drafts, ProcessGone)
    assert seen.drafts[-len(gone) :] == gone


@pytest.mark.proves("P9")
async def test_no_message_however_strange_breaks_the_stream(tmp_path: Path) -> None:
    seen = Seen()
    start = launch(**puppet(), seen=seen)
    strange = steps(*(["raw", line] for line in STRANGE), "end")
    with anyio.fail_after(PATIENCE_S):
        async with PROTOCOL.connect(start, seen.sink, seen.progress.append) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, strange)
            await seen.until(lambda: _of(seen.drafts, TurnEnded))
            await connection.prompt(session, steps("again"))
            await seen.until(lambda: len(_of(seen.drafts, TurnEnded)) == 2)
    chunks = [d.payload for d in seen.drafts if isinstance(d, Draft)]
    said = [chunk.text for chunk in chunks if isinstance(chunk, MessageChunk)]
    assert said == ['"end"', '"again"']
    answered = [json.dumps(a["id"]) for a in seen.answers()]
    assert sorted(answered) == sorted(['"a"', '"b"', '"c"', "[1]", "9007199254740993"])


@pytest.mark.proves("A5", "T6")
async def test_a_permission_that_crosses_our_cancel_is_answered_as_cancelled(
    tmp_path: Path,
) -> None:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "puppet-1", "toolCall": {"toolCallId": "t"}, "options": options}
    ask = {"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params}
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps("begun", ["after-cancel", json.dumps(ask)]))
        await seen.until(seen.said)
        await connection.cancel(session)
        await seen.until(seen.ends)
        assert '{"outcome": {"outcome": "cancelled"}}' in seen.said()
        again: list[object] = [
            "request",
            "session/request_permission",
            {"toolCall": {}, "options": options},
        ]
        await connection.prompt(session, steps(again))
        await seen.until(lambda: len(seen.asked()) == 2)
        await connection.answer_permission(
            seen.asked()[1], PermissionAnswer(Decision.APPROVED, "yes")
        )
        await seen.until(lambda: len(seen.ends()) == 2)
        assert '"optionId": "yes"' in seen.said()


async def test_an_agent_that_closes_its_output_counts_as_gone(tmp_path: Path) -> None:
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(["mute"]))
        await seen.until(seen.gone)
        with pytest.raises(AgentFailed, match="closed its output"):
            await connection.new_session(spec(tmp_path))
    assert seen.gone()[-1].signal is not None


async def test_a_sink_that_fails_ends_the_agent(tmp_path: Path) -> None:
    start = launch(**demo(tmp_path))

    async def sink(drafts: Sequence[AnyDraft]) -> None:
        if any("agent_message_chunk" in str(draft) for draft in drafts):
            raise RuntimeError("the journal is gone")

    with anyio.fail_after(PATIENCE_S), pytest.raises(RuntimeError, match="the journal is gone"):
        async with connect(start, Spy(), sink, print) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, text("say hello"))
            await anyio.sleep_forever()
    assert alive(start.cookie) == []


async def test_a_slow_sink_holds_the_agent_back_and_loses_nothing(tmp_path: Path) -> None:
    gate = anyio.Event()
    seen = Seen()

    async def sink(drafts: Sequence[AnyDraft]) -> None:
        if any("agent_message_chunk" in str(draft) for draft in drafts):
            await gate.wait()
        await seen.sink(drafts)

    start = launch(**puppet(), seen=seen)
    many = [f"{number:06}" for number in range(3000)]
    with anyio.fail_after(PATIENCE_S):
        async with connect(start, Spy(), sink, print) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, steps(*many, ["exit", 0]))
            while connection.info.pid in alive(start.cookie):  # noqa: ASYNC110 - no event tells it
                await anyio.sleep(0.01)
            gate.set()
            await seen.until(seen.gone)
    assert seen.said() == "".join(json.dumps(each) for each in many)
    assert seen.gone()[0].exit_code == 0


async def test_a_death_right_after_the_last_word_loses_nothing(tmp_path: Path) -> None:
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        assert await one_turn(connection, seen, session, steps("x")) == '"x"'
        await connection.prompt(session, steps("last words", ["exit", 4]))
        await seen.until(seen.gone)
        assert seen.said().endswith('"last words"')
        assert seen.gone()[0].exit_code == 4


async def test_a_recording_that_fails_ends_alone(tmp_path: Path) -> None:
    seen, told = Seen(), 0

    def tap(_frame: Frame) -> None:
        nonlocal told
        told += 1
        raise OSError("disk full")

    start = replace(launch(**puppet(), seen=seen), tap=tap)
    with anyio.fail_after(PATIENCE_S):
        async with connect(start, Spy(), seen.sink, print) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, steps("hi"))
            await seen.until(lambda: any("end_turn" in str(draft) for draft in seen.drafts))
    assert told == 1


async def test_a_translator_that_fails_costs_one_frame(tmp_path: Path) -> None:
    class Faulty(Spy):
        def feed(self, frame: Frame) -> Sequence[AnyDraft]:
            if "poison" in str(frame.msg):
                raise LookupError("a mistake of ours")
            return super().feed(frame)

    seen = Seen()
    with anyio.fail_after(PATIENCE_S):
        async with connect(launch(**puppet(), seen=seen), Faulty(), seen.sink, print) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, steps("poison"))
            await seen.until(seen.ends)
            await one_turn(connection, seen, session, steps("fine"))
    told = "".join(str(draft) for draft in seen.drafts)
    assert "poison" not in told
    assert "fine" in told


async def test_an_agent_that_gives_ids_back_as_text_is_understood(tmp_path: Path) -> None:
    seen = Seen()
    how = puppet()
    start = launch(how["argv"], env={**how["env"], "PUPPET_TEXT_IDS": "1"}, seen=seen)
    with anyio.fail_after(PATIENCE_S):
        async with PROTOCOL.connect(start, seen.sink, print) as connection:
            session = await connection.new_session(spec(tmp_path))
            await connection.prompt(session, steps("hi"))
            await seen.until(lambda: _of(seen.drafts, TurnEnded))
    (started,), (ended,) = _of(seen.drafts, TurnStarted), _of(seen.drafts, TurnEnded)
    assert isinstance(started, TurnStarted)
    assert isinstance(ended, TurnEnded)
    assert started.turn == ended.turn
