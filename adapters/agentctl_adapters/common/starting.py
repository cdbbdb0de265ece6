"""Owns what a failed start of an agent's process means to the caller; starts nothing itself."""

import contextlib
import errno
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import cast

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentctlError, AgentFailed, Refused
from agentctl.process.errors import SpawnFailed
from agentctl_adapters.common.failures import command_line


def not_started(launch: Launch, error: SpawnFailed) -> AgentctlError:
    """Refused AGENT_NOT_INSTALLED when there is no such program, else AgentFailed."""
    metadata = {"entry": launch.entry.id, "command": command_line(launch)}
    path = launch.env.get("PATH")
    missing = error.errno == errno.ENOENT and shutil.which(error.argv0, path=path) is None
    if missing and Path(error.cwd).is_dir():
        how = f": install it with `{launch.entry.install}`" if launch.entry.install else ""
        return Refused(
            f"{launch.entry.id} is not installed: {error.argv0}: {error.strerror}{how}",
            reason="AGENT_NOT_INSTALLED",
            metadata=metadata,
        )
    return AgentFailed(f"{launch.entry.id}: {error}", metadata=metadata)


@contextlib.contextmanager
def unpacked() -> Generator[None]:
    """A task group wraps what leaves it; callers are promised the error itself."""
    try:
        yield
    except BaseExceptionGroup as group:
        inner: BaseException = group
        while isinstance(inner, BaseExceptionGroup):
            held = list(cast("Sequence[BaseException]", inner.exceptions))
            if len(held) > 1:
                raise
            inner = held[0]
        raise inner from inner.__cause__
