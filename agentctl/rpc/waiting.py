"""Owns how long a waiting call may wait, so that it answers before its caller gives up."""

from typing import cast

from agentctl.rpc.calls import Context

# The answer must still reach the caller before its own deadline.
BEFORE_DEADLINE_MS = 200


def wait_ms(asked: int | None, context: Context) -> int | None:
    """The shorter of what was asked and the call's deadline, in ms; None without either."""
    remaining = cast("float | None", context.time_remaining())  # its stub forgets None
    if remaining is None:
        return asked
    until = max(0, int(remaining * 1000) - BEFORE_DEADLINE_MS)
    return until if asked is None else min(asked, until)
