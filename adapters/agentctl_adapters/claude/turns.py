"""Owns where turns begin and end, and which prompts each of them answers. Pure.

Prompts and results are not one to one: prompts that wait are taken together, a prompt may be folded
into the turn that runs, and background work makes turns that nobody asked for. Frames name the prompts
that they answer by uuid; a CLI too old for that answers in order.
"""

from collections.abc import Sequence

from agentctl.core.adapter import AnyDraft, CancelSent, TurnEnded, TurnStarted
from agentctl.core.ids import NativeTurnId
from agentctl.core.parts import RunError, Usage
from agentctl.core.words import Origin, Outcome
from agentctl_adapters.claude.content import blocks_of
from agentctl_adapters.claude.view import Turn, View
from agentctl_adapters.common.shapes import Json, as_object, as_text, as_words

INTERRUPTED = "interrupted"


class TurnBook:
    """The open turns of one process."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._unnamed = 0

    def prompted(self, msg: Json) -> Sequence[AnyDraft]:
        """A `user` line of ours; one whose uuid was sent before is not taken again."""
        view = self._view
        message = as_object(msg.get("message"))
        uuid = as_text(msg.get("uuid"))
        if message.get("role") != "user" or (uuid and uuid in view.prompted):
            return ()
        if uuid:
            view.prompted.add(uuid)
        else:
            self._unnamed += 1
        key = NativeTurnId(uuid or f"prompt-{self._unnamed}")
        view.turns[key] = Turn(key, uuid)
        return (TurnStarted(view.session, key, prompt=blocks_of(message.get("content"))),)

    def started(self, msg: Json) -> Sequence[AnyDraft]:
        """system/init: a turn begins, of prompts that waited or of the agent's own."""
        view = self._view
        named = self._named(msg)
        view.failure = None
        if named or msg.get("user_message_uuids"):
            view.taken = named
            view.current = named[0] if named else None
            return ()
        unnamed = (t.key for t in view.turns.values() if t.origin is Origin.CLIENT and not t.uuid)
        waiting = next(unnamed, None)
        if waiting is None and not view.names_prompts:
            waiting = next(iter(view.turns), None)
        if waiting is not None:
            view.current, view.taken = waiting, [waiting]
            return ()
        if view.current in view.turns:
            return ()
        key = NativeTurnId(as_text(msg.get("uuid")) or f"agent-{len(view.prompted)}")
        view.turns[key] = Turn(key, "", Origin.AGENT)
        view.current, view.taken = key, [key]
        return (TurnStarted(view.session, key, Origin.AGENT),)

    def requesting(self, msg: Json) -> None:
        """A model request goes out; it may have taken in further prompts."""
        for key in self._named(msg):
            if key not in self._view.taken:
                self._view.taken.append(key)

    def lifecycle(self, msg: Json) -> Sequence[AnyDraft]:
        """command_lifecycle: a prompt that waited and was dropped gets no result."""
        view = self._view
        view.names_prompts = True
        key = NativeTurnId(as_text(msg.get("command_uuid")))
        state = msg.get("state")
        if key not in view.turns or key in view.taken or state not in ("cancelled", "completed"):
            return ()
        outcome = Outcome.CANCELLED if state == "cancelled" else Outcome.COMPLETED
        return self._end([key], outcome, None)

    def cancel(self, request: Json) -> Sequence[AnyDraft]:
        """Our interrupt. What waits behind the turn runs all the same, unless it is dropped too."""
        view = self._view
        if not view.turns or (len(view.turns) > 1 and not request.get("cancel_queued")):
            return ()
        return (CancelSent(view.session),)

    def ended(
        self,
        msg: Json,
        outcome: Outcome,
        stop: str | None,
        error: RunError | None,
        spent: tuple[Usage | None, float | None],
    ) -> list[AnyDraft]:
        """result: the end of the turn, and of every prompt that it answered."""
        view = self._view
        keys = self._named(msg)
        current = view.turns.get(view.current) if view.current is not None else None
        if current is not None and (not msg.get("user_message_uuids") or not current.uuid):
            keys = [current.key, *(key for key in keys if key != current.key)]
        if not keys and not msg.get("user_message_uuids") and not view.names_prompts:
            keys = [*view.turns][:1]
        view.current, view.taken = None, []
        return self._end(keys, outcome, stop, error, spent)

    def idle(self) -> list[AnyDraft]:
        """The agent says that it does nothing: a turn that got no result is over all the same."""
        view = self._view
        keys = [key for key in view.taken if key in view.turns]
        view.current, view.taken = None, []
        return self._end(keys, Outcome.COMPLETED, None)

    def failed(self, error: RunError) -> list[AnyDraft]:
        """Ends the turn by our own word; its result, when it comes, is late."""
        view = self._view
        keys = [key for key in view.taken if key in view.turns]
        return self._end(keys, Outcome.FAILED, None, error)

    def _named(self, msg: Json) -> list[NativeTurnId]:
        view = self._view
        uuids = as_words(msg.get("user_message_uuids"))
        if uuids:
            view.names_prompts = True
        return [key for uuid in uuids if (key := NativeTurnId(uuid)) in view.turns]

    def _end(
        self,
        keys: list[NativeTurnId],
        outcome: Outcome,
        stop: str | None,
        error: RunError | None = None,
        spent: tuple[Usage | None, float | None] = (None, None),
    ) -> list[AnyDraft]:
        view = self._view
        ends: list[AnyDraft] = []
        for key in keys:
            end = TurnEnded(view.session, key, outcome, stop, error=error)
            if ends:
                end.folded_into = keys[0]
            else:
                end.usage, end.cost_usd = spent
            ends.append(end)
            view.turns.pop(key, None)
        return ends
