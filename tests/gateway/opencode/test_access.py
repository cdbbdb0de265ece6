"""Who gets in: the password, web pages of other sites, names that lie, bodies that are too large."""

import base64
import re
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentctl.core.errors import DaemonFailed, Invalid
from agentctl.gateway.opencode import serving
from agentctl.gateway.opencode.app import ROUTES
from agentctl.gateway.opencode.guard import Access, Guard, is_loopback
from agentctl.gateway.opencode.serving import Options
from tests.gateway.opencode.live import Live, live

PASSWORD = "pässword: with colon"
TOKEN = base64.b64encode(f"opencode:{PASSWORD}".encode()).decode()
Json = dict[str, Any]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("g"), password=PASSWORD) as running:
        yield running


@pytest.mark.proves("GO3")
@pytest.mark.parametrize(("method", "path"), [(m, p) for m, p, _ in ROUTES])
def test_no_route_answers_without_the_password(locked: Live, method: str, path: str) -> None:
    url = locked.url + re.sub(r"\{\w+\}", "x", path)
    for auth in (None, ("opencode", "wrong"), ("somebody", PASSWORD)):
        answer = httpx.request(method, url, auth=auth)
        assert answer.status_code == 401
        assert answer.json() == {"error": "Unauthorized"}
        assert answer.headers["www-authenticate"] == 'Basic realm="agentctl"'


@pytest.mark.proves("GO3")
def test_the_password_opens_in_the_header_and_in_the_query(locked: Live) -> None:
    health = f"{locked.url}/global/health"
    assert httpx.get(health, headers={"authorization": f"Basic {TOKEN}"}).status_code == 200
    assert httpx.get(health, params={"auth_token": TOKEN}).status_code == 200
    assert httpx.get(health, params={"auth_token": TOKEN.rstrip("=")}).status_code == 200
    assert httpx.get(health, params={"auth_token": "nonsense"}).status_code == 401
    assert httpx.get(health, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 401
    assert httpx.get(health, headers={"authorization": "Basic ***"}).status_code == 401
    assert httpx.get(f"{locked.url}/nowhere").status_code == 401
    assert httpx.options(health).status_code == 204
    with locked.events() as events:
        assert events.seen[0]["type"] == "server.connected"


# Without a server: the guard alone


def client(access: Access, max_body: int = 1 << 20) -> httpx.AsyncClient:
    async def echo(request: Request) -> Response:
        return JSONResponse({"size": len(await request.body())})

    inner = Starlette(routes=[Route("/", echo, methods=["GET", "POST"])])
    transport = httpx.ASGITransport(Guard(inner, access, max_body))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:4096")


ORIGINS = [
    ("http://localhost:3000", True),
    ("http://127.0.0.1", True),
    ("https://[::1]:8443", True),
    ("http://app.localhost:1", True),
    ("https://good.example", True),
    ("https://evil.example", False),
    ("http://localhost.evil.example", False),
    ("http://127.0.0.1.evil.example", False),
    ("null", False),
    ("file://", False),
    ("http://[::1", False),
]


@pytest.mark.anyio
@pytest.mark.proves("GO3")
@pytest.mark.parametrize(("origin", "allowed"), ORIGINS)
async def test_only_pages_of_this_machine_and_named_ones_may_call(
    origin: str, allowed: bool
) -> None:
    async with client(Access(origins=["https://good.example"])) as http:
        told = {"origin": origin}
        got = await http.post("/", headers=told, content=b"{}")
        asked = await http.options("/", headers=told)
    assert got.status_code == (200 if allowed else 403)
    assert asked.status_code == (204 if allowed else 403)
    for answer in (got, asked):
        assert answer.headers.get("access-control-allow-origin") == (origin if allowed else None)
    if allowed:
        assert asked.headers["access-control-allow-methods"] == (
            "GET, POST, PUT, PATCH, DELETE, OPTIONS"
        )
        allowed_headers = asked.headers["access-control-allow-headers"]
        for name in ("Content-Type", "Authorization", "x-opencode-directory", "x-opencode-sync"):
            assert name in allowed_headers
        exposed = got.headers["access-control-expose-headers"]
        assert exposed == "x-opencode-sync, x-next-cursor, link"
    else:
        assert origin in got.json()["error"]


@pytest.mark.anyio
@pytest.mark.proves("GO3")
async def test_a_foreign_page_is_refused_with_the_password_as_well() -> None:
    async with client(Access(password="p")) as http:
        answer = await http.get(
            "/", headers={"origin": "https://evil.example"}, auth=("opencode", "p")
        )
    assert answer.status_code == 403


@pytest.mark.anyio
@pytest.mark.proves("GO3")
async def test_a_refused_page_of_this_machine_can_read_why() -> None:
    async with client(Access(password="p")) as http:
        answer = await http.get("/", headers={"origin": "http://localhost:1"})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == "http://localhost:1"


HOSTS = [
    ("localhost:4096", True),
    ("127.0.0.1:4096", True),
    ("[::1]:4096", True),
    ("box.lan:4096", True),
    ("rebound.evil.example:4096", False),
    ("127.0.0.1.evil.example", False),
    ("[::1", False),
    ("", False),
]


@pytest.mark.anyio
@pytest.mark.proves("GO3")
@pytest.mark.parametrize(("host", "allowed"), HOSTS)
async def test_a_foreign_name_of_this_address_is_refused_where_no_password_is_set(
    host: str, allowed: bool
) -> None:
    hosts = frozenset({"box.lan"})
    async with client(Access(hosts=hosts)) as http:
        answer = await http.get("/", headers={"host": host})
        assert answer.status_code == (200 if allowed else 403)
    async with client(Access(password="p", hosts=hosts)) as http:
        locked = await http.get("/", headers={"host": host}, auth=("opencode", "p"))
        assert locked.status_code == 200


@pytest.mark.anyio
@pytest.mark.proves("GO2")
async def test_a_body_is_taken_up_to_the_limit_and_not_a_byte_further() -> None:
    async with client(Access(), max_body=1000) as http:
        assert (await http.post("/", content=b"x" * 1000)).json() == {"size": 1000}
        answer = await http.post("/", content=b"x" * 1001)
        assert answer.status_code == 413 and "MB" in answer.json()["error"]


def test_an_address_is_known_as_this_machines_own() -> None:
    own = ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]")
    assert all(map(is_loopback, own))
    foreign = ("0.0.0.0", "::", "192.168.1.1", "example.com", "", "127.0.0.1.example.com")
    assert not any(map(is_loopback, foreign))


# The start


@pytest.mark.proves("GO3")
@pytest.mark.parametrize("hostname", ["0.0.0.0", "::", "192.168.7.7", "box.lan"])
def test_an_address_that_others_reach_needs_a_password(hostname: str) -> None:
    with pytest.raises(Invalid, match="set a password"):
        Options(hostname=hostname).check()
    Options(hostname=hostname, password="p").check()


@pytest.mark.proves("GO3")
def test_leave_for_every_web_page_needs_a_password() -> None:
    with pytest.raises(Invalid, match="set a password"):
        Options(origins=["*"]).check()
    Options(origins=["*"], password="p").check()


@pytest.mark.proves("GO3")
def test_the_password_of_the_environment_is_not_left_to_the_agents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", "from the environment")
    monkeypatch.setenv("OPENCODE_SERVER_USERNAME", "me")
    told = serving.options(cors="https://a.example, https://b.example")
    assert (told.username, told.password) == ("me", "from the environment")
    assert told.origins == ["https://a.example", "https://b.example"]
    import os

    assert "OPENCODE_SERVER_PASSWORD" not in os.environ
    monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", "from the environment")
    assert serving.options(password="told", username="you").password == "told"


@pytest.mark.anyio
async def test_a_taken_port_is_said_to_be_taken() -> None:
    first = serving.listen(Options(port=0))
    try:
        port = first.getsockname()[1]
        with pytest.raises(DaemonFailed, match=f"port {port}"):
            await anyio.to_thread.run_sync(serving.listen, Options(port=port))
        assert serving.url_of(first, Options()) == f"http://127.0.0.1:{port}"
    finally:
        first.close()


@pytest.mark.parametrize(("password", "warned"), [("", True), ("p", False)])
def test_the_start_says_where_it_is_and_warns_when_it_is_open(password: str, warned: bool) -> None:
    lines: list[str] = []
    serving.announce(Options(password=password), "http://127.0.0.1:4096", lines.append)
    assert lines[-1] == "opencode server listening on http://127.0.0.1:4096\n"
    assert any(line.startswith("Warning: OPENCODE_SERVER_PASSWORD") for line in lines) is warned
