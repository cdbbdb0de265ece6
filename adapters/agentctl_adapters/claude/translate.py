"""Owns the frames of a Claude Code process as drafts: who reads which frame. Pure.

No clock, no I/O, mints no id. One process is one conversation: all drafts name the same session,
whatever id the CLI gives it (/clear changes that). Nothing that the agent sends makes it raise.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from agentctl.core.adapter import AnyDraft, Draft, Frame, ProcessGone, ProcessStarted
from agentctl.core.events import Error, Log, Payload, RateLimit, SessionOptions, SessionStatus
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.words import LogStream, Outcome, SessionChange
from agentctl_adapters.claude import asks, background, errors, offers
from agentctl_adapters.claude.messages import TEXT, THINKING, Messages
from agentctl_adapters.claude.tools import Tools
from agentctl_adapters.claude.turns import TurnBook
from agentctl_adapters.claude.usage import Meter
from agentctl_adapters.claude.view import ONLY_SESSION, View
from agentctl_adapters.common.shapes import (
    Json,
    as_object,
    as_objects,
    as_text,
    as_words,
    number,
)

logger = logging.getLogger(__name__)

Drafts = Sequence[AnyDraft]
Handler = Callable[[Json], Drafts]
_NONE: Drafts = ()
STDERR_LINES = 50
LOG_CHARS = 16_000
# A key may be one of an account whose token is renewed between two tries; a plain key never is.
AUTH_TRIES_OF_ACCOUNT = 2
_QUIET = frozenset(
    {"keep_alive", "tool_progress", "tool_use_summary", "auth_status", "prompt_suggestion"}
    | {"thinking_tokens", "background_tasks_changed", "task_progress", "hook_progress"}
    | {
        "hook_started",
        "ui_invalidate",
        "files_persisted",
        "streamlined_text",
        "streamlined_tool_use_summary",
    }
)


class ClaudeTranslator:
    """Frames of a Claude Code process, or of a recording with several, to drafts."""

    def __init__(self, session: NativeSessionId = ONLY_SESSION) -> None:
        self._session = session
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._unknown: Counter[str] = Counter()
        self._reset()

    def _reset(self) -> None:
        self._view = view = View(self._session)
        self._book = TurnBook(view)
        self._messages = Messages(view)
        self._tools = Tools(view)
        self._meter = Meter()
        self._ours: dict[str, Json] = {}
        self._types: Mapping[str, Handler] = {
            "assistant": self._assistant,
            "user": self._user,
            "result": self._result,
            "control_request": self._asked,
            "control_response": self._answered,
            "control_cancel_request": self._taken_back,
            "command_lifecycle": self._book.lifecycle,
            "rate_limit_event": self._limit,
            "conversation_reset": self._cleared,
        }
        self._subtypes: Mapping[str, Handler] = {
            "init": self._init,
            "status": self._status,
            "api_retry": self._retry,
            "compact_boundary": self._compacted,
            "task_started": lambda msg: background.started(view, msg),
            "task_updated": lambda msg: background.updated(view, msg),
            "task_notification": lambda msg: background.notified(view, msg),
            "session_state_changed": self._state,
            "session_title_changed": self._titled,
            "model_fallback": self._fallback,
            "informational": lambda msg: self._note(as_text(msg.get("content")), msg),
            "permission_denied": self._denied,
            "hook_response": self._hook,
        }
        self._events: Mapping[str, Callable[[Json, Json], Drafts]] = {
            "message_start": self._message_start,
            "content_block_start": self._messages.open,
            "message_delta": self._message_delta,
            "message_stop": lambda msg, _event: self._messages.stop(msg),
        }

    @property
    def unknown(self) -> Mapping[str, int]:
        """How often each unknown kind of frame came."""
        return self._unknown

    def name(self, session: NativeSessionId) -> None:
        """All drafts from now on are of that session. Before the first frame of a process."""
        self._session = self._view.session = session
        self._view.native = session

    def feed(self, frame: Frame) -> Drafts:
        """One frame in order."""
        msg = frame.msg
        if frame.dir != "from_agent" or msg is None:
            return self._other(frame)
        try:
            if msg["type"] == "stream_event":
                event = msg["event"]
                kind = event["type"]
                if kind == "content_block_delta":
                    return self._messages.delta(msg, event)
                handle = self._events.get(kind)
                return handle(msg, event) if handle is not None else _NONE
            return self._from_agent(msg)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            logger.exception("a frame of Claude Code is not of the shape that its kind has")
            return self._note(
                "The agent sent a message that could not be understood.", as_object(msg)
            )

    def flush(self) -> Drafts:
        """The recording or the process is over."""
        return (ProcessGone(stderr_tail=list(self._stderr) or None),)

    def _other(self, frame: Frame) -> Drafts:
        match frame.dir:
            case "to_agent":
                return self._to_agent(as_object(frame.msg))
            case "from_agent":
                return (Draft(Log(LogStream.STDOUT, (frame.raw or "")[:LOG_CHARS])),)
            case "stderr":
                line = (frame.raw or "")[:LOG_CHARS]
                self._stderr.append(line)
                warning = errors.of_stderr(line)
                more = self._now(warning, {}) if warning is not None else _NONE
                return (Draft(Log(LogStream.STDERR, line)), *more)
            case "spawn":
                self._stderr.clear()
                self._reset()
                return (ProcessStarted(),)
            case "stdout_end" | "exit":
                told = as_object(frame.msg)
                tail = list(self._stderr) or None
                self._view.turns.clear()
                self._view.asks.clear()
                return (ProcessGone(told.get("code"), told.get("signal"), tail),)
            case _:
                return _NONE

    def _to_agent(self, msg: Json) -> Drafts:
        match msg.get("type"):
            case "user":
                return self._book.prompted(msg)
            case "control_request":
                request = as_object(msg.get("request"))
                self._ours[as_text(msg.get("request_id"))] = request
                return (
                    self._book.cancel(request) if request.get("subtype") == "interrupt" else _NONE
                )
            case "control_response":
                return asks.answered(self._view, as_object(msg.get("response")))
            case _:
                return _NONE

    def _from_agent(self, msg: Json) -> Drafts:
        kind = as_text(msg["type"])
        renamed = self._renamed(msg)
        handle = self._types.get(kind)
        if kind == "system":
            kind = as_text(msg.get("subtype"))
            handle = self._subtypes.get(kind)
        if handle is not None:
            drafts = handle(msg)
        elif kind in _QUIET:
            drafts = _NONE
        else:
            self._unknown[kind] += 1
            drafts = self._note(f"The agent sent a message of unknown kind {kind[:200]!r}.", msg)
        return [*renamed, *drafts] if renamed else drafts

    def _renamed(self, msg: Json) -> Drafts:
        """The conversation goes on under another id: that one is to be resumed."""
        view = self._view
        native = msg.get("session_id")
        if not isinstance(native, str) or not native or native == view.native:
            return _NONE
        before, view.native = view.native, native
        if not before:
            return _NONE
        status = SessionStatus(SessionChange.UPDATED, native_session_id=native)
        return self._outside(status, msg)

    def _init(self, msg: Json) -> Drafts:
        view = self._view
        view.cwd = as_text(msg.get("cwd")) or view.cwd
        view.key_source = as_text(msg.get("apiKeySource")) or view.key_source
        if "msg_lifecycle_v1" in as_words(msg.get("capabilities")):
            view.names_prompts = view.names_prompts or bool(view.prompted)
        return [*self._book.started(msg), *offers.in_force(view, msg, msg)]

    def _status(self, msg: Json) -> Drafts:
        if msg.get("status") == "requesting":
            self._book.requesting(msg)
        mode = offers.mode_of(as_text(msg.get("permissionMode")))
        if mode and self._view.news("mode", mode):
            return self._outside(SessionOptions(mode=mode), msg)
        if msg.get("compact_result") == "failed":
            said = as_text(msg.get("compact_error")) or "it did not say why"
            return self._now(Error("AGENT_NOTICE", f"The context was not compacted: {said}"), msg)
        return _NONE

    def _message_start(self, _msg: Json, event: Json) -> Drafts:
        self._messages.start(as_text(as_object(event.get("message")).get("id")))
        self._meter.request(event)
        return _NONE

    def _message_delta(self, msg: Json, event: Json) -> Drafts:
        window = self._meter.answered(event)
        return self._now(window, msg) if window is not None else _NONE

    def _assistant(self, msg: Json) -> Drafts:
        view = self._view
        if not view.is_new(as_text(msg.get("uuid"))):
            return _NONE
        parent = as_text(msg.get("parent_tool_use_id")) or None
        message = as_object(msg.get("message"))
        if msg.get("is_api_error_message") or as_text(msg.get("error")):
            return self._failure(msg, parent)
        answer = as_text(message.get("id"))
        drafts: list[AnyDraft] = []
        for block in as_objects(message.get("content")):
            kind = as_text(block.get("type"))
            if kind in (TEXT, THINKING):
                drafts += self._messages.whole(answer, block, parent, msg)
                continue
            self._messages.pass_over(answer, kind)
            if kind == "tool_use":
                drafts += self._tools.called(block, parent, msg)
        return drafts

    def _failure(self, msg: Json, parent: str | None) -> Drafts:
        """The model could not be asked. In the main conversation the turn ends with it."""
        failure = errors.of_frame(msg)
        if parent is None:
            self._view.failure = failure
            return _NONE
        error = Error(failure.code, failure.message, failure.recoverable, failure.detail_json)
        turn = self._view.turn_of(parent)
        return (Draft(error, self._view.session, turn, None, parent, msg),)

    def _user(self, msg: Json) -> Drafts:
        """Results of tools. Its words are ours, repeated, or the agent's to the model."""
        if not self._view.is_new(as_text(msg.get("uuid"))) or msg.get("isReplay"):
            return _NONE
        parent = as_text(msg.get("parent_tool_use_id")) or None
        drafts: list[AnyDraft] = []
        for block in as_objects(as_object(msg.get("message")).get("content")):
            if block.get("type") == "tool_result":
                drafts += asks.dropped(self._view, as_text(block.get("tool_use_id")))
                drafts += self._tools.ended(block, parent, msg)
        return drafts

    def _result(self, msg: Json) -> Drafts:
        view = self._view
        usage, cost, window = self._meter.result(msg)
        drafts: list[AnyDraft] = [*self._now(window, msg)] if window is not None else []
        failure, view.failure = view.failure, None
        outcome, stop, error = errors.outcome_of(msg, failure)
        lost = error or failure
        ends = self._book.ended(msg, outcome, stop, error, (usage, cost))
        told = ends and outcome is Outcome.FAILED
        if lost is not None and not told and not (outcome is Outcome.FAILED and view.prompted):
            drafts += self._now(
                Error(lost.code, lost.message, lost.recoverable, lost.detail_json), msg
            )
        if ends and outcome is not Outcome.CANCELLED:
            ends += asks.asked_again(view)
        return [*drafts, *self._tools.outlive(msg), *ends]

    def _retry(self, msg: Json) -> Drafts:
        view = self._view
        attempt = number(msg.get("attempt"))
        limit = RateLimit(errors.retry_words(msg), attempt=attempt)
        drafts: list[AnyDraft] = [*self._now(limit, msg)]
        if refuses_key(msg, view.key_source):
            status = number(msg.get("error_status"))
            said = f"the model's provider refused the login (HTTP {status})"
            drafts += self._book.failed(errors.run_error("AUTH_REQUIRED", said))
        return drafts

    def _limit(self, msg: Json) -> Drafts:
        info = as_object(msg.get("rate_limit_info"))
        status = as_text(info.get("status"))
        if status in ("", "allowed"):
            return _NONE
        window = as_text(info.get("rateLimitType")).replace("_", " ") or "usage"
        used = info.get("utilization")
        share = f", {used:.0%} of it is used" if isinstance(used, int | float) else ""
        word = "is reached" if status == "rejected" else "is near"
        resets = number(info.get("resetsAt"))
        limit = RateLimit(f"The {window} limit {word}{share}.")
        limit.resets_at = resets * 1000 if resets is not None else None
        return self._now(limit, msg)

    def _asked(self, msg: Json) -> Drafts:
        request = as_object(msg.get("request"))
        if request.get("subtype") == "can_use_tool":
            return asks.asked(self._view, NativeRequestId(as_text(msg.get("request_id"))), msg)
        return _NONE

    def _taken_back(self, msg: Json) -> Drafts:
        return asks.taken_back(self._view, NativeRequestId(as_text(msg.get("request_id"))))

    def _answered(self, msg: Json) -> Drafts:
        response = as_object(msg.get("response"))
        request = self._ours.pop(as_text(response.get("request_id")), None)
        if request is None:
            return self._note("The agent answered nothing that was asked.", msg)
        if response.get("subtype") != "success":
            said = as_text(response.get("error")) or "no reason"
            return self._note(f"{request.get('subtype')} was refused: {said}", msg)
        result = as_object(response.get("response"))
        match request.get("subtype"):
            case "initialize":
                return offers.initialized(self._view, result, msg)
            case "set_model":
                model = as_text(result.get("model"))
                if model and self._view.news("model", model):
                    return self._outside(SessionOptions(model=model), msg)
            case "set_permission_mode":
                mode = offers.mode_of(as_text(result.get("mode")))
                if mode and self._view.news("mode", mode):
                    return self._outside(SessionOptions(mode=mode), msg)
            case _:
                pass
        return _NONE

    def _compacted(self, msg: Json) -> Drafts:
        kept = as_object(as_object(msg.get("compact_metadata")).get("preserved_messages"))
        for uuid in as_words(kept.get("all_uuids")) or as_words(kept.get("uuids")):
            self._view.remember(uuid)
        self._meter.reset()
        trigger = as_text(as_object(msg.get("compact_metadata")).get("trigger")) or None
        return self._outside(SessionStatus(SessionChange.COMPACTED, reason=trigger), msg)

    def _cleared(self, msg: Json) -> Drafts:
        self._meter.reset()
        return self._outside(SessionStatus(SessionChange.UPDATED, reason="cleared"), msg)

    def _state(self, msg: Json) -> Drafts:
        return self._book.idle() if msg.get("state") == "idle" else _NONE

    def _titled(self, msg: Json) -> Drafts:
        title = as_text(msg.get("title")) or None
        return self._outside(SessionStatus(SessionChange.UPDATED, title=title), msg)

    def _fallback(self, msg: Json) -> Drafts:
        model = as_text(msg.get("fallback_model"))
        drafts: list[AnyDraft] = [*self._note(as_text(msg.get("content")), msg)]
        if model and self._view.news("model", model):
            drafts += self._outside(SessionOptions(model=model), msg)
        return drafts

    def _denied(self, msg: Json) -> Drafts:
        words = as_text(msg.get("message")) or as_text(msg.get("decision_reason"))
        return self._note(f"{as_text(msg.get('tool_name'))} was not allowed: {words}", msg)

    def _hook(self, msg: Json) -> Drafts:
        output = as_text(msg.get("output")).strip()
        return self._note(f"hook {as_text(msg.get('hook_name'))}: {output}", msg)

    def _now(self, payload: Payload, msg: Json) -> Drafts:
        view = self._view
        return (Draft(payload, view.session, view.current, None, None, msg),)

    def _outside(self, payload: Payload, msg: Json) -> Drafts:
        return (Draft(payload, self._view.session, None, None, None, msg),)

    def _note(self, text: str, msg: Json) -> Drafts:
        log = Log(LogStream.NOTE, text[:LOG_CHARS])
        return (Draft(log, self._view.session, None, None, None, msg),)


def refuses_key(msg: Json, key_source: str) -> bool:
    """Whether an api_retry is of a login that will be refused each time."""
    if msg.get("error") != "authentication_failed":
        return False
    plain_key = key_source not in ("", "none")
    return plain_key or (number(msg.get("attempt")) or 1) >= AUTH_TRIES_OF_ACCOUNT
