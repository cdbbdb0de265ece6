"""Owns what a refetch after a break of the event stream finds: only the difference is told. Pure.

The stream has no ids and replays nothing, so the messages, permissions, questions, to-dos and states of
the sessions are fetched again, in that order: what was said meanwhile is told before its turn ends.
"""

from collections.abc import Sequence

from agentctl.core.adapter import AnyDraft
from agentctl_adapters.opencode.asks import Asks
from agentctl_adapters.opencode.messages import Messages
from agentctl_adapters.opencode.shapes import Json, as_object, as_objects, as_text
from agentctl_adapters.opencode.tools import Tools
from agentctl_adapters.opencode.turns import TurnBook
from agentctl_adapters.opencode.view import Book, SessionView

Drafts = Sequence[AnyDraft]


class Resync:
    """The answers of refetches, as if their events had not been missed."""

    def __init__(
        self, book: Book, turns: TurnBook, messages: Messages, asks: Asks, tools: Tools
    ) -> None:
        self._book = book
        self._turns = turns
        self._messages = messages
        self._asks = asks
        self._tools = tools

    def answered(self, path: list[str], directory: str, body: object) -> Drafts | None:
        """The answer of a GET that was marked `resync`; None when it is none of these."""
        match path:
            case ["session", "status"]:
                return self._status(directory, as_object(body))
            case ["session", own, "message"]:
                return self._history(self._book.view(own), as_objects(body))
            case ["session", own, "todo"]:
                return self._tools.todos(self._book.view(own), body if body else None)
            case ["permission"]:
                listed = as_objects(body)
                asked = [d for item in listed for d in self._asks.permission(item, item)]
                return [*asked, *self._gone(directory, listed, questions=False)]
            case ["question"]:
                listed = as_objects(body)
                asked = [d for item in listed for d in self._asks.question(item, item)]
                return [*asked, *self._gone(directory, listed, questions=True)]
            case _:
                return None

    def _gone(self, directory: str, listed: list[Json], *, questions: bool) -> Drafts:
        ids = {as_text(item.get("id")) for item in listed}
        views = {view.id for view in self._here(directory)}
        return self._asks.still_listed(ids, views, questions=questions)

    def _here(self, directory: str) -> list[SessionView]:
        return [
            view
            for view in self._book.views.values()
            if not directory or not view.directory or view.directory == directory
        ]

    def _status(self, directory: str, body: Json) -> Drafts:
        """Only busy and retrying sessions are listed; some servers list the idle ones too."""
        drafts: list[AnyDraft] = []
        for view in self._here(directory):
            status = as_object(body.get(view.id))
            if status.get("type") in ("busy", "retry"):
                drafts += self._turns.busy(view)
            else:
                drafts += self._messages.flush(view)
                drafts += self._turns.absent(view)
        return drafts

    def _history(self, view: SessionView, rows: list[Json]) -> Drafts:
        """All messages of a session. New is what is known, and what stands after that."""
        mine = {turn.message for turn in view.root.turns if turn.message}
        known = {own for own, message in view.messages.items() if message.live} | mine
        ids = [as_text(as_object(row.get("info")).get("id")) for row in rows]
        first = next((at for at, own in enumerate(ids) if own in known), None)
        if first is None:
            first = 0 if view.parent is not None and view.turn is not None else len(rows)
        drafts: list[AnyDraft] = []
        for row in rows[first:]:
            info = as_object(row.get("info"))
            opened = {**info, "time": _without_end(info)}
            drafts += self._messages.updated({"info": opened}, row, missed=True)
            for part in as_objects(row.get("parts")):
                drafts += self._messages.part({"part": part}, row, missed=True)
            drafts += self._messages.updated({"info": info}, row, missed=True)
        return drafts


def _without_end(info: Json) -> Json:
    return {k: v for k, v in as_object(info.get("time")).items() if k != "completed"}
