"""The fakes themselves: the script language, the Gemini wire, cut connections and the MCP server."""

import http.client
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.fakes.mcp_server import answer, over_http
from tests.fakes.models import script
from tests.fakes.models.endpoint import Log, in_thread
from tests.fakes.models.gemini import GeminiEndpoint, conversation
from tests.fakes.models.http import serving
from tests.fakes.models.script import Fail, ModelTurn, Text, ToolResult, UserTurn, plan
from tests.real.harness import Model

REPOSITORY = Path(__file__).parents[2]
# Loopback answers in milliseconds; this only ends a fault.
TIMEOUT_S = 10.0


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


@pytest.fixture
def model(log_file: Path) -> Generator[Model]:
    with in_thread(GeminiEndpoint(Log(log_file))) as url:
        yield Model(url)


def post(model: Model, text: str, verb: str = "streamGenerateContent") -> tuple[int, bytes]:
    body = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [{"name": "mcp_local_shout"}]}],
    }
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=TIMEOUT_S)
    try:
        connection.request("POST", f"/v1beta/models/m:{verb}?alt=sse", json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def parts(stream: bytes) -> list[dict[str, Any]]:
    events = [json.loads(line[6:]) for line in stream.split(b"\r\n") if line.startswith(b"data: ")]
    return [part for event in events for part in event["candidates"][0]["content"]["parts"]]


def test_each_round_gets_its_step_and_the_rest_reports_the_last_result() -> None:
    user, call = UserTurn("SAYTEXT a || SAYTEXT b"), ModelTurn()
    first = ToolResult("one")
    both = [first, ToolResult("two")]

    assert plan([user]).ops == (Text("a"),)
    assert plan([user, call, first]).ops == (Text("b"),)
    assert plan([user, call, *both]).round == 1
    assert plan([user, call, *both, call, first]).ops == (Text("DONE: one"),)


def test_the_last_directive_of_the_last_text_that_has_one_is_the_script() -> None:
    turns = [UserTurn("SAY 1"), ModelTurn(), UserTurn("first\n  SAYTEXT x\nlast"), UserTurn("and?")]

    assert plan(turns).ops == (Text("x"),)
    assert plan([*turns, UserTurn("HISTORY")]).ops == (Text("HISTORY 3"),)


def test_any_text_and_any_split_into_chunks_can_be_written() -> None:
    chunks = ["a\u2028b", " ", "\n", ""]

    assert plan([UserTurn("SAYTEXT " + json.dumps(chunks))]).ops == tuple(map(Text, chunks))
    assert plan([UserTurn("SAYTEXT [not json ")]).ops == (Text("[not json "),)


@pytest.mark.parametrize("size", [1, 19, 300_000])
def test_a_big_text_has_exactly_the_size_asked_for(size: int) -> None:
    (text,) = plan([UserTurn(f"BIG {size}")]).ops

    assert isinstance(text, Text)
    assert len(text.text) == size


@pytest.mark.parametrize(
    "directive",
    [
        "SAY",
        "SLOW 1 0",
        "THINK",
        "TOOL ls",
        "TOOLS a ;; b",
        "WRITE p t",
        "EDIT p a b",
        "READ p",
        "TODO",
        "CALL x {}",
        "MCP shout t",
        "FAIL 500 1",
        "FAILMID",
        "HANG",
        "HANGMID",
        "FINISH SAFETY",
        "EMPTY",
        "PARTS",
    ],
)
def test_every_directive_is_known(directive: str) -> None:
    found = plan([UserTurn(directive)])

    assert found.steps == (directive,)
    assert found.ops


def test_a_failure_without_a_count_lasts_for_ever() -> None:
    assert plan([UserTurn("FAIL 429")]).ops == (Fail(429, None),)
    assert plan([UserTurn("FAIL 429 2")]).ops == (Fail(429, 2),)


def test_results_and_text_in_one_content_are_a_round_and_a_new_prompt() -> None:
    content = {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "x", "response": {"output": "done"}}},
            {"text": "SAY 1"},
            {"inlineData": {"mimeType": "image/png", "data": ""}},
        ],
    }

    assert conversation([content]) == [
        ToolResult("done"),
        script.UserTurn("SAY 1\n", ("text", "image")),
    ]


def test_the_log_holds_the_text_byte_for_byte_and_can_be_cleared(
    model: Model, log_file: Path
) -> None:
    _, stream = post(model, "SAYTEXT äöü")
    sent = "".join(part["text"] for part in parts(stream))

    assert sent == model.sent_text() == "äöü"
    assert json.loads(log_file.read_text())["sent_text"] == "äöü"
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=TIMEOUT_S)
    connection.request("POST", "/_reset")
    assert connection.getresponse().status == 200
    connection.close()
    assert model.log() == []


def test_a_cut_stream_ends_without_its_end(model: Model) -> None:
    with pytest.raises(http.client.IncompleteRead):
        post(model, "FAILMID")

    assert [turn["outcome"] for turn in model.log()] == ["cut"]
    assert model.sent_text() == "partial "


def test_a_failure_with_a_count_is_followed_by_success(model: Model) -> None:
    assert [post(model, "FAIL 503 1")[0] for _ in range(2)] == [503, 200]
    assert model.sent_text() == "recovered"


def test_an_answer_that_is_not_streamed_says_the_same(model: Model) -> None:
    _, whole = post(model, "MCP shout hello", "generateContent")
    _, stream = post(model, "MCP shout hello")

    (part,) = json.loads(whole)["candidates"][0]["content"]["parts"]
    assert part["functionCall"] == {"name": "mcp_local_shout", "args": {"text": "hello"}}
    assert parts(stream) == [part]


def test_an_unknown_path_is_refused_and_logged(model: Model) -> None:
    assert post(model, "SAY 1", "embedContent")[0] == 404
    assert [turn["outcome"] for turn in model.log()] == ["failed"]


@pytest.mark.anyio
async def test_a_client_that_leaves_a_silent_model_is_noticed(model: Model) -> None:
    with pytest.raises(TimeoutError):
        post_briefly(model, "HANG")

    await model.wait_for(lambda turns: [turn["outcome"] for turn in turns] == ["client_gone"])


def post_briefly(model: Model, text: str) -> None:
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": text}]}]})
    connection = http.client.HTTPConnection(urlsplit(model.url).netloc, timeout=0.1)
    try:
        connection.request("POST", "/v1beta/models/m:generateContent", body)
        connection.getresponse()
    finally:
        connection.close()


def test_an_endpoint_started_as_a_program_prints_where_it_listens() -> None:
    command = [sys.executable, "-m", "tests.fakes.models.gemini", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        log = Model(line.removeprefix("listening on ").strip()).log()
        process.terminate()

    assert line.startswith("listening on http://127.0.0.1:")
    assert log == []


def test_the_mcp_server_answers_a_line_for_a_line() -> None:
    call = {"name": "shout", "arguments": {"text": "loud"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
    ]
    finished = subprocess.run(
        [sys.executable, "-m", "tests.fakes.mcp_server"],
        cwd=REPOSITORY,
        input="\n".join(map(json.dumps, messages)),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    answers = [json.loads(line) for line in finished.stdout.split("\n") if line]

    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "LOUD"}]
    assert answers[2]["error"]["code"] == -32601


@pytest.mark.anyio
async def test_the_mcp_server_answers_over_http() -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    def ask(url: str) -> Any:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        try:
            connection.request("POST", "/mcp", json.dumps(request))
            return json.load(connection.getresponse())
        finally:
            connection.close()

    async with serving(over_http) as url:
        with anyio.fail_after(TIMEOUT_S):
            response = await anyio.to_thread.run_sync(ask, url)

    assert response == answer(request)
