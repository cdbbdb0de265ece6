"""Sessions of the demo agent as JSON files, so that resume works after a crash.

Owns the files and their names. Knows neither the protocol's methods nor who runs a turn.
"""

import contextlib
import json
import os
import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

HOME_VARIABLE = "DEMO_AGENT_HOME"
KEPT_TEXT = 256 * 1024
_SESSION_ID = re.compile(r"demo-[a-z0-9]{1,64}")


@dataclass(slots=True)
class Saved:
    """One session: its settings and what a replay has to show."""

    session_id: str
    cwd: str
    mode: str
    model: str
    effort: str
    title: str | None = None
    turns: int = 0
    updated_at: str = ""
    updates: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def remember(self, update: dict[str, Any]) -> None:
        """Add an update to the history; text of one message is kept as one update."""
        message_id = update.get("messageId")
        if message_id is None or update["content"]["type"] != "text":
            self.updates.append(update)
            return
        text: str = update["content"]["text"]
        last = self.updates[-1] if self.updates else update
        if last is not update and last.get("messageId") == message_id:
            text = last["content"]["text"] + text[: KEPT_TEXT - len(last["content"]["text"])]
            last["content"] = {"type": "text", "text": text}
        else:
            self.updates.append({**update, "content": {"type": "text", "text": text[:KEPT_TEXT]}})


def new_session_id() -> str:
    """A fresh id; the time comes first, so that files sort by age."""
    return f"demo-{int(time.time() * 1000):x}{os.urandom(6).hex()}"


def home() -> Path:
    """Where sessions lie: $DEMO_AGENT_HOME, else the state directory of the user."""
    if chosen := os.environ.get(HOME_VARIABLE):
        return Path(chosen)
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "agentctl-demo"


class Store:
    """The directory of session files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()

    def save(self, saved: Saved) -> None:
        """Write one session; a reader sees the old file or the new one, never half.

        Raises:
            OSError: The directory cannot be written.
        """
        saved.updated_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        body = {name: getattr(saved, name) for name in Saved.__slots__}
        target = self._path(saved.session_id)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        text = json.dumps(body, ensure_ascii=False)
        with self._lock:
            scratch.write_text(text, encoding="utf-8", errors="replace")
            scratch.replace(target)

    def load(self, session_id: str) -> Saved | None:
        """One session, or None when there is none of that id (or its file is damaged)."""
        if not _SESSION_ID.fullmatch(session_id):
            return None
        try:
            body = json.loads(self._path(session_id).read_text(encoding="utf-8"))
            return Saved(**cast("dict[str, Any]", body))
        except (OSError, ValueError, TypeError):
            return None

    def delete(self, session_id: str) -> None:
        """Forget one session; an unknown one is no error."""
        if _SESSION_ID.fullmatch(session_id):
            with contextlib.suppress(FileNotFoundError):
                self._path(session_id).unlink()

    def all(self) -> list[Saved]:
        """Every readable session, the newest first."""
        names = sorted((p.stem for p in self._directory.glob("demo-*.json")), reverse=True)
        return [saved for name in names if (saved := self.load(name)) is not None]

    def _path(self, session_id: str) -> Path:
        return self._directory / f"{session_id}.json"
