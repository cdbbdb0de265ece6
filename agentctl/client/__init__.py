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
    from agentctl.client.params import Image, Prompt, Resource, RunParams
    from agentctl.client.results import (
        AgentInfo,
        ArtifactSummary,
        EnvironmentInfo,
        Message,
        Output,
        RunFailure,
        RunResult,
        SessionInfo,
        Usage,
    )
    from agentctl.client.run import Run
    from agentctl.client.session import Session
    from agentctl.client.toolspace import Tool, ToolSpace

# Loaded when they are first named: the command line starts faster without them.
_LATER = {
    "Agent": "agent",
    "AgentInfo": "results",
    "Approval": "asking",
    "Artifact": "artifact",
    "ArtifactSummary": "results",
    "Environment": "environment",
    "EnvironmentInfo": "results",
    "Event": "event",
    "Image": "params",
    "Message": "results",
    "Output": "results",
    "Prompt": "params",
    "Question": "asking",
    "Resource": "params",
    "Run": "run",
    "RunFailure": "results",
    "RunParams": "params",
    "RunResult": "results",
    "Session": "session",
    "SessionInfo": "results",
    "Task": "environment",
    "Tool": "toolspace",
    "ToolSpace": "toolspace",
    "Usage": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


__all__ = [
    "Agent",
    "AgentCtl",
    "AgentFailed",
    "AgentInfo",
    "AgentctlError",
    "Approval",
    "Artifact",
    "ArtifactSummary",
    "CallerError",
    "Conflict",
    "DaemonFailed",
    "Environment",
    "EnvironmentInfo",
    "Event",
    "Exhausted",
    "Image",
    "Invalid",
    "Message",
    "NotFound",
    "Output",
    "Prompt",
    "Question",
    "Refused",
    "Resource",
    "Run",
    "RunFailure",
    "RunParams",
    "RunResult",
    "Session",
    "SessionInfo",
    "Task",
    "TimedOut",
    "Tool",
    "ToolSpace",
    "Unreachable",
    "Unsupported",
    "Usage",
]
