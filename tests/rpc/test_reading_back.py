"""Conversations, exports, statistics and models, read back from the journal over the wire."""

import dataclasses
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentctl import v1
from agentctl.core.errors import Invalid, NotFound, Unsupported
from agentctl.core.events import Event, FileChange
from agentctl.core.parts import Model
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.words import RunState
from agentctl.session.hub import Batch
from agentctl.session.records import RunRecord
from tests.rpc.fakes import SESSION, House, entry, house
from tests.rpc.kept import folded, offered, run, said, serving, worked

pytestmark = pytest.mark.anyio


def kept(rooms: House, events: Sequence[Event], later: Sequence[Event] = ()) -> None:
    """An agent without a history of its own, and what the journal has of its session."""

    async def none(*_: Any, **__: Any) -> None:
        raise Unsupported("it keeps none")

    rooms.manager.answers["messages"] = none
    rooms.hub.stream = serving(events, later=later)


def record(number: int, state: RunState = RunState.COMPLETED, **fields: Any) -> RunRecord:
    return RunRecord(f"run_{number}", "ses_1", PromptSpec(), state=state, **fields)


async def exported(rooms: House, **options: Any) -> str:
    chunks = rooms.client.sessions.export("ses_1", **options)
    return "".join([chunk.data.decode() async for chunk in chunks])


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def test_a_message_too_long_for_an_answer_comes_with_its_beginning_and_is_named() -> None:
    long = [said("m9", "é" * 100_000)] * 50
    async with house() as rooms:
        kept(rooms, [*worked(), *run(2, *long)])
        page = await rooms.client.sessions.messages("ses_1", page_size=1)
    (event,) = page.events
    assert list(page.truncated) == ["m9"]
    text = event.message.content[0].text
    assert 2 << 20 < len(text.encode()) < 3 << 20 and set(text) == {"é"}
    assert page.ByteSize() < 4 << 20


async def test_an_agent_without_a_history_answers_from_the_journal() -> None:
    async with house() as rooms:
        kept(rooms, [*worked(), *run(2, said("m2", "two"))])
        newest = await rooms.client.sessions.messages("ses_1", page_size=2)
        token = newest.next_page_token
        older = await rooms.client.sessions.messages("ses_1", page_token=token)
        users = await rooms.client.sessions.messages("ses_1", role="user", page_size=10**9)
        none = await rooms.client.sessions.messages("ses_1", since=2**62)
    assert [each.message.message_id for each in newest.events] == ["run_2", "m2"]
    assert [each.run_id for each in newest.metadata] == ["run_2"]
    assert "t1" in [each.tool_call.tool_call_id for each in older.events]
    assert (older.events[-1].message.message_id, older.next_page_token) == ("m1", "")
    assert (len(users.events), users.total) == (2, 2)
    assert (len(none.events), none.total, none.next_page_token) == (0, 0, "")


@pytest.mark.parametrize("token", ["journal:", "journal:x", "journal:-1", "msg_1"])
async def test_a_page_token_that_is_none_of_the_session_is_refused(token: str) -> None:
    async with house() as rooms:
        kept(rooms, worked())
        with pytest.raises(Invalid, match="begin again without one") as caught:
            await rooms.client.sessions.messages("ses_1", page_token=token)
    assert caught.value.metadata["field"] == "page_token"


async def test_an_agents_own_history_is_narrowed_to_a_role() -> None:
    async with house() as rooms:
        assert not (await rooms.client.sessions.messages("ses_1", role="user")).events
        assert (await rooms.client.sessions.messages("ses_1", role="assistant")).events


async def test_an_export_is_the_session_its_runs_what_they_used_and_every_event() -> None:
    async with house() as rooms:
        kept(rooms, worked())
        rooms.manager.answers["list_runs"] = ([record(1)], "")
        got = rows(await exported(rooms))
    assert [each["type"] for each in got[:3]] == ["session", "run", "stats"]
    assert got[0]["cursor"] == f"abc123:{len(worked())}"
    assert (got[1]["data"]["state"], got[1]["data"]["cost_usd"]) == ("completed", 0.5)
    assert got[2]["data"]["commands"] == 1 and got[2]["data"]["by_model"][0]["runs"] == 1
    assert [each["seq"] for each in got[3:]] == list(range(1, len(worked()) + 1))


async def test_an_export_of_a_running_session_is_one_consistent_cut() -> None:
    """The record says that the run is done; its end came to the journal behind the cut."""
    async with house() as rooms:
        events = run(1, said("m1", "begun"))
        kept(rooms, events[:-1], later=[events[-1], *run(2)])
        done = record(1, ended_at=12_000, cost_usd=0.5)
        rooms.manager.answers["list_runs"] = ([done], "")
        got = rows(await exported(rooms))
    assert [each["data"]["run_id"] for each in got if each["type"] == "run"] == ["run_1"]
    assert got[1]["data"]["state"] == "running" and "cost_usd" not in got[1]["data"]
    assert [each["type"] for each in got[3:]] == ["run_status", "run_status", "message_chunk"]


async def test_an_export_leaves_out_what_is_not_wanted() -> None:
    async with house() as rooms:
        kept(rooms, worked())
        rooms.manager.answers["list_runs"] = ([record(1)], "")
        got = rows(await exported(rooms, include_messages=False, include_stats=False))
    kinds = {each["type"] for each in got}
    assert not kinds & {"stats", "message", "message_chunk", "reasoning"}
    assert "tool_call" in kinds and "prompt 1" not in json.dumps(got)


async def test_changed_files_are_exported_with_what_they_hold_now(tmp_path: Path) -> None:
    async with house() as rooms:
        spec = SessionSpec(entry_id="demo", workspace=str(tmp_path))
        rooms.manager.answers["get_session"] = dataclasses.replace(SESSION, spec=spec)
        (tmp_path / "a.py").write_text("new\n")
        kept(rooms, run(1, FileChange("a.py")))
        got = rows(await exported(rooms, include_files=True))
        text = await exported(rooms, include_files=True, format="markdown")
    assert got[-1] == {"type": "file", "data": {"path": "a.py", "size": 4, "text": "new\n"}}
    assert text.endswith("## Changed files\n\n### `a.py`\n\n```py\nnew\n```\n")


async def test_a_file_outside_the_workspace_is_named_and_not_read(tmp_path: Path) -> None:
    async with house() as rooms:
        spec = SessionSpec(entry_id="demo", workspace=str(tmp_path / "w"))
        rooms.manager.answers["get_session"] = dataclasses.replace(SESSION, spec=spec)
        kept(rooms, worked())
        got = rows(await exported(rooms, include_files=True))
    assert got[-1]["data"]["path"] == "/w/a.py" and "text" not in got[-1]["data"]
    assert "outside" in got[-1]["data"]["note"]


async def test_an_export_or_messages_of_no_session_say_so() -> None:
    async def unknown(*_: Any, **__: Any) -> None:
        raise NotFound("there is none", reason="SESSION_NOT_FOUND")

    async with house() as rooms:
        rooms.manager.answers |= {"get_session": unknown, "messages": unknown}
        for call in (exported(rooms), rooms.client.sessions.messages("ses_9")):
            with pytest.raises(NotFound) as caught:
                await call
            assert caught.value.reason == "SESSION_NOT_FOUND"
        with pytest.raises(NotFound):
            await rooms.client.stats.get(session_id="ses_9")


async def test_statistics_are_of_all_of_an_entry_or_of_a_session() -> None:
    async with house() as rooms:
        rooms.manager.tallied = folded([*worked(), *run(2)])
        everything = await rooms.client.stats.get()
        one = await rooms.client.stats.get(session_id="ses_1", since=2**62)
        with pytest.raises(NotFound, match="no such agent"):
            rooms.manager.answers["count_by_entry"] = {}
            await rooms.client.stats.get(entry_id="nobody")
    assert [each.entry_id for each in everything.entries] == ["demo"]
    assert (everything.total.runs, everything.total.usage.input) == (2, 20)
    assert (everything.by_model[0].runs, everything.total.commands) == (2, 1)
    assert (one.total.sessions, one.total.runs, len(one.by_model)) == (1, 0, 0)


async def test_models_are_the_agents_own_word_else_the_registrys() -> None:
    async with house() as rooms:
        listed = [Model("old"), Model("older")]
        rooms.catalog.known |= {
            "demo": entry("demo", models=listed),
            "other": entry("other", models=listed, default_model="older"),
            "off": entry("off", models=listed, enabled=False),
        }
        rooms.manager.answers["list_sessions"] = ([SESSION], "")
        kept(rooms, [offered("new", "newer", model="newer"), *worked()])
        offers = (await rooms.client.models.list()).models
        page = await rooms.client.models.list(agent="agt_1", page_size=1)
        rooms.hub.stream = serving(worked())
        before = (await rooms.client.models.list(session_id="ses_1")).models
        with pytest.raises(NotFound):
            await rooms.client.models.list(agent="nobody")
    told = [(each.entry_id, each.model.id, each.is_default) for each in offers]
    assert told == [
        ("demo", "new", False),
        ("demo", "newer", True),
        ("other", "old", False),
        ("other", "older", True),
    ]
    assert (page.models[0].model.id, page.next_page_token) == ("new", "demo/new")
    assert [each.model.id for each in before] == ["old", "older"]


async def test_whether_agents_are_logged_in_is_what_discovery_saw() -> None:
    async with house() as rooms:
        (state,) = (await rooms.client.models.auth_status(["demo"])).agents
        with pytest.raises(NotFound):
            await rooms.client.models.auth_status(["nobody"])
    assert (state.entry_id, state.authenticated, state.detail) == ("demo", True, "DEMO_KEY")


async def test_a_reader_who_leaves_an_export_ends_its_reading() -> None:
    async def endless(_: Any) -> AsyncGenerator[Batch, None]:
        async for batch in serving([each for n in range(1, 3000) for each in run(n)])(_):
            yield batch

    async with house() as rooms:
        kept(rooms, [])
        rooms.hub.stream = endless
        chunks = rooms.client.sessions.export("ses_1")
        first: v1.ExportChunk = await anext(aiter(chunks))
        await chunks.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert first.data.startswith(b'{"type":"session"')
    assert rooms.hub.closed == len(rooms.hub.queries)
