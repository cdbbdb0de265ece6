"""Owns what an error of Codex means for the run, and what may be done about it. Pure.

`codexErrorInfo` is a word, or an object of one word that may hold the HTTP status. Where it says nothing
("other"), the message decides.
"""

import re

import orjson

from agentctl.core.events import RateLimit
from agentctl.core.parts import RunError
from agentctl_adapters.common.shapes import Json, as_object, as_text, number

QUOTED_CHARS = 1200
_LIMITS = frozenset({"usageLimitExceeded", "rateLimitExceeded", "sessionBudgetExceeded"})
_ATTEMPT = re.compile(r"\b(\d+)/\d+")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_MISSING_KEY = re.compile(r"Missing environment variable: `(\w+)`")
_AUTH = "log in with `codex login` or set the provider's key, then prompt again"
_ADVICE = {
    "contextWindowExceeded": "compact the session or start a new one",
    "usageLimitExceeded": "wait until the limit resets or change the plan, then prompt again",
    "rateLimitExceeded": "wait a little, then prompt again",
    "sessionBudgetExceeded": "raise the budget or start a new session",
    "modelNotFound": "choose another model",
    "serverOverloaded": "prompt again later, or choose another model",
    "sandboxError": "see whether the sandbox works here with `codex sandbox true`",
}
_FINAL = frozenset({"contextWindowExceeded", "modelNotFound", "cyberPolicy"})


def info_of(error: Json) -> tuple[str, int | None]:
    """The word of an error and the HTTP status in or near it."""
    info = error.get("codexErrorInfo")
    word = as_text(info)
    status: int | None = None
    for name, facts in as_object(info).items():
        word = word or name
        status = number(as_object(facts).get("httpStatusCode"))
    if status is None:
        said = f"{as_text(error.get('message'))} {as_text(error.get('additionalDetails'))}"
        found = _STATUS.search(said)
        status = int(found[1]) if found else None
    return word, status


def is_refused_key(error: Json) -> bool:
    """Whether trying again is in vain: the key or the login is not accepted."""
    word, status = info_of(error)
    return word == "unauthorized" or status in (401, 403)


def error_of(error: Json) -> RunError:
    """A turn's error as the run's."""
    word, status = info_of(error)
    said = _words(error)
    missing = _MISSING_KEY.search(said)
    if missing is not None:
        code, advice = "AUTH_REQUIRED", f"set {missing[1]}, then start the agent anew"
    elif is_refused_key(error):
        code, advice = "AUTH_REQUIRED", _AUTH
    elif word in _LIMITS or status == 429:
        code, advice = "RATE_LIMITED", _ADVICE.get(word, _ADVICE["rateLimitExceeded"])
    else:
        code = "INVALID_MODEL" if word == "modelNotFound" else "MODEL_ERROR"
        advice = _ADVICE.get(word, "prompt again, or choose another model")
    return RunError(
        code,
        f"The agent could not go on: {said.rstrip(' .;')}; {advice}.",
        recoverable=code != "AUTH_REQUIRED" and word not in _FINAL,
        detail_json=orjson.dumps(error),
    )


def error_of_answer(error: Json) -> RunError:
    """A JSON-RPC error instead of a turn."""
    said = as_text(error.get("message"))[:QUOTED_CHARS] or "it did not say why"
    advice = "resume the session" if "not found" in said else "change it, or resume the session"
    return RunError(
        "AGENT_FAILED",
        f"The agent refused the prompt: {said.rstrip(' .;')}; {advice}.",
        recoverable=True,
        detail_json=orjson.dumps(error),
    )


def retry_of(error: Json) -> RateLimit:
    """An error after which Codex itself tries again."""
    said, why = as_text(error.get("message")), as_text(error.get("additionalDetails"))
    found = _ATTEMPT.search(said)
    words = f"{said}: {why}" if why else said
    return RateLimit(words[:QUOTED_CHARS] or None, attempt=int(found[1]) if found else None)


def _words(error: Json) -> str:
    message = as_text(error.get("message"))
    if message.startswith("{"):
        try:
            inner = as_object(orjson.loads(message))
        except ValueError:
            inner = {}
        message = as_text(as_object(inner.get("error")).get("message")) or message
    return message[:QUOTED_CHARS] or "it did not say why"
