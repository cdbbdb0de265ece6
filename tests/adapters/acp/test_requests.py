"""What we say to an ACP agent: every word of it stands in the protocol's own schema."""

import base64
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from agentctl.core.adapter import Feature, PermissionAnswer, QuestionAnswer
from agentctl.core.errors import Invalid, Unsupported
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import Answer, ContentBlock
from agentctl.core.spec import Command, McpServer, PromptSpec
from agentctl.core.words import ContentType, Decision, QuestionOutcome
from agentctl_adapters.acp.handshake import ClientCapabilities, initialize, read_handshake
from agentctl_adapters.acp.requests import (
    mcp_servers,
    prompt_blocks,
    session_params,
)
from agentctl_adapters.common.forms import form_content
from agentctl_adapters.common.shapes import Json, request_key
from tests.adapters.acp.adapter_harness import demo, one_turn, puppet, running, spec, steps, text

MODELS: dict[str, Any] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/fork": schema.ForkSessionRequest,
    "session/list": schema.ListSessionsRequest,
    "session/close": schema.CloseSessionRequest,
    "session/delete": schema.DeleteSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
    "session/set_mode": schema.SetSessionModeRequest,
    "session/set_config_option": schema.SetSessionConfigOptionSelectRequest,
}
EVERYTHING = frozenset(
    {
        Feature.IMAGE,
        Feature.AUDIO,
        Feature.EMBEDDED_CONTEXT,
        Feature.MCP_HTTP,
        Feature.MCP_SSE,
        Feature.ADDITIONAL_DIRECTORIES,
    }
)
NOTHING: frozenset[str] = frozenset()
PNG = ContentBlock(ContentType.IMAGE, data=b"\x89PNG", mime_type="image/png", name="shot.png")
WAV = ContentBlock(ContentType.AUDIO, data=b"RIFF", mime_type="audio/wav")
FILE = ContentBlock(ContentType.FILE, path="/w/a b.txt", text="hello", mime_type="text/plain")
LINK = ContentBlock(ContentType.RESOURCE_LINK, uri="https://x/y.md", name="y", size=3)


def conforms(model: Any, params: Json) -> None:
    """Valid, and nothing in it that the schema does not know or had to repair."""
    read = model.model_validate(params)
    assert read.model_dump(by_alias=True, exclude_unset=True, mode="json") == params


@pytest.mark.anyio
async def test_all_that_is_sent_in_a_life_of_an_agent_conforms_to_the_schema(
    tmp_path: Path,
) -> None:
    servers = (McpServer("s", command="c", env={"A": "b"}), McpServer("h", "http", url="http://x"))
    full = spec(tmp_path, mcp_servers=servers, model="demo-smart", mode="auto")
    async with running(**demo(tmp_path)) as (connection, seen):
        session = await connection.new_session(full)
        await one_turn(connection, seen, session, PromptSpec(blocks=(PNG, FILE, LINK)))
        await connection.prompt(session, text("run true"))
        await connection.cancel(session)
        await seen.until(lambda: len(seen.ends()) == 2)
        await connection.authenticate("demo-login")
        fork = await connection.fork_session(session, full)
        await connection.resume_session(fork, full)
        await connection.list_sessions(str(tmp_path))
        await connection.close_session(fork)
        await connection.delete_session(fork)
    checked: set[str] = set()
    for message in [f.msg for f in seen.frames if f.dir == "to_agent"]:
        if "method" in message:
            conforms(MODELS[message["method"]], message["params"])
            checked.add(message["method"])
    assert checked == MODELS.keys() - {"session/load"}


@pytest.mark.anyio
async def test_all_that_is_answered_conforms_to_the_schema(tmp_path: Path) -> None:
    options = [{"optionId": "y", "name": "Y", "kind": "allow_once"}]
    schema_of = {"type": "object", "properties": {"a": {"type": "number"}}}
    asks = [
        [
            "request",
            "session/request_permission",
            {"toolCall": {"toolCallId": "t"}, "options": options},
        ],
        ["request", "elicitation/create", {"mode": "form", "requestedSchema": schema_of}],
    ]
    async with running(**puppet()) as (connection, seen):
        session = await connection.new_session(spec(tmp_path))
        await connection.prompt(session, steps(*asks))
        await seen.until(lambda: len(seen.asked()) == 1)
        await connection.answer_permission(
            seen.asked()[0], PermissionAnswer(Decision.APPROVED, "y")
        )
        await seen.until(lambda: len(seen.asked()) == 2)
        given = QuestionAnswer(QuestionOutcome.ANSWERED, (Answer(["1.5"]),))
        await connection.answer_question(seen.asked()[1], given)
        await seen.until(seen.ends)
    permission, question = (answer["result"] for answer in seen.answers())
    conforms(schema.RequestPermissionResponse, permission)
    conforms(schema.AcceptElicitationResponse, question)


@pytest.mark.parametrize(
    ("config", "fs", "terminal", "elicitation"),
    [
        ({}, (False, False), False, {"form": {}, "url": {}}),
        ({"fs": {"writeTextFile": True}}, (False, True), False, {"form": {}, "url": {}}),
        ({"terminal": True, "elicitation": {"form": {}}}, (False, False), True, {"form": {}}),
        ({"elicitation": False, "fs": {"readTextFile": True}}, (True, False), False, None),
    ],
)
def test_the_entry_decides_what_is_offered(
    config: Json, fs: tuple[bool, bool], terminal: bool, elicitation: Json | None
) -> None:
    offer = ClientCapabilities.from_config({"client_capabilities": config})
    params = initialize("1", offer)
    conforms(schema.InitializeRequest, params)
    sent = params["clientCapabilities"]
    assert (sent["fs"]["readTextFile"], sent["fs"]["writeTextFile"]) == fs
    assert sent["terminal"] is terminal
    assert sent.get("elicitation") == elicitation
    assert sent["session"] == {"configOptions": {"boolean": {}}}


def test_content_goes_out_in_full_where_the_agent_takes_it() -> None:
    blocks = prompt_blocks(PromptSpec(blocks=(PNG, WAV, FILE, LINK)), EVERYTHING)
    conforms(schema.PromptRequest, {"sessionId": "s", "prompt": blocks})
    image, audio, file, link = blocks
    assert base64.b64decode(image["data"]) == b"\x89PNG"
    assert audio["mimeType"] == "audio/wav"
    assert file["resource"] == {
        "uri": "file:///w/a%20b.txt",
        "text": "hello",
        "mimeType": "text/plain",
    }
    assert (link["uri"], link["name"], link["size"]) == ("https://x/y.md", "y", 3)


def test_a_file_becomes_a_link_or_text_where_content_is_not_taken() -> None:
    nameless = ContentBlock(ContentType.FILE, text="only text")
    diff = ContentBlock(ContentType.DIFF, diff="--- a\n+++ b\n", path="/w/a")
    blocks = prompt_blocks(PromptSpec(blocks=(FILE, nameless, diff)), NOTHING)
    assert blocks == [
        {
            "type": "resource_link",
            "uri": "file:///w/a%20b.txt",
            "name": "a%20b.txt",
            "mimeType": "text/plain",
        },
        {"type": "text", "text": "only text"},
        {"type": "text", "text": "--- a\n+++ b\n"},
    ]


def test_an_image_file_goes_out_as_an_image() -> None:
    file = ContentBlock(ContentType.FILE, path="/w/x.png", data=b"p", mime_type="image/png")
    assert prompt_blocks(PromptSpec(blocks=(file,)), EVERYTHING)[0]["type"] == "image"
    assert prompt_blocks(PromptSpec(blocks=(file,)), NOTHING)[0]["type"] == "resource_link"


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (PNG, "takes no image: leave shot.png out"),
        (WAV, "takes no audio"),
        (ContentBlock(ContentType.FILE, data=b"x", name="b.bin"), "path of b.bin"),
    ],
)
def test_content_that_the_agent_does_not_take_is_refused_by_its_name(
    block: ContentBlock, words: str
) -> None:
    with pytest.raises(Unsupported, match=words):
        prompt_blocks(PromptSpec(blocks=(block,)), NOTHING)


@pytest.mark.parametrize(
    "prompt",
    [
        PromptSpec(),
        PromptSpec(blocks=(ContentBlock(ContentType.TEXT, text=""),)),
        PromptSpec(blocks=(ContentBlock(ContentType.FILE),)),
        PromptSpec(blocks=(ContentBlock(ContentType.RESOURCE_LINK),)),
        PromptSpec(blocks=(ContentBlock(ContentType.TERMINAL),)),
        PromptSpec(blocks=(ContentBlock(ContentType.IMAGE),)),
    ],
)
def test_a_prompt_without_content_is_refused(prompt: PromptSpec) -> None:
    with pytest.raises(Invalid):
        prompt_blocks(prompt, EVERYTHING)


def test_a_command_comes_first_and_has_one_slash() -> None:
    prompt = PromptSpec(blocks=(LINK,), command=Command("/init", " now "))
    assert prompt_blocks(prompt, NOTHING)[0] == {"type": "text", "text": "/init  now"}
    with pytest.raises(Unsupported, match="output schemas"):
        prompt_blocks(PromptSpec(output_schema_json=b"{}"), NOTHING)


def test_ids_that_look_alike_are_different_requests() -> None:
    assert [request_key(i) for i in (0, "0", None, 2**70)] == ["0", '"0"', "null", str(2**70)]


def test_session_params_hold_directories_only_where_offered() -> None:
    asked = spec("/w", additional_directories=("/x",))
    params = session_params(asked, EVERYTHING, sessionId=NativeSessionId("s"))
    conforms(schema.LoadSessionRequest, params)
    assert params["additionalDirectories"] == ["/x"]


def test_an_sse_server_needs_an_agent_that_takes_it() -> None:
    server = McpServer("old", "sse", url="http://x")
    with pytest.raises(Unsupported, match="over sse: leave old out") as failure:
        mcp_servers((server,), frozenset({Feature.MCP_HTTP}))
    assert failure.value.metadata == {"mcp_server": "old"}


def test_a_form_takes_no_more_answers_than_it_has_questions() -> None:
    form = {"properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    assert form_content(form, [Answer([]), Answer(["2"])]) == {"b": 2.0}
    with pytest.raises(Invalid, match="3 answers"):
        form_content(form, [Answer(["1"])] * 3)
    with pytest.raises(Invalid, match="takes one value"):
        form_content(form, [Answer(["1", "2"])])


@pytest.mark.parametrize("answer", [None, [], "text", {"agentCapabilities": 7, "authMethods": {}}])
def test_a_strange_handshake_offers_nothing(answer: object) -> None:
    agent = read_handshake(answer)
    assert agent.features == {Feature.MANY_SESSIONS}
    assert agent.protocol_version is None
    assert agent.auth_methods == ()


def test_ways_to_log_in_in_a_terminal_are_found_wherever_they_are_told() -> None:
    methods = [
        {"id": "a", "type": "terminal", "args": ["login"]},
        {"id": "b", "_meta": {"type": "terminal", "args": ["--auth"]}},
        {"id": "c", "_meta": {"terminal-auth": {"command": "/bin/c", "args": ["in"]}}},
        {"id": "d", "name": "D"},
    ]
    agent = read_handshake({"protocolVersion": 1, "authMethods": methods}, ["agent", "--acp"])
    assert [method.run for method in agent.auth_methods] == [
        ("agent", "login"),
        ("agent", "--auth"),
        ("/bin/c", "in"),
        (),
    ]
