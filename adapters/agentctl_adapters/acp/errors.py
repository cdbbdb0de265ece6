"""Owns what an ACP agent's refusal of a prompt means for the run. Pure.

Agents put the model's HTTP status into the code (Gemini), into data (claude, opencode) or only into the
words; a few wrap the model's JSON into the message.
"""

import re

import orjson

from agentctl.core.parts import RunError
from agentctl.core.words import Outcome
from agentctl_adapters.common.shapes import Json, as_object, as_text

REQUEST_CANCELLED, AUTH_REQUIRED = -32800, -32000
QUOTED_CHARS = 2000

_AUTH_WORDS = re.compile(
    r"\b(?:401|403)\b|unauthori[sz]ed|authenticat|invalid.{0,12}api.key|not logged in",
    re.IGNORECASE,
)
_LIMIT_WORDS = re.compile(r"\b429\b|rate.?limit|too many requests|usage limit|quota", re.IGNORECASE)
_ADVICE = {
    "AUTH_REQUIRED": "log in or set the agent's key, then prompt again",
    "RATE_LIMITED": "wait until the limit resets, then prompt again",
    "MODEL_ERROR": "prompt again, or choose another model",
}
_REFUSALS = frozenset({-32600, -32601, -32602, -32002})


def error_of_text(text: str, code: int | None = None, kind: str = "") -> RunError:
    """An error told in words, with the HTTP status or the agent's own kind where there is one."""
    if code in (AUTH_REQUIRED, 401, 403) or (code != 429 and _AUTH_WORDS.search(f"{kind} {text}")):
        reason = "AUTH_REQUIRED"
    elif code == 429 or _LIMIT_WORDS.search(f"{kind} {text}"):
        reason = "RATE_LIMITED"
    else:
        reason = "MODEL_ERROR"
    advice = "change it, or resume the session" if code in _REFUSALS else _ADVICE[reason]
    what = "refused the prompt" if code in _REFUSALS else "could not go on"
    said = text[:QUOTED_CHARS].rstrip(" .;\n") or "it did not say why"
    return RunError(
        reason,
        f"The agent {what}: {said}; {advice}.",
        recoverable=reason != "AUTH_REQUIRED",
    )


def error_of_answer(error: Json) -> tuple[Outcome, RunError]:
    """A JSON-RPC error instead of a prompt's result."""
    code = error.get("code")
    number = code if isinstance(code, int) else None
    data = as_object(error.get("data"))
    kind = as_text(data.get("errorKind")) or as_text(data.get("errorName"))
    status = data.get("statusCode")
    if isinstance(status, int) and number not in (401, 403, 429):
        number = status
    found = error_of_text(words_of(error), number, kind)
    found.detail_json = orjson.dumps(error)
    outcome = Outcome.CANCELLED if code == REQUEST_CANCELLED else Outcome.FAILED
    return outcome, found


def words_of(error: Json) -> str:
    """The sentence in an error object: the model's own where the agent wrapped it."""
    message = as_text(error.get("message"))
    if message.startswith("{"):
        try:
            inner = as_object(orjson.loads(message))
        except ValueError:
            inner = {}
        message = as_text(as_object(inner.get("error")).get("message")) or message
    details = as_text(as_object(error.get("data")).get("details"))
    if details and message in ("", "Internal error", "Invalid params"):
        return details
    return message.removeprefix("Internal error: ")
