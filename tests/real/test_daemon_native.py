"""Claude Code and Codex in their own protocols, through the daemon: what holds on both."""

import json
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from tests.real.agents import AGENTS
from tests.real.native import (
    BUSY_MODEL,
    MCP,
    MODELS,
    MODES,
    SUBAGENT_MODEL,
    allow,
    background,
    began,
    local_server,
    no_sleeper,
    session_of,
    sleepers,
    subagent,
)
from tests.real.served import Served, Turn, kill_agents

pytestmark = [pytest.mark.anyio, pytest.mark.real]

ODD = ["tab\t, a line end\n, U+2028 \u2028, U+0085 \u0085, äöü, 🙂 ", "   ", "\n", "\n\n", "end "]
# A busy model is tried again after half a second or more; the cancel must not wait for that.
SOON_S = 2.5


@pytest.fixture(params=["claude", "codex"])
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Served]:
    async with AGENTS[request.param].serving(tmp_path) as it:
        yield it


def spoken(turn: Turn) -> str:
    """What the agent itself said, its subagents left out."""
    own = [row for row in turn.rows if "parent_tool_call_id" not in row]
    return Turn(turn.run_id, own).text


@pytest.mark.proves("T1", "M1", "M4", "M6")
async def test_every_byte_of_the_model_arrives_once(served: Served) -> None:
    session = await session_of(served)
    turn = await served.ask(session, f"SAYTEXT {json.dumps(ODD)}")
    assert turn.text == served.model.sent_text() == "".join(ODD)
    assert turn.complete["usage"]["output"] > 0
    long = await served.ask(session, "BIG 700000")
    assert turn.text + long.text == served.model.sent_text()


@pytest.mark.proves("M7")
async def test_a_subagent_speaks_under_the_call_that_started_it(served: Served) -> None:
    session = await session_of(served, model=SUBAGENT_MODEL[served.entry], policy="allow")
    turn = await served.ask(session, subagent(served.entry))
    assert turn.outcome == "completed"
    inner = lambda: [row for row in served.rows if row.get("parent_tool_call_id")]
    await served.until(lambda: any(row["type"] == "message_chunk" for row in inner()))
    calls = {row["tool_call_id"] for row in turn.of("tool_call")}
    assert {row["parent_tool_call_id"] for row in inner()} <= calls
    assert spoken(turn) == "done"


@pytest.mark.proves("T1", "T8")
async def test_five_quick_prompts_are_five_runs_in_their_order_and_never_mixed(
    served: Served,
) -> None:
    session = await session_of(served)
    runs = [await served.begin(session, f"SAYTEXT answer {n}") for n in range(5)]
    turns = [await served.ended(run) for run in runs]
    assert [turn.text for turn in turns] == [f"answer {n}" for n in range(5)]
    assert {turn.outcome for turn in turns} == {"completed"}
    order = [row["run_id"] for row in served.of("complete")]
    assert order == runs
    spans = [(turn.complete["started_at"], turn.complete["ended_at"]) for turn in turns]
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert not [turn for turn in turns if "folded_into" in turn.complete]


@pytest.mark.proves("T6", "A5")
async def test_a_cancel_works_in_text_tool_approval_retry_and_silence(served: Served) -> None:
    session = await session_of(served)
    scripts = ["SLOW 100 50", "HANG", BUSY_MODEL[served.entry], "ASK", "TOOL"]
    for nth, script in enumerate(scripts):
        asks = script in ("ASK", "TOOL")
        known = len(served.model.turns())
        run = await served.begin(session, "TOOL touch began; sleep 321" if asks else script)
        if asks:
            await (allow(served, run) if script == "TOOL" else served.asked(run))
        match script.split()[0]:
            case "SLOW":
                await served.said(run, "slow1")
            case "TOOL":
                await began(served)
            case "FAIL":
                await served.until(lambda run=run: served.turn(run).of("rate_limit"))
            case _:
                await served.model.wait_for(lambda turns, known=known: len(turns) > known)
        begun = anyio.current_time()
        await served.client.runs.cancel(run)
        await served.client.runs.cancel(run)
        turn = await served.ended(run)
        assert anyio.current_time() - begun < SOON_S, script
        assert (turn.outcome, turn.of("error")) == ("cancelled", []), script
        again = await served.ask(session, f"SAYTEXT back {nth}")
        assert (again.outcome, again.text) == ("completed", f"back {nth}"), script
    await no_sleeper(served)


@pytest.mark.proves("A1")
async def test_two_requests_are_answered_in_any_order(served: Served) -> None:
    """Open at once in two sessions, and one after the other in each."""
    sessions = [await session_of(served), await session_of(served)]
    runs = [await served.begin(each, "TOOL echo a > a || TOOL echo b > b") for each in sessions]
    for run in runs:
        await served.asked(run)
    assert len((await served.client.approvals.list()).approvals) == 2
    await allow(served, runs[1])
    await allow(served, runs[1], 2)
    second = await served.ended(runs[1])
    request = await served.asked(runs[0])
    await served.client.approvals.respond(request["approval_id"], "deny", reason="not today")
    await allow(served, runs[0], 2)
    first = await served.ended(runs[0])
    assert [turn.outcome for turn in (first, second)] == ["completed", "completed"]
    assert [each["decision"] for each in first.of("permission_resolved")] == ["denied", "approved"]
    assert {each.name for each in served.home.workspace.iterdir()} == {"a", "b"}


@pytest.mark.proves("P1", "P2", "T5", "S4", "S5", "M5")
async def test_a_killed_agent_leaves_no_shell_and_its_session_is_resumed_and_forked(
    served: Served,
) -> None:
    session = await session_of(served)
    await served.ask(session, "SAYTEXT one")
    run = await served.begin(session, background(served.entry, "HANG"))
    await allow(served, run)
    await began(served)
    # The agents write their history behind the turn; the model's next request comes after the call.
    await served.model.wait_for(lambda turns: len(turns) == 3)
    kill_agents(served, AGENTS[served.entry].process)
    turn = await served.ended(run)
    assert (turn.outcome, turn.error) == ("failed", "AGENT_EXITED")
    await served.no_agent_left()

    told = len(served.of("message_chunk"))
    again = await served.ask(session, "HISTORY")
    assert again.text == "HISTORY 3"
    assert len(served.of("message_chunk")) == told + 1
    fork = await served.client.sessions.fork(session.session_id, wait_ready=True)
    assert fork.native_session_id != session.native_session_id
    assert (await served.ask(fork, "HISTORY")).text == "HISTORY 4"
    assert (await served.ask(session, "HISTORY")).text == "HISTORY 4"


@pytest.mark.proves("P1", "P2")
async def test_a_stopped_session_leaves_no_shell_of_its_own(served: Served) -> None:
    session = await session_of(served)
    run = await served.begin(session, background(served.entry))
    await allow(served, run)
    await began(served)
    assert (await served.ended(run)).outcome == "completed"
    await served.client.sessions.close(session.session_id)
    assert served.agent_processes() == []


@pytest.mark.proves("P1", "P2", "T6")
async def test_a_cancel_ends_the_shell_in_the_background_too(served: Served) -> None:
    session = await session_of(served)
    run = await served.begin(session, background(served.entry, "HANG"))
    await allow(served, run)
    await began(served)
    await served.client.runs.cancel(run)
    assert (await served.ended(run)).outcome == "cancelled"
    await no_sleeper(served)
    assert (await served.ask(session, "SAYTEXT back")).text == "back"


@pytest.mark.proves("P1", "S6")
async def test_a_killed_daemon_leaves_nothing_and_the_session_is_resumed(served: Served) -> None:
    session = await session_of(served)
    await served.ask(session, "SAYTEXT one")
    run = await served.begin(session, background(served.entry, "HANG"))
    await allow(served, run)
    await began(served)
    await served.model.wait_for(lambda turns: len(turns) == 3)
    await served.restart(kill=True, meanwhile=lambda: None)
    turn = await served.ended(run)
    assert (turn.outcome, turn.error) == ("failed", "DAEMON_RESTARTED")
    assert sleepers(served) == []
    assert (await served.ask(session, "HISTORY")).text == "HISTORY 3"


@pytest.mark.proves("S8")
async def test_models_and_modes_are_switched_in_a_session(served: Served) -> None:
    first, second = MODELS[served.entry]
    asking, working = MODES[served.entry]
    session = await served.session(model=first, mode=asking)
    run = await served.begin(session, "WRITE new.txt hello")
    await allow(served, run)
    await served.ended(run)
    await served.client.sessions.update(session.session_id, model=second, mode=working)
    turn = await served.ask(session, "WRITE other.txt hello")
    assert turn.of("permission_request") == []
    assert (served.home.workspace / "other.txt").read_text() == "hello\n"
    models = [each["model"] for each in served.model.turns()]
    assert first in models[0] and models[-1] == second
    now = await served.client.sessions.get(session.session_id)
    assert (now.model, now.mode) == (second, working)


async def test_a_tool_of_an_mcp_server_of_the_session_is_called(served: Served) -> None:
    session = await session_of(served, mcp_servers=[local_server()])
    run = await served.begin(session, MCP[served.entry])
    request = await served.asked(run)
    assert request["kind"] == "mcp"
    await allow(served, run)
    turn = await served.ended(run)
    assert turn.outcome == "completed" and "HELLO" in turn.text
    assert turn.tool()["kind"] == "mcp"
