"""Owns who may call over TCP: whoever sends the bearer token. A Unix socket is guarded by its mode."""

import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from agentctl.core.errors import Invalid, Unauthenticated
from agentctl.rpc.calls import Context, Handler, fail

MIN_TOKEN = 16
"""Characters; a shorter token can be guessed."""

OPEN = "/grpc.health.v1.Health/"
"""Answers without a token: a probe learns that the daemon serves, and nothing else."""


def read_token(path: Path) -> str:
    """Reads the token that TCP callers must send.

    Raises:
        Invalid: the file cannot be read, or its token is too short.
    """
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(
            f"the token file {path} cannot be read ({error}): write a token of at least "
            f"{MIN_TOKEN} characters into it.",
            metadata={"field": "token_file"},
        ) from None
    if len(token) < MIN_TOKEN or not token.isascii():
        raise Invalid(
            f"the token in {path} is too short: write at least {MIN_TOKEN} ASCII characters.",
            metadata={"field": "token_file"},
        )
    return token


class TokenGate(grpc.aio.ServerInterceptor):
    """Refuses every call that does not send `authorization: Bearer TOKEN`."""

    def __init__(self, token: str) -> None:
        self._wanted = f"Bearer {token}".encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        handler = await continuation(handler_call_details)
        method: Any = handler_call_details.method
        if str(method).startswith(OPEN) or self._admits(handler_call_details):
            return handler
        return _refusal(handler)

    def _admits(self, details: grpc.HandlerCallDetails) -> bool:
        metadata: Any = details.invocation_metadata
        for key, value in metadata:
            if key == "authorization":
                data = value if isinstance(value, bytes) else str(value).encode()
                return hmac.compare_digest(data, self._wanted)
        return False


def _refusal(handler: Any) -> "Handler":
    async def refuse(request: Any, context: Context) -> None:
        await fail(
            context,
            Unauthenticated("this address wants a token: set AGENTCTL_TOKEN, or use the socket."),
        )

    if handler is not None and handler.request_streaming:
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(refuse)
        return grpc.stream_unary_rpc_method_handler(refuse)
    if handler is not None and handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(refuse)
    return grpc.unary_unary_rpc_method_handler(refuse)
