"""Calls and answers find each other, writes keep their order, and death fails every call."""

import asyncio
from typing import Any

import anyio
import orjson
import pytest

from agentctl.process.errors import ClosedByPeer
from agentctl.transport.jsonrpc import Peer, PeerGone, RpcError, parse
from agentctl.transport.stdio import open_stdio
from tests.process.children import PATIENCE_S, python

pytestmark = pytest.mark.anyio


class Wire:
    """Collects what a peer sends; can be closed, or made to hold a write back."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.tapped: list[object] = []
        self.closed = False
        self.gate = anyio.Event()
        self.gate.set()
        self.peer = Peer(self.send, tap=self.tap)

    async def send(self, line: bytes) -> None:
        await self.gate.wait()
        if self.closed:
            raise ClosedByPeer("stdin is closed")
        assert b"\n" not in line
        self.sent.append(orjson.loads(line))

    def tap(self, direction: str, message: object) -> None:
        assert direction == "to_agent"
        self.tapped.append(message)

    def hold(self) -> None:
        self.gate = anyio.Event()


async def test_a_call_returns_its_result() -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        id_, future = wire.peer.start_request("a", {"x": 1})
        assert wire.sent == []
        await wire.peer.flush()
        assert wire.sent == [{"jsonrpc": "2.0", "id": id_, "method": "a", "params": {"x": 1}}]
        assert wire.tapped == wire.sent
        assert wire.peer.open_requests == 1
        assert wire.peer.resolve({"jsonrpc": "2.0", "id": id_, "result": {"y": 2}})
        assert await future == {"y": 2}
        assert wire.peer.open_requests == 0
        assert not wire.peer.resolve({"jsonrpc": "2.0", "id": id_, "result": {"y": 3}})


async def test_a_started_call_is_sent_without_anybody_waiting() -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        wire.peer.start_request("a")
        await anyio.wait_all_tasks_blocked()
    assert [message["method"] for message in wire.sent] == ["a"]


async def test_a_refusal_carries_code_message_and_data() -> None:
    wire = Wire()
    id_, future = wire.peer.start_request("a")
    error = {"code": 429, "message": "slow down", "data": {"after": 5}}
    assert wire.peer.resolve({"id": id_, "error": error})
    with pytest.raises(RpcError) as caught:
        await future
    assert (caught.value.code, caught.value.message) == (429, "slow down")
    assert caught.value.data == {"after": 5}


@pytest.mark.parametrize("error", ["text", {"message": None}, {"code": "x"}, [], 5])
async def test_a_malformed_refusal_is_still_a_refusal(error: object) -> None:
    wire = Wire()
    id_, future = wire.peer.start_request("a")
    assert wire.peer.resolve({"id": id_, "error": error})
    with pytest.raises(RpcError) as caught:
        await future
    assert caught.value.code == -32603


async def test_a_null_error_beside_a_result_is_no_refusal() -> None:
    wire = Wire()
    id_, future = wire.peer.start_request("a")
    assert wire.peer.resolve({"id": str(id_), "error": None, "result": 7})
    assert await future == 7


@pytest.mark.parametrize("id_", [0, None, "abc", "0", 1, 2**53])
async def test_their_ids_go_back_as_they_came_and_never_meet_ours(id_: object) -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        own, future = wire.peer.start_request("ours")
        assert not wire.peer.resolve({"jsonrpc": "2.0", "id": own, "method": "theirs"})
        await wire.peer.respond(id_, None)
        await wire.peer.respond_error(id_, -32601, "no such method", {"m": "theirs"})
    assert wire.sent[1] == {"jsonrpc": "2.0", "id": id_, "result": None}
    assert wire.sent[2] == {
        "jsonrpc": "2.0",
        "id": id_,
        "error": {"code": -32601, "message": "no such method", "data": {"m": "theirs"}},
    }
    assert not future.done()


@pytest.mark.parametrize("id_", [None, True, 1.5, "x", [1], {"a": 1}, 99])
async def test_answers_to_nothing_match_nothing(id_: object) -> None:
    wire = Wire()
    _, future = wire.peer.start_request("a")
    assert not wire.peer.resolve({"id": id_, "result": 1})
    assert not future.done()


async def test_messages_are_tapped_and_written_in_the_order_of_the_calls() -> None:
    wire = Wire()
    wire.hold()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(wire.peer.notify, f"n{n}")
                await anyio.wait_all_tasks_blocked()
            wire.peer.start_request("prompt")
            group.start_soon(wire.peer.notify, "cancel")
            await anyio.wait_all_tasks_blocked()
            assert len(wire.tapped) == 1
            wire.gate.set()
    assert wire.tapped == wire.sent
    assert [m["method"] for m in wire.sent] == [*(f"n{n}" for n in range(20)), "prompt", "cancel"]


async def test_a_call_that_times_out_is_forgotten() -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        with pytest.raises(TimeoutError):
            await wire.peer.request("a", timeout_s=0.01)
        assert wire.peer.open_requests == 0
        assert not wire.peer.resolve({"id": wire.sent[0]["id"], "result": 1})


async def test_a_call_cancelled_before_it_was_written_is_never_written() -> None:
    wire = Wire()
    wire.hold()
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(wire.peer.notify, "first")
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                await wire.peer.request("gone")
            with anyio.move_on_after(0.01):
                await wire.peer.respond(5, "stays")
            wire.gate.set()
        await wire.peer.flush()
    assert [m.get("method") or m["id"] for m in wire.sent] == ["first", 5]


async def test_an_answer_can_be_queued_without_waiting_for_the_pipe() -> None:
    wire = Wire()
    wire.hold()
    with anyio.fail_after(PATIENCE_S):
        wire.peer.queue_result("x", {"y": 1})
        wire.peer.queue_error(0, -32601, "no such method")
        assert wire.sent == []
        wire.gate.set()
        await wire.peer.flush()
    result = {"jsonrpc": "2.0", "id": "x", "result": {"y": 1}}
    error = {"code": -32601, "message": "no such method"}
    assert wire.sent == [result, {"jsonrpc": "2.0", "id": 0, "error": error}]
    wire.peer.fail_all(PeerGone("it died"))
    with pytest.raises(PeerGone):
        wire.peer.queue_result("x", {})


async def test_cancelling_a_started_call_forgets_it() -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        _, future = wire.peer.start_request("a")
        future.cancel()
        await anyio.wait_all_tasks_blocked()
    assert wire.sent == []
    assert wire.peer.open_requests == 0


@pytest.mark.proves("P6")
async def test_death_fails_every_waiting_call_and_every_later_one() -> None:
    wire = Wire()
    with anyio.fail_after(PATIENCE_S):
        _, unseen = wire.peer.start_request("nobody waits")
        _, first = wire.peer.start_request("a")
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with pytest.raises(PeerGone, match="exit code 41"):
                    await wire.peer.request("b")

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            wire.peer.fail_all(RuntimeError("exit code 41"))
        with pytest.raises(PeerGone, match="exit code 41"):
            await first
        assert unseen.done()
        with pytest.raises(PeerGone):
            await wire.peer.notify("late")
        with pytest.raises(PeerGone):
            wire.peer.start_request("late")


async def test_a_closed_pipe_is_told_to_the_sender() -> None:
    wire = Wire()
    wire.closed = True
    with anyio.fail_after(PATIENCE_S):
        with pytest.raises(PeerGone, match="stdin"):
            await wire.peer.request("a")
        with pytest.raises(PeerGone, match="stdin"):
            await wire.peer.notify("b")
        _, future = wire.peer.start_request("c")
        with pytest.raises(PeerGone):
            await future


async def test_lone_surrogates_and_big_numbers_can_be_sent() -> None:
    lines: list[bytes] = []

    async def send(line: bytes) -> None:
        lines.append(line)

    peer = Peer(send, tap=lambda _direction, _message: None)
    await peer.notify("a", {"text": "\ud83d", "number": 2**80})
    assert lines == [
        b'{"jsonrpc":"2.0","method":"a","params":{"text":"\\ud83d","number":%d}}' % 2**80
    ]


@pytest.mark.proves("P9")
@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"5", b'"text"', b"[]", b"[1]", b'[{"id":1}]', b"{}", b'{"a":1}', b"{", b"npm",
     b"\xff\xfe", b"{" * 100_000, b'{"a":' * 100_000, b"true", b'{"level":"info","msg":"hi"}'],
)  # fmt: skip
def test_what_is_no_message_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_messages_are_parsed_whatever_else_they_hold() -> None:
    assert parse(b'{"id":0,"result":null}') == {"id": 0, "result": None}
    assert parse(b' {"method":"x","params":{"a":[1]}} ') == {"method": "x", "params": {"a": [1]}}
    assert parse(b'{"id":1,"result":"a\xffb"}') == {"id": 1, "result": "a\ufffdb"}
    assert parse(b'{"id":1,"result":["\\ud83d"]}') == {"id": 1, "result": ["\ufffd"]}
    assert parse('{"id":1,"result":"\u2028"}'.encode()) == {"id": 1, "result": "\u2028"}


ECHO = """
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": message["params"]}
        sys.stdout.write(json.dumps(answer) + "\\n")
        sys.stdout.flush()
"""


async def test_messages_of_5_mb_go_both_ways_beside_small_ones() -> None:
    with anyio.fail_after(PATIENCE_S):
        async with open_stdio(python(ECHO)) as transport:
            peer = Peer(transport.send, tap=lambda _direction, _message: None)
            big = "x" * 5_000_000
            _, first = peer.start_request("a", [big])
            calls = [peer.start_request("b", [n])[1] for n in range(100)]
            while peer.open_requests:
                for line in await transport.receive():
                    assert isinstance(line, bytes)
                    message = parse(line)
                    assert message is not None
                    assert peer.resolve(message)
            assert await first == [big]
            assert await asyncio.gather(*calls) == [[n] for n in range(100)]
