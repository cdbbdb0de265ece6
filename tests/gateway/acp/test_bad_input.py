"""What a client may send that makes no sense: each is answered with the right code, and nothing breaks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo.driver import Json
from tests.gateway.acp.client import Client
from tests.gateway.acp.conftest import House

pytestmark = pytest.mark.proves("GA6")


@pytest.fixture(scope="module")
def steady(house: House) -> Iterator[Client]:
    """One client for all that is refused: it must survive it."""
    with Client("--agent", "demo", **house.env) as client:
        client.initialize()
        client.open(house.home)
        yield client
        assert "result" in client.turn("say still here")


def text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}]


def test_an_unknown_method_is_not_found(demo: Client) -> None:
    assert demo.call("session/dance")["error"]["code"] == -32601
    assert demo.call("_vendor/thing")["error"]["code"] == -32601
    demo.send({"method": "_vendor/told", "params": {}})
    assert "result" in demo.turn("say on")


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", {}),
        ("initialize", {"protocolVersion": "1"}),
        ("authenticate", {}),
        ("session/new", {"mcpServers": []}),
        ("session/new", {"cwd": "relative", "mcpServers": []}),
        ("session/new", {"cwd": "/tmp"}),
        ("session/new", {"cwd": "/tmp", "mcpServers": [{"name": "x"}]}),
        ("session/new", {"cwd": "/tmp", "mcpServers": [{"name": "x", "type": "acp"}]}),
        ("session/new", {"cwd": "/nowhere/at/all", "mcpServers": []}),
        ("session/new", {"cwd": "/tmp", "mcpServers": [], "additionalDirectories": ["x"]}),
        ("session/load", {"cwd": "/tmp", "mcpServers": []}),
        ("session/resume", {"sessionId": 7, "cwd": "/tmp"}),
        ("session/prompt", {"sessionId": "SELF"}),
        ("session/prompt", {"sessionId": "SELF", "prompt": []}),
        ("session/prompt", {"sessionId": "SELF", "prompt": "hello"}),
        ("session/prompt", {"sessionId": "SELF", "prompt": text("  ")}),
        ("session/prompt", {"sessionId": "SELF", "prompt": [{"type": "smell"}]}),
        ("session/prompt", {"sessionId": "SELF", "prompt": [{"type": "text"}]}),
        (
            "session/prompt",
            {"sessionId": "SELF", "prompt": [{"type": "image", "data": "?", "mimeType": "a/b"}]},
        ),
        (
            "session/prompt",
            {"sessionId": "SELF", "prompt": [{"type": "audio", "data": "é", "mimeType": "a/b"}]},
        ),
        (
            "session/prompt",
            {"sessionId": "SELF", "prompt": [{"type": "resource_link", "uri": "file://["}]},
        ),
        ("session/set_mode", {"sessionId": "SELF"}),
        ("session/set_mode", {"sessionId": "SELF", "modeId": "flying"}),
        ("session/set_model", {"sessionId": "SELF", "modelId": "no-such"}),
        ("session/set_config_option", {"sessionId": "SELF", "configId": "effort", "value": 3}),
        ("session/set_config_option", {"sessionId": "SELF", "configId": "no", "value": "x"}),
        ("session/set_config_option", {"sessionId": "SELF", "configId": "effort", "value": "no"}),
        ("session/list", {"cwd": "relative"}),
        ("session/list", {"cursor": "nonsense"}),
        ("session/new", [1, 2]),
    ],
)
def test_params_of_the_wrong_shape_are_refused(steady: Client, method: str, params: Any) -> None:
    if params and "SELF" in str(params):
        params["sessionId"] = steady.session_id
    error = steady.response(steady.request(method, params))["error"]
    assert error["code"] == -32602, error
    assert error["message"]


@pytest.mark.parametrize(
    "method",
    [
        "session/prompt",
        "session/load",
        "session/resume",
        "session/fork",
        "session/close",
        "session/set_mode",
    ],
)
def test_a_session_that_does_not_exist_is_not_found(steady: Client, method: str) -> None:
    params: Json = {
        "sessionId": "ses_none",
        "cwd": "/tmp",
        "mcpServers": [],
        "prompt": text("hello"),
        "modeId": "ask",
    }
    error = steady.call(method, **params)["error"]
    assert (error["code"], error["data"]["reason"]) == (-32002, "SESSION_NOT_FOUND")


def test_a_session_that_is_not_open_here_must_be_taken_up_first(
    demo: Client, connect: Callable[..., Client]
) -> None:
    other = connect("--agent", "demo")
    error = other.call("session/prompt", sessionId=demo.session_id, prompt=text("hello"))["error"]
    assert error["code"] == -32002
    assert "session/load" in error["message"]


def test_deleting_what_is_not_there_succeeds(demo: Client) -> None:
    assert demo.result("session/delete", sessionId="ses_none") == {}


def test_a_line_that_is_no_message_is_answered_and_the_next_one_works(demo: Client) -> None:
    demo.raw(b'{"jsonrpc": broken\n[{"jsonrpc":"2.0","id":1,"method":"x"}]\n"text"\n\n\n')
    assert [demo.refused() for _ in range(3)] == [-32700, -32600, -32600]
    assert "result" in demo.turn("say on")


def test_an_id_that_is_none_is_refused(demo: Client) -> None:
    demo.send({"id": 1.5, "method": "session/list", "params": {}})
    assert demo.refused() == -32600
    demo.send({"id": {"a": 1}, "method": "session/list", "params": {}})
    assert demo.refused() == -32600
    demo.send({"id": True, "method": "session/list", "params": {}})
    assert demo.refused() == -32600


def test_answers_to_nothing_are_left_alone(demo: Client) -> None:
    demo.send({"id": 99, "result": {}})
    demo.send({"id": "x", "error": {"code": 1, "message": "no"}})
    demo.send({"method": "session/cancel", "params": {"sessionId": "ses_none"}})
    demo.send({"method": "session/cancel"})
    demo.send({"method": "$/cancel_request", "params": {"requestId": 4242}})
    assert "result" in demo.turn("say on")


def test_a_client_must_introduce_itself_first(house: House) -> None:
    with Client("--agent", "demo", **house.env) as client:
        params: Json = {"cwd": "/tmp", "mcpServers": []}
        assert client.call("session/new", **params)["error"]["code"] == -32600
        # Whatever version is asked for, there is one.
        answer = client.result("initialize", protocolVersion=99)
        assert answer["protocolVersion"] == 1


def test_a_second_introduction_counts(connect: Callable[..., Client], workspace: Path) -> None:
    client = connect("--agent", "demo")
    client.initialize(elicitation={"form": {}})
    client.open(workspace)
    request = client.prompt("ask Which colour?")
    asked = client.asked("elicitation/create")
    client.answer(asked, {"action": "accept", "content": {"answer": "Red"}})
    client.response(request)
    assert client.text() == "You answered: Red"


def test_a_line_of_many_megabytes_is_taken_and_a_longer_one_is_refused(demo: Client) -> None:
    # The longest line that is taken is 64 MiB with all that stands around the text.
    assert "result" in demo.turn("say on" + " " * 60_000_000 + "off")
    assert demo.text().endswith("off")
    demo.raw(b" " * (65 << 20) + b"{}\n")
    assert demo.refused() == -32700
    assert "result" in demo.turn("say on")
