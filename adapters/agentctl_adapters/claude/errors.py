"""Owns what a failure that Claude Code tells means for the run, and how it is worded. Pure.

The end of a turn is told three times: `terminal_reason` says how, `is_error` whether, and the words
stand in `result` or, where that is missing, in `errors`. An API failure calls itself a success.
"""

import orjson

from agentctl.core.events import Error
from agentctl.core.parts import RunError
from agentctl.core.words import Outcome
from agentctl_adapters.common.shapes import Json, as_object, as_text, as_words, number

QUOTED_CHARS = 2000

_CODES = {
    "authentication_failed": "AUTH_REQUIRED",
    "oauth_org_not_allowed": "AUTH_REQUIRED",
    "billing_error": "AUTH_REQUIRED",
    "rate_limit": "RATE_LIMITED",
    "model_not_found": "INVALID_MODEL",
}
_LIMITS = {
    "max_turns": "the limit of model requests for one prompt",
    "budget_exhausted": "the budget that was set for this session",
}
_ADVICE = {
    "AUTH_REQUIRED": "log in (run `claude` once) or set ANTHROPIC_API_KEY, then prompt again",
    "RATE_LIMITED": "wait until the limit resets, then prompt again",
    "INVALID_MODEL": "choose another model, then prompt again",
    "MODEL_ERROR": "prompt again, or choose another model",
    "CONTEXT_FULL": "compact the session, or start a new one",
    "LIMIT_REACHED": "raise it in the entry, or prompt again to go on",
    "AGENT_FAILED": "prompt again",
}
_UNKNOWN_MODEL = "[claude-code:unrecognized_model]"
_FOR_GOOD = frozenset({"AUTH_REQUIRED", "INVALID_MODEL", "CONTEXT_FULL"})


def run_error(code: str, said: str, detail: Json | None = None) -> RunError:
    words = said[:QUOTED_CHARS].rstrip(" .;\n") or "it did not say why"
    return RunError(
        code,
        f"Claude Code could not go on: {words}; {_ADVICE[code]}.",
        recoverable=code not in _FOR_GOOD,
        detail_json=orjson.dumps(detail) if detail else None,
    )


def code_of(error: str, status: int | None) -> str:
    """A reason of the daemon's own list, from the agent's word and the model's HTTP status."""
    if error in _CODES:
        return _CODES[error]
    if status in (401, 403):
        return "AUTH_REQUIRED"
    return "RATE_LIMITED" if status == 429 else "MODEL_ERROR"


def of_frame(msg: Json) -> RunError:
    """An `assistant` frame that is an API error and no words of the model."""
    content = as_object(msg.get("message")).get("content")
    texts = [as_text(as_object(block).get("text")) for block in content or ()]
    keys = ("error", "api_error", "api_error_type", "api_error_status")
    detail = {key: msg[key] for key in keys if msg.get(key) is not None}
    status = number(msg.get("api_error_status"))
    return run_error(code_of(as_text(msg.get("error")), status), " ".join(texts), detail)


def outcome_of(
    result: Json, failure: RunError | None
) -> tuple[Outcome, str | None, RunError | None]:
    """How a turn ended, its stop reason, and why it failed.

    `failure` is the API error that the turn told before its end.
    """
    reason = as_text(result.get("terminal_reason"))
    stop = as_text(result.get("stop_reason")) or None
    if reason.startswith("aborted"):
        return Outcome.CANCELLED, reason, None
    if not result.get("is_error"):
        return Outcome.COMPLETED, stop or reason or None, None
    said = as_text(result.get("result")) or "; ".join(as_words(result.get("errors")))
    if reason == "blocking_limit":
        return Outcome.FAILED, reason, run_error("CONTEXT_FULL", said)
    if reason in _LIMITS:
        return Outcome.FAILED, reason, run_error("LIMIT_REACHED", f"it reached {_LIMITS[reason]}")
    if failure is not None:
        return Outcome.FAILED, reason or stop, failure
    status = number(result.get("api_error_status"))
    code = code_of("", status) if reason == "api_error" else "AGENT_FAILED"
    return Outcome.FAILED, reason or stop, run_error(code, said)


def of_stderr(line: str) -> Error | None:
    """The one line of stderr that says more than a log: a model that the CLI does not know."""
    if not line.startswith(_UNKNOWN_MODEL):
        return None
    try:
        model = as_text(as_object(orjson.loads(line[len(_UNKNOWN_MODEL) :])).get("model"))
    except ValueError:
        model = ""
    words = f"Claude Code does not know the model {model!r}: its context size and cost are guesses"
    return Error("INVALID_MODEL", words)


def retry_words(msg: Json) -> str:
    """What an api_retry says, for a person."""
    status, error = number(msg.get("error_status")), as_text(msg.get("error"))
    what = f"HTTP {status}" if status is not None else "no answer"
    if error and error != "unknown":
        what = f"{what}, {error.replace('_', ' ')}"
    wait_ms = number(msg.get("retry_delay_ms"))
    wait = f"; trying again in {wait_ms / 1000:.1f} s" if wait_ms is not None else ""
    most = number(msg.get("max_retries"))
    return f"The model gave {what}{wait}" + (f" (at most {most} times)" if most else "")
