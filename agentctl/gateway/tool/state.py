"""Owns what the tool remembers between processes: connections, and which session is whose.

One small JSON file, written by many processes: each change is made under a lock, on what the file
holds at that moment. No token is ever in it. Everything here blocks.
"""

import fcntl
import json
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

logger = logging.getLogger(__name__)

MAX_SESSIONS = 2_000
"""Sessions whose instance is remembered; the oldest go first, and are then looked for."""


@dataclass(slots=True)
class Connected:
    """An instance that `connect` made. `token`: it was given one, which is not kept."""

    url: str
    token: bool = False


@dataclass(slots=True)
class State:
    """What is remembered."""

    connected: dict[str, Connected] = field(default_factory=dict[str, Connected])
    disconnected: set[str] = field(default_factory=set[str])
    sessions: dict[str, str] = field(default_factory=dict[str, str])

    def remember(self, session_id: str, instance: str) -> None:
        self.sessions.pop(session_id, None)
        self.sessions[session_id] = instance
        while len(self.sessions) > MAX_SESSIONS:
            del self.sessions[next(iter(self.sessions))]

    def forget_instance(self, name: str) -> None:
        """Its sessions are another server's from now on."""
        self.sessions = {key: value for key, value in self.sessions.items() if value != name}


class Memory:
    """State in this process only (`state_persistence: false`)."""

    def __init__(self) -> None:
        self._state = State()

    def read(self) -> State:
        return self._state

    def change(self, how: Callable[[State], None]) -> None:
        how(self._state)


class StateFile:
    """State in a file, 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> State:
        """What the file holds; nothing when it is absent or no state of ours."""
        try:
            return _parse(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return State()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning(
                "%s holds no state of the tool and is written anew: %s", self._path, error
            )
            return State()

    def change(self, how: Callable[[State], None]) -> None:
        """Changes what the file holds at this moment.

        Where it cannot be written the log says so, and what was done stays done.
        """
        try:
            self._change(how)
        except OSError as error:
            logger.warning(
                "%s cannot be written, other processes will not know this: %s", self._path, error
            )

    def _change(self, how: Callable[[State], None]) -> None:
        with self._lock():
            state = self.read()
            how(state)
            data = json.dumps(_document(state), indent=1).encode()
            draft = self._path.with_suffix(".tmp")
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            draft.replace(self._path)

    @contextmanager
    def _lock(self) -> Generator[None]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self._path.with_suffix(".lock")
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _parse(told: Any) -> State:
    connected: Mapping[str, Any] = told["connected"]
    sessions: Mapping[str, Any] = told["sessions"]
    return State(
        connected={
            name: Connected(str(each["url"]), bool(each.get("token")))
            for name, each in connected.items()
        },
        disconnected={str(name) for name in cast(list[Any], told["disconnected"])},
        sessions={key: str(value) for key, value in sessions.items()},
    )


def _document(state: State) -> dict[str, Any]:
    return {
        "version": 1,
        "connected": {
            name: {"url": each.url, "token": each.token} for name, each in state.connected.items()
        },
        "disconnected": sorted(state.disconnected),
        "sessions": state.sessions,
    }
