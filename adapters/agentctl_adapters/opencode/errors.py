"""Owns what an error of the server means for a run, and how it is worded. Pure.

The server names the kind; the model's HTTP status stands in `data.statusCode`. An abort is no error.
"""

import re

import orjson

from agentctl.core.events import Error
from agentctl.core.parts import RunError
from agentctl.core.words import Outcome
from agentctl_adapters.opencode.shapes import Json, as_object, as_text, number, words_of
from agentctl_adapters.opencode.view import Turn

ABORTED = "MessageAbortedError"
QUOTED_CHARS = 2000
DETAIL_CHARS = 16_000

_STACK = re.compile(r"\n\s+at .*", re.DOTALL)
_WRAPPED = re.compile(r"\A(?:[A-Z]\w*Error: )+")
_AUTH_WORDS = re.compile(r"unauthori[sz]ed|invalid.{0,12}api.?key|not logged in", re.IGNORECASE)
_LIMIT_WORDS = re.compile(r"rate.?limit|too many requests|usage limit|quota", re.IGNORECASE)
_ADVICE = {
    "AUTH_REQUIRED": "log in or set the provider's key, then prompt again",
    "RATE_LIMITED": "wait until the limit resets, then prompt again",
    "MODEL_ERROR": "prompt again, or choose another model",
    "INVALID_MODEL": "choose one of the models that it offers",
    "INVALID_PARAMETERS": "change it, then prompt again",
    "AGENT_FAILED": "prompt again, or look into the server's log",
}


def name_of(error: object) -> str:
    told = as_object(error)
    return as_text(told.get("name")) or as_text(told.get("_tag"))


def said(error: object) -> str:
    """The first sentence, without the stack trace that some of them carry."""
    words = _STACK.sub("", words_of(error)).strip()
    return (_WRAPPED.sub("", words) or words)[:QUOTED_CHARS]


def code_of(error: object) -> str:
    """A reason of the daemon's own list."""
    name, words = name_of(error), words_of(error)
    status = number(as_object(as_object(error).get("data")).get("statusCode"))
    if name == "ProviderAuthError" or status in (401, 403) or _AUTH_WORDS.search(words):
        return "AUTH_REQUIRED"
    if status == 429 or (name == "APIError" and _LIMIT_WORDS.search(words)):
        return "RATE_LIMITED"
    if "Model not found" in words or "ModelNotFound" in words:
        return "INVALID_MODEL"
    if words.startswith(("Agent not found", "Command not found", "File not found")):
        return "INVALID_PARAMETERS"
    if name in ("", "UnknownError"):
        return "AGENT_FAILED"
    return "MODEL_ERROR"


def run_error(error: object) -> RunError:
    """Why a run failed, with what to do next."""
    code = code_of(error)
    words = said(error).rstrip(" .;\n") or "it did not say why"
    return RunError(
        code,
        f"The agent could not go on: {words}; {_ADVICE[code]}.",
        recoverable=code not in ("AUTH_REQUIRED", "INVALID_MODEL", "INVALID_PARAMETERS"),
        detail_json=_detail(error),
    )


def event_error(error: object) -> Error:
    """The same as an event of its own; it never ends a run by itself."""
    told = run_error(error)
    return Error(
        told.code, said(error) or "unknown error", told.recoverable, detail_json=told.detail_json
    )


def refusal(status: int, body: object, *, page: bool = False) -> RunError:
    """A prompt that was not taken: no answer (status 0), an error answer, or a web page."""
    if page:
        return RunError(
            "AGENT_FAILED",
            "The server answered the prompt with a web page; check that its URL is an OpenCode server.",
        )
    words = said(body).rstrip(" .;\n")
    if status == 0:
        return RunError(
            "AGENT_FAILED",
            f"The server gave no answer to the prompt{f' ({words})' if words else ''};"
            " look at the session's messages before prompting again.",
            recoverable=True,
        )
    code = code_of(body)
    if status in (401, 403):
        code = "AUTH_REQUIRED"
    elif status in (400, 404, 409, 422) and code in ("AGENT_FAILED", "MODEL_ERROR"):
        code = "INVALID_PARAMETERS"
    return RunError(
        code,
        f"The server refused the prompt with HTTP {status}: {words or 'no reason'}; {_ADVICE[code]}.",
        recoverable=code in ("AGENT_FAILED", "RATE_LIMITED", "MODEL_ERROR"),
        detail_json=_detail(body),
    )


def interrupted() -> RunError:
    """The server knows nothing any more of a turn that it had begun."""
    return RunError(
        "AGENT_EXITED",
        "The server stopped working on this prompt without finishing it; prompt again to go on.",
        recoverable=True,
    )


def not_taken() -> RunError:
    return RunError(
        "AGENT_FAILED",
        "The server accepted the prompt but never began it; prompt again, or restart the server.",
        recoverable=True,
    )


def _detail(error: object) -> bytes | None:
    told: Json = as_object(error)
    if not told:
        return None
    data = {k: v for k, v in as_object(told.get("data")).items() if k != "responseHeaders"}
    detail = orjson.dumps({**told, "data": data} if data else told, default=str)
    return detail if len(detail) <= DETAIL_CHARS else None


def judged(turn: Turn) -> tuple[Outcome, RunError | None, str | None]:
    """The outcome as the last answer tells it; without one, as the errors do."""
    last = turn.last
    if last is not None:
        stop = last.finish or None
        if last.error is not None:
            if name_of(last.error) == ABORTED:
                return Outcome.CANCELLED, None, stop or "aborted"
            return Outcome.FAILED, run_error(last.error), stop
        if last.completed:
            return Outcome.COMPLETED, None, stop
    if turn.well is not None:
        return Outcome.COMPLETED, None, turn.well
    if turn.aborted:
        return Outcome.CANCELLED, None, "aborted"
    if turn.error is not None:
        return Outcome.FAILED, turn.error, None
    return Outcome.COMPLETED, None, last.finish or None if last is not None else None
