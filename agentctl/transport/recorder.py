"""Owns the form of a transcript and its writing (`serve --record DIR`); knows no agent.

One JSON object a line: `{"t": ms, "dir": …, "msg": …}`, or `raw` for what was no JSON object. It is
what `agentctl replay` reads, and how bug reports travel: everything in it is redacted.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from agentctl.core.adapter import Frame

logger = logging.getLogger(__name__)

Redact = Callable[[str], str]


def line_of(t_ms: int, frame: Frame) -> dict[str, Any]:
    """The transcript line of a frame."""
    line: dict[str, Any] = {"t": t_ms}
    match frame.dir:
        case "stderr":
            line |= {"dir": "stderr", "msg": {"text": frame.raw or ""}}
        case "spawn" | "stdout_end" | "timer":
            line |= {"dir": "note", "msg": {"event": frame.dir}}
        case "exit":
            line |= {"dir": "note", "msg": {"event": "exit", **(frame.msg or {})}}
        case _ if frame.msg is None:
            line |= {"dir": frame.dir, "raw": frame.raw or ""}
        case _:
            line |= {"dir": frame.dir, "msg": frame.msg}
    return line


class Recorder:
    """Writes the transcript of one process. The loop never waits for the disk."""

    def __init__(self, path: Path, redact: Redact) -> None:
        self._path = path
        self._redact = redact
        self._start = time.monotonic()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def note_spawn(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """The start: argv, and the names of the environment without their values."""
        spawned = {"event": "spawn", "argv": list(argv), "env": dict.fromkeys(sorted(env), "")}
        self._put({"t": 0, "dir": "note", "msg": spawned})

    def __call__(self, frame: Frame) -> None:
        """The tap: takes a frame as it passes."""
        if frame.dir == "spawn":
            return
        t_ms = int((time.monotonic() - self._start) * 1000)
        self._put(line_of(t_ms, frame))
        if frame.dir == "exit":
            self._lines.put(None)

    def _put(self, line: dict[str, Any]) -> None:
        self._lines.put(orjson.dumps(line))

    def _write(self) -> None:
        try:
            with self._path.open("ab", buffering=0) as file:
                while (line := self._lines.get()) is not None:
                    cleaned = self._redact(line.decode("utf-8", "replace"))
                    file.write(cleaned.encode() + b"\n")
        except OSError:
            logger.exception("the transcript %s cannot be written", self._path)
