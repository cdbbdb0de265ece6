"""Owns the frames of an OpenCode server as drafts: requests, their answers, events. Pure.

It sees what we ask and what the server answers and says, live and in recordings alike. A GET whose
request is marked `resync` was made after the event stream broke: of its answer the difference is told.
Answers of other GETs tell only what may be chosen. Nothing that a server sends makes it raise.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft, Frame, ProcessGone, ProcessStarted
from agentctl.core.events import Git, Log, MessageChunk, RateLimit, Reasoning, SessionStatus
from agentctl.core.words import LogStream, Role, SessionChange
from agentctl_adapters.opencode import errors
from agentctl_adapters.opencode.asks import Asks
from agentctl_adapters.opencode.messages import Messages
from agentctl_adapters.opencode.offers import Offers
from agentctl_adapters.opencode.prompts import ROUTES, blocks_of
from agentctl_adapters.opencode.resync import Resync
from agentctl_adapters.opencode.shapes import (
    Json,
    answer_of,
    as_object,
    as_objects,
    as_text,
    event_of,
    number,
    path_of,
    session_of,
    status_of,
)
from agentctl_adapters.opencode.tools import Tools
from agentctl_adapters.opencode.turns import TurnBook
from agentctl_adapters.opencode.view import Book, SessionView, Turn

logger = logging.getLogger(__name__)

Drafts = Sequence[AnyDraft]
_NONE: Drafts = ()
STDERR_LINES = 50
LOG_CHARS = 16_000
# A stream of a kind that we do not know must not fill the journal with notes.
NOTES_PER_KIND = 20

_QUIET = frozenset(
    {
        "server.heartbeat",
        "session.diff",
        "session.next",
        "command.executed",
        "models-dev.refreshed",
        "sync",
    }
)
_QUIET_FAMILIES = frozenset(
    {
        "plugin",
        "catalog",
        "integration",
        "reference",
        "installation",
        "file",
        "lsp",
        "project",
        "tui",
        "pty",
        "workspace",
        "worktree",
        "mcp",
    }
)


@dataclass(slots=True)
class _Ours:
    """A request of ours that waits for its answer."""

    method: str
    path: list[str]
    directory: str
    resync: bool = False
    view: SessionView | None = None
    turn: Turn | None = None
    ask: str = ""


class OpenCodeTranslator:
    """Frames of an OpenCode server, or of a recording with several, to drafts."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        """How often each kind of event came that this version does not know. Beside it the live
        connection may read `book` (who runs, whose children), `asks` and `turns` (what is waited for)."""
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._prompts = 0
        self._reset()

    def _reset(self) -> None:
        self.book = Book()
        self._tools = Tools(self.book)
        self.turns = TurnBook(self.book)
        self._offers = Offers(self.book, self._tools)
        self.asks = Asks(self.book, self._tools)
        self._messages = Messages(self.book, self.turns, self._tools, self._offers)
        self._resync = Resync(self.book, self.turns, self._messages, self.asks, self._tools)
        self._parts = self.book.parts
        self._pending: dict[Any, _Ours] = {}
        self._streams = 0
        self._events: Mapping[str, Callable[[Json, Any], Drafts]] = {
            "message.updated": self._messages.updated,
            "message.part.updated": self._messages.part,
            "message.part.delta": self._messages.delta,
            "message.removed": self._messages.removed,
            "message.part.removed": self._messages.removed,
            "session.created": self._offers.session,
            "session.updated": self._offers.session,
            "session.deleted": self._deleted,
            "session.status": self._status,
            "session.idle": self._idle,
            "session.error": self._error,
            "session.aborted": self._aborted,
            "session.compacted": self._compacted,
            "todo.updated": self._todos,
            "permission.asked": self.asks.permission,
            "permission.updated": self.asks.permission,
            "permission.replied": self._replied,
            "question.asked": self.asks.question,
            "question.replied": self._replied,
            "question.rejected": self._replied,
            "server.connected": self._connected,
            "server.instance.disposed": self._disposed,
            "global.disposed": self._disposed,
            "vcs.branch.updated": self._branch,
        }

    def feed(self, frame: Frame) -> Drafts:
        """One frame in order."""
        msg = frame.msg
        try:
            if frame.dir != "sse" or msg is None:
                return self._other(frame)
            event = msg.get("payload", msg)
            if event["type"] == "message.part.delta":
                told = event["properties"]
                part = self._parts.get(told["partID"])
                text = told["delta"]
                if (
                    part is not None
                    and part.shown
                    and not part.dirty
                    and told["field"] == "text"
                    and text
                    and isinstance(text, str)
                ):
                    part.pieces.append(text)
                    payload = (
                        MessageChunk(part.shown, Role.ASSISTANT, text)
                        if part.text
                        else Reasoning(part.shown, text)
                    )
                    turn = part.turn.key if part.turn is not None and part.turn.over else None
                    return (Draft(payload, part.session, turn, None, part.call, msg),)
            return self._event(msg)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            logger.exception("a message of the server is not of the shape that its kind has")
            return (_note("The server sent something that could not be understood.", msg),)

    def flush(self) -> Drafts:
        """The recording or the process is over."""
        return (*self._settled(), ProcessGone(stderr_tail=list(self._stderr) or None))

    def _other(self, frame: Frame) -> Drafts:
        match frame.dir:
            case "http_request":
                return self._request(as_object(frame.msg))
            case "http_response":
                return self._response(as_object(frame.msg))
            case "sse" | "from_agent":
                return self._line(frame)
            case "stderr":
                line = (frame.raw or "")[:LOG_CHARS]
                self._stderr.append(line)
                return (Draft(Log(LogStream.STDERR, line)),)
            case "timer":
                return self.turns.timer(frame.raw or "")
            case "spawn":
                settled = self._settled()
                self._stderr.clear()
                self._reset()
                return (*settled, ProcessStarted())
            case "stdout_end" | "exit":
                told = as_object(frame.msg)
                tail = list(self._stderr) or None
                return (*self._settled(), ProcessGone(told.get("code"), told.get("signal"), tail))
            case _:
                return _NONE

    def _settled(self) -> Drafts:
        drafts: list[AnyDraft] = []
        for view in [*self.book.views.values()]:
            if any(turn.answered or turn.held for turn in view.turns):
                drafts += self._messages.flush(view)
        return [*drafts, *self.turns.settle()]

    def _line(self, frame: Frame) -> Drafts:
        """A comment of the stream says nothing; anything else that is no JSON is noted."""
        line = (frame.raw or "")[:LOG_CHARS]
        if frame.dir == "sse" and (line.startswith(":") or not line.strip()):
            return _NONE
        stream = LogStream.NOTE if frame.dir == "sse" else LogStream.STDOUT
        return (Draft(Log(stream, line)),)

    # Our requests and their answers

    def _request(self, msg: Json) -> Drafts:
        method, path, directory = path_of(msg)
        ours = _Ours(method, path, directory, resync=msg.get("resync") is True)
        self._pending[msg.get("id")] = ours
        body = as_object(msg.get("body"))
        match method, path:
            case "POST", ["session", own, route] if route in ROUTES:
                return self._prompt(ours, own, route, body)
            case "POST", ["session", own, "abort"]:
                return self.turns.aborting(self.book.view(own))
            case "POST", ["session", _, "permissions", own] | ["permission", own, "reply"]:
                ours.ask = own
                self.asks.answering(own, body)
            case "POST", ["question", own, "reply" | "reject"]:
                ours.ask = own
                self.asks.answering(own, body)
            case _:
                pass
        return _NONE

    def _prompt(self, ours: _Ours, own: str, route: str, body: Json) -> Drafts:
        view = ours.view = self.book.view(own)
        message = as_text(body.get("messageID"))
        if body.get("noReply") is True:
            ours.turn = self.turns.silent(view, message)
            return _NONE
        self._prompts += 1
        prompt = blocks_of(route, body)
        ours.turn, drafts = self.turns.prompted(view, str(self._prompts), message, prompt)
        return drafts

    def _response(self, msg: Json) -> Drafts:
        ours = self._pending.pop(msg.get("id"), None)
        if ours is None:
            return _NONE
        status = number(msg.get("status")) or 0
        page = as_text(msg.get("ctype")).startswith("text/html")
        ok = 200 <= status < 300 and not page
        if ours.view is not None:
            return self._prompt_answered(ours, status, ok, page, msg)
        if ours.ask:
            return self.asks.answered(ours.ask, ok)
        return self._answered(ours, answer_of(msg)) if ok else _NONE

    def _prompt_answered(self, ours: _Ours, status: int, ok: bool, page: bool, msg: Json) -> Drafts:
        view, turn = ours.view, ours.turn
        if view is None or turn is None:
            return _NONE
        body = answer_of(msg)
        if not ok:
            refusal = errors.refusal(status, body, page=page and status < 300)
            return self.turns.refused(view, turn, refusal)
        answer = as_object(body)
        info = as_object(answer.get("info")) or answer
        sync = ours.path[-1] != "prompt_async"
        return self.turns.answered(view, turn, info if "role" in info else {}, sync=sync)

    def _answered(self, ours: _Ours, body: Any) -> Drafts:
        """An answer that is no prompt's: what may be chosen, and what a refetch finds."""
        if ours.resync:
            told = self._resync.answered(ours.path, ours.directory, body)
            if told is not None:
                return told
        match ours.method, ours.path:
            case ("POST", ["session"]) | ("GET" | "PATCH", ["session", _]):
                return self._offers.session(as_object(body), None, ours=True)
            case "POST", ["session", _, "fork" | "revert" | "unrevert"]:
                return self._offers.session(as_object(body), None, ours=True)
            case "GET", ["session"] | ["session", _, "children"]:
                return [d for info in as_objects(body) for d in self._offers.session(info, None)]
            case "GET", ["config", "providers"] | ["provider"]:
                return self._offers.providers(ours.directory, body)
            case "GET", ["agent"]:
                return self._offers.agents(ours.directory, body)
            case "GET", ["command"]:
                return self._offers.commands(ours.directory, body)
            case "GET" | "POST", ["mcp"]:
                return self._offers.mcp(ours.directory, body)
            case _:
                return _NONE

    # Events

    def _event(self, msg: Json) -> Drafts:
        kind, properties, directory = event_of(msg)
        handle = self._events.get(kind)
        if handle is not None:
            if directory and "directory" not in properties and kind == "vcs.branch.updated":
                properties = {**properties, "directory": directory}
            return handle(properties, msg)
        if kind in _QUIET or kind.split(".")[0] in _QUIET_FAMILIES:
            return _NONE
        self.unknown[kind] += 1
        if self.unknown[kind] > NOTES_PER_KIND:
            return _NONE
        session = session_of(properties)
        view = self.book.views.get(session)
        text = f"The server sent an event of unknown kind {kind[:200]!r}."
        return (_note(text, msg, view),)

    def _status(self, properties: Json, raw: Any) -> Drafts:
        view = self.book.view(session_of(properties))
        status = status_of(properties)
        match status.get("type"):
            case "idle":
                return [*self._messages.flush(view), *self.turns.idle(view, status=True)]
            case "busy":
                return self.turns.busy(view)
            case "retry":
                return [*self.turns.busy(view), *self._retry(view, status, raw)]
            case _:
                return (_note("The server told a session status that is not known.", raw, view),)

    def _retry(self, view: SessionView, status: Json, raw: Any) -> Drafts:
        attempt, at = number(status.get("attempt")), number(status.get("next"))
        if not view.news("retry", (attempt, at)):
            return _NONE
        told = RateLimit(as_text(status.get("message")) or None, None, attempt, at)
        return (Draft(told, view.root.native, None, None, view.parent_call, raw),)

    def _idle(self, properties: Json, _raw: Any) -> Drafts:
        view = self.book.view(session_of(properties))
        return [*self._messages.flush(view), *self.turns.idle(view, status=False)]

    def _error(self, properties: Json, raw: Any) -> Drafts:
        session = session_of(properties)
        error = properties.get("error")
        told = as_object(error) or {"name": "UnknownError", "data": {"message": as_text(error)}}
        if not session:
            return (Draft(errors.event_error(told), raw=raw),)
        return self.turns.failed(self.book.view(session), told)

    def _aborted(self, properties: Json, _raw: Any) -> Drafts:
        view = self.book.view(session_of(properties))
        return [*self._messages.flush(view), *self.turns.stopped(view)]

    def _compacted(self, properties: Json, raw: Any) -> Drafts:
        view = self.book.view(session_of(properties))
        told = SessionStatus(SessionChange.COMPACTED)
        return (Draft(told, view.root.native, None, None, view.parent_call, raw),)

    def _deleted(self, properties: Json, raw: Any) -> Drafts:
        own = as_text(as_object(properties.get("info")).get("id")) or session_of(properties)
        view = self.book.views.get(own)
        if view is None:
            return _NONE
        note = _note("The session was deleted on the server.", raw, view)
        return [*self.turns.absent(view), note]

    def _todos(self, properties: Json, _raw: Any) -> Drafts:
        view = self.book.view(session_of(properties))
        return self._tools.todos(view, properties.get("todos"))

    def _replied(self, properties: Json, _raw: Any) -> Drafts:
        return self.asks.replied(properties)

    def _connected(self, _properties: Json, _raw: Any) -> Drafts:
        """Each stream begins so: a second one means that something was missed in between."""
        self._streams += 1
        if self._streams > 1:
            self._messages.gap()
        return _NONE

    def _disposed(self, properties: Json, _raw: Any) -> Drafts:
        return self.turns.disposed(as_text(properties.get("directory")))

    def _branch(self, properties: Json, raw: Any) -> Drafts:
        branch, directory = as_text(properties.get("branch")), as_text(properties.get("directory"))
        views = [v for v in self.book.views.values() if v.ours and v.parent is None]
        if not directory and len({view.directory for view in views}) > 1:
            return _NONE
        return [
            Draft(Git(branch or None), view.native, raw=raw)
            for view in views
            if not directory or view.directory == directory
        ]


def _note(text: str, msg: Any, view: SessionView | None = None) -> Draft:
    native = view.root.native if view is not None else None
    return Draft(Log(LogStream.NOTE, text), native, raw=msg)
