"""Owns what Claude Code has on disk of earlier conversations: their ids, titles and times.

Reads only the names and the first lines of its transcripts, in a thread. Knows no process.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from agentctl.core.adapter import NativeSession
from agentctl.core.ids import NativeSessionId
from agentctl_adapters.claude.content import blocks_of
from agentctl_adapters.common.shapes import Json, as_object, as_text

# Enough for the first prompt; transcripts hold whole files.
HEAD_BYTES = 65_536
TITLE_CHARS = 80
# A person looks at the newest ones; years of conversations are not read for that.
SESSIONS_LISTED = 500

_OTHER = re.compile(r"[^A-Za-z0-9]")


def projects(env: Mapping[str, str]) -> Path:
    """Where the transcripts of an agent with that environment are."""
    config = env.get("CLAUDE_CONFIG_DIR")
    root = Path(config) if config else Path(env.get("HOME", "~")).expanduser() / ".claude"
    return root / "projects"


def conversations(env: Mapping[str, str], cwd: str | None) -> Sequence[NativeSession]:
    """The stored conversations, of one directory or of all, the newest first."""
    root = projects(env)
    pattern = f"{_OTHER.sub('-', cwd)}/*.jsonl" if cwd else "*/*.jsonl"
    newest = sorted(_stamped(root.glob(pattern)), reverse=True)[:SESSIONS_LISTED]
    return [_described(path, stamp) for stamp, path in newest]


def _stamped(paths: Iterator[Path]) -> Iterator[tuple[int, Path]]:
    for path in paths:
        try:
            yield path.stat().st_mtime_ns // 1_000_000, path
        except OSError:
            continue


def _described(path: Path, stamp: int) -> NativeSession:
    cwd = title = ""
    for line in _head(path):
        cwd = cwd or as_text(line.get("cwd"))
        if as_text(line.get("summary")) and not title:
            title = as_text(line.get("summary"))
        if line.get("type") == "user" and not line.get("isMeta") and not title:
            blocks = blocks_of(as_object(line.get("message")).get("content"))
            title = next((b.text for b in blocks if b.text), "")
        if cwd and title:
            break
    title = " ".join(title.split())[:TITLE_CHARS]
    return NativeSession(NativeSessionId(path.stem), cwd, title, stamp)


def _head(path: Path) -> Iterator[Json]:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return
    for line in head.split(b"\n"):
        try:
            yield as_object(orjson.loads(line))
        except ValueError:
            continue
