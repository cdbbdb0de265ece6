"""Owns the typed Python client: `AgentCtl`, its errors, and nothing of grpc in sight."""

import os

# grpc's fork handlers cost each spawn and can hang a child; they are read once, when grpc loads.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# Its C core writes what we raise as errors a second time, to stderr, in words for its own authors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from agentctl.client.api import AgentCtl
from agentctl.client.channel import Unreachable

__all__ = ["AgentCtl", "Unreachable"]
