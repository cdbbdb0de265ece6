"""What a server of ours is configured with, and what our requests say."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.adapter import Frame, PermissionAnswer
from agentctl.core.errors import Invalid
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import McpServer, PromptSpec
from agentctl.core.words import ContentType, Decision
from agentctl_adapters.opencode.bodies import InForce, mcp_config, new_id, order, part, reply
from agentctl_adapters.opencode.client import hidden
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.settings import (
    carried,
    denied_in_files,
    parse_jsonc,
    server_env,
    with_rules,
)
from tests.adapters.opencode.live import TOOLS, launch, text


def content(told: str = "", denied: frozenset[str] = frozenset(), **how: Any) -> dict[str, Any]:
    frames: list[Frame] = []
    env = {"OPENCODE_CONFIG_CONTENT": told} if told else {}
    made = server_env(launch(["x"], frames, env=env, **how), "secret", denied)
    return json.loads(made["OPENCODE_CONFIG_CONTENT"])


def test_a_home_without_any_rule_asks_for_edits_commands_and_fetches() -> None:
    permission = content()["permission"]

    assert permission == {"edit": "ask", "bash": "ask", "webfetch": "ask"}


def test_what_the_environment_configures_is_kept_and_only_added_to() -> None:
    told = {
        "model": "a/b",
        "permission": {"bash": {"git *": "allow"}, "edit": "deny", "read": "allow"},
        "agent": {"plan": {"model": "c/d"}},
    }
    made = content(json.dumps(told))

    assert made["model"] == "a/b"
    assert list(made["permission"]["bash"].items()) == [("*", "ask"), ("git *", "allow")]
    assert made["permission"]["edit"] == "deny"
    assert made["permission"]["read"] == "allow"
    assert made["permission"]["webfetch"] == "ask"
    assert made["agent"] == told["agent"]


def test_one_word_for_all_tools_stays_for_those_that_need_not_ask() -> None:
    made = with_rules({"permission": "allow"}, ["bash"])

    assert list(made["permission"].items()) == [("*", "allow"), ("bash", "ask")]


def test_agents_that_only_read_stay_so() -> None:
    agents = content()["agent"]

    assert agents["plan"]["permission"]["edit"]["*"] == "deny"
    assert agents["explore"]["permission"]["edit"] == "deny"
    own = {"agent": {"plan": {"permission": {"edit": "allow"}}}}
    assert content(json.dumps(own))["agent"]["plan"]["permission"]["edit"] == "allow"


def test_what_the_users_files_deny_is_not_loosened(tmp_path: Path) -> None:
    folder = tmp_path / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text(
        '{ // mine\n "permission": {"bash": {"*": "ask", "rm *": "deny",}, "edit": "deny",}, }'
    )
    (folder / "opencode.json").write_text("no json")
    denied = denied_in_files({"HOME": str(tmp_path)})

    assert denied == {"bash", "edit"}
    assert content(denied=denied)["permission"] == {"webfetch": "ask"}


def test_a_broken_configuration_is_named() -> None:
    with pytest.raises(Invalid, match="OPENCODE_CONFIG_CONTENT is no JSON object"):
        content("{oops")


def test_comments_and_trailing_commas_are_read_and_texts_left_alone() -> None:
    assert parse_jsonc('{"a": "http://x, }", /* b */ "c": [1, 2,], }') == {
        "a": "http://x, }",
        "c": [1, 2],
    }
    assert parse_jsonc("{") is None


def test_an_untrusted_workspace_gets_every_switch_there_is() -> None:
    env = server_env(launch(["x"], [], trust=False), "secret", frozenset())
    trusted = server_env(launch(["x"], []), "secret", frozenset())

    assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == env["OPENCODE_PURE"] == "1"
    assert "OPENCODE_PURE" not in trusted
    assert trusted["OPENCODE_SERVER_PASSWORD"] == "secret"


def test_without_tools_that_must_ask_nothing_is_configured() -> None:
    env = server_env(launch(["x"], [], tools_requiring_permission=()), "s", frozenset())

    assert "OPENCODE_CONFIG_CONTENT" not in env


def test_settings_are_found_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo/a/b"
    inner.mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    (tmp_path / "opencode.json").write_text("{}")
    (tmp_path / "repo/opencode.json").write_text("{}")
    (inner / ".opencode/agent").mkdir(parents=True)
    (inner / ".opencode/agent/x.md").write_text("x")
    found = carried(str(inner))

    assert found.settings == (str(inner / ".opencode/agent"), str(tmp_path / "repo/opencode.json"))
    assert found.code == ()


# Requests


def test_ids_sort_by_time_and_are_unlike() -> None:
    ids = [new_id("msg") for _ in range(50)]

    assert ids == sorted(ids)
    assert len(set(ids)) == 50
    assert all(own.startswith("msg_") for own in ids)


@pytest.mark.proves("A6")
def test_a_denial_always_has_words_and_a_cancel_has_none() -> None:
    assert reply(PermissionAnswer(Decision.APPROVED, "once")) == {"reply": "once"}
    assert reply(PermissionAnswer(Decision.APPROVED, "always")) == {"reply": "always"}
    assert reply(PermissionAnswer(Decision.APPROVED)) == {"reply": "once"}
    denied = reply(PermissionAnswer(Decision.DENIED, "reject"))
    assert denied == {"reply": "reject", "message": "User denied this tool use request"}
    assert reply(PermissionAnswer(Decision.DENIED, reason="no"))["message"] == "no"
    assert reply(PermissionAnswer(Decision.CANCELLED)) == {"reply": "reject"}
    assert "in time" in reply(PermissionAnswer(Decision.EXPIRED))["message"]


def test_content_becomes_parts_and_choices_go_along(tmp_path: Path) -> None:
    blocks = (
        ContentBlock(ContentType.TEXT, text="look"),
        ContentBlock(ContentType.IMAGE, data=b"x", mime_type="image/png"),
        ContentBlock(ContentType.FILE, path=str(tmp_path / "a.py")),
        ContentBlock(ContentType.RESOURCE, text="inline", uri="file:///z.txt", name="z.txt"),
    )
    schema = b'{"type":"object"}'
    prompt = PromptSpec(blocks=blocks, effort="high", output_schema_json=schema)
    body = order(prompt, InForce("p/m/x", "plan", "low")).body

    assert body["model"] == {"providerID": "p", "modelID": "m/x"}
    assert (body["agent"], body["variant"]) == ("plan", "high")
    assert body["messageID"].startswith("msg_")
    assert body["format"] == {"type": "json_schema", "schema": {"type": "object"}}
    first, image, file, inline = body["parts"]
    assert first["text"] == "look"
    assert image["url"] == "data:image/png;base64," + base64.b64encode(b"x").decode()
    assert file["url"] == (tmp_path / "a.py").as_uri()
    assert (file["filename"], inline["filename"]) == ("a.py", "z.txt")
    assert all(each["id"].startswith("prt_") for each in body["parts"])
    assert part(blocks[0])["id"] != part(blocks[0])["id"]


def test_commands_reviews_and_compactions_have_routes_of_their_own() -> None:
    assert order(text("only this", review=True), InForce()).body["command"] == "review"
    compact = order(PromptSpec(compact=True), InForce(), "p/m")
    assert (compact.route, compact.sync) == ("summarize", True)
    assert compact.body == {"providerID": "p", "modelID": "m"}


def test_mcp_servers_of_both_kinds_are_written_down() -> None:
    local = mcp_config(McpServer("a", command="x", args=("y",), env={"K": "v"}))
    remote = mcp_config(McpServer("b", "http", url="http://u", headers={"H": "v"}))

    assert local["command"] == ["x", "y"]
    assert local["environment"] == {"K": "v"}
    assert (remote["type"], remote["url"], remote["headers"]) == ("remote", "http://u", {"H": "v"})


def test_keys_environments_and_headers_never_enter_a_recording() -> None:
    told = {
        "providers": [{"key": "k", "options": {"apiKey": "k", "baseURL": "u"}}],
        "config": {"environment": {"A": "k"}, "headers": {"B": "k"}, "command": ["x"]},
    }

    assert "k" not in json.dumps(hidden(told)).replace("key", "").replace("apiKey", "").split('"')
    assert hidden(told)["config"]["command"] == ["x"]


def test_children_and_their_requests_belong_to_the_session_that_made_them() -> None:
    roster = Roster()
    roster.add("ses_1", "/w")
    child = {"id": "ses_2", "parentID": "ses_1"}
    made = {"type": "session.created", "properties": {"sessionID": "ses_2", "info": child}}
    asked = {"type": "permission.asked", "properties": {"id": "per_1", "sessionID": "ses_2"}}
    foreign = {"type": "session.idle", "properties": {"sessionID": "ses_9"}}

    assert roster.takes({"directory": "/w", "payload": made})
    assert roster.takes(asked)
    assert not roster.takes(foreign)
    assert not roster.takes({"type": "sync", "properties": {}})
    assert roster.roots[roster.asked["per_1"]] == "ses_1"
    assert roster.directory_of("ses_2") == "/w"
    roster.forget("ses_1")
    assert not roster.takes(asked)
    assert set(TOOLS) == {"edit", "bash", "webfetch"}
