"""The tool over HTTP: who comes in, what is answered, and events on a WebSocket."""

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentctl.core.errors import Invalid
from agentctl.gateway.tool import OpenCodeTool, http, serving
from agentctl.gateway.tool.config import Features, ToolConfig
from agentctl.gateway.tool.guard import TOKEN_NAME, token_of
from agentctl.gateway.tool.run import serve_http
from tests.gateway.tool.conftest import PATIENCE_S, Served, completes, ok, session, until

pytestmark = pytest.mark.anyio
Json = dict[str, Any]


@dataclass
class Site:
    """The tool at an address, and how to call it."""

    tool: OpenCodeTool
    url: str
    token: str
    client: httpx.AsyncClient
    sockets: str = field(init=False)

    def __post_init__(self) -> None:
        self.sockets = f"{self.url.replace('http', 'ws')}/events"

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    async def post(self, **request: Any) -> Json:
        told = await self.client.post("/tool", json=request, headers=self.bearer)
        assert told.status_code == 200, told.text
        return told.json()


@asynccontextmanager
async def site(
    served: Served, tmp_path: Path, *hosts: str, config: ToolConfig | None = None
) -> AsyncGenerator[Site]:
    """The tool at a free port, in this process."""
    listening = await anyio.to_thread.run_sync(serving.listen, "127.0.0.1:0")
    told: list[tuple[str, Path]] = []
    up = anyio.Event()

    def ready(url: str, token: Path) -> None:
        told.append((url, token))
        up.set()

    async def run(tool: OpenCodeTool) -> None:
        await serve_http(tool, listening, data_dir=tmp_path, hosts=hosts, ready=ready)

    with listening:
        async with served.tool(config) as tool, anyio.create_task_group() as group:
            group.start_soon(run, tool)
            with anyio.fail_after(PATIENCE_S):
                await up.wait()
            (url, file) = told[0]
            token = await anyio.Path(file).read_text()
            async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
                yield Site(tool, url, token.strip(), client)
            group.cancel_scope.cancel()


async def events(socket_: ClientConnection, count: int = 0) -> list[Json]:
    """So many events, or those up to the end of a turn."""
    rows: list[Json] = []
    with anyio.fail_after(PATIENCE_S):
        while not rows or (len(rows) < count if count else not completes(rows[-1])):
            rows.append(json.loads(await socket_.recv()))
    return rows


async def unheard(at: Site, found: str) -> None:
    """Waits until nobody hears a session any more."""
    with anyio.fail_after(PATIENCE_S):
        while (await at.post(action="attach_session", session_id=found))["subscribed"]:
            await anyio.lowlevel.checkpoint()


@pytest.mark.proves("TL1", "TL7")
async def test_a_call_is_answered_over_http(served: Served, tmp_path: Path) -> None:
    async with site(served, tmp_path) as at:
        made = await at.post(action="create_session", project=served.project("http"))
        assert made["success"] is True and made["status"] == "created"
        error = await at.post(action="nope")
        assert error["error"]["code"] == "INVALID_PARAMETERS"
        told = await at.client.get("/tool", headers=at.bearer)
        assert told.json()["properties"]["action"]["enum"][0] == "connect"
    assert (tmp_path / TOKEN_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.proves("TL7")
async def test_without_the_token_nothing_is_answered(served: Served, tmp_path: Path) -> None:
    async with site(served, tmp_path) as at:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": at.token}):
            for path, method in (("/tool", "POST"), ("/tool", "GET"), ("/nothing", "GET")):
                told = await at.client.request(method, path, headers=headers)
                assert told.status_code == 401 and told.headers["www-authenticate"] == "Bearer"
                assert told.json()["error"]["code"] == "PERMISSION_DENIED"
        told = await at.client.post(f"/tool?token={at.token}", json={"action": "get_stats"})
        assert told.status_code == 401, "a query is written into logs"


@pytest.mark.proves("TL7")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": ""}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:5173"}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:9"}, 200),
        ({"host": "tools.example", "origin": "https://tools.example"}, 200),
    ],
)
async def test_foreign_names_and_pages_are_turned_away(
    served: Served, tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    async with site(served, tmp_path, "tools.example") as at:
        told = await at.client.get("/tool", headers={**at.bearer, **headers})
        assert told.status_code == status
        if status != 200 and "origin" in headers:
            with pytest.raises(InvalidStatus) as caught:
                async with connect(at.sockets, additional_headers={**at.bearer, **headers}):
                    pass
            assert caught.value.response.status_code == status


@pytest.mark.proves("TL2")
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_object_is_refused(
    served: Served, tmp_path: Path, body: bytes
) -> None:
    async with site(served, tmp_path) as at:
        told = await at.client.post("/tool", content=body, headers=at.bearer)
        assert told.status_code == 400
        assert told.json()["error"]["code"] == "INVALID_PARAMETERS"


@pytest.mark.proves("TL7")
async def test_a_body_beyond_the_limit_is_not_read_to_its_end(
    served: Served, tmp_path: Path
) -> None:
    async with site(served, tmp_path) as at:
        told = await at.client.post("/tool", content=b"x" * (http.MAX_BODY + 1), headers=at.bearer)
        assert told.status_code == 413


@pytest.mark.proves("TL4", "TL7")
@pytest.mark.parametrize("way", ["header", "query", "subprotocol"])
async def test_events_come_to_whoever_has_the_token(
    served: Served, tmp_path: Path, way: str
) -> None:
    async with site(served, tmp_path) as at:
        found = await session(at.tool, served)
        url = f"{at.sockets}?session_id={found}"
        how: dict[str, Any] = {}
        match way:
            case "header":
                how["additional_headers"] = at.bearer
            case "query":
                url += f"&token={at.token}"
            case _:
                how["subprotocols"] = ["agentctl.tool", f"bearer.{at.token}"]
        async with connect(url, **how) as socket_:
            assert socket_.subprotocol == ("agentctl.tool" if way == "subprotocol" else None)
            attached = await at.post(action="attach_session", session_id=found)
            assert attached["subscribed"] is True
            await at.post(action="send_message", session_id=found, message="say hello")
            rows = await events(socket_)
        assert [row["type"] for row in rows] == ["agent.message", "agent.complete"]
        assert rows[0].keys() == {"type", "session_id", "content", "timestamp"}
        await unheard(at, found)


@pytest.mark.proves("TL7")
async def test_a_websocket_without_the_token_is_refused(served: Served, tmp_path: Path) -> None:
    async with site(served, tmp_path) as at:
        for url, protocols in (
            (at.sockets, None),
            (f"{at.sockets}?token=wrong", None),
            (at.sockets, ["agentctl.tool", "bearer.wrong"]),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(url, subprotocols=protocols):  # pyright: ignore[reportArgumentType]  plain words
                    pass
            assert caught.value.response.status_code == 401


@pytest.mark.proves("TL2")
async def test_a_websocket_for_no_session_or_no_cursor_is_refused(
    served: Served, tmp_path: Path
) -> None:
    async with site(served, tmp_path) as at:
        none = "session_id=ses_01m8pzzgkhfdpf9qedhs4tmg2q"
        for query, status, code in (
            (none, 404, "SESSION_NOT_FOUND"),
            ("after=nonsense", 400, "INVALID_PARAMETERS"),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with connect(f"{at.sockets}?{query}", additional_headers=at.bearer):
                    pass
            response = caught.value.response
            assert response.status_code == status
            assert json.loads(response.body or b"{}")["error"]["code"] == code


@pytest.mark.proves("TL6")
async def test_without_streaming_no_websocket_is_opened(served: Served, tmp_path: Path) -> None:
    config = ToolConfig(features=Features(streaming=False))
    async with site(served, tmp_path, config=config) as at:
        with pytest.raises(InvalidStatus) as caught:
            async with connect(at.sockets, additional_headers=at.bearer):
                pass
        assert caught.value.response.status_code == 403


@pytest.mark.proves("TL5")
async def test_a_websocket_that_breaks_goes_on_after_its_last_cursor(
    served: Served, tmp_path: Path
) -> None:
    async with site(served, tmp_path) as at:
        found = await session(at.tool, served)
        url = f"{at.sockets}?session_id={found}&after="
        async with connect(f"{url}now", additional_headers=at.bearer) as socket_:
            prompt = "plan || say one || run! true || say two"
            await at.post(action="send_message", session_id=found, message=prompt)
            (first,) = await events(socket_, 1)
        async with connect(f"{url}{first['cursor']}", additional_headers=at.bearer) as socket_:
            rest = await events(socket_)
        async with connect(url, additional_headers=at.bearer) as socket_:
            whole = await events(socket_)
        assert [first, *rest] == whole
        assert [row["type"] for row in whole] == [
            "agent.progress",
            "agent.message",
            "agent.command_run",
            "agent.message",
            "agent.complete",
        ]


def lazy(url: str) -> socket.socket:
    """A connection whose end takes little before its program reads."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    host, port = url.removeprefix("http://").split(":")
    made.connect((host, int(port)))
    made.setblocking(False)
    return made


LOUD = " || ".join(["big 200000", "run! true"] * 40)


@pytest.mark.proves("TL8")
async def test_a_slow_reader_holds_nobody_up_and_loses_nothing(
    served: Served, tmp_path: Path
) -> None:
    async with site(served, tmp_path) as at:
        found = await session(at.tool, served)
        url = f"{at.sockets}?session_id={found}&after=now"
        async with (
            connect(
                url,
                sock=lazy(at.url),
                max_queue=1,
                max_size=None,
                additional_headers=at.bearer,
            ) as slow,
            connect(url, max_size=None, additional_headers=at.bearer) as quick,
        ):
            await at.post(action="send_message", session_id=found, message=LOUD)
            everything = await events(quick)
            assert len(everything) == 81
            assert await events(slow) == everything


@pytest.mark.proves("TL8")
async def test_a_reader_who_is_gone_is_told_so_and_may_come_back(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PING_S", 0.2)
    monkeypatch.setattr(http, "SLOW_S", 1.0)
    async with site(served, tmp_path) as at:
        found = await session(at.tool, served)
        url = f"{at.sockets}?session_id={found}&after="
        async with connect(
            f"{url}now",
            sock=lazy(at.url),
            max_queue=1,
            max_size=None,
            additional_headers=at.bearer,
        ) as gone:
            await at.post(action="send_message", session_id=found, message=LOUD)
            async with connect(f"{url}now", max_size=None, additional_headers=at.bearer) as quick:
                last = (await events(quick))[-1]
            await unheard(at, found)
            heard: list[Json] = []
            with anyio.fail_after(PATIENCE_S), pytest.raises(ConnectionClosed) as closed:
                while True:
                    heard.append(json.loads(await gone.recv()))
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
            assert 0 < len(heard) < 81
        async with connect(
            f"{url}{heard[-1]['cursor']}", max_size=None, additional_headers=at.bearer
        ) as again:
            rest = await events(again)
        assert len(heard) + len(rest) == 81 and rest[-1] == last


async def test_a_call_that_waits_goes_on_when_its_caller_leaves(
    served: Served, tmp_path: Path
) -> None:
    async with site(served, tmp_path) as at:
        found = await session(at.tool, served)
        async with at.tool.events(found) as feed:
            request = {"session_id": found, "message": "slow 5 100", "wait_for_completion": True}
            with anyio.move_on_after(0.2):
                await at.post(action="send_message", **request)
            end = (await until(feed, completes))[-1]
        assert end["outcome"] == "success"
        assert (await ok(at.tool, action="get_status", session_id=found))["status"] == "active"


async def test_a_token_file_of_ones_own_must_be_long_enough(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(Invalid, match="cannot be read"):
        await token_of(file, tmp_path)
    await anyio.Path(file).write_text("short")
    with pytest.raises(Invalid, match="too short"):
        await token_of(file, tmp_path)
    await anyio.Path(file).write_text("a token that is long\n")
    assert await token_of(file, tmp_path) == ("a token that is long", file)
    made, _ = await token_of(None, tmp_path)
    assert (await token_of(None, tmp_path))[0] == made and len(made) >= 32


@pytest.mark.parametrize("address", ["here", ":80", "h:x", "127.0.0.1:99999", "203.0.113.1:80"])
def test_an_address_that_cannot_be_had_is_told(address: str) -> None:
    with pytest.raises(Invalid, match=r"HOST:PORT|Cannot listen"):
        serving.listen(address)


def test_an_address_in_use_is_told() -> None:
    with serving.listen("127.0.0.1:0") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Invalid, match="in use"):
            serving.listen(f"127.0.0.1:{port}")
