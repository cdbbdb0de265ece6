"""What each call asks of the rooms behind it, and what of their answers a caller is shown."""

import dataclasses
from typing import Any, cast

import anyio
import grpc.aio
import pytest

from agentctl import v1
from agentctl.core.errors import (
    AgentFailed,
    Conflict,
    Invalid,
    NotFound,
    TimedOut,
    Unsupported,
)
from agentctl.core.parts import ContentBlock, RunError, Usage
from agentctl.core.spec import Command, McpServer, PromptSpec, Rule, SessionSpec
from agentctl.core.words import ContentType, Policy, RunState, SessionState, ToolKind
from agentctl.session.records import (
    CreateRun,
    CreateSession,
    Respond,
    RunRecord,
    SessionFilter,
    SessionRecord,
    SessionUpdate,
)
from tests.rpc.fakes import AGENT, SESSION, STANDING, House, entry, house

pytestmark = pytest.mark.anyio


async def test_create_carries_all_that_was_asked_for() -> None:
    async with house() as rooms:
        made = await rooms.client.sessions.create(
            "demo",
            "/w",
            additional_directories=["/x"],
            key="k",
            name="n",
            project="p",
            labels={"a": "b"},
            model="m",
            mode="plan",
            options={"effort": "high"},
            policy=Policy.DENY,
            rules=[v1.Rule(kind=6, command="ls", decision=v1.Policy.POLICY_ALLOW)],  # pyright: ignore[reportArgumentType]  a raw number
            mcp_servers=[
                v1.McpServer(name="s", command="mcp", args=["-v"], env={"T": "env:T"}),
                v1.McpServer(name="h", url="http://x", headers={"A": "file:/t"}),
            ],
            env={"KEY": "secret"},
            trust_workspace=False,
            environment="worktree",
            close_when_done=True,
            idempotency_key="once",
        )
    assert made.session_id == "ses_1"
    ((name, (request,), _),) = rooms.manager.calls
    assert name == "create_session"
    assert request == CreateSession(
        agent="demo",
        spec=SessionSpec(
            entry_id="demo",
            workspace="/w",
            additional_directories=("/x",),
            model="m",
            mode="plan",
            options={"effort": "high"},
            policy=Policy.DENY,
            mcp_servers=(
                McpServer("s", "stdio", "mcp", ("-v",), {"T": "env:T"}),
                McpServer("h", "http", url="http://x", headers={"A": "file:/t"}),
            ),
            env={"KEY": "secret"},
            trust_workspace=False,
            environment="worktree",
        ),
        key="k",
        name="n",
        project="p",
        labels={"a": "b"},
        rules=(Rule("", ToolKind.EXECUTE, "ls", "", Policy.ALLOW),),
        close_when_done=True,
        idempotency_key="once",
    )


async def test_create_answers_at_once_unless_asked_to_wait() -> None:
    async with house() as rooms:
        await rooms.client.sessions.create("agt_1", "/w")
        await rooms.client.sessions.create("demo", "/w", wait_ready=True, wait_timeout_ms=700)
    names = [name for name, _, _ in rooms.manager.calls]
    assert names == ["create_session", "create_session", "wait_ready"]
    assert rooms.manager.calls[0][1][0].spec.entry_id == ""
    assert rooms.manager.calls[2][1] == ("ses_1", 700)


async def test_a_prompt_may_hold_text_images_commands_reviews_and_compactions() -> None:
    async with house() as rooms:
        create = rooms.client.runs.create
        image = v1.ContentBlock(type=2, data=b"\0", mime_type="image/png")  # pyright: ignore[reportArgumentType]  a raw number
        await create("ses_1", "hi", if_busy="steer", timeout_ms=5, labels={"a": "b"}, model="m")
        await create("ses_1", [image])
        await create("ses_1", v1.RunInput(command=v1.CommandInput(name="/init", arguments="x")))
        await create("ses_1", v1.RunInput(review=True))
        made = await create("ses_1", v1.RunInput(compact=True), output_schema_json=b"{}")
    requests = [arguments[0] for _, arguments, _ in rooms.manager.calls]
    assert requests[0] == CreateRun(
        session_id="ses_1",
        prompt=PromptSpec((ContentBlock(ContentType.TEXT, text="hi"),), model="m"),
        if_busy="steer",
        timeout_ms=5,
        labels={"a": "b"},
    )
    assert requests[1].prompt.blocks[0].data == b"\0"
    assert requests[2].prompt == PromptSpec(command=Command("init", "x"))
    assert requests[3].prompt == PromptSpec(review=True)
    assert requests[4].prompt == PromptSpec(compact=True, output_schema_json=b"{}")
    assert (made.position, made.run.position, made.steered) == (2, 2, False)


async def test_info_lists_what_is_served() -> None:
    async with house() as rooms:
        info = await rooms.client.daemon.get_info()
    assert (info.journal_id, info.head_seq, info.head_cursor) == ("abc123", 41, "abc123:41")
    assert (info.counts.agents, info.counts.sessions) == (1, 3)
    assert info.settings["max_sessions"] == "1000"
    assert info.settings["expose_reasoning"] == "true"
    assert "workspace_root" not in info.settings
    assert {"runs.create", "events.subscribe", "daemon.get_info"} <= set(info.capabilities)
    assert "tasks.list" not in info.capabilities


async def test_a_change_completes_whoever_leaves() -> None:
    started, go, done = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(*_: Any, **__: Any) -> SessionRecord:
        started.set()
        await go.wait()
        done.set()
        return SESSION

    async with house() as rooms:
        rooms.manager.answers["create_session"] = slow
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(rooms.client.sessions.create, "demo", "/w")
                await started.wait()
                group.cancel_scope.cancel()
            go.set()
            await done.wait()


async def test_a_change_of_a_caller_who_left_may_still_fail_quietly(caplog: Any) -> None:
    caplog.set_level("INFO")
    started, go = anyio.Event(), anyio.Event()

    async def slow(*_: Any, **__: Any) -> SessionRecord:
        started.set()
        await go.wait()
        raise AgentFailed("it died")

    async with house() as rooms:
        rooms.manager.answers["create_session"] = slow
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(rooms.client.sessions.create, "demo", "/w")
                await started.wait()
                group.cancel_scope.cancel()
            await rooms.client.daemon.get_info()
            go.set()
    assert "it died" in caplog.text


async def test_wait_tells_an_end_from_a_time_that_was_up() -> None:
    ended = RunRecord(
        id="run_1",
        session_id="ses_1",
        prompt=PromptSpec(command=Command("init", "")),
        state=RunState.TIMED_OUT,
        usage=Usage(input=3),
        error=RunError(code="TIMEOUT", message="too slow", stderr_tail=["x"]),
    )
    async with house() as rooms:
        first = await rooms.client.runs.wait("run_1", timeout_ms=10)
        rooms.manager.answers["wait_run"] = (ended, True)
        second = await rooms.client.runs.wait("run_1")
    assert first.status == v1.WaitStatus.WAIT_STATUS_ACCEPTED
    assert second.status == v1.WaitStatus.WAIT_STATUS_TIMED_OUT
    assert second.run.error.code == "TIMEOUT"
    assert list(second.run.error.stderr_tail.items) == ["x"]
    waits = [arguments for name, arguments, _ in rooms.manager.calls if name == "wait_run"]
    assert waits == [("run_1", 10), ("run_1", None)]


async def test_wait_answers_before_the_deadline_of_its_call() -> None:
    async with house() as rooms, grpc.aio.insecure_channel(f"unix:{rooms.path}") as channel:
        ask = cast(Any, channel).unary_unary("/agentctl.v1.Runs/Wait")
        request = v1.WaitRunRequest(run_id="run_1", timeout_ms=60_000).SerializeToString()
        await ask(request, timeout=5)
    ((_, (_, waited), _),) = rooms.manager.calls
    assert 1000 < waited <= 4900  # grpc rounds a deadline up


async def test_pages_are_cut_and_go_on_where_they_ended() -> None:
    async with house() as rooms:
        rooms.catalog.known = {name: entry(name) for name in ("a", "b", "c")}
        first = await rooms.client.registry.list(page_size=2)
        second = await rooms.client.registry.list(page_size=2, page_token=first.next_page_token)
        with pytest.raises(Invalid, match="begin again"):
            await rooms.client.registry.list(page_token="gone")
        await rooms.client.sessions.list(page_size=5000, page_token="ses_9", open_only=True)
        await rooms.client.runs.list(states=["queued"], page_size=0)
    assert [each.entry_id for each in first.entries] == ["a", "b"]
    assert [each.entry_id for each in second.entries] == ["c"]
    assert second.next_page_token == ""
    sessions, counted, runs = rooms.manager.calls
    assert counted[1] == (SessionFilter(include_closed=False),)
    assert sessions[1] == (SessionFilter(include_closed=False),)
    assert sessions[2] == {"after": "ses_9", "limit": 1000}
    assert runs[2]["limit"] == 100
    assert runs[2]["states"] == {RunState.QUEUED}


async def test_sessions_are_resumed_by_our_id_or_by_the_agents() -> None:
    async with house() as rooms:
        await rooms.client.sessions.resume("ses_1", wait_ready=True)
        create = v1.CreateSessionRequest(workspace="/w")
        await rooms.client.sessions.resume(entry_id="demo", native_session_id="n1", create=create)
    ours, _, theirs = rooms.manager.calls
    assert ours[1] == ("ses_1",)
    assert theirs[2]["native_session_id"] == "n1"
    assert theirs[2]["spec"] == SessionSpec(entry_id="demo", workspace="/w")


async def test_update_changes_what_was_told_and_nothing_else() -> None:
    async with house() as rooms:
        await rooms.client.sessions.update("ses_1", title="", labels={}, policy="allow")
        await rooms.client.sessions.update("ses_1", options={"a": "b"}, mode="plan")
    first, second = (arguments[1] for _, arguments, _ in rooms.manager.calls)
    assert first == SessionUpdate(title="", labels={}, policy=Policy.ALLOW)
    assert second == SessionUpdate(options={"a": "b"}, mode="plan")


async def test_the_other_calls_ask_what_they_say() -> None:
    async with house() as rooms:
        client = rooms.client
        await client.sessions.fork("ses_1", name="copy")
        await client.sessions.resolve(key="k")
        await client.sessions.close("ses_1", reason="done", force=True)
        await client.sessions.delete("ses_1", native=True)
        native = await client.sessions.list_native("demo", workspace="/w")
        await client.sessions.list(states=["idle", "closed"], labels={"a": "b"})
        await client.runs.cancel("run_1", drop_queue=True)
        nobody = await client.runs.cancel(session_id="ses_1", force=True)
        await client.approvals.respond("apr_1", "approve", always=True, reason="ok")
        await client.approvals.list(session_id="ses_1", include_resolved=True)
        await client.questions.answer("qst_1", [["a", "b"], []])
        await client.questions.reject("qst_1", reason="no")
        await client.questions.list()
        stopped = await client.agents.stop(stop_all=True, force=True)
        await client.agents.stop("agt_1")
        await client.agents.authenticate("demo", "key")
    calls = {name: (arguments, named) for name, arguments, named in rooms.manager.calls}
    assert calls["fork_session"] == (("ses_1",), {"name": "copy"})
    assert calls["resolve_session"][0] == (SessionFilter(key="k"),)
    close = {"reason": "done", "force": True, "save_state": True}
    assert calls["close_session"] == (("ses_1",), close)
    assert calls["delete_session"] == (("ses_1",), {"native": True})
    assert calls["list_native"][0] == ("demo", "/w")
    assert (native.sessions[0].native_session_id, native.sessions[0].cwd) == ("n1", "/w")
    assert calls["list_sessions"][0][0] == SessionFilter(
        states=frozenset({SessionState.IDLE, SessionState.CLOSED}), labels=(("a", "b"),)
    )
    assert calls["cancel_run"] == (("run_1",), {"drop_queue": True, "force": False})
    assert not nobody.HasField("run")
    assert calls["respond"][0] == (Respond("apr_1", "approve", reason="ok", always=True),)
    assert calls["list_approvals"][1]["open_only"] is False
    assert calls["list_questions"][1]["open_only"] is True
    assert [each.values for each in calls["answer_question"][0][0].answers] == [["a", "b"], []]
    assert calls["reject_question"] == (("qst_1",), {"reason": "no"})
    assert len(stopped.agents) == 2
    assert calls["stop_agent"] == (("agt_1",), {"force": False})
    assert calls["authenticate"][0] == ("demo", "key")


async def test_agents_are_shown_and_paged() -> None:
    async with house() as rooms:
        client = rooms.client
        started = await client.agents.start("demo", workspace="/w")
        await client.agents.restart("agt_1")
        await client.agents.get("agt_1")
        listed = await client.agents.list(include_exited=True)
        methods = await client.agents.auth_methods("demo")
    assert started.agent_id == AGENT.id
    assert not started.HasField("pid")
    assert [each.id for each in started.auth_methods] == ["key"]
    assert [each.agent_id for each in listed.agents] == ["agt_1"]
    assert [each.id for each in methods.methods] == ["key"]


async def test_rules_of_a_session_are_listed() -> None:
    async with house() as rooms:
        rooms.manager.answers["get_session"] = SessionRecord(
            id="ses_1",
            spec=SessionSpec(entry_id="demo", workspace="/w"),
            rules=[Rule("rul_1", ToolKind.EXECUTE, "ls", "", Policy.ALLOW)],
        )
        (rule,) = (await rooms.client.approvals.list_rules("ses_1")).rules
    assert (rule.rule_id, rule.command, rule.HasField("path")) == ("rul_1", "ls", False)


async def test_rules_of_all_sessions_are_listed_put_and_deleted() -> None:
    async with house() as rooms:
        approvals, calls = rooms.client.approvals, rooms.manager.calls
        (standing,) = (await approvals.list_rules()).rules
        assert (await approvals.put_rule("", standing)) == standing
        assert calls[-1] == (
            "put_rule",
            ("", dataclasses.replace(STANDING, created_at=0, revision=0)),
            {},
        )
        await approvals.delete_rule("ses_1", "rul_9")
        assert calls[-1] == ("delete_rule", ("ses_1", "rul_9"), {})
    assert (standing.path_pattern, standing.revision, standing.HasField("command")) == (
        "/**/.git/**",
        2,
        False,
    )


async def test_wait_ready_raises_what_the_start_raised() -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise TimedOut("still starting")

    async with house() as rooms:
        rooms.manager.answers["wait_ready"] = fail
        with pytest.raises(TimedOut, match="still starting"):
            await rooms.client.sessions.create("demo", "/w", wait_ready=True)


async def registry_calls(rooms: House) -> None:
    registry = rooms.client.registry
    shown = await registry.get("demo")
    assert shown.entry_json == b'{"id":"demo","future":{"n":1}}'
    assert (await registry.put(b'{"id":"new"}')).entry_id == "new"
    with pytest.raises(Conflict, match="already"):
        await registry.put(b'{"id":"new"}', create_only=True)
    for bad in (b"[]", b"{", b"{}"):
        with pytest.raises(Invalid) as caught:
            await registry.put(bad, create_only=True)
        assert caught.value.reason == "REGISTRY_INVALID"
    assert not (await registry.enable("demo", False)).enabled
    assert not (await registry.delete("new")).HasField("entry")
    with pytest.raises(NotFound) as missing:
        await registry.get("new")
    assert missing.value.reason == "AGENT_NOT_FOUND"


async def test_entries_are_read_and_edited() -> None:
    async with house() as rooms:
        await registry_calls(rooms)


async def test_a_document_an_entry_or_the_files_in_force_are_validated() -> None:
    async with house() as rooms:
        registry = rooms.client.registry
        assert (await registry.validate()).valid
        assert (await registry.validate(b'{"agents":[]}')).valid
        (problem,) = (await registry.validate(b'{"id":"bad"}')).problems
        assert not (await registry.validate(b"bad {")).valid
    assert rooms.catalog.validated[1] == '{"agents":[{"id":"bad"}]}'
    assert (problem.line, problem.field) == (3, "agents[0].cmd")


async def test_discovery_tells_what_is_installed_and_what_is_missing(monkeypatch: Any) -> None:
    monkeypatch.delenv("DEMO_NEEDS", raising=False)
    async with house() as rooms:
        rooms.catalog.known["demo"] = entry("demo", required_env=("DEMO_NEEDS",))
        (seen,) = (await rooms.client.registry.discover()).agents
    assert (seen.entry_id, seen.installed, seen.authenticated) == ("demo", True, True)
    assert list(seen.missing_env) == ["DEMO_NEEDS"]
    async with house(discover=None) as rooms:
        with pytest.raises(Unsupported):
            await rooms.client.registry.discover()


async def test_watching_the_registry_shows_it_now_and_after_each_change() -> None:
    async with house() as rooms:
        snapshots: Any = rooms.client.registry.watch()
        with anyio.fail_after(10):
            assert [each.entry_id for each in (await anext(snapshots)).entries] == ["demo"]
            rooms.catalog.known["more"] = entry("more")
            await rooms.catalog.news[0].send.send(object())
            assert [each.entry_id for each in (await anext(snapshots)).entries] == ["demo", "more"]
            await snapshots.aclose()
