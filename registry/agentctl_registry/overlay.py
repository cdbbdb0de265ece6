"""Makes the settings directory of an agent that takes some settings only from a file.

Owns `home: overlay` (the user's settings with ours laid over, credentials linked) and
`home: private` (ours alone). The user's own files are read and linked to, never written.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from agentctl.core.errors import DaemonFailed, Invalid
from agentctl.core.spec import Entry
from agentctl_registry import files
from agentctl_registry.jsonedit import dump
from agentctl_registry.models import OverlaySpec

# Strings are matched first, so that a // inside one is no comment.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


def prepare_home(
    entry: Entry, *, data_dir: Path, home: Path, base: Mapping[str, str]
) -> dict[str, str]:
    """Make or refresh the directory that the entry asks for.

    Args:
        data_dir: ours; the directory is made under it and stays, as the agent keeps sessions there.
        home: the user's home directory.
        base: the daemon's environment; the agent's own variable in it names the user's directory.

    Returns:
        The variables that lead the agent there; {} for `home: user`.

    Raises:
        Invalid: the entry has no protocol_config.overlay, or the user's settings are no JSON.
        DaemonFailed: the directory cannot be written.
    """
    if entry.home == "user":
        return {}
    given: Any = entry.protocol_config.get("overlay")
    if not given:
        raise Invalid(
            f"{entry.id}: home {entry.home} needs protocol_config.overlay, which says where the "
            "agent keeps its settings",
            reason="REGISTRY_INVALID",
            metadata={"entry": entry.id, "field": "protocol_config.overlay"},
        )
    spec = OverlaySpec.model_validate(given)
    root = data_dir / "homes" / f"{entry.id}-{entry.home}"
    target = root / spec.dir
    source = Path(base.get(spec.env) or home) / spec.dir
    settings = spec.settings
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.home == "overlay":
            settings = merge_settings(_read_settings(entry, source / spec.settings_file), settings)
            for name in spec.link:
                _link(source / name, target / name)
        text = dump(settings) + "\n"
        path = target / spec.settings_file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            files.replace(path, text)
    except OSError as error:
        raise DaemonFailed(f"{root} cannot be prepared: {error.strerror}") from error
    return {spec.env: str(root)}


def merge_settings(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `under`: objects key by key, everything else replaced."""
    merged = dict(under)
    for key, value in over.items():
        beneath: Any = merged.get(key)
        if isinstance(beneath, dict) and isinstance(value, dict):
            value = merge_settings(cast(dict[str, Any], beneath), cast(dict[str, Any], value))
        merged[key] = value
    return merged


def parse_settings(text: str) -> Any:
    """JSON as agents let people write it: comments and trailing commas are overlooked.

    Raises:
        ValueError: even so it is none.
    """
    bare = _COMMENT.sub(lambda match: match[1] or " ", text)
    return json.loads(_TRAILING_COMMA.sub(lambda match: match[1] or "", bare) or "{}")


def _read_settings(entry: Entry, path: Path) -> dict[str, Any]:
    try:
        settings: Any = parse_settings(files.read(path) or "{}")
    except (files.Unreadable, ValueError) as error:
        settings = error
    if isinstance(settings, dict):
        return cast(dict[str, Any], settings)
    raise Invalid(
        f"{entry.id}: its settings {path} cannot be used ({settings}); mend the file, or set home "
        "to user",
        metadata={"entry": entry.id, "file": str(path)},
    )


def _link(source: Path, target: Path) -> None:
    if target.is_symlink() and target.readlink() != source:
        target.unlink()
    if not target.exists() and not target.is_symlink() and source.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.symlink_to(source)
