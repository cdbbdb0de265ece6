"""Owns the typed Python client: `AgentCtl`, its objects, its errors, and nothing of grpc in sight."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# grpc's fork handlers cost each spawn and can hang a child; they are read once, when grpc loads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Its C core writes what we raise as errors a second time, to stderr, in words for its own authors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from agentctl.client.api import AgentCtl
from agentctl.client.channel import Unreachable
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    CallerError,
    Conflict,
    DaemonFailed,
    Exhausted,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unsupported,
)

if TYPE_CHECKING:
    from agentctl.client.agent import Agent
    from agentctl.client.artifact import Artifact
    from agentctl.client.asking import Approval, Question
    from agentctl.client.environment import Environment, Task
    from agentctl.client.event import Event
    from agentctl.client.params import Image, Resource, RunParams
    from agentctl.client.results import ArtifactSummary, Message, RunResult
    from agentctl.client.run import Run
    from agentctl.client.session import Session
    from agentctl.client.toolspace import Tool, ToolSpace

# Loaded when they are first named: the command line starts faster without them.
_LATER = {
    "Agent": "agent",
    "Approval": "asking",
    "Artifact": "artifact",
    "ArtifactSummary": "results",
    "Environment": "environment",
    "Event": "event",
    "Image": "params",
    "Message": "results",
    "Question": "asking",
    "Resource": "params",
    "Run": "run",
    "RunParams": "params",
    "RunResult": "results",
    "Session": "session",
    "Task": "environment",
    "Tool": "toolspace",
    "ToolSpace": "toolspace",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


__all__ = [
    "Agent",
    "AgentCtl",
    "AgentFailed",
    "AgentctlError",
    "Approval",
    "Artifact",
    "ArtifactSummary",
    "CallerError",
    "Conflict",
    "DaemonFailed",
    "Environment",
    "Event",
    "Exhausted",
    "Image",
    "Invalid",
    "Message",
    "NotFound",
    "Question",
    "Refused",
    "Resource",
    "Run",
    "RunParams",
    "RunResult",
    "Session",
    "Task",
    "TimedOut",
    "Tool",
    "ToolSpace",
    "Unreachable",
    "Unsupported",
]
