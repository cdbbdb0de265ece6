"""What no client should send is refused alike everywhere, and says which field it was."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.channel import Connection
from agentctl.core.errors import AgentctlError, Conflict, Invalid, Unsupported
from agentctl.rpc.catalogue import services
from agentctl.rpc.mirror import message_class
from tests.daemon.harness import daemon

pytestmark = pytest.mark.anyio

# A daemon with one session of the demo agent; everything here is a call or two.
WORK_S = 60
FUTURE = 2**62

LISTS: Mapping[str, dict[str, Any]] = {
    "Agents/List": {},
    "Sessions/List": {},
    "Sessions/ListNative": {"agent": "demo"},
    "Sessions/Messages": {"session_id": "{session}"},
    "Runs/List": {},
    "Approvals/List": {"include_resolved": True},
    "Questions/List": {"include_resolved": True},
    "Artifacts/List": {},
    "Registry/List": {},
    "Models/List": {},
    "Tools/List": {"session_id": "{session}"},
    "Environments/List": {},
    "Tasks/List": {},
}
"""Each list of the API, and what a request needs."""

UNSERVED = frozenset({"Tasks/List"})
JUNK = ("junk", "ses_", "../..", "abc123:7", "-1", "journal:x", "x" * 5000, "\u20ac")


def pages() -> dict[str, MethodDescriptor]:
    """The methods whose answers have pages."""
    return {
        f"{service.name}/{method.name}": method
        for service in services()
        for method in service.methods
        if "page_token" in method.input_type.fields_by_name
    }


def test_the_table_has_every_list_of_the_api() -> None:
    assert set(LISTS) == set(pages())


class Asker:
    """Calls lists by their names."""

    def __init__(self, connection: Connection, session: str) -> None:
        self._connection = connection
        self._session = session
        self._methods = pages()

    async def __call__(self, name: str, **fields: Any) -> Any:
        method = self._methods[name]
        told = {
            key: self._session if value == "{session}" else value
            for key, value in LISTS[name].items()
        }
        request: Any = message_class(method.input_type)(**{**told, **fields})
        answer: type[Message] = message_class(method.output_type)
        return await self._connection.unary(name, request, answer)

    async def refused(self, name: str, **fields: Any) -> AgentctlError | None:
        try:
            await self(name, **fields)
        except AgentctlError as error:
            return error
        return None


@pytest.mark.proves("F6")
async def test_every_list_takes_and_refuses_the_same(tmp_path: Path) -> None:
    with anyio.fail_after(WORK_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create(
                "demo", str(tmp_path), policy="allow", wait_ready=True
            )
            run = (await client.runs.create(session.session_id, "read x || say hi")).run
            await client.runs.wait(run.run_id)
            connection = Connection(served.address)
            ask = Asker(connection, session.session_id)
            wrong: list[str] = []
            for name in LISTS:
                if name in UNSERVED:
                    assert isinstance(await ask.refused(name), Unsupported)
                    continue
                whole = await ask(name)
                for size in (0, 1_000, 10**9, 2**31 - 1):
                    same = await ask(name, page_size=size)
                    if same != whole and name != "Agents/List":
                        wrong.append(f"{name} page_size={size}")
                for size in (-1, -(2**31)):
                    error = await ask.refused(name, page_size=size)
                    if not isinstance(error, Invalid) or error.metadata.get("field") != "page_size":
                        wrong.append(f"{name} page_size={size}: {error}")
                for token in JUNK:
                    error = await ask.refused(name, page_token=token)
                    if (
                        not isinstance(error, Invalid)
                        or error.metadata.get("field") != "page_token"
                    ):
                        wrong.append(f"{name} page_token={token[:20]}: {error}")
            await connection.close()
            assert not wrong


@pytest.mark.proves("F6")
async def test_a_time_that_has_not_come_finds_nothing(tmp_path: Path) -> None:
    with anyio.fail_after(WORK_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(tmp_path), wait_ready=True)
            run = (await client.runs.create(session.session_id, "say hi")).run
            await client.runs.wait(run.run_id)
            stats = await client.stats.get(since=FUTURE)
            assert stats.total.runs == 0 and stats.total.sessions == 1
            messages = await client.sessions.messages(session.session_id, since=FUTURE)
            assert not messages.events and messages.total == 0
            assert (await client.stats.get(since=-1)).total.runs == 1


@pytest.mark.proves("F6")
async def test_answers_of_the_wrong_shape_and_keys_used_twice_are_refused(tmp_path: Path) -> None:
    with anyio.fail_after(WORK_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(tmp_path), wait_ready=True)
            first = await client.runs.create(session.session_id, "ask Which?", idempotency_key="k")
            again = await client.runs.create(session.session_id, "ask Which?", idempotency_key="k")
            assert again.run.run_id == first.run.run_id
            with pytest.raises(Conflict) as conflict:
                await client.runs.create(session.session_id, "ask What?", idempotency_key="k")
            assert conflict.value.reason == "IDEMPOTENCY_CONFLICT"
            question = await asked(client, first.run.run_id)
            for answers, content in (([], None), ([], b"{"), ([], b"[]"), ([["a"], ["b"]], None)):
                with pytest.raises(Invalid):
                    await client.questions.answer(question, answers, content_json=content)
            assert (await client.questions.list()).questions
            await client.questions.answer(question, content_json=b'{"answer": "this"}')
            ended = await client.runs.wait(first.run.run_id)
            assert ended.run.output.text == "You answered: this"


async def asked(client: AgentCtl, run_id: str) -> str:
    async for event in client.events(runs=[run_id]):
        if event.HasField("question_request"):
            return event.question_request.question_id
    raise AssertionError("nothing was asked")


@pytest.mark.proves("F9")
async def test_an_export_of_a_running_session_is_a_cut_at_one_place(tmp_path: Path) -> None:
    with anyio.fail_after(WORK_S):
        async with daemon(tmp_path) as served, served.client() as client:
            session = await client.sessions.create("demo", str(tmp_path), wait_ready=True)
            run = (await client.runs.create(session.session_id, "slow 300 4 || words 50")).run
            cuts = [
                await exported(client, session.session_id)
                async for event in client.events(runs=[run.run_id])
                if event.HasField("message_chunk") and event.seq % 60 == 0
            ]
            cuts.append(await exported(client, session.session_id))
            truth = {
                event.seq
                async for event in client.events(sessions=[session.session_id], follow=False)
            }
    assert len(cuts) > 3
    for rows in cuts:
        upto = int(rows[0]["cursor"].rpartition(":")[2])
        events = [row for row in rows if "seq" in row]
        assert {row["seq"] for row in events} == {seq for seq in truth if seq <= upto}
        ended = any(row["type"] == "complete" for row in events)
        (told,) = [row["data"] for row in rows if row["type"] == "run"]
        assert told["state"] == ("completed" if ended else "running")
    assert "complete" in {row["type"] for row in cuts[-1]}


async def exported(client: AgentCtl, session: str) -> list[dict[str, Any]]:
    data = b"".join([piece.data async for piece in client.sessions.export(session)])
    return [orjson.loads(line) for line in data.splitlines()]


def test_the_answer_of_a_page_is_a_message_of_the_api() -> None:
    for method in pages().values():
        assert hasattr(v1, method.output_type.name)
