"""What a body asks for: content, who answers, rules. Without a server."""

from typing import Any

import orjson
import pytest

from agentctl import v1
from agentctl.gateway.opencode import prompts
from agentctl.gateway.opencode.errors import HttpError
from agentctl.gateway.opencode.prompts import Choice
from agentctl.rpc.jsonview import to_dict

Json = dict[str, Any]

FILES: list[tuple[Json, Json]] = [
    (
        {"url": "data:image/png;base64,aGk=", "filename": "x.png"},
        {"type": "image", "data": "aGk=", "mime_type": "image/png", "name": "x.png"},
    ),
    (
        {"url": "data:audio/wav;base64,aGk="},
        {"type": "audio", "data": "aGk=", "mime_type": "audio/wav"},
    ),
    (
        {"url": "data:text/plain;base64,aGk=", "filename": "a.txt"},
        {
            "type": "resource",
            "text": "hi",
            "mime_type": "text/plain",
            "uri": "file:///a.txt",
            "name": "a.txt",
        },
    ),
    (
        {"url": "data:application/json,%7B%7D", "mime": "application/json"},
        {"type": "resource", "text": "{}", "mime_type": "application/json"},
    ),
    (
        {"url": "data:application/pdf;base64,aGk="},
        {"type": "resource", "data": "aGk=", "mime_type": "application/pdf"},
    ),
    (
        {"url": "file:///srv/w/a%20b.txt", "mime": "text/plain"},
        {
            "type": "resource_link",
            "uri": "file:///srv/w/a%20b.txt",
            "name": "a b.txt",
            "mime_type": "text/plain",
        },
    ),
    (
        {"url": "https://example.com/x"},
        {"type": "resource_link", "uri": "https://example.com/x", "name": "https://example.com/x"},
    ),
]


@pytest.mark.proves("GO2")
@pytest.mark.parametrize(("part", "block"), FILES)
def test_a_file_of_a_prompt_reaches_the_agent_as_what_it_is(part: Json, block: Json) -> None:
    (made,) = prompts.content({"parts": [{"type": "file", **part}]})
    assert to_dict(made) == block


@pytest.mark.proves("GO2")
@pytest.mark.parametrize("url", ["data:image/png;base64,@@@", "data:nothing", "data:x;base64,a"])
def test_a_data_url_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(HttpError) as caught:
        prompts.content({"parts": [{"type": "file", "url": url}]})
    assert caught.value.status == 400


CHOICES: list[tuple[Json, Choice]] = [
    ({}, Choice()),
    ({"agent": "demo", "variant": "high"}, Choice("demo", variant="high")),
    ({"model": "demo/a/b"}, Choice("", "demo", "a/b")),
    ({"model": "a"}, Choice("", "", "a")),
    ({"model": {"providerID": "demo", "modelID": "x"}}, Choice("", "demo", "x")),
    (
        {"model": {"providerID": "demo", "id": "x", "variant": "low"}},
        Choice("", "demo", "x", "low"),
    ),
    ({"providerID": "demo", "modelID": "x", "variant": "default"}, Choice("", "demo", "x")),
]


@pytest.mark.parametrize(("body", "wanted"), CHOICES)
def test_who_is_meant_is_read_in_every_form(body: Json, wanted: Choice) -> None:
    assert prompts.choice(body) == wanted


def test_the_last_rule_of_a_client_is_the_first_of_ours() -> None:
    told = [
        {"permission": "*", "pattern": "*", "action": "deny"},
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "bash", "pattern": "git *", "action": "allow"},
        {"permission": "edit", "pattern": "src/**", "action": "allow"},
        {"permission": "read", "pattern": "/etc/*", "action": "deny"},
        {"permission": "doom_loop", "pattern": "*", "action": "ask"},
    ]
    rules, policy = prompts.rules({"permission": told}, "/srv/w")
    assert policy == "deny"
    assert [to_dict(rule) for rule in rules] == [
        {"rule_id": "", "kind": "read", "decision": "deny", "path_pattern": "/etc/*"},
        {"rule_id": "", "kind": "edit", "decision": "allow", "path_pattern": "/srv/w/src/**"},
        {"rule_id": "", "kind": "execute", "decision": "allow", "command_pattern": "git *"},
        {"rule_id": "", "kind": "execute", "decision": "ask"},
    ]
    whole = {"permission": "*", "pattern": "*", "action": "allow"}
    assert prompts.rules({"permission": [told[1], whole]}, "/srv/w") == ([], "allow")


def test_a_schema_goes_to_the_agent_and_other_formats_do_not() -> None:
    schema = {"type": "object"}
    told = prompts.output_schema({"format": {"type": "json_schema", "schema": schema}})
    assert told is not None and orjson.loads(told) == schema
    assert prompts.output_schema({"format": {"type": "text"}}) is None
    assert prompts.output_schema({}) is None


def test_a_text_is_a_prompt_in_every_place() -> None:
    for body in ({"parts": ["x"]}, {"prompt": "x"}, {"message": {"type": "text", "text": "x"}}):
        (block,) = prompts.content(body)
        assert (block.type, block.text) == (v1.ContentType.CONTENT_TYPE_TEXT, "x")
