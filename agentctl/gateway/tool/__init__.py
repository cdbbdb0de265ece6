"""Owns the `opencode` tool of OpenClaw: twelve actions and eight events over agentctl's client."""

from agentctl.gateway.tool.blocking import opencode
from agentctl.gateway.tool.tool import OpenCodeTool

__all__ = ["OpenCodeTool", "opencode"]
