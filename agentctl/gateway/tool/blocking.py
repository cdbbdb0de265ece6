"""Owns the plain function `opencode(action=…)`: the tool for code that has no event loop.

One tool of this process lives in a thread of its own, so that what one call connects the next one has.
"""

import asyncio
import atexit
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from agentctl.gateway.tool.tool import OpenCodeTool

_lock = threading.Lock()
_held: list[tuple[BlockingPortal, OpenCodeTool]] = []


def opencode(request: Mapping[str, Any] | None = None, /, **parameters: Any) -> dict[str, Any]:
    """Runs one action of the tool and returns its answer.

    Raises:
        RuntimeError: it was called where an event loop runs.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        portal, tool = _running()
        return portal.call(tool.call, {**(request or {}), **parameters})
    raise RuntimeError("an event loop runs here: use `await OpenCodeTool()(action=…)`")


def _running() -> tuple[BlockingPortal, OpenCodeTool]:
    with _lock:
        if not _held:
            stack = ExitStack()
            portal = stack.enter_context(start_blocking_portal())
            tool = portal.call(_make)
            stack.callback(portal.call, tool.aclose)
            atexit.register(stack.close)
            _held.append((portal, tool))
        return _held[0]


async def _make() -> OpenCodeTool:
    return OpenCodeTool()
