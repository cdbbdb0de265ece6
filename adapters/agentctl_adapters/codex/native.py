"""Owns what is to be known of an installed Codex before it is started: its program, its home.

npm's `codex` is a script of Node's that stays as the parent of the real program, and whose death leaves
that one alive. What is read here is the file system; nothing is started.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

_SCRIPT_HEAD_BYTES = 128
KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")
"""Variables that other ways to run Codex take a key from; the app-server reads none of them."""
_TEMPORARY = "/tmp"
_STORE = "cli_auth_credentials_store"


def native_argv(argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """The argv with the program itself in the place of its script, where it can be found."""
    found = shutil.which(argv[0], path=env.get("PATH"))
    if found is None:
        return tuple(argv)
    script = Path(found).resolve()
    if not _is_script(script):
        return tuple(argv)
    program = _program(script.parent.parent)
    return tuple(argv) if program is None else (str(program), *argv[1:])


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_SCRIPT_HEAD_BYTES).startswith(b"#!") and path.suffix == ".js"
    except OSError:
        return False


def _program(package: Path) -> Path | None:
    """The program of @openai/codex: in a package of its own beside or below it, or in itself."""
    roots = [
        package,
        *package.parent.glob("codex-*"),
        *package.glob("node_modules/@openai/codex-*"),
    ]
    found = [path for root in roots for path in root.glob("vendor/*/bin/codex")]
    return next((path for path in found if os.access(path, os.X_OK)), None)


def home_of(env: Mapping[str, str]) -> Path:
    """Where Codex keeps its settings, login and conversations."""
    told = env.get("CODEX_HOME")
    return Path(told) if told else Path(env.get("HOME", "/")) / ".codex"


def is_temporary(home: Path, env: Mapping[str, str]) -> bool:
    """Whether Codex takes its home for a temporary one, where its sandbox refuses to work."""
    temporary = Path(env.get("TMPDIR") or _TEMPORARY).resolve()
    return temporary in (home.resolve(), *home.resolve().parents)


def key_of(env: Mapping[str, str]) -> str | None:
    """The name of the variable that holds a key, when no login can be under this home."""
    home = home_of(env)
    if (home / "auth.json").exists() or _STORE in _read(home / "config.toml"):
        return None
    return next((name for name in KEYS if env.get(name)), None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
