"""Owns how the death of an agent's process is worded for the caller. Pure; knows no protocol.

Says what happened, to which agent, and what to do next.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentFailed

# A status of gRPC is at most 1 KiB: what is quoted of an agent stays well below.
QUOTED_CHARS = 300
TAIL_LINES_IN_MESSAGE = 3
TAIL_CHARS_IN_METADATA = 2_000


@dataclass(frozen=True, slots=True)
class Death:
    """How the process ended, as far as is known."""

    code: int | None = None
    signal: int | None = None
    stderr_tail: tuple[str, ...] = ()
    known: bool = False

    @property
    def how(self) -> str:
        if self.signal is not None:
            return f"was killed by signal {self.signal}"
        if self.code is not None:
            return f"exited with code {self.code}"
        return "ended" if self.known else "closed its output"


def command_line(launch: Launch) -> str:
    """The command as it could be typed, without secrets, shortened."""
    return quoted(launch.redact(shlex.join(launch.argv)))


def quoted(text: str, limit: int = QUOTED_CHARS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def death_error(launch: Launch, death: Death, doing: str, version: str = "") -> AgentFailed:
    """AgentFailed with command, exit code and the last words of stderr."""
    last = " | ".join(death.stderr_tail[-TAIL_LINES_IN_MESSAGE:])
    said = f": {quoted(last)}" if last else " and said nothing on stderr"
    return AgentFailed(
        f"{launch.entry.id} {death.how} {doing}{said}. Run it by hand to see why:"
        f" {command_line(launch)}",
        metadata=facts(launch, death, version),
    )


def handshake_timeout(
    launch: Launch, deadline_s: float, death: Death, version: str, kind: str
) -> AgentFailed:
    """AgentFailed for a silent process; `kind` says what the command should have started."""
    last = " | ".join(death.stderr_tail[-TAIL_LINES_IN_MESSAGE:])
    said = f"; its last words: {quoted(last)}" if last else ""
    return AgentFailed(
        f"{launch.entry.id} ({version or 'version unknown'}) did not answer initialize within"
        f" {deadline_s:g} s and was killed: check that this command starts {kind}:"
        f" {command_line(launch)}{said}",
        metadata=facts(launch, death, version),
    )


def facts(launch: Launch, death: Death, version: str) -> Mapping[str, str]:
    """What an error about a launch tells a program."""
    known = {"entry": launch.entry.id, "command": command_line(launch), "version": version}
    if death.code is not None:
        known["exit_code"] = str(death.code)
    if death.signal is not None:
        known["signal"] = str(death.signal)
    known["stderr"] = "\n".join(death.stderr_tail)[-TAIL_CHARS_IN_METADATA:]
    return {name: value for name, value in known.items() if value}
