"""Owns what each kind of session/update means, as drafts. Pure; knows no request and no answer.

Content of a session that was not prompted yet is history (after load or in a fork) or nobody's, and is
left out; what may be chosen in it is told all the same.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Error, Log, MessageChunk, Reasoning, SessionStatus
from agentctl.core.words import ContentType, LogStream, Role, SessionChange
from agentctl_adapters.acp import offers, usage
from agentctl_adapters.acp.calls import parent_of, tool_drafts
from agentctl_adapters.acp.content import block_of, plan_of
from agentctl_adapters.acp.quirks import Quirks, Speech, codex_status
from agentctl_adapters.acp.view import SessionView
from agentctl_adapters.common.shapes import Json, as_object, as_text

Drafts = Sequence[AnyDraft]
_NONE: Drafts = ()
NOTE_CHARS = 500


class Updates:
    """One process's updates, by kind. `handlers` is for the translator's short way."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        """How often each kind came that this version does not know."""
        self._quirks = Quirks()
        self._speech: Speech | None = None
        self.handlers: Mapping[str, Callable[[SessionView, Json, Any], Drafts]] = {
            "agent_message_chunk": self._text,
            "agent_thought_chunk": self._thought,
            "user_message_chunk": self._user,
            "tool_call": self._tool,
            "tool_call_update": self._tool,
            "plan": self._plan,
            "usage_update": self._usage,
            "available_commands_update": self._commands,
            "current_mode_update": self._mode,
            "config_option_update": self._options,
            "session_info_update": self._info,
            "notice": self._notice,
        }

    @property
    def quirks(self) -> Quirks:
        return self._quirks

    @quirks.setter
    def quirks(self, quirks: Quirks) -> None:
        self._quirks = quirks
        self._speech = quirks.speech

    def _text(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        content = update["content"]
        if content["type"] != "text":
            return self._content(view, update, raw)
        text = content["text"]
        if not isinstance(text, str):
            return _NONE
        if self._speech is not None and (said := self._speech(view, text, update)) is not None:
            return said
        if not view.live:
            return _NONE
        if not text:
            return self._request_usage(view, update)
        if view.turns:
            view.turns[0].soft = None
        own = update.get("messageId")
        if own is None:
            shown = ""
        elif own == view.own and view.own_kind == "text":
            shown = view.shown
        else:
            shown = view.block("text", own) if isinstance(own, str) and own else ""
        parent = parent_of(update) if "_meta" in update else None
        return (Draft(MessageChunk(shown, Role.ASSISTANT, text), view.id, None, None, parent, raw),)

    def _content(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        if not view.live:
            return _NONE
        own = as_text(update.get("messageId"))
        shown = view.block("text", own) if own else ""
        chunk = MessageChunk(shown, content=block_of(as_object(update.get("content"))))
        return (Draft(chunk, view.id, None, None, parent_of(update), raw),)

    def _request_usage(self, view: SessionView, update: Json) -> Drafts:
        """An empty chunk is no text; it may carry the usage of one model request."""
        told = usage.tokens(as_object(update.get("_meta")).get("usage"))
        if told is None:
            return _NONE
        if view.turn is not None:
            view.turn.usage = usage.plus(view.turn.usage, told)
        return (Draft(usage.ContextWindow(usage=told), view.id),)

    def _thought(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        text = as_text(as_object(update.get("content")).get("text"))
        if not view.live or not text:
            return _NONE
        own = as_text(update.get("messageId"))
        shown = view.block("thought", own) if own else ""
        if not own:
            view.own = None
        return (Draft(Reasoning(shown, text), view.id, None, None, parent_of(update), raw),)

    def _user(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        """The echo of a prompt is not told again; another client's words are the user's."""
        block = block_of(as_object(update.get("content")))
        if not view.live or (not block.text and block.type is ContentType.TEXT):
            return _NONE
        if block.text and any(block.text.strip() in turn.prompt for turn in view.turns):
            return _NONE
        own = as_text(update.get("messageId"))
        shown = view.block("user", own) if own else ""
        text = block.text if block.type is ContentType.TEXT else None
        chunk = MessageChunk(shown, Role.USER, text, None if text else block)
        return (Draft(chunk, view.id, None, None, None, raw),)

    def _tool(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        return tool_drafts(view, self._quirks, update, raw) if view.live else _NONE

    def _plan(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        plan = plan_of(update.get("entries")) if view.live else None
        if plan is None:
            return _NONE
        view.interrupt()
        return (Draft(plan, view.id, None, None, parent_of(update), raw),)

    def _usage(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        window = usage.window_of(view, update)
        if not view.live:
            view.window = ()
        if window is None or not view.live:
            return _NONE
        return (Draft(window, view.id, raw=raw),)

    def _commands(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        options = offers.news(view, offers.commands(update))
        return (Draft(options, view.id, raw=raw),) if options is not None else _NONE

    def _mode(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        told = offers.mode(view, as_text(update.get("currentModeId")))
        options = offers.news(view, told)
        return (Draft(options, view.id, raw=raw),) if options is not None else _NONE

    def _options(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        options = offers.news(view, offers.offered(view, update))
        return (Draft(options, view.id, raw=raw),) if options is not None else _NONE

    def _info(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        drafts: list[AnyDraft] = []
        title = as_text(update.get("title"))
        if title and title != view.title:
            view.title = title
            status = SessionStatus(SessionChange.UPDATED, title=title)
            drafts.append(Draft(status, view.id, raw=raw))
        if "_meta" in update:
            drafts += codex_status(view, update)
        return drafts

    def _notice(self, view: SessionView, update: Json, raw: Any) -> Drafts:
        words = ": ".join(w for k in ("title", "description") if (w := as_text(update.get(k))))
        if not words:
            return _NONE
        if update.get("severity") == "error":
            return (Draft(Error("AGENT_NOTICE", words), view.id, raw=raw),)
        return (Draft(Log(LogStream.NOTE, words), view.id, raw=raw),)

    def strange(self, view: SessionView, kind: object, raw: Any) -> Drafts:
        """A kind that this version does not know: noted with its text, counted, never fatal."""
        name = str(kind)[:NOTE_CHARS]
        self.unknown[name] += 1
        note = Log(LogStream.NOTE, f"The agent sent an update of unknown kind {name!r}.")
        return (Draft(note, view.id, raw=raw),)
