"""Owns what of ACP the path of messages has to know; the path itself is `common.rpclink`."""

from agentctl_adapters.common.rpclink import OnMessage
from agentctl_adapters.common.rpclink import RpcLink as Link
from agentctl_adapters.common.shapes import Json, as_object, as_text

__all__ = ["Link", "OnMessage", "session_of"]


def session_of(message: Json) -> str:
    """The session that a request or notification names, "" when none."""
    return as_text(as_object(message.get("params")).get("sessionId"))
