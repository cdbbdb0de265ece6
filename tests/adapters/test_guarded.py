"""While a rule of ours may say no, Codex and Claude Code are opened so that they ask, whatever the mode."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentctl.core.spec import Entry, SessionSpec
from agentctl.core.words import ToolKind
from agentctl_adapters.claude.launching import Conversation, arguments
from agentctl_adapters.codex import params
from tests.adapters.claude.claude_harness import Seen, launch
from tests.adapters.claude.claude_harness import spec as claude_spec

pytestmark = pytest.mark.proves("A10")

FILES = (ToolKind.DELETE, ToolKind.EDIT, ToolKind.MOVE)


@pytest.mark.parametrize(
    ("mode", "default", "sandbox"),
    [
        ("never-ask", "", "workspace-write"),
        ("read-only", "", "read-only"),
        (None, "auto", "workspace-write"),
        (None, "", None),
    ],
)
def test_codex_asks_always_and_keeps_the_sandbox_of_its_mode(
    mode: str | None, default: str, sandbox: str | None
) -> None:
    entry = Entry(id="codex", protocol="codex")
    spec = SessionSpec(entry_id="codex", workspace="/w", mode=mode, guarded=FILES)
    told = params.thread(spec, entry, default)
    assert (told["approvalPolicy"], told.get("sandbox")) == ("untrusted", sandbox)
    free = params.thread(SessionSpec(entry_id="codex", workspace="/w", mode=mode), entry, default)
    assert free.get("approvalPolicy") != "untrusted"


def claude_settings(tmp_path: Path, config: dict[str, Any], *guarded: ToolKind) -> dict[str, Any]:
    made = launch(("claude",), tmp_path, Seen(), config=config)
    argv = arguments(made, claude_spec(tmp_path, guarded=guarded), Conversation("n"))
    (told,) = [each.partition("=")[2] for each in argv if each.startswith("--settings=")]
    return json.loads(told)


def test_claude_asks_for_the_tools_that_a_rule_may_mean(tmp_path: Path) -> None:
    assert "ask" not in claude_settings(tmp_path, {}).get("permissions", {})
    told = claude_settings(tmp_path, {}, *FILES)
    assert told["permissions"]["ask"] == ["Edit", "Write", "NotebookEdit"]
    assert told["permissions"]["disableAutoMode"] == "disable"
    config = {"settings": {"permissions": {"ask": ["WebFetch"], "deny": ["Read(.env)"]}}}
    told = claude_settings(tmp_path, config, ToolKind.EXECUTE)
    assert told["permissions"] == {"ask": ["WebFetch", "Bash"], "deny": ["Read(.env)"]}
