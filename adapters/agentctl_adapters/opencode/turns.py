"""Owns where turns begin and end: prompts and their answers, idle and busy, errors, aborts. Pure.

A turn is over at the first idle after the server showed its user message. After an error or abort an
idle comes too early when the answer is not complete: the second one counts. The answer of a sync call
often comes before its idle. What waits for a deadline asks for a timer; in a recording none fires, and
the next idle, the next prompt or the end of the file settles it.
"""

from agentctl.core.adapter import (
    AnyDraft,
    CancelSent,
    Draft,
    StartTimer,
    TimerKey,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.ids import NativeTurnId
from agentctl.core.parts import ContentBlock, RunError
from agentctl.core.words import Origin, Outcome
from agentctl_adapters.opencode import errors, usage
from agentctl_adapters.opencode.prompts import text_block
from agentctl_adapters.opencode.shapes import Json, as_object, as_text
from agentctl_adapters.opencode.view import Book, Message, SessionView, Turn, blocks_text

Drafts = list[AnyDraft]

# The second idle came 9 to 333 ms after the first one; half a second waits for it and is not felt.
HOLD_MS = 500
# A sync call is answered just before its idle; without a working event stream nothing else comes.
SETTLE_MS = 2_000
# A cold server with plugins was seen to block for 70 s before a turn began.
ACCEPT_MS = 120_000
# An unknown agent is told by an error without any message; a missing attachment goes on after one.
REFUSED_MS = 2_000
# Summaries with the diffs come some 30 ms after the idle.
DIFFS_MS = 1_000


class TurnBook:
    """The turns of every session of one server."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._timers: dict[str, tuple[SessionView, Turn]] = {}
        self._agent_turns = 0

    # Prompts and their answers

    def prompted(
        self, view: SessionView, key: str, message: str, prompt: list[ContentBlock]
    ) -> tuple[Turn | None, Drafts]:
        """Our prompt goes out; no turn when it repeats one that waits for its answer."""
        drafts: Drafts = []
        if message and any(t.message == message and not t.answered for t in view.turns):
            return None, drafts
        for turn in [t for t in view.turns if t.answered or t.held]:
            drafts += self.end(view, turn)
        if view.ended is not None:
            drafts += self.late_changes(view, view.ended)
        again = message in view.spent
        name = NativeTurnId(message if message and not again else f"prompt:{key}")
        turn = Turn(name, message, named=bool(message), texts=blocks_text(prompt))
        view.ours = True
        view.turns.append(turn)
        if message:
            view.spent[message] = turn
        else:
            view.expect.append(turn)
        drafts.append(TurnStarted(view.native, turn.key, prompt=prompt))
        return turn, drafts

    def silent(self, view: SessionView, message: str) -> Turn:
        """A message without reply: it opens nothing, and its echo is no prompt of anybody."""
        turn = Turn(NativeTurnId(""), message, named=bool(message), silent=True)
        if message:
            view.spent[message] = None
        else:
            view.expect.append(turn)
        return turn

    def answered(self, view: SessionView, turn: Turn, info: Json, *, sync: bool) -> Drafts:
        """The server took the prompt; a sync call is also done with it."""
        turn.accepted = True
        if not sync:
            return [] if turn.seen or turn.over else [self._timer("accept", view, turn, ACCEPT_MS)]
        turn.answered = True
        user = as_text(info.get("parentID"))
        if info.get("role") == "user":
            user = as_text(info.get("id"))
        if user and not turn.message and view.spent.get(user) is None:
            self._bind(view, turn, user)
        elif user and not turn.seen and user != turn.message:
            turn.touched = True
        if turn.silent or turn.over:
            return []
        error = as_object(info.get("error"))
        if error and turn.error is None:
            self._note_error(turn, error)
        message = as_text(info.get("id"))
        if info.get("role") == "assistant" and not error:
            turn.well = as_text(info.get("finish")) or "stop"
        if message and info.get("role") != "user":
            both = usage.tokens(info.get("tokens")), usage.amount(info.get("cost"))
            if both[0] is not None:
                turn.totals.setdefault(message, both)
        if turn.idled:
            return self._finish(view, [turn])
        return [self._timer("settle", view, turn, SETTLE_MS)]

    def refused(self, view: SessionView, turn: Turn, error: RunError) -> Drafts:
        """The prompt was not taken: its run ends here."""
        if turn in view.expect:
            view.expect.remove(turn)
        if turn.silent or turn.over:
            return []
        better = turn.error
        if better is not None and error.code in ("AGENT_FAILED", "MODEL_ERROR"):
            error = better
        return self.end(view, turn, Outcome.FAILED, error)

    def aborting(self, view: SessionView) -> Drafts:
        """We tell the server to abort what runs in the session."""
        for turn in view.turns:
            turn.aborted = True
        return [CancelSent(view.native)] if view.parent is None else []

    # What the server shows of its messages

    def user_message(self, view: SessionView, message: Message, *, first: bool) -> Drafts:
        """A live user message: whose prompt is it?"""
        for turn in view.turns:
            if turn.message == message.id:
                turn.seen = True
                message.turn = message.turn or turn
                return []
        if message.id in view.spent:
            message.turn = message.turn or view.spent[message.id]
            return []
        if not first:
            return []
        if view.expect:
            turn = view.expect[0]
            self._bind(view, turn, message.id)
            turn.seen = True
            message.turn = None if turn.silent else turn
            return []
        message.turn = view.turn
        if view.turns:
            unseen = next((t for t in view.turns if not t.seen), None)
            if unseen is not None and view.turns[0] is unseen:
                unseen.touched = True
        elif view.parent is None:
            view.stranger = message
            if view.busy:
                return self.begun_by_server(view)
        return []

    def assistant_message(self, view: SessionView, message: Message) -> Drafts:
        """A new live answer; it may be the first sign of a turn that the server began itself."""
        drafts: Drafts = []
        turn = next((t for t in view.turns if t.message and t.message == message.parent), None)
        if turn is not None:
            turn.seen = turn.replied = True
        elif view.turns and not view.turns[0].seen:
            view.turns[0].touched = message.parent not in view.spent
        elif not view.turns and view.busy and message.parent not in view.spent:
            drafts = self.begun_by_server(view)
        message.turn = view.turn
        if message.turn is None and message.parent:
            message.turn = view.spent.get(message.parent)
        return drafts

    def begun_by_server(self, view: SessionView) -> Drafts:
        """A turn without a prompt of ours: another client's, or the server's own."""
        if view.parent is not None or view.turns:
            return []
        stranger, view.stranger = view.stranger, None
        self._agent_turns += 1
        name = stranger.id if stranger is not None else f"agent:{self._agent_turns}"
        turn = Turn(NativeTurnId(name), accepted=True, seen=True)
        prompt: list[ContentBlock] | None = None
        if stranger is not None:
            turn.message = stranger.id
            view.spent[stranger.id] = turn
            stranger.turn = turn
            prompt = [text_block(text) for text in stranger.texts] or None
        view.turns.append(turn)
        return [TurnStarted(view.native, turn.key, Origin.AGENT, prompt)]

    # What the server says of its state

    def busy(self, view: SessionView) -> Drafts:
        view.busy, view.twin = True, False
        held = [turn for turn in view.turns if turn.held]
        if held:
            if len(held) == len(view.turns):
                for turn in held:
                    turn.held, turn.into = False, None
                return []
            return [draft for turn in held for draft in self.end(view, turn)]
        if not view.turns and (view.stranger is not None or (not view.had_turn and not view.spent)):
            return self.begun_by_server(view)
        return []

    def idle(self, view: SessionView, *, status: bool) -> Drafts:
        """An idle: of the status, or the event that follows it and says the same again."""
        if not status and view.twin:
            view.twin = False
            return []
        view.twin, view.busy = status, False
        done = [turn for turn in view.turns if self._is_seen(turn)]
        if not done:
            for turn in view.turns:
                turn.idled = turn.touched
            return []
        first = done[0]
        if self._is_early(first) and not first.held:
            for turn in done:
                turn.held = True
            return [self._timer("hold", view, first, HOLD_MS)]
        return self._finish(view, done)

    def stopped(self, view: SessionView) -> Drafts:
        """The server says that the session was aborted, as some say instead of an error."""
        for turn in view.turns:
            if self._is_seen(turn) or turn.accepted:
                turn.aborted = turn.seen = True
        return self.idle(view, status=True)

    def failed(self, view: SessionView, error: Json) -> Drafts:
        """A session.error: an event, and perhaps the reason of the run's end. It ends nothing."""
        turn = next((t for t in view.turns if t.seen), view.turn)
        if view.parent is not None:
            turn = None
        if errors.name_of(error) == errors.ABORTED:
            if turn is not None:
                turn.aborted = True
            return []
        words = errors.said(error)
        drafts: Drafts = []
        before = turn or view.ended
        if before is None or (words not in before.told and not words.startswith("UnknownError")):
            told = Draft(errors.event_error(error), view.root.native)
            told.parent_tool_call_id = view.parent_call
            drafts.append(told)
        if turn is None:
            return drafts
        self._note_error(turn, error)
        if not turn.seen:
            drafts.append(self._timer("refused", view, turn, REFUSED_MS))
        return drafts

    def absent(self, view: SessionView) -> Drafts:
        """A refetch says that the session is not busy: an idle was missed, or the server forgot it."""
        view.busy = False
        done = [turn for turn in view.turns if self._is_seen(turn)]
        if not done:
            return []
        last = done[0].last
        if last is not None and not last.completed and done[0].error is None:
            error = None if done[0].aborted else errors.interrupted()
            outcome = Outcome.CANCELLED if done[0].aborted else Outcome.FAILED
            return [d for turn in done for d in self.end(view, turn, outcome, error)]
        return self._finish(view, done)

    def disposed(self, directory: str) -> Drafts:
        """An instance is gone and its stream ends: no second idle comes any more."""
        drafts: Drafts = []
        for view in self._book.views.values():
            if directory and view.directory and view.directory != directory:
                continue
            for turn in [t for t in view.turns if t.held]:
                drafts += self.end(view, turn)
        return drafts

    def settle(self) -> Drafts:
        """Nothing more comes (end of file, of the process): what only waited is decided."""
        drafts: Drafts = []
        for view in self._book.views.values():
            for turn in [*view.turns]:
                if turn.answered or turn.held:
                    drafts += self.end(view, turn)
                elif turn.error is not None and not turn.seen:
                    drafts += self.end(view, turn, Outcome.FAILED, turn.error)
            if view.ended is not None:
                drafts += self.late_changes(view, view.ended)
        return drafts

    def awaits(self, key: str) -> bool:
        """Whether a deadline that has come still decides an end."""
        turn = self._timers.get(key, (None, None))[1]
        return turn is not None and not turn.over and (turn.held or turn.answered)

    def timer(self, key: str) -> Drafts:
        """A deadline passed; it counts only if nothing settled the turn meanwhile."""
        view, turn = self._timers.pop(key, (None, None))
        if view is None or turn is None:
            return []
        match key.partition(":")[0]:
            case "diffs":
                return self.late_changes(view, turn)
            case _ if turn.over:
                return []
            case "hold" if turn.held:
                return self._finish(view, [t for t in view.turns if t.held])
            case "settle" if turn.answered:
                return self.end(view, turn)
            case "accept" if not self._is_seen(turn):
                return self.end(view, turn, Outcome.FAILED, turn.error or errors.not_taken())
            case "refused" if not turn.seen and turn.error is not None:
                return self.end(view, turn, Outcome.FAILED, turn.error)
            case _:
                return []

    # Ends

    def end(
        self,
        view: SessionView,
        turn: Turn,
        outcome: Outcome | None = None,
        error: RunError | None = None,
    ) -> Drafts:
        """Ends one turn, by its own answer's word unless told otherwise."""
        into = turn.into
        turn.over = True
        view.turns.remove(turn)
        if turn in view.expect:
            view.expect.remove(turn)
        view.had_turn, view.ended = True, turn
        stop: str | None = None
        if outcome is None:
            outcome, error, stop = errors.judged(turn if into is None else into)
        spent, cost = usage.of_turn(turn)
        ended = TurnEnded(view.native, turn.key, outcome, stop, spent, cost, error)
        if into is not None:
            ended.folded_into = into.key
        self._book.forget_old(view)
        drafts: Drafts = [ended]
        if turn.pending:
            drafts.append(self._timer("diffs", view, turn, DIFFS_MS))
        return drafts

    def late_changes(self, view: SessionView, turn: Turn) -> Drafts:
        """Changes whose diff was waited for in vain."""
        changes = [*turn.pending.values()]
        turn.pending.clear()
        return [Draft(change, view.root.native, turn.key) for change in changes]

    def _finish(self, view: SessionView, done: list[Turn]) -> Drafts:
        """One idle ends the prompts that the server took into one turn."""
        first, *others = done
        stopped = first.aborted or first.error is not None
        drafts: Drafts = []
        for turn in others:
            turn.into = first
            if stopped or turn.replied or turn.answered or turn.held:
                drafts += self.end(view, turn)
            else:
                turn.held = True
                drafts.append(self._timer("hold", view, turn, SETTLE_MS))
        return [*self.end(view, first), *drafts]

    def _is_seen(self, turn: Turn) -> bool:
        return turn.seen or (turn.touched and (turn.accepted or turn.answered))

    def _is_early(self, turn: Turn) -> bool:
        """An error or abort was told, and the answer is not complete yet."""
        stopped = turn.error is not None or turn.aborted
        return stopped and turn.last is not None and not turn.last.completed

    def _bind(self, view: SessionView, turn: Turn, message: str) -> None:
        if turn in view.expect:
            view.expect.remove(turn)
        turn.message = message
        view.spent[message] = None if turn.silent else turn
        known = view.messages.get(message)
        if known is not None and view.stranger is known:
            view.stranger = None

    def _note_error(self, turn: Turn, error: Json) -> None:
        turn.told.add(errors.said(error))
        if errors.name_of(error) == errors.ABORTED:
            turn.aborted = True
        elif turn.error is None:
            turn.error = errors.run_error(error)

    def _timer(self, what: str, view: SessionView, turn: Turn, ms: int) -> StartTimer:
        key = f"{what}:{view.id}:{turn.key}"
        self._timers[key] = (view, turn)
        return StartTimer(TimerKey(key), ms)
