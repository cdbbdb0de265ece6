"""Owns every error that a client can be told, drawn as a tree by whose fault it is.

    AgentctlError
    ├── CallerError                 the call was wrong; calling again the same way fails again
    │   ├── NotFound                AGENT_ SESSION_ RUN_ APPROVAL_ QUESTION_ ARTIFACT_ PROJECT_NOT_FOUND
    │   ├── Invalid                 INVALID_PARAMETERS INVALID_MODEL INVALID_CURSOR
    │   │                           REGISTRY_INVALID OPTION_NOT_OFFERED
    │   ├── Refused                 the state of things forbids it: AGENT_NOT_INSTALLED AGENT_DISABLED
    │   │                           AUTH_REQUIRED SESSION_BUSY SESSION_CLOSED RUN_FINISHED
    │   │                           ALREADY_RESOLVED INSTANCE_NOT_CONNECTED
    │   ├── Conflict                IDEMPOTENCY_CONFLICT
    │   ├── Unauthenticated         PERMISSION_DENIED (no token, or a wrong one)
    │   ├── Forbidden               PERMISSION_DENIED (a token without this right)
    │   └── Unsupported             UNSUPPORTED: the agent, or this version, cannot
    ├── Exhausted                   SESSION_LIMIT QUEUE_FULL DISK_FULL
    ├── TimedOut                    TIMEOUT
    ├── AgentFailed                 AGENT_FAILED: the agent died, hung or answered nonsense
    └── DaemonFailed                SERVER_ERROR: ours

It knows no gRPC: `rpc/status.py` is the one place that maps these to status codes. The message says
what happened, on what, and what to do next, in one sentence.
"""

from collections.abc import Mapping


class AgentctlError(Exception):
    """An error with a `reason` of design section 8 and a message that says what to do.

    `metadata` are short facts for programs (`field`, `entry`, `session_id` …).
    """

    reason = "SERVER_ERROR"

    def __init__(
        self, message: str, *, reason: str | None = None, metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason
        self.metadata = dict(metadata or {})


class CallerError(AgentctlError):
    """The call was wrong."""

    reason = "INVALID_PARAMETERS"


class NotFound(CallerError):
    """What was named does not exist; `reason` names its kind."""

    reason = "SESSION_NOT_FOUND"


class Invalid(CallerError):
    """An argument is malformed or out of range."""

    reason = "INVALID_PARAMETERS"


class Refused(CallerError):
    """The state of the session, run, entry or approval forbids it."""

    reason = "SESSION_CLOSED"


class Conflict(CallerError):
    """An idempotency key or a session key is taken by something else."""

    reason = "IDEMPOTENCY_CONFLICT"


class Unauthenticated(CallerError):
    reason = "PERMISSION_DENIED"


class Forbidden(CallerError):
    reason = "PERMISSION_DENIED"


class Unsupported(CallerError):
    reason = "UNSUPPORTED"


class Exhausted(AgentctlError):
    reason = "QUEUE_FULL"


class TimedOut(AgentctlError):
    reason = "TIMEOUT"


class AgentFailed(AgentctlError):
    """The agent died, hung or spoke nonsense; `metadata` may hold exit_code and stderr."""

    reason = "AGENT_FAILED"


class DaemonFailed(AgentctlError):
    reason = "SERVER_ERROR"
