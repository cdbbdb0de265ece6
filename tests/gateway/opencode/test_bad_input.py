"""What clients send wrongly: it is refused with the reason, and the next request works."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.gateway.opencode.live import Live

Json = dict[str, Any]
BAD_BODIES = [
    (b"{", "Invalid JSON"),
    (b"not json", "Invalid JSON"),
    (b"\xff\xfe", "Invalid JSON"),
    (b"[]", "The body must be a JSON object"),
    (b'"text"', "The body must be a JSON object"),
    (b"{}}", "Invalid JSON"),
]
BAD_PROMPTS: list[tuple[Json, str]] = [
    ({"parts": "x", "model": 7}, "model must be"),
    ({"parts": [7]}, "each part must be"),
    ({"parts": [{"type": "text"}]}, "needs a text"),
    ({"parts": [{"type": "subtask", "prompt": "x"}]}, "subtask are not supported"),
    ({"parts": [{"type": "file"}]}, "needs a url"),
    ({"parts": [{"type": "file", "url": "data:image/png;base64,@@@"}]}, "cannot be read"),
    ({"parts": [{"type": "file", "url": "http://["}]}, "cannot be read"),
    ({"parts": [{"type": "agent", "name": "x"}]}, "No message content"),
    ({"parts": 7}, "parts must be a list"),
    ({"prompt": "x", "agent": 7}, "agent must be a string"),
    ({"prompt": "x", "agent": "nobody"}, "Agent not found: nobody"),
    ({"prompt": "x", "agent": "plan2"}, "Agent not found"),
    ({"prompt": "x", "model": "nobody/x"}, "Provider not found: nobody"),
    ({"prompt": "x", "messageID": 7}, "messageID must start with msg"),
    ({"prompt": "x", "system": "be kind"}, "system is not supported"),
    ({"prompt": "x", "tools": {"bash": False}}, "tools cannot be switched off"),
]


@pytest.fixture(scope="module")
def session(server: Live) -> str:
    return server.session()


@pytest.mark.proves("GO2")
@pytest.mark.parametrize(("data", "words"), BAD_BODIES)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/session"),
        ("PATCH", "/config"),
        ("POST", "/session/{}/message"),
        ("POST", "/session/{}/prompt_async"),
        ("PATCH", "/session/{}"),
        ("POST", "/permission/per_x/reply"),
        ("POST", "/question/que_x/reply"),
        ("POST", "/log"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    server: Live, session: str, method: str, path: str, data: bytes, words: str
) -> None:
    answer = server.http.request(method, server.url + path.format(session), content=data)
    assert (answer.status_code, answer.json()) == (400, {"error": words})


@pytest.mark.proves("GO2")
@pytest.mark.parametrize(("body", "words"), BAD_PROMPTS)
def test_a_prompt_that_cannot_be_meant_is_refused_with_the_reason(
    server: Live, session: str, body: Json, words: str
) -> None:
    for path in ("message", "prompt_async"):
        answer = server.call("POST", f"/session/{session}/{path}", body)
        assert answer.status_code == 400 and words in answer.json()["error"], answer.text
    assert server.say(session, "say still here")["parts"][0]["text"] == "still here"


@pytest.mark.proves("GO2")
@pytest.mark.parametrize(
    "own",
    [
        "x",
        "task_1",
        "ses_",
        "ses_..",
        "..%2f..%2fetc",
        "ses_%00",
        "%F0%9F%92%A9",
        "s" * 3000,
        "00000",
    ],
)
def test_a_session_that_is_none_is_not_found(server: Live, session: str, own: str) -> None:
    answer = server.call("GET", f"/session/{own}")
    assert (answer.status_code, {*answer.json()}) == (404, {"error"})
    tail = session[-6:]
    assert server.call("GET", f"/session/{tail}").status_code == 404
    assert server.call("POST", f"/session/{own}/abort").status_code == 404


@pytest.mark.proves("GO2")
@pytest.mark.parametrize("directory", ["/no/such/place", "/etc/passwd", "a\0b", "x" * 5000])
@pytest.mark.parametrize(
    "path", ["/session", "/path", "/vcs", "/project/current", "/event", "/mcp"]
)
def test_a_directory_that_is_none_is_refused(server: Live, path: str, directory: str) -> None:
    answer = server.call("GET", path, params={"directory": directory})
    assert answer.status_code == 400 and "directory" in answer.json()["error"]


@pytest.mark.proves("GO2")
@pytest.mark.parametrize("limit", ["-1", "1.5", "x", "9" * 5000])
def test_a_limit_that_is_no_number_is_refused(server: Live, session: str, limit: str) -> None:
    for path in ("/session", f"/session/{session}/message", "/experimental/session"):
        answer = server.call("GET", path, params={"limit": limit})
        assert answer.status_code == 400 and "limit must be a number" in answer.json()["error"]


@pytest.mark.proves("GO2")
def test_a_hundred_megabytes_are_refused_and_never_held(server: Live, session: str) -> None:
    piece = b"x" * (1 << 20)
    before = psutil.Process(os.getpid()).memory_info().rss

    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield piece

    size = str(100 << 20)
    for headers in ({"content-length": size}, {}):
        url = f"{server.url}/session/{session}/message"
        answer = server.http.post(url, content=body(), headers=headers)
        assert answer.status_code == 413 and "larger than 16 MB" in answer.json()["error"]
    assert psutil.Process(os.getpid()).memory_info().rss - before < 64 << 20
    assert server.say(session, "say fine")["parts"][0]["text"] == "fine"


@pytest.mark.proves("GO2")
def test_a_client_that_leaves_in_the_middle_stops_nothing(server: Live) -> None:
    own = server.session()
    parts = urlsplit(server.url)
    told = json.dumps({"parts": [{"type": "text", "text": "slow 20 20 || say whole"}]})
    head = f"POST /session/{own}/message HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(told)}\r\n\r\n"
    with server.events() as events:
        with socket.create_connection((parts.hostname, parts.port)) as raw:
            raw.sendall((head + told).encode())
            events.until("session.status", sessionID=own)
        events.idle(own)
    last = server.get(f"/session/{own}/message")[-1]
    assert last["info"]["time"]["completed"] and "error" not in last["info"]
    assert last["parts"][0]["text"].startswith("the quick brown")


@pytest.mark.proves("GO2")
def test_a_client_that_leaves_its_event_stream_disturbs_nobody(server: Live) -> None:
    own = server.session()
    with server.events() as stays:
        with server.events() as leaves:
            server.begin(own, "slow 30 20")
            leaves.until("session.status", sessionID=own)
        assert stays.idle(own)


@pytest.mark.proves("GO2")
def test_half_a_request_holds_nothing_up(server: Live) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port)) as raw:
        raw.sendall(b"POST /session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        assert server.get("/global/health")["healthy"] is True
    with socket.create_connection((parts.hostname, parts.port)) as raw:
        raw.sendall(b"NONSENSE\r\n\r\n")
        assert b" 400 " in raw.recv(1000)
    assert server.get("/global/health")["healthy"] is True


@pytest.mark.proves("GO2")
def test_half_a_body_is_never_taken_for_a_whole_one(server: Live) -> None:
    own = server.session(title="Stays")
    parts = urlsplit(server.url)
    head = f"PATCH /session/{own} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as raw:
        raw.sendall(head.encode() + b'{"title": "Half"}')
    server.say(own, "say x")
    assert server.get(f"/session/{own}")["title"] == "Stays"


@pytest.mark.proves("GO2")
def test_many_clients_at_once_are_all_answered(server: Live, session: str) -> None:
    answers: list[int] = []

    def ask() -> None:
        with httpx.Client(timeout=30) as http:
            answers.extend(
                http.get(f"{server.url}{path}").status_code for path in ("/agent", "/session")
            )

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert answers == [200] * 40
