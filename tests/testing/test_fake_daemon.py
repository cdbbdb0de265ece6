"""The scripted daemon for the tests of apps: what a script says is what an app sees."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from agentctl.client import AgentCtl, Event, sync
from agentctl.core.errors import Invalid
from agentctl.core.events import Git
from agentctl.core.toolspace import ToolOffer
from agentctl.testing.fake_daemon import (
    Answer,
    AskApproval,
    AskQuestion,
    Emit,
    Exit,
    Fail,
    FakeDaemon,
    Gate,
    Plan,
    Say,
    ShowImage,
    Spend,
    Think,
    UseTool,
    Wait,
    WriteFile,
)

pytestmark = [pytest.mark.anyio, pytest.mark.proves("D6")]
TEST_S = 30.0


@pytest.fixture
async def daemon() -> AsyncGenerator[FakeDaemon]:
    with anyio.fail_after(TEST_S):
        async with FakeDaemon("coder", "reviewer") as made:
            yield made


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncGenerator[AgentCtl]:
    async with daemon.client() as made:
        yield made


async def played(client: AgentCtl, daemon: FakeDaemon, prompt: str = "x") -> list[Event]:
    run = await client.agent("coder").run(prompt, workspace=daemon.workspace)
    run.on_approval(lambda request: request.approve_once())
    run.on_question(lambda question: question.answer(["a", "c"]))
    return [event async for event in run.events()]


async def test_each_step_is_what_a_real_agent_would_tell(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    coder = daemon.agent("coder").on(
        "",
        Think("hm"),
        Plan(["one", "two", "three"], done=1),
        Say("Two words", in_words=True),
        UseTool("bash", "execute", command="ls", pieces=["a"], output="ab", exit_code=0, ask=True),
        UseTool("bash", "execute", command="no", error="it broke", exit_code=1),
        WriteFile("deep/made.txt", "one\ntwo\n"),
        ShowImage(b"\x89PNG"),
        AskQuestion("Which?", ["a", "b", "c"], multiple=True),
        Say(lambda values: f"took {'+'.join(values)}"),
        AskApproval("Go?", allowed=[Say("went")], denied=[Say("stayed")]),
        Emit(Git(branch="topic")),
        Spend(5, 7, 0.5),
    )
    events = await played(client, daemon)
    by_type: dict[str, list[Event]] = {}
    for event in events:
        by_type.setdefault(event.type, []).append(event)
    assert [e.text for e in by_type["reasoning"]] == ["hm"]
    states = [entry["status"] for entry in by_type["plan"][0].data["entries"]]
    assert states == ["completed", "in_progress", "pending"]
    said = [e.text for e in by_type["message_chunk"]]
    assert said == ["Two", " words", "", "took a+c", "went"]
    ends = [e.data["status"] for e in by_type["tool_update"] if e.data.get("status") in FINAL]
    assert ends == ["completed", "failed", "completed"]
    (change,) = by_type["file_change"]
    assert (change.data["change"], change.data["additions"]) == ("create", 2)
    assert await anyio.Path(change.data["path"]).read_text() == "one\ntwo\n"
    assert "topic" in [e.data.get("branch") for e in by_type["git"]]
    end = events[-1].data
    assert (end["usage"]["input"], end["usage"]["output"], end["cost_usd"]) == (5, 7, 0.5)
    assert coder.answers == [
        Answer("ls", "approved", "once"),
        Answer("Which?", "answered", values=(("a", "c"),)),
        Answer("Go?", "approved", "once"),
    ]


FINAL = {"completed", "failed", "cancelled"}


async def test_the_last_script_whose_words_fit_is_played(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    daemon.agent("coder").on("", Say("any")).on("test", Say("test")).on("the test", Say("the"))
    texts = ["".join(e.text for e in await played(client, daemon, p)) for p in ("x", "a test")]
    assert texts == ["any", "test"]
    assert "".join(e.text for e in await played(client, daemon, "fix the test")) == "the"


async def test_a_tool_that_is_denied_fails_and_the_turn_goes_on(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    daemon.agent("coder").on("", WriteFile("no.txt", "x", ask=True), Say("left it"))
    run = await client.agent("coder").run("x", workspace=daemon.workspace)
    run.on_approval(lambda request: request.deny("not here"))
    assert (await run.wait()).text == "left it"
    assert not await anyio.Path(daemon.workspace / "no.txt").exists()
    assert daemon.agent("coder").answers[0].reason == "not here"


@pytest.mark.parametrize(
    ("step", "code"), [(Fail("RATE_LIMITED", "later"), "RATE_LIMITED"), (Exit(7), "AGENT_EXITED")]
)
async def test_a_turn_can_fail_and_the_next_one_goes_on(
    daemon: FakeDaemon, client: AgentCtl, step: Fail | Exit, code: str
) -> None:
    daemon.agent("coder").on("bad", Say("half"), step, Say("never")).on("good", Say("fine"))
    session = await client.agent("coder").session(workspace=daemon.workspace)
    bad = await (await session.send("bad")).wait()
    assert bad.error and bad.error.code == code and bad.text == "half"
    assert (await (await session.send("good")).wait()).text == "fine"


async def test_an_approval_expires_when_the_daemon_is_set_so() -> None:
    with anyio.fail_after(TEST_S):
        async with FakeDaemon("coder", approval_timeout_seconds=0.05) as daemon:
            coder = daemon.agent("coder").on("", AskApproval("Go?", denied=[Say("no answer")]))
            async with daemon.client() as client:
                run = await client.agent("coder").run("x", workspace=daemon.workspace)
                assert (await run.wait()).text == "no answer"
            assert coder.answers[0].decision == "expired"


async def test_a_restart_keeps_the_journal_and_the_scripts(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    gate = Gate()
    daemon.agent("coder").on("wait", Wait(gate)).on("say", Say("again"))
    session = await client.agent("coder").session(workspace=daemon.workspace, session_key="k")
    held = await session.send("wait")
    await gate.reached()
    await daemon.restart()
    failed = await held.wait()
    assert failed.error and failed.error.code == "DAEMON_RESTARTED"
    assert (await session.info()).state == "interrupted"
    assert (await (await session.send("say")).wait()).text == "again"
    assert [event.seq async for event in session.events(follow=False)] == sorted(
        {event.seq async for event in session.events(follow=False)}
    )


async def test_two_agents_have_scripts_of_their_own(daemon: FakeDaemon, client: AgentCtl) -> None:
    daemon.agent("coder").on("", Say("code"))
    daemon.agent("reviewer").on("", Say("review"))
    names = ("coder", "reviewer")
    runs = [await client.agent(name).run("x", workspace=daemon.workspace) for name in names]
    assert [(await run.wait()).text for run in runs] == ["code", "review"]


async def test_the_tools_that_an_agent_says_it_has_are_listed(
    daemon: FakeDaemon, client: AgentCtl
) -> None:
    schema = {"properties": {"path": {"type": "string"}}, "required": ["path"]}
    daemon.agent("coder").tools += [
        ToolOffer("look", input_schema=schema, description="Looks"),
        ToolOffer("secret", hidden=True),
    ]
    daemon.agent("coder").on("", Say("x"))
    session = await client.agent("coder").session(workspace=daemon.workspace)
    look, secret = await session.tool_space()
    assert (look.schema_summary, look.description, look.calls) == ("path: string", "Looks", 0)
    assert look.input_schema == schema and secret.hidden
    first = await client.tools.list(session.id, page_size=1)
    assert first.next_page_token == "look"
    rest = await client.tools.list(session.id, page_token="look")
    assert [tool.name for tool in rest.tools] == ["secret"]


async def test_an_agent_must_be_named_before_the_daemon_runs(daemon: FakeDaemon) -> None:
    with pytest.raises(Invalid, match=r'FakeDaemon\("other"\)'):
        daemon.agent("other")


async def test_a_daemon_that_cannot_start_says_why() -> None:
    made = FakeDaemon(listen=["nonsense"])
    with pytest.raises(Invalid, match="nonsense"):
        await made.start()
    await made.stop()


def test_nothing_is_left_of_it() -> None:
    with FakeDaemon("coder") as daemon:
        folder = daemon.data_dir.parent
        assert folder.exists()
    assert not folder.exists()


def test_a_test_without_an_event_loop_uses_it_too(tmp_path: Path) -> None:
    gate = Gate()
    with FakeDaemon("coder") as daemon, sync.AgentCtl.connect(daemon.address) as client:
        daemon.agent("coder").on("", Say("before"), Wait(gate), Say(" after"))
        run = client.agent("coder").run("x", workspace=tmp_path, keep_session=True)
        assert gate.wait_reached(TEST_S)
        gate.open()
        assert "".join(event.text for event in run.events()) == "before after"
        daemon.restart_and_wait()
        assert run.result().status == "completed"


def test_it_is_restarted_where_it_was_started() -> None:
    with pytest.raises(Invalid, match="event loop"):
        FakeDaemon().restart_and_wait()
