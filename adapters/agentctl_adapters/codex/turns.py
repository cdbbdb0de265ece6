"""Owns where turns of Codex begin and end, and what they leave open. Pure.

A turn begins by our turn/start (its answer names it, or turn/started does first), by something else that
we asked for (compaction, review, a shell command), or by itself. It ends by turn/completed alone; where
that never comes, a thread that stays idle ends it. A long silence is told and ends nothing.
"""

from collections.abc import Sequence

from agentctl.core.adapter import AnyDraft, CancelSent, StartTimer, TimerKey, TurnEnded, TurnStarted
from agentctl.core.events import Error, ToolUpdate
from agentctl.core.ids import NativeTurnId
from agentctl.core.parts import ContentBlock, RunError
from agentctl.core.words import Origin, Outcome
from agentctl_adapters.codex import items
from agentctl_adapters.codex.asks import Asks
from agentctl_adapters.codex.errors import error_of, error_of_answer
from agentctl_adapters.codex.tools import Tools
from agentctl_adapters.codex.usage import plus
from agentctl_adapters.codex.view import Book, Prompt, Thread, Turn
from agentctl_adapters.common.shapes import Json, as_object, as_text

Drafts = list[AnyDraft]

# An idle thread has told the end of its turn within 10 ms wherever it was measured.
IDLE_MS = 5_000
# How often a turn is looked at for a sign of life.
QUIET_MS = 60_000
# Looks without one until a person is told, once. Codex waits for a model that took the request and never
# answers without any limit of its own; nothing ends it here, for long thinking looks the same.
QUIET_LOOKS_TO_TELL = 2

_OUTCOMES = {
    "completed": Outcome.COMPLETED,
    "failed": Outcome.FAILED,
    "interrupted": Outcome.CANCELLED,
}
SILENT = "AGENT_SILENT"


class Turns:
    """The turns of every thread of one process."""

    def __init__(self, book: Book, tools: Tools, asks: Asks, *, live: bool) -> None:
        self._book = book
        self._tools = tools
        self._asks = asks
        self._live = live
        self._count = 0
        self.given_up: list[str] = []
        """Threads whose turn we ended although Codex still works on it: to be interrupted."""

    def prompted(self, thread: Thread, blocks: list[ContentBlock]) -> tuple[Prompt, Drafts]:
        """A turn/start goes out."""
        self._count += 1
        prompt = Prompt(NativeTurnId(f"prompt-{self._count}"))
        thread.opened = True
        thread.waiting.append(prompt)
        return prompt, [TurnStarted(thread.session, prompt.key, prompt=blocks)]

    def refused(self, thread: Thread, prompt: Prompt, error: Json) -> Drafts:
        if prompt in thread.waiting:
            thread.waiting.remove(prompt)
        if prompt.turn is not None:
            return []
        ended = TurnEnded(thread.session, prompt.key, Outcome.FAILED, error=error_of_answer(error))
        return [ended]

    def accepted(self, thread: Thread, prompt: Prompt, turn_id: str) -> Drafts:
        """The answer names the turn: a new one, or the running one into which the prompt went."""
        if prompt in thread.waiting:
            thread.waiting.remove(prompt)
        turn, guess = thread.turn(turn_id), prompt.turn
        if (guess is not None and guess is turn) or not turn_id:
            return []
        drafts: Drafts = []
        if guess is not None:
            guess.keys.remove(prompt.key)
            if not guess.keys and not guess.ended:
                guess.keys.append(NativeTurnId(guess.id))
                drafts.append(TurnStarted(thread.session, guess.keys[0], Origin.AGENT))
        prompt.turn = turn
        if turn is None:
            return drafts + self._open(thread, prompt, turn_id)
        if turn.ended:
            return [*drafts, self._end_of(thread, turn, prompt.key, Outcome.COMPLETED)]
        turn.keys.append(prompt.key)
        return drafts

    def named(self, thread: Thread, turn_id: str, blocks: list[ContentBlock]) -> Drafts:
        """The answer to review/start: this turn will be told of under that id."""
        if not turn_id or thread.turn(turn_id) is not None:
            return []
        return self._begin(thread, turn_id, (turn_id,), Origin.CLIENT, blocks)

    def started(self, thread: Thread, told: Json) -> Drafts:
        turn_id, root = as_text(told.get("id")), as_text(told.get("rootTurnId"))
        thread.idle = False
        known = thread.turn(turn_id) or thread.turn(root)
        if known is not None or not turn_id:
            if known is not None and not known.ended:
                thread.know(known, turn_id)
            return []
        ids = (turn_id, root) if root else (turn_id,)
        parent = self._book.owners.get(root)
        if parent is not None and parent is not thread:
            self._book.adopt(thread, parent, parent.parent_call or thread.id)
        if thread.parent_call is not None:
            above = parent.turn(root) if parent is not None else None
            keys = above.keys if above is not None else []
            thread.know(Turn(turn_id, keys, child=True), turn_id)
            self._book.own(turn_id, thread)
            return []
        if thread.waiting:
            prompt = thread.waiting.pop(0)
            return self._open(thread, prompt, *ids)
        if thread.announced:
            return self._begin(thread, turn_id, ids, Origin.CLIENT, thread.announced.pop(0))
        return self._begin(thread, turn_id, ids, Origin.AGENT, None)

    def completed(self, thread: Thread, told: Json) -> Drafts:
        turn = thread.turn(told.get("id"))
        if turn is None or turn.ended:
            return []
        status = as_text(told.get("status"))
        turn.interrupted = status == "interrupted"
        error = as_object(told.get("error"))
        if error:
            turn.error = error_of(error)
        if turn.child:
            self._count_in(thread, turn)
            left = self._close(thread, turn)
            return left + self._tools.child_ended(thread, status)
        return self._end(thread, turn, _OUTCOMES.get(status, Outcome.FAILED), None)

    def broken(self, thread: Thread, turn: Turn | None) -> Drafts:
        """The model's stream broke and is started anew: what was being said never was."""
        drafts: Drafts = []
        for item in [i for i in thread.items.values() if not i.tool and i.turn is turn]:
            drafts += items.abandoned(thread, item)
            del thread.items[item.id]
        return drafts

    def give_up(self, thread: Thread, turn: Turn, error: RunError) -> Drafts:
        """We end the turn; Codex does not know yet."""
        if turn.ended or turn.child:
            return []
        turn.error = error
        self.given_up.append(thread.id)
        return self._end(thread, turn, Outcome.FAILED, None)

    def status(self, thread: Thread, status: str) -> Drafts:
        thread.idle = status in ("idle", "systemError")
        turn = thread.open_turn
        if not (self._live and thread.idle) or turn is None or turn.child:
            return []
        return [StartTimer(TimerKey(f"idle {thread.id} {turn.id}"), IDLE_MS)]

    def timer(self, key: str) -> Drafts:
        what, _, names = key.partition(" ")
        thread_id, _, turn_id = names.partition(" ")
        thread = self._book.threads.get(thread_id)
        turn = thread.turn(turn_id) if thread is not None else None
        if thread is None or turn is None or turn.ended:
            return []
        if what == "idle":
            if not thread.idle:
                return []
            outcome = Outcome.FAILED if turn.error is not None else Outcome.COMPLETED
            return self._end(thread, turn, outcome, "idle")
        return self._look(thread, turn)

    def cancelling(self, thread: Thread) -> Drafts:
        return [CancelSent(thread.session)] if thread.open_turn or thread.waiting else []

    def _look(self, thread: Thread, turn: Turn) -> Drafts:
        busy = any(item.tool for item in thread.items.values()) or self._asks.waiting(thread)
        family = [t for t in self._book.threads.values() if t.session == thread.session]
        lived = sum(each.activity for each in family)
        turn.silent = 0 if busy or lived != turn.seen else turn.silent + 1
        turn.seen = lived
        again: Drafts = [StartTimer(TimerKey(f"quiet {thread.id} {turn.id}"), QUIET_MS)]
        minutes = turn.silent * QUIET_MS // 60_000
        if turn.silent == QUIET_LOOKS_TO_TELL:
            words = (
                f"Nothing has come from the model for {minutes} minutes; the turn goes on. Cancel"
                " it if the model's address may be wrong or out of reach."
            )
            again.append(thread.draft(Error(SILENT, words), turn))
        return again

    def _open(self, thread: Thread, prompt: Prompt, *ids: str) -> Drafts:
        turn = prompt.turn = Turn(ids[0], [prompt.key])
        return self._know(thread, turn, ids)

    def _begin(
        self,
        thread: Thread,
        turn_id: str,
        ids: Sequence[str],
        origin: Origin,
        blocks: list[ContentBlock] | None,
    ) -> Drafts:
        turn = Turn(turn_id, [NativeTurnId(turn_id)])
        started = TurnStarted(thread.session, turn.keys[0], origin, blocks)
        return [started, *self._know(thread, turn, ids)]

    def _know(self, thread: Thread, turn: Turn, ids: Sequence[str]) -> Drafts:
        thread.know(turn, *ids)
        for each in ids:
            self._book.own(each, thread)
        if not self._live:
            return []
        return [StartTimer(TimerKey(f"quiet {thread.id} {turn.id}"), QUIET_MS)]

    def _end(self, thread: Thread, turn: Turn, outcome: Outcome, stop_reason: str | None) -> Drafts:
        drafts = self._close(thread, turn)
        ends = [self._end_of(thread, turn, key, outcome, stop_reason) for key in turn.keys]
        return [*drafts, *ends]

    def _end_of(
        self,
        thread: Thread,
        turn: Turn,
        key: NativeTurnId,
        outcome: Outcome,
        stop_reason: str | None = None,
    ) -> TurnEnded:
        end = TurnEnded(thread.session, key, outcome, stop_reason)
        if outcome is Outcome.FAILED:
            end.error = turn.error
        if key == turn.run:
            end.usage = turn.usage
        else:
            end.folded_into = turn.run
        return end

    def _close(self, thread: Thread, turn: Turn) -> Drafts:
        """What the turn leaves behind; from here on its words are late."""
        turn.ended = True
        drafts: Drafts = []
        for item in [i for i in thread.items.values() if i.turn is turn]:
            if item.tool:
                drafts += self._tools.left_open(thread, item)
            else:
                drafts += items.left_open(thread, item)
                del thread.items[item.id]
        for child in self._book.threads.values() if not turn.child else ():
            for item in [i for i in child.items.values() if i.turn is not None and i.turn.child]:
                # A subagent that works on keeps its tools, which are its run's no more.
                if item.tool and item.turn is not None and item.turn.keys is turn.keys:
                    drafts.append(child.draft(ToolUpdate(item.id, background=True), item.turn))
        return drafts

    def _count_in(self, child: Thread, turn: Turn) -> None:
        """A subagent's tokens are its run's."""
        if turn.usage is None:
            return
        for thread in self._book.threads.values():
            for above in thread.turns.values():
                if above.keys is turn.keys and not above.child and not above.ended:
                    above.usage = plus(above.usage, turn.usage)
                    return
