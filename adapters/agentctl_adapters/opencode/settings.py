"""Owns the environment of a server that we start: its password, its permission rules, its trust.

Nothing that the user or the entry configured is replaced, and no file of theirs is written. It reads
their configuration only to learn what they deny. Starts nothing.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from agentctl.core.adapter import Launch
from agentctl.core.errors import Invalid
from agentctl_adapters.opencode.shapes import as_object

USER = "opencode"
CONTENT = "OPENCODE_CONFIG_CONTENT"
ASK, DENY = "ask", "deny"
# What a workspace may bring, as far as the server has switches for it; its plugins it always imports.
UNTRUSTED = {
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_PURE": "1",
}
# Agents that only read: a general rule that edits may be asked for would let them write.
_READERS: Mapping[str, Any] = {
    "plan": {
        "*": DENY,
        ".opencode/plans/*.md": "allow",
        "*/.local/share/opencode/plans/*.md": "allow",
    },
    "explore": DENY,
}
_EDIT = "edit"
_FILES = ("opencode.json", "opencode.jsonc", "config.json")
_CARRIED = (
    "plugin",
    "plugins",
    "agent",
    "agents",
    "command",
    "commands",
    "tool",
    "tools",
    "skill",
    "skills",
    "mode",
    "modes",
)
_JSONC = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)
_CONFIG_BYTES = 1_000_000


def server_env(launch: Launch, password: str, denied: frozenset[str]) -> dict[str, str]:
    """The whole environment of the server.

    Args:
        denied: tools that the user's own files deny (see `denied_in_files`).

    Raises:
        Invalid: OPENCODE_CONFIG_CONTENT of the entry or the environment is no JSON object.
    """
    env = dict(launch.env)
    if not launch.trust_workspace:
        env.update(UNTRUSTED)
    env |= {"OPENCODE_SERVER_USERNAME": USER, "OPENCODE_SERVER_PASSWORD": password}
    tools = [tool for tool in launch.entry.tools_requiring_permission if tool not in denied]
    if tools:
        told = env.get(CONTENT, "")
        env[CONTENT] = orjson.dumps(with_rules(_content(launch, told), tools)).decode()
    return env


def with_rules(config: Mapping[str, Any], tools: Iterable[str]) -> dict[str, Any]:
    """The configuration with an `ask` rule for each tool of which it says nothing itself."""
    told = dict(config)
    permission = told.get("permission")
    rules: dict[str, Any] = (
        {"*": permission} if isinstance(permission, str) else dict(as_object(permission))
    )
    for tool in tools:
        known = rules.get(tool)
        if known is None:
            rules[tool] = ASK
        elif isinstance(known, dict) and "*" not in known:
            # The last rule that fits wins: theirs stay stronger.
            rules[tool] = {"*": ASK, **cast(dict[str, Any], known)}
    told["permission"] = rules
    if rules.get(_EDIT) == ASK:
        told["agent"] = _readers_kept(as_object(told.get("agent")))
    return told


def _readers_kept(agents: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(agents)
    for name, rule in _READERS.items():
        agent = dict(as_object(kept.get(name)))
        permission = agent.get("permission")
        if isinstance(permission, str):
            continue
        agent["permission"] = {_EDIT: rule, **as_object(permission)}
        kept[name] = agent
    return kept


def _content(launch: Launch, text: str) -> Mapping[str, Any]:
    if not text.strip():
        return {}
    config = parse_jsonc(text)
    if not isinstance(config, dict):
        raise Invalid(
            f"{launch.entry.id}: {CONTENT} is no JSON object: correct it in the env of the entry, or "
            "in the environment",
            metadata={"entry": launch.entry.id, "field": f"env.{CONTENT}"},
        )
    return cast(dict[str, Any], config)


def parse_jsonc(text: str) -> object:
    """JSON with comments and trailing commas; None when it is none."""
    plain = _JSONC.sub(lambda m: m[0] if m[0].startswith('"') else " ", text)
    try:
        return orjson.loads(plain)
    except ValueError:
        return None


def denied_in_files(env: Mapping[str, str]) -> frozenset[str]:
    """The tools that the user's own configuration files deny, wholly or in part. Blocking.

    An `ask` of ours would come after such a rule and loosen it.
    """
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/"), ".config"), "opencode")
    places = [home / name for name in _FILES]
    if file := env.get("OPENCODE_CONFIG"):
        places.append(Path(file))
    if folder := env.get("OPENCODE_CONFIG_DIR"):
        places += [Path(folder, name) for name in _FILES]
    denied: set[str] = set()
    for place in places:
        rules = as_object(as_object(_read(place)).get("permission"))
        denied |= {tool for tool, rule in rules.items() if _denies(rule)}
    return frozenset(denied)


def _denies(rule: object) -> bool:
    return rule == DENY or DENY in as_object(rule).values()


def _read(path: Path) -> object:
    try:
        if path.stat().st_size > _CONFIG_BYTES:
            return None
        return parse_jsonc(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Carried:
    """What a workspace brings for OpenCode: settings, and code that is run when it is opened."""

    settings: tuple[str, ...] = ()
    code: tuple[str, ...] = ()


def carried(workspace: str) -> Carried:
    """Looks from the workspace up to the root of its repository. Blocking."""
    settings: list[str] = []
    code: list[str] = []
    for folder in _upward(Path(workspace)):
        own = folder / ".opencode"
        files = [folder / _FILES[0], folder / _FILES[1], *(own / name for name in _FILES)]
        settings += [str(file) for file in files if os.path.lexists(file)]
        for name in _CARRIED:
            if _filled(own / name):
                where = code if name.startswith(("plugin", "tool")) else settings
                where.append(str(own / name))
    return Carried(tuple(settings), tuple(code))


def _upward(workspace: Path) -> Iterable[Path]:
    for folder in (workspace, *workspace.parents):
        yield folder
        if os.path.lexists(folder / ".git"):
            return
        if folder == folder.parent or not _in_repository(folder.parent):
            return


def _in_repository(folder: Path) -> bool:
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))


def _filled(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
