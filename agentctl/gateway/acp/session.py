"""Owns one open session of a client: its prompts, and its events as they come, with reconnect.

Each event is translated and written in its order; the end of a run answers its prompt only after all
that it said. `asking` has what the agent asks; `agent` has the methods.
"""

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import anyio

from agentctl import v1
from agentctl.client.stream import Subscription
from agentctl.core.errors import AgentctlError
from agentctl.core.events import (
    Complete,
    Event,
    MessageChunk,
    PermissionRequest,
    PermissionResolved,
    QuestionRequest,
    QuestionResolved,
    SessionStatus,
)
from agentctl.core.parts import Usage
from agentctl.core.words import Outcome, SessionChange
from agentctl.gateway.acp.asking import Asking
from agentctl.gateway.acp.errors import Json, Refusal, end_of, refusal
from agentctl.gateway.acp.history import conversation, events_of
from agentctl.gateway.acp.host import Host
from agentctl.gateway.acp.options import Offers
from agentctl.gateway.acp.translate import Translator
from agentctl.rpc.enums import number
from agentctl.rpc.mirror import read
from agentctl.transport.jsonrpc import PeerGone

logger = logging.getLogger(__name__)

# Output that grows is sent this often at most: often enough to be watched, seldom enough to be cheap.
GROWING_S = 0.1

PIECE = 100
"""Updates of a history that are written at once."""

_ENDED = {
    v1.RunState.RUN_STATE_COMPLETED: Outcome.COMPLETED,
    v1.RunState.RUN_STATE_FAILED: Outcome.FAILED,
    v1.RunState.RUN_STATE_CANCELLED: Outcome.CANCELLED,
    v1.RunState.RUN_STATE_TIMED_OUT: Outcome.TIMED_OUT,
}


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt of this client, from its request to its answer."""

    given: v1.RunInput
    run_id: str = ""
    cancelled: bool = False
    end: Complete | None = None
    error: Refusal | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


class OpenSession:
    """A session as this client has it open. `acp_id` is what the client calls it."""

    def __init__(
        self, host: Host, acp_id: str, session: v1.Session, offers: Offers, cursor: str
    ) -> None:
        self.host = host
        self.acp_id = acp_id
        self.session_id = session.session_id
        self.entry_id = session.entry_id
        self.workspace = session.workspace
        self.offers = offers
        self.translator = Translator(offers)
        self.asking = Asking(host, acp_id)
        self.prompts: list[Prompt] = []
        self.made_here = False
        self.is_new = False
        self.changes = 0
        """How often the session has told that it was changed."""
        self.at_rest = False
        """Its agent ended: the next prompt brings it back with the caller's environment."""
        self._cursor = cursor
        self._created = anyio.Event()
        self._creating = 0
        self._turn = anyio.Lock()
        self._out = anyio.Lock(fast_acquire=True)
        self._unsent: list[Json] = []
        self._growing = anyio.Event()
        self._changed = anyio.Event()
        self._scope: anyio.CancelScope | None = None

    # What is written.

    async def tell(self, updates: Iterable[Json] = ()) -> None:
        """Writes updates behind those that wait; returns when the client's pipe has taken them."""
        self._unsent += updates
        async with self._out:
            unsent, self._unsent = self._unsent, []
            await self.host.wire.updates(self.acp_id, unsent)

    async def tell_history(self, session: v1.Session) -> None:
        """The conversation so far; what comes after it is followed from there."""
        stream: AsyncGenerator[Json | str] = conversation(
            self.host.client, session, self.translator
        )
        async for each in stream:
            if isinstance(each, str):
                self._cursor = each
            else:
                self._unsent.append(each)
                if len(self._unsent) >= PIECE:
                    await self.tell()
        await self.tell()

    # What is read.

    def start(self) -> None:
        """Follows it from now on."""
        if self._scope is None:
            self._scope = anyio.CancelScope()
            self.host.group.start_soon(self._follow, self._scope)

    def stop(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
        self.asking.withdraw_all()

    async def _follow(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                async with anyio.create_task_group() as group:
                    self.asking.group = group
                    group.start_soon(self._send_growing)
                    await self.tell(self.offers.news())
                    await self.asking.ask_open(self.session_id)
                    stream = self.host.client.subscribe(self._cursor, sessions=[self.session_id])
                    async for batch in stream.batches():
                        await self._take(batch, stream)
                    group.cancel_scope.cancel()
            except* PeerGone:
                self.host.gone.set()
            except* AgentctlError as errors:
                self._lost(errors)

    def _lost(self, errors: BaseExceptionGroup[AgentctlError]) -> None:
        """The daemon stayed away, or has forgotten the session: nobody will hear of its runs."""
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  of any kind
        assert isinstance(first, AgentctlError)
        logger.error("session %s is not followed any more: %s", self.acp_id, first)
        self._scope = None
        for prompt in self.prompts:
            prompt.error = refusal(first)
            prompt.done.set()

    async def _send_growing(self) -> None:
        while True:
            await self._growing.wait()
            self._growing = anyio.Event()
            await anyio.sleep(GROWING_S)
            await self.tell(self.translator.flush())

    async def _take(self, batch: v1.EventBatch, stream: Subscription) -> None:
        if batch.HasField("gap"):
            logger.warning("events of session %s are gone: %s", self.acp_id, batch.gap.reason)
            await self._look_after_prompts()
        events = list(events_of(batch, self.session_id))
        # What is answered in the same breath, by a policy or a rule, need not be asked.
        self.asking.settled(events)
        for event in events:
            await self._one(event)
        await self.tell()
        self._cursor = stream.cursor

    async def _one(self, event: Event) -> None:
        """Takes one event. Updates wait for the end of the batch, unless something else is due."""
        while self._creating and event.run_id and event.run_id not in self.translator.own:
            # Whose run it is stands in an answer that is on its way.
            await self.tell()
            await self._created.wait()
        payload = event.payload
        self._translate(event)
        match payload:
            case MessageChunk():
                return
            case PermissionRequest():
                await self.tell()
                card = self.translator.tools.card(payload.tool_call_id or "")
                self.asking.permission(payload, card.shown if card is not None else {})
            case QuestionRequest():
                await self.tell()
                self.asking.question(payload)
            case PermissionResolved(approval_id=own) | QuestionResolved(question_id=own):
                await self.tell()
                await self.asking.withdraw(own)
            case SessionStatus():
                self._status(payload)
            case Complete():
                await self.tell()
                self._ended(event.run_id or "", payload)
            case _:
                pass
        if self.translator.tools.growing:
            self._growing.set()

    def _translate(self, event: Event) -> None:
        try:
            self._unsent += self.translator.feed(event)
        except Exception:
            # What an agent said is foreign: one event that cannot be told must not end the session.
            logger.exception("event %d of session %s could not be told", event.seq, self.acp_id)

    def _status(self, status: SessionStatus) -> None:
        match status.status:
            case SessionChange.INTERRUPTED | SessionChange.ASLEEP:
                self.at_rest = True
            case SessionChange.RESUMED | SessionChange.CREATED:
                self.at_rest = False
            case SessionChange.UPDATED:
                self.changes += 1
                self._changed.set()
                self._changed = anyio.Event()
            case _:
                pass

    def _ended(self, run_id: str, complete: Complete) -> None:
        for prompt in self.prompts:
            if run_id and prompt.run_id == run_id:
                prompt.end = complete
                prompt.done.set()

    async def _look_after_prompts(self) -> None:
        """The ends of runs may be among the events that are gone: their records tell."""
        for prompt in [each for each in self.prompts if each.run_id]:
            try:
                run = await self.host.client.runs.get(prompt.run_id)
            except AgentctlError as error:
                prompt.error = refusal(error)
                prompt.done.set()
                continue
            if outcome := _ENDED.get(run.state):
                self._ended(run.run_id, complete_of(run, outcome))

    async def changed_since(self, changes: int, wait_s: float) -> None:
        """Waits until `changes` has grown beyond this, at most so long."""
        with anyio.move_on_after(wait_s):
            while self.changes <= changes:
                await self._changed.wait()

    # What the client asks for.

    async def prompt(self, prompt: Prompt) -> Json:
        """Sends a prompt that stands in `prompts` already, and waits for the end of its run.

        Raises:
            Refusal: it was refused or failed.
        """
        # A daemon that stayed away too long is not followed any more; it may be back.
        self.start()
        try:
            await self.tell(self.offers.news())
            async with self._turn:
                if not prompt.cancelled:
                    await self._create(prompt)
            if not prompt.run_id:
                return {"stopReason": "cancelled"}
            if prompt.cancelled:
                await self._cancel(prompt)
            await prompt.done.wait()
        finally:
            self.prompts.remove(prompt)
        if prompt.error is not None:
            raise prompt.error
        assert prompt.end is not None
        return _result(prompt.run_id, prompt.end)

    async def _create(self, prompt: Prompt) -> None:
        client, key = self.host.client, uuid4().hex
        self._creating += 1
        try:
            if self.at_rest:
                await self.host.lasting(self._wake)
            made = await self.host.lasting(
                lambda: client.runs.create(self.session_id, prompt.given, idempotency_key=key)
            )
            prompt.run_id = made.run.run_id
            self.translator.own.add(prompt.run_id)
        finally:
            self._creating -= 1
            self._created.set()
            self._created = anyio.Event()

    async def _wake(self) -> None:
        """Brings it back with our environment, which the daemon keeps in memory only."""
        env = await self.host.choices.env(self.host.client, self.entry_id)
        if env:
            create = v1.CreateSessionRequest(agent=self.entry_id, env=env)
            await self.host.client.sessions.resume(self.session_id, create=create)

    async def cancel(self, mine: Sequence[Prompt]) -> None:
        """Ends what this client began here, the queued ones first; else whatever runs here.

        Args:
            mine: the client's prompts when it asked for this; a later one is not meant.
        """
        self.asking.cancelled()
        for prompt in mine:
            prompt.cancelled = True
        for prompt in reversed(mine):
            await self._cancel(prompt)
        if not mine:
            async with self._turn:  # a prompt that came behind this waits until it is done
                with suppress(AgentctlError):
                    await self.host.client.runs.cancel(session_id=self.session_id)

    async def leave(self) -> None:
        """Ends what this client began, prompts that are on their way to the daemon included."""
        if not self.prompts:
            return
        await self.cancel(list(self.prompts))
        while self._creating:
            await self._created.wait()
        for prompt in reversed(list(self.prompts)):
            await self._cancel(prompt)

    async def cancel_one(self, prompt: Prompt) -> None:
        prompt.cancelled = True
        await self._cancel(prompt)

    async def _cancel(self, prompt: Prompt) -> None:
        if not prompt.run_id or prompt.done.is_set():
            return
        try:
            await self.host.client.runs.cancel(prompt.run_id)
        except AgentctlError as error:
            if error.reason != "RUN_FINISHED":
                logger.warning("run %s could not be cancelled: %s", prompt.run_id, error)


def _result(run_id: str, end: Complete) -> Json:
    """The answer to a prompt. Raises Refusal when its run failed."""
    result: Json = {"stopReason": end_of(end)}
    if (used := usage_of(end.usage)) is not None:
        result["usage"] = used
    meta: Json = {"runId": run_id}
    if end.cost_usd is not None:
        meta["costUsd"] = end.cost_usd
    if end.folded_into is not None:
        meta["foldedInto"] = end.folded_into
    return result | {"_meta": {"agentctl": meta}}


def usage_of(usage: Usage | None) -> Json | None:
    """Tokens of a turn; None when neither those sent nor those made were told.

    ACP wants a total: where the agent gave none it is the sum.
    """
    if usage is None or (usage.input is None and usage.output is None):
        return None
    sent, made = usage.input or 0, usage.output or 0
    parts = (sent, made, usage.cache_read or 0, usage.cache_write or 0)
    result: Json = {
        "inputTokens": sent,
        "outputTokens": made,
        "totalTokens": sum(parts) if usage.total is None else usage.total,
    }
    more = {
        "thoughtTokens": usage.reasoning,
        "cachedReadTokens": usage.cache_read,
        "cachedWriteTokens": usage.cache_write,
    }
    return result | {name: value for name, value in more.items() if value is not None}


def complete_of(run: v1.Run, outcome: Outcome) -> Complete:
    """The end of a run as its record has it."""
    fields = {
        name: getattr(run, name)
        for name in ("stop_reason", "usage", "cost_usd", "error", "folded_into")
        if run.HasField(name)  # pyright: ignore[reportArgumentType]  names of fields
    }
    made = v1.Complete(outcome=number(v1.Outcome, outcome, field="outcome"), **fields)  # pyright: ignore[reportArgumentType]  fields by their names
    return read(Complete, made)
