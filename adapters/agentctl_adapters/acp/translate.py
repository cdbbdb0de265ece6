"""Owns ACP messages of one process as drafts: which answer is whose, and where turns begin and end.

Pure: no clock, no I/O, mints no id. It sees both directions. Ids of the two directions live in two
maps: they collide, start at 0, and may be strings. Nothing that an agent sends makes it raise.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentctl.core.adapter import (
    AnyDraft,
    CancelSent,
    Draft,
    Frame,
    ProcessGone,
    ProcessStarted,
    QuestionAnswered,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.events import ContextWindow, Log, SessionOptions, ToolUpdate
from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.words import DecidedBy, LogStream, OptionKind, Outcome, QuestionOutcome
from agentctl_adapters.acp import offers, usage
from agentctl_adapters.acp.asks import (
    permission_answer,
    permission_drafts,
    question_answer,
    question_draft,
    taken_back,
)
from agentctl_adapters.acp.content import blocks_of, text_of
from agentctl_adapters.acp.errors import error_of_answer, words_of
from agentctl_adapters.acp.quirks import quirks_of
from agentctl_adapters.acp.updates import Updates
from agentctl_adapters.acp.view import SessionView, Turn
from agentctl_adapters.common.shapes import Json, as_object, as_text, request_key

logger = logging.getLogger(__name__)

Drafts = Sequence[AnyDraft]
_NONE: Drafts = ()
STDERR_LINES = 50
LOG_CHARS = 16_000
_SESSION_MAKERS = ("session/new", "session/load", "session/resume", "session/fork")
_KNOWN_REQUESTS = ("fs/", "terminal/")


@dataclass(slots=True)
class _Ours:
    """A request of ours that waits for its answer."""

    method: str
    params: Json
    was_live: bool = False


@dataclass(slots=True)
class _Theirs:
    """A request of the agent that waits for our answer."""

    method: str
    session: NativeSessionId | None
    offered: dict[str, OptionKind] = field(default_factory=dict[str, OptionKind])
    properties: list[str] = field(default_factory=list[str])
    terminal: str = ""
    elicitation: str = ""


class AcpTranslator:
    """Frames of an ACP process, or of a recording with several, to drafts."""

    def __init__(self) -> None:
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._reset()

    def _reset(self) -> None:
        self._updates = Updates()
        self._handlers = self._updates.handlers
        self._views: dict[str, SessionView] = {}
        self._ours: dict[NativeRequestId, _Ours] = {}
        self._theirs: dict[NativeRequestId, _Theirs] = {}
        self._prompt: Json = {}
        self._answers: Mapping[str, Callable[[_Ours, Json], Drafts]] = {
            "initialize": self._initialized,
            "session/set_mode": self._mode_set,
            "session/set_model": self._model_set,
            "session/set_config_option": self._option_set,
            **dict.fromkeys(_SESSION_MAKERS, self._session_made),
        }

    @property
    def unknown(self) -> Mapping[str, int]:
        """How often each unknown kind of update came."""
        return self._updates.unknown

    def feed(self, frame: Frame) -> Drafts:
        """One frame in order."""
        msg = frame.msg
        if frame.dir == "from_agent" and msg is not None:
            try:
                if msg.get("method") == "session/update":
                    params = msg["params"]
                    update = params["update"]
                    view = self._views.get(params["sessionId"])
                    if view is None:
                        view = self._view(as_text(params["sessionId"]))
                    handler = self._handlers.get(update["sessionUpdate"])
                    if handler is not None:
                        return handler(view, update, msg)
                    return self._updates.strange(view, update["sessionUpdate"], msg)
                return self._from_agent(msg)
            except (AttributeError, KeyError, IndexError, TypeError, ValueError):
                logger.debug("an ACP message is not of the shape of its kind", exc_info=True)
                return (_note("The agent sent a message that could not be understood.", msg),)
        return self._other(frame)

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
                return (Draft(Log(LogStream.STDERR, line)),)
            case "spawn":
                self._stderr.clear()
                self._reset()
                return (ProcessStarted(),)
            case "stdout_end" | "exit":
                told = as_object(frame.msg)
                tail = list(self._stderr) or None
                return (ProcessGone(told.get("code"), told.get("signal"), tail),)
            case _:
                return _NONE

    def _view(self, session: str) -> SessionView:
        view = self._views.get(session)
        if view is None:
            view = self._views[session] = SessionView(NativeSessionId(session))
        return view

    def _from_agent(self, msg: Json) -> Drafts:
        method = msg.get("method")
        if method is None:
            return self._answered(msg)
        if "id" in msg:
            return self._asked(request_key(msg["id"]), as_text(method), msg)
        params = as_object(msg.get("params"))
        match method:
            case "$/cancel_request":
                return self._taken_back(request_key(params.get("requestId")))
            case "elicitation/complete":
                return self._page_done(as_text(params.get("elicitationId")))
            case _:
                session = as_text(params.get("sessionId")) or None
                return (
                    _note(f"The agent sent a notification {str(method)[:200]!r}.", msg, session),
                )

    def _asked(self, key: NativeRequestId, method: str, msg: Json) -> Drafts:
        params = as_object(msg.get("params"))
        session = NativeSessionId(as_text(params.get("sessionId")))
        theirs = self._theirs[key] = _Theirs(method, session or None)
        match method:
            case "session/request_permission":
                view = self._view(session)
                quirks = self._updates.quirks
                drafts, theirs.offered = permission_drafts(view, quirks, key, params, msg)
                return drafts
            case "elicitation/create":
                theirs.session = session or self._session_of(params.get("requestId"))
                theirs.elicitation = as_text(params.get("elicitationId"))
                schema = as_object(params.get("requestedSchema"))
                theirs.properties = list(as_object(schema.get("properties")))
                if theirs.session is not None:
                    self._view(theirs.session).interrupt()
                return (question_draft(theirs.session, key, params, msg),)
            case _ if method.startswith(_KNOWN_REQUESTS):
                theirs.terminal = as_text(params.get("terminalId"))
                return _NONE
            case _:
                return (_note(f"The agent asked for {method[:200]!r}.", msg, session or None),)

    def _session_of(self, request: object) -> NativeSessionId | None:
        """The session of a request of ours that the agent names, or the only one there is."""
        ours = self._ours.get(request_key(request))
        named = as_text(ours.params.get("sessionId")) if ours is not None else ""
        if named:
            return NativeSessionId(named)
        return next(iter(self._views.values())).id if len(self._views) == 1 else None

    def _taken_back(self, key: NativeRequestId) -> Drafts:
        theirs = self._theirs.get(key)
        if theirs is None or theirs.method.startswith(_KNOWN_REQUESTS):
            return _NONE
        return (taken_back(key, theirs.session, theirs.method == "elicitation/create"),)

    def _page_done(self, elicitation: str) -> Drafts:
        for key, theirs in self._theirs.items():
            if elicitation and theirs.elicitation == elicitation:
                by = DecidedBy.ELSEWHERE
                answered = QuestionOutcome.ANSWERED
                return (QuestionAnswered(key, answered, theirs.session, by=by),)
        return _NONE

    def _to_agent(self, msg: Json) -> Drafts:
        method = as_text(msg.get("method"))
        params = as_object(msg.get("params"))
        if not method:
            return self._our_answer(msg) if "id" in msg else _NONE
        session = NativeSessionId(as_text(params.get("sessionId")))
        if "id" not in msg:
            return (CancelSent(session),) if method == "session/cancel" else _NONE
        ours = self._ours[request_key(msg["id"])] = _Ours(method, params)
        if method == "session/prompt":
            return self._prompted(NativeTurnId(request_key(msg["id"])), session, params)
        if method == "session/load":
            view = self._view(session)
            ours.was_live, view.live = view.live, False
        return _NONE

    def _prompted(self, key: NativeTurnId, session: NativeSessionId, params: Json) -> Drafts:
        view = self._view(session)
        view.live = True
        view.own = None
        blocks = blocks_of(params.get("prompt"))
        before = 0.0 if view.cost is None and view.fresh else view.cost
        view.turns.append(Turn(key, text_of(blocks), cost_before=before))
        return (TurnStarted(session, key, prompt=blocks),)

    def _our_answer(self, msg: Json) -> Drafts:
        key = request_key(msg["id"])
        theirs = self._theirs.pop(key, None)
        if theirs is None:
            return _NONE
        match theirs.method:
            case "session/request_permission":
                session = theirs.session or NativeSessionId("")
                return (permission_answer(key, session, theirs.offered, msg),)
            case "elicitation/create":
                return (question_answer(key, theirs.session, theirs.properties, msg),)
            case "terminal/output" | "terminal/wait_for_exit":
                return self._terminal(theirs, as_object(msg.get("result")))
            case _:
                return _NONE

    def _terminal(self, theirs: _Theirs, result: Json) -> Drafts:
        """What a terminal of ours shows, when a tool's content names it."""
        view = self._view(theirs.session or "")
        call = view.terminals.get(theirs.terminal)
        if call is None or not view.live:
            return _NONE
        status = as_object(result.get("exitStatus")) or result
        output = result.get("output")
        update = ToolUpdate(call, exit_code=usage.number(status.get("exitCode")))
        update.output_replace = output if isinstance(output, str) else None
        return (Draft(update, view.id),)

    def _answered(self, msg: Json) -> Drafts:
        key = request_key(msg.get("id"))
        if key not in self._ours and isinstance(msg.get("id"), str):
            # Some agents give our numbers back as text.
            key = NativeRequestId(msg["id"])
        ours = self._ours.pop(key, None)
        error = as_object(msg.get("error"))
        if ours is None:
            said = words_of(error) or "an answer"
            return (_note(f"The agent answered nothing that was asked: {said}", msg),)
        if ours.method == "session/prompt":
            return self._prompt_answered(ours, NativeTurnId(key), msg)
        if "error" in msg:
            return self._refused(ours, error, msg)
        handle = self._answers.get(ours.method)
        return handle(ours, as_object(msg.get("result"))) if handle is not None else _NONE

    def _refused(self, ours: _Ours, error: Json, msg: Json) -> Drafts:
        session = as_text(ours.params.get("sessionId"))
        if ours.method == "session/load" and ours.was_live:
            self._view(session).live = True
        known = session if session in self._views else None
        return (_note(f"{ours.method} was refused: {words_of(error)}", msg, known),)

    def _prompt_answered(self, ours: _Ours, key: NativeTurnId, msg: Json) -> Drafts:
        view = self._view(as_text(ours.params.get("sessionId")))
        turn = next((turn for turn in view.turns if turn.key == key), None)
        soft = turn.soft if turn is not None else None
        if turn is not None:
            view.turns.remove(turn)
        if "error" in msg:
            outcome, error = error_of_answer(as_object(msg.get("error")))
            return (TurnEnded(view.id, key, outcome, error=error),)
        result = as_object(msg.get("result"))
        stop = as_text(result.get("stopReason"))
        end = TurnEnded(view.id, key, Outcome.COMPLETED, stop or None)
        if stop == "cancelled":
            end.outcome = Outcome.CANCELLED
        elif soft is not None and stop == "end_turn":
            end.outcome, end.error = Outcome.FAILED, soft
        drafts: list[AnyDraft] = []
        end.usage = self._usage_of(view, turn, result, drafts)
        if turn is not None:
            end.cost_usd = usage.cost_of_turn(view, turn.cost_before)
        return [*drafts, end]

    def _usage_of(
        self, view: SessionView, turn: Turn | None, result: Json, drafts: list[AnyDraft]
    ) -> usage.Usage | None:
        told = usage.of_result(result)
        if told is None:
            return turn.usage if turn is not None else None
        if self._updates.quirks.session_usage:
            told, view.spent = usage.minus(told, view.spent), told
        elif self._updates.quirks.request_usage:
            drafts.append(Draft(ContextWindow(usage=told), view.id))
            if turn is None or turn.calls:
                return None
        return told

    def _initialized(self, _ours: _Ours, result: Json) -> Drafts:
        self._updates.quirks = quirks_of(result.get("agentInfo") or result.get("info"))
        self._prompt = as_object(
            as_object(result.get("agentCapabilities")).get("promptCapabilities")
        )
        return _NONE

    def _session_made(self, ours: _Ours, result: Json) -> Drafts:
        session = as_text(result.get("sessionId")) or as_text(ours.params.get("sessionId"))
        if not session:
            return _NONE
        view = self._view(session)
        view.fresh = ours.method == "session/new"
        view.cwd = as_text(ours.params.get("cwd")) or view.cwd
        options = offers.offered(view, result)
        options.prompt_capabilities = offers.capabilities(self._prompt)
        options.mcp_servers = offers.servers(ours.params)
        return _options(view, options)

    def _mode_set(self, ours: _Ours, _result: Json) -> Drafts:
        view = self._view(as_text(ours.params.get("sessionId")))
        return _options(view, offers.mode(view, as_text(ours.params.get("modeId"))))

    def _model_set(self, ours: _Ours, _result: Json) -> Drafts:
        view = self._view(as_text(ours.params.get("sessionId")))
        model = as_text(ours.params.get("modelId"))
        return _options(view, SessionOptions(model=model) if model else None)

    def _option_set(self, ours: _Ours, result: Json) -> Drafts:
        view = self._view(as_text(ours.params.get("sessionId")))
        return _options(view, offers.offered(view, result))


def _options(view: SessionView, options: SessionOptions | None) -> Drafts:
    told = offers.news(view, options)
    return (Draft(told, view.id),) if told is not None else _NONE


def _note(text: str, msg: Json, session: str | None = None) -> Draft:
    native = NativeSessionId(session) if session else None
    return Draft(Log(LogStream.NOTE, text), native, raw=msg)
