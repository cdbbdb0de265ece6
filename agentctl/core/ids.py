"""Owns the names of the things that have ids; refuses to mint one (the session room does)."""

from typing import NewType

EntryId = NewType("EntryId", str)
AgentId = NewType("AgentId", str)
SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)
ApprovalId = NewType("ApprovalId", str)
QuestionId = NewType("QuestionId", str)

NativeSessionId = NewType("NativeSessionId", str)
"""The agent's own name of a conversation."""

NativeTurnId = NewType("NativeTurnId", str)
"""The agent's own name of a turn; in JSON-RPC protocols the id of the prompt request."""

NativeRequestId = NewType("NativeRequestId", str)
"""What identifies a request that the agent made of us, unique within one process."""
