"""Owns messages of one Codex app-server as drafts: which answer is whose, and what each one says. Pure.

It sees both directions. Ids of the two directions live in two maps: both start at 0 and collide. Nothing
that the agent sends makes it raise; what it does not know is noted and counted.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentctl.core.adapter import (
    AnyDraft,
    Draft,
    Frame,
    ProcessGone,
    ProcessStarted,
)
from agentctl.core.events import Error, Log, SessionStatus
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType, LogStream, SessionChange
from agentctl_adapters.codex import items, tools
from agentctl_adapters.codex.asks import Asks
from agentctl_adapters.codex.content import prompt_of
from agentctl_adapters.codex.errors import error_of, is_refused_key, retry_of
from agentctl_adapters.codex.notices import Notices, note
from agentctl_adapters.codex.offers import Offers
from agentctl_adapters.codex.turns import Turns
from agentctl_adapters.codex.usage import window_of
from agentctl_adapters.codex.view import Book, Item, Prompt, Thread
from agentctl_adapters.common.shapes import Json, as_object, as_text, request_key

logger = logging.getLogger(__name__)

Drafts = Sequence[AnyDraft]
Handler = Callable[[Json, Any], Drafts]
_NONE: Drafts = ()
STDERR_LINES = 50
LOG_CHARS = 16_000

_MAKERS = frozenset({"thread/start", "thread/resume", "thread/fork"})
_ANNOUNCED = frozenset({"thread/compact/start", "thread/shellCommand"})
# Sent often, and nothing that a reader of events could use.
_IGNORED = frozenset(
    {
        "thread/started",
        "thread/readState/changed",
        "thread/queue/changed",
        "thread/archived",
        "thread/unarchived",
        "thread/deleted",
        "thread/closed",
        "thread/reverted",
        "thread/compacted",
        "remoteControl/status/changed",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "item/reasoning/summaryPartAdded",
        "item/commandExecution/terminalInteraction",
        "item/mcpToolCall/progress",
        "account/updated",
        "account/login/completed",
        "skills/changed",
        "hook/started",
        "hook/completed",
        "model/verification",
        "rawResponseItem/completed",
        "rawResponse/completed",
    }
)
_SILENT_ITEMS = frozenset(
    {"userMessage", "hookPrompt", "enteredReviewMode", "exitedReviewMode", "sleep"}
)


@dataclass(slots=True)
class _Ours:
    """A request of ours that waits for its answer."""

    method: str
    params: Json
    thread: Thread | None = None
    prompt: Prompt | None = None


class CodexTranslator:
    """Frames of an app-server, or of a recording with several, to drafts.

    Args:
        live: timers run, and a key that is refused ends the run at once.
    """

    def __init__(self, *, live: bool = False) -> None:
        self._live = live
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._over = False
        self.unknown: Counter[str] = Counter()
        self._reset()

    def _reset(self) -> None:
        self._book = Book()
        self._ours: dict[NativeRequestId, _Ours] = {}
        self._renews = False
        self._interrupts: dict[NativeRequestId, Thread] = {}
        self._asks = Asks(self._book)
        self._tools = tools.Tools(self._book)
        self._offers = Offers()
        self._turns = Turns(self._book, self._tools, self._asks, live=self._live)
        self._notified: Mapping[str, Handler] = {
            "item/agentMessage/delta": self._message_delta,
            "item/plan/delta": lambda p, _: items.plan_delta(self._thread(p), p),
            "item/reasoning/summaryTextDelta": self._thought,
            "item/reasoning/textDelta": self._thought,
            "item/commandExecution/outputDelta": self._output,
            "item/fileChange/outputDelta": self._output,
            "item/fileChange/patchUpdated": self._repatched,
            "item/started": self._item_started,
            "item/completed": self._item_completed,
            "turn/started": lambda p, _: self._turns.started(self._thread(p), _turn(p)),
            "turn/completed": lambda p, _: self._turns.completed(self._thread(p), _turn(p)),
            "turn/plan/updated": self._plan,
            "thread/status/changed": self._status,
            "thread/tokenUsage/updated": self._usage,
            "serverRequest/resolved": self._resolved,
            "error": self._error,
            **Notices(self._book, self._offers).handlers,
        }

    def feed(self, frame: Frame) -> Drafts:
        """One frame in order."""
        msg = frame.msg
        if frame.dir == "from_agent" and msg is not None:
            try:
                handler = self._notified.get(msg.get("method"))
                if handler is not None:
                    return handler(msg["params"], msg)
                return self._from_agent(msg)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError):
                logger.debug("a Codex message is not of the shape of its kind", exc_info=True)
                return (note("The agent sent a message that could not be understood.", msg),)
        return self._other(frame)

    def flush(self) -> Drafts:
        """The recording or the process is over."""
        return (*self._cancels(), ProcessGone(stderr_tail=list(self._stderr) or None))

    def take_given_up(self) -> list[NativeSessionId]:
        """Threads whose turn has an end for us, while the agent still has to be told to stop."""
        given, self._turns.given_up = self._turns.given_up, []
        return [NativeSessionId(each) for each in given]

    def _other(self, frame: Frame) -> Drafts:
        match frame.dir:
            case "to_agent":
                try:
                    return self._to_agent(as_object(frame.msg))
                except (AttributeError, KeyError, TypeError, ValueError):
                    logger.debug("a message to Codex is not of its kind's shape", exc_info=True)
                    return _NONE
            case "from_agent":
                return (Draft(Log(LogStream.STDOUT, (frame.raw or "")[:LOG_CHARS])),)
            case "stderr":
                line = (frame.raw or "")[:LOG_CHARS]
                self._stderr.append(line)
                return (Draft(Log(LogStream.STDERR, line)),)
            case "spawn":
                return self._process_started()
            case "stdout_end" | "exit":
                self._over = True
                told = as_object(frame.msg)
                tail = list(self._stderr) or None
                return (*self._cancels(), ProcessGone(told.get("code"), told.get("signal"), tail))
            case "timer":
                return self._turns.timer(frame.raw or "")
            case _:
                return _NONE

    def _process_started(self) -> Drafts:
        self._over = False
        self._stderr.clear()
        self._reset()
        return (ProcessStarted(),)

    def _cancels(self) -> Drafts:
        """Interrupts that the agent had no time to answer."""
        threads, self._interrupts = list(self._interrupts.values()), {}
        return [draft for thread in threads for draft in self._turns.cancelling(thread)]

    def _thread(self, params: Json) -> Thread:
        thread = self._book.thread(params["threadId"])
        thread.activity += 1
        return thread

    def _from_agent(self, msg: Json) -> Drafts:
        method = as_text(msg.get("method"))
        if not method:
            return self._answered(msg)
        params = as_object(msg.get("params"))
        if "id" in msg:
            drafts = self._asks.asked(request_key(msg["id"]), method, params, msg)
            if drafts is not None:
                return drafts
        elif method in _IGNORED:
            return _NONE
        self.unknown[method] += 1
        said = "asked for" if "id" in msg else "sent a notification"
        thread = self._book.threads.get(as_text(params.get("threadId")))
        return (note(f"The agent {said} {method[:200]!r}.", msg, thread),)

    def _to_agent(self, msg: Json) -> Drafts:
        method, params = as_text(msg.get("method")), as_object(msg.get("params"))
        if not method:
            return self._asks.answered(request_key(msg.get("id")), msg)
        before: Drafts = self._process_started() if self._over and method == "initialize" else ()
        if "id" not in msg:
            return before
        key = request_key(msg["id"])
        ours = self._ours[key] = _Ours(method, params)
        thread_id = as_text(params.get("threadId"))
        if not thread_id:
            return before
        thread = ours.thread = self._book.thread(thread_id)
        if method == "turn/start":
            ours.prompt, drafts = self._turns.prompted(thread, prompt_of(params.get("input")))
            return drafts
        if method in _ANNOUNCED:
            thread.opened = True
            command = as_text(params.get("command"))
            blocks = [ContentBlock(ContentType.TEXT, text=command)] if command else None
            thread.announced.append(blocks)
        elif method == "turn/interrupt":
            self._interrupts[key] = thread
        return before

    def _answered(self, msg: Json) -> Drafts:
        key = request_key(msg.get("id"))
        ours = self._ours.pop(key, None)
        interrupted = self._interrupts.pop(key, None)
        if ours is None:
            return (note("The agent answered nothing that was asked.", msg),)
        if "error" in msg:
            return self._refused(ours, as_object(msg.get("error")), msg)
        result = as_object(msg.get("result"))
        if interrupted is not None:
            return self._turns.cancelling(interrupted)
        thread = ours.thread
        if ours.prompt is not None and thread is not None:
            turn_id = as_text(as_object(result.get("turn")).get("id"))
            return self._turns.accepted(thread, ours.prompt, turn_id)
        if ours.method in _MAKERS:
            return self._made(ours, result)
        if ours.method == "review/start" and thread is not None:
            return self._review(thread, result)
        if ours.method == "model/list":
            self._offers.listed(result)
        elif ours.method == "account/read":
            account = as_object(result.get("account"))
            self._renews = account.get("type") == "chatgpt"
        return _NONE

    def _refused(self, ours: _Ours, error: Json, msg: Json) -> Drafts:
        thread = ours.thread
        if ours.prompt is not None and thread is not None:
            return self._turns.refused(thread, ours.prompt, error)
        if ours.method in _ANNOUNCED and thread is not None and thread.announced:
            thread.announced.pop()
        said = as_text(error.get("message"))[:1000]
        return (note(f"{ours.method} was refused: {said}", msg, thread),)

    def _made(self, ours: _Ours, result: Json) -> Drafts:
        told = as_object(result.get("thread"))
        thread_id = as_text(told.get("id"))
        if not thread_id:
            return _NONE
        thread = self._book.thread(thread_id)
        thread.opened = True
        return self._offers.made(thread, ours.params, result)

    def _review(self, thread: Thread, result: Json) -> Drafts:
        told = as_object(result.get("turn"))
        where = as_text(result.get("reviewThreadId"))
        if where and where != thread.id:
            thread = self._book.thread(where)
        thread.opened = True
        first = next(iter(told.get("items") or ()), None)
        blocks = prompt_of(as_object(first).get("content"))
        return self._turns.named(thread, as_text(told.get("id")), blocks)

    def _message_delta(self, params: Json, msg: Any) -> Drafts:
        thread = self._book.threads.get(params["threadId"])
        if thread is None:
            thread = self._book.thread(as_text(params["threadId"]))
        thread.activity += 1
        return items.message_delta(thread, params, msg)

    def _thought(self, params: Json, msg: Any) -> Drafts:
        return items.thought_delta(self._thread(params), params, msg)

    def _output(self, params: Json, msg: Any) -> Drafts:
        return self._tools.output(self._thread(params), params, msg)

    def _repatched(self, params: Json, msg: Any) -> Drafts:
        return self._tools.repatched(self._thread(params), params, msg)

    def _item_started(self, params: Json, msg: Any) -> Drafts:
        thread, source = self._thread(params), as_object(params["item"])
        kind, item_id = as_text(source.get("type")), as_text(source.get("id"))
        turn = thread.turn(params.get("turnId"))
        if kind in items.SPOKEN:
            item = items.opened(thread, kind, item_id, turn)
            item.kind = kind
            return _NONE
        if kind in tools.READERS:
            return self._tools.started(thread, source, turn, msg)
        if kind in _SILENT_ITEMS or kind == "contextCompaction":
            return _NONE
        self.unknown[f"item:{kind}"] += 1
        return (thread.draft(Log(LogStream.NOTE, f"An item of kind {kind[:200]!r}"), turn, msg),)

    def _item_completed(self, params: Json, msg: Any) -> Drafts:
        thread, source = self._thread(params), as_object(params["item"])
        kind, item_id = as_text(source.get("type")), as_text(source.get("id"))
        turn = thread.turn(params.get("turnId"))
        if kind in items.SPOKEN:
            item = thread.items.pop(item_id, None) or Item(item_id, kind, turn)
            return items.completed(thread, item, source, msg)
        if kind in tools.READERS:
            return self._tools.completed(thread, source, turn, msg)
        if kind == "contextCompaction" and thread.parent_call is None:
            return (thread.draft(SessionStatus(SessionChange.COMPACTED), turn, msg),)
        return _NONE

    def _plan(self, params: Json, msg: Any) -> Drafts:
        thread = self._thread(params)
        turn = thread.turn(params.get("turnId"))
        return (thread.draft(items.plan_of(params), turn, msg),)

    def _status(self, params: Json, _msg: Any) -> Drafts:
        thread = self._book.thread(params["threadId"])
        return self._turns.status(thread, as_text(as_object(params["status"]).get("type")))

    def _usage(self, params: Json, msg: Any) -> Drafts:
        thread = self._thread(params)
        turn = thread.turn(params.get("turnId"))
        window = window_of(thread, turn, params)
        if window is None or thread.parent_call is not None:
            return _NONE
        return (thread.draft(window, turn, msg),)

    def _resolved(self, params: Json, _msg: Any) -> Drafts:
        return self._asks.resolved(request_key(params.get("requestId")))

    def _error(self, params: Json, msg: Any) -> Drafts:
        thread, error = self._thread(params), as_object(params.get("error"))
        turn = thread.turn(params.get("turnId"))
        if params.get("willRetry") is not True:
            if turn is not None and not turn.child:
                turn.error = error_of(error)
                return _NONE
            failed = error_of(error)
            event = Error(failed.code, failed.message, failed.recoverable, failed.detail_json)
            return (thread.draft(event, turn, msg),)
        drafts = self._turns.broken(thread, turn)
        told = retry_of(error)
        # A login of ChatGPT's is renewed by Codex itself, after a first refusal.
        hopeless = is_refused_key(error) and not (self._renews and (told.attempt or 0) < 2)
        if self._live and turn is not None and hopeless:
            return [*drafts, *self._turns.give_up(thread, turn, error_of(_cause(error)))]
        return [*drafts, thread.draft(told, turn, msg)]


def _turn(params: Json) -> Json:
    return as_object(params["turn"])


def _cause(error: Json) -> Json:
    """A retry's message only counts attempts; its details say why."""
    why = as_text(error.get("additionalDetails"))
    return {**error, "message": why} if why else error
