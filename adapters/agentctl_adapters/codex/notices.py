"""Owns what Codex tells beside its turns: names, settings, servers, limits, warnings. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Error, Log, RateLimit, SessionStatus
from agentctl.core.words import LogStream, SessionChange
from agentctl_adapters.codex.offers import Offers
from agentctl_adapters.codex.view import Book, Thread
from agentctl_adapters.common.shapes import Json, as_object, as_text, number

Drafts = Sequence[AnyDraft]
_NONE: Drafts = ()
WARNING_CHARS = 4000


def note(text: str, msg: Any, thread: Thread | None = None) -> Draft:
    """A line of log about a message."""
    session = thread.session if thread is not None else None
    return Draft(Log(LogStream.NOTE, text), session, raw=msg)


class Notices:
    """Handlers of notifications that open and end nothing."""

    def __init__(self, book: Book, offers: Offers) -> None:
        self._book = book
        self._offers = offers
        self.handlers: Mapping[str, Callable[[Json, Any], Drafts]] = {
            "thread/name/updated": self._renamed,
            "thread/settings/updated": self._settings,
            "mcpServer/startupStatus/updated": self._server,
            "account/rateLimits/updated": self._limits,
            "warning": self._warning,
            "guardianWarning": self._warning,
            "configWarning": self._config_warning,
            "deprecationNotice": self._config_warning,
        }

    def _renamed(self, params: Json, msg: Any) -> Drafts:
        thread, title = self._book.thread(params["threadId"]), as_text(params.get("threadName"))
        if not title or thread.parent_call is not None:
            return _NONE
        return (thread.draft(SessionStatus(SessionChange.UPDATED, title=title), None, msg),)

    def _settings(self, params: Json, _msg: Any) -> Drafts:
        thread = self._book.thread(params["threadId"])
        if thread.parent_call is not None:
            return _NONE
        return self._offers.changed(thread, as_object(params.get("threadSettings")))

    def _server(self, params: Json, _msg: Any) -> Drafts:
        thread = self._book.threads.get(as_text(params.get("threadId")))
        if thread is None or thread.parent_call is not None:
            return _NONE
        return self._offers.server(thread, params)

    def _limits(self, params: Json, msg: Any) -> Drafts:
        limits = as_object(params.get("rateLimits"))
        reached = as_text(limits.get("rateLimitReachedType"))
        if not reached:
            return _NONE
        windows = [as_object(limits.get(name)) for name in ("primary", "secondary")]
        full = [w for w in windows if (number(w.get("usedPercent")) or 0) >= 100]
        resets = number(full[0].get("resetsAt")) if full else None
        words = f"A limit of the account is reached: {reached.replace('_', ' ')}"
        at = resets * 1000 if resets is not None else None
        return (Draft(RateLimit(words, resets_at=at), raw=msg),)

    def _warning(self, params: Json, msg: Any) -> Drafts:
        words = as_text(params.get("message"))[:WARNING_CHARS]
        thread_id = as_text(params.get("threadId"))
        if not thread_id:
            return (Draft(Error("AGENT_WARNING", words), raw=msg),)
        thread = self._book.thread(thread_id)
        if not words or words in thread.warned:
            return _NONE
        thread.warned.add(words)
        return (thread.draft(Error("AGENT_WARNING", words), thread.open_turn, msg),)

    def _config_warning(self, params: Json, msg: Any) -> Drafts:
        summary, details = as_text(params.get("summary")), as_text(params.get("details"))
        words = f"{summary} {details}".strip()[:WARNING_CHARS]
        if msg.get("method") == "configWarning" and "configuration" in summary:
            return (Draft(Error("AGENT_CONFIG", words), raw=msg),)
        return (note(words, msg),)
