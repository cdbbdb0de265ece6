"""Owns the one reader of the daemon's stream: it feeds the conversations and tells every client.

It goes on after the last cursor when the daemon was away, so that a restart loses nothing. What a client
reads back and what it is told live come from the same conversation, at the same place of the journal.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError, NotFound
from agentctl.gateway.opencode import ids
from agentctl.gateway.opencode.bus import Bus, Event, passing_id
from agentctl.gateway.opencode.catalog import Catalog
from agentctl.gateway.opencode.conversation import INFO, Conversation, copies
from agentctl.gateway.opencode.errors import HttpError, plain
from agentctl.gateway.opencode.message import Facts, Said
from agentctl.gateway.opencode.places import project_id
from agentctl.gateway.opencode.roster import MESSAGE, PAGE, Roster, directory_of, hidden_runs
from agentctl.gateway.opencode.words import Json
from agentctl.rpc.jsonview import to_dict

logger = logging.getLogger(__name__)

# A daemon that refuses the stream (another journal, a damaged one) is asked again, not in a hurry.
AGAIN_S = 1.0

# A client that reconnects was away for seconds; it is told again what happened in so much time.
RECENT_MS = 60_000

# Conversations kept in memory; older ones are read from the journal again when somebody looks.
KEPT = 200

_OPEN = ("created", "queued", "running")


class Pump:
    """Reads for all clients."""

    def __init__(self, client: AgentCtl, roster: Roster, catalog: Catalog) -> None:
        self._client = client
        self._roster = roster
        self._catalog = catalog
        self.bus = Bus(self.recent)
        self.names: dict[str, str] = {}
        self._conversations: dict[str, Conversation] = {}
        self._touched: dict[str, int] = {}
        self._waiting: dict[str, anyio.Event] = {}
        self._loading: dict[str, anyio.Lock] = {}
        self._feeding = anyio.Lock()
        self._cursor = ""
        self._seq = 0
        self._numbers: dict[int, int] = {}
        self._stopping = False

    async def begin(self) -> None:
        """Finds the place from which on it reads; what happened a moment ago is read back."""
        info = await self._client.daemon.get_info()
        self._cursor, self._seq = info.head_cursor, info.head_seq
        since = _now() - RECENT_MS
        for session in await self._roster.load():
            if max(session.last_active_at, session.updated_at) < since:
                break
            own = session.session_id
            conversation = self._conversations[own] = await self._new(session)
            for run in (await self._client.runs.list(session_id=own, page_size=1)).runs:
                self._learn_run(conversation, run)
                await self._catch_up(conversation, run.run_id, self._seq + 1)
            self._touched[own] = _now()

    async def run(self) -> None:
        """Reads until it is cancelled."""
        while True:
            try:
                stream = self._client.subscribe(self._cursor, patience_s=float("inf")).batches()
                async with aclosing(stream) as batches:
                    async for batch in batches:
                        await self._take(batch)
                        self._cursor = batch.cursor or self._cursor
            except AgentctlError as error:
                logger.warning("the daemon's stream ended (%s); trying again", error)
            await anyio.sleep(AGAIN_S)

    # Events

    async def _take(self, batch: v1.EventBatch) -> None:
        async with self._feeding:
            if batch.HasField("gap"):
                self._forget_all()
            touched: dict[str, Conversation] = {}
            done: list[str] = []
            infos: dict[str, Json | None] = {}
            for event in batch.events:
                self._seq = max(self._seq, event.seq)
                conversation = await self._of(event)
                if conversation is None:
                    continue
                touched[event.session_id] = conversation
                self._touched[event.session_id] = event.ts
                await self._tell(event.seq, conversation, fed(conversation, event), infos)
                if event.type == v1.EventType.EVENT_TYPE_COMPLETE:
                    done.append(event.run_id)
                elif event.type == v1.EventType.EVENT_TYPE_SESSION_OPTIONS:
                    self.learn_options(conversation)
            for conversation in touched.values():
                await self._tell(self._seq, conversation, conversation.flush(), infos)
            self._numbers.clear()
            for run_id in done:
                if (waiter := self._waiting.get(run_id)) is not None:
                    waiter.set()
            self._evict()

    async def _of(self, event: v1.AgentEvent) -> Conversation | None:
        """The conversation of an event, as far as the event needs it."""
        if not event.session_id:
            return None
        own = event.session_id
        created = (
            event.type == v1.EventType.EVENT_TYPE_RUN_STATUS
            and event.run_status.status == v1.RunChange.RUN_CHANGE_CREATED
        )
        if own not in self._conversations:
            try:
                session = await self._client.sessions.get(own)
            except NotFound:
                return None
            self._conversations[own] = await self._new(session)
        conversation = self._conversations[own]
        run_id = event.run_id or event.after_run_id
        if run_id and run_id not in conversation.turns:
            await self._name(conversation, run_id)
            if not created:
                await self._catch_up(conversation, run_id, event.seq)
        return conversation

    async def _new(self, session: v1.Session) -> Conversation:
        facts = Facts(self._roster.learn(session), session.entry_id, directory_of(session))
        if session.model:
            facts.model = session.model
        conversation = Conversation(facts, self.names)
        # One that waited for its first prompt was announced when it was made.
        conversation.announced = facts.id != session.session_id
        page = await self._client.runs.list(session_id=session.session_id, states=_OPEN)
        conversation.under_way(run.run_id for run in page.runs)
        conversation.held = session.queue_held
        return conversation

    async def _name(self, conversation: Conversation, run_id: str) -> None:
        """What the client called a run's message, and the model that it asked for."""
        try:
            run = await self._client.runs.get(run_id)
        except NotFound:
            return
        self._learn_run(conversation, run)

    def _learn_run(self, conversation: Conversation, run: v1.Run) -> None:
        if name := run.labels.get(MESSAGE):
            self.names[run.run_id] = name
        if run.model:
            conversation.models[run.run_id] = run.model

    async def _catch_up(self, conversation: Conversation, run_id: str, before: int) -> None:
        """Reads what a run had said before this gateway began to listen."""
        stream = self._client.subscribe(runs=[run_id], follow=False).batches()
        async with aclosing(stream) as batches:
            async for batch in batches:
                for event in batch.events:
                    if event.seq < before:
                        conversation.recall(to_dict(event))
        conversation.flush()

    async def _tell(
        self,
        seq: int,
        conversation: Conversation,
        said: Iterable[Said],
        infos: dict[str, Json | None],
    ) -> None:
        for each in said:
            properties = each.properties
            if INFO in properties and properties[INFO] is None:
                info = await self._info(conversation.facts.id, infos)
                if info is None:
                    continue
                properties = {**properties, INFO: info}
            number = self._numbers[seq] = self._numbers.get(seq, 0) + 1
            self.bus.publish(
                _event(ids.event(seq, number), Said(each.type, properties), conversation)
            )

    async def _info(self, shown: str, infos: dict[str, Json | None]) -> Json | None:
        if shown not in infos:
            try:
                infos[shown] = await self._roster.view_of(shown)
            except HttpError:
                infos[shown] = None
        return infos[shown]

    # Reading back

    async def whole(self, session: v1.Session) -> Conversation:
        """The whole conversation of a session, at the place to which clients were told."""
        own = session.session_id
        known = self._conversations.get(own)
        if known is not None and known.whole:
            return known
        async with self._loading.setdefault(own, anyio.Lock()):
            known = self._conversations.get(own)
            if known is not None and known.whole:
                return known
            fresh = await self._new(session)
            await self._name_all(fresh, own)
            if session.forked_from:
                fresh.copied = await self._copied(session, fresh.facts)
            cursor = await self._read(fresh, own, "")
            async with self._feeding:
                await self._read(fresh, own, cursor)
                fresh.flush()
                fresh.whole = True
                self._conversations[own] = fresh
            self.learn_options(fresh)
        self._loading.pop(own, None)
        return fresh

    async def _name_all(self, conversation: Conversation, own: str) -> None:
        token = ""
        while True:
            page = await self._client.runs.list(session_id=own, page_size=PAGE, page_token=token)
            for run in page.runs:
                self._learn_run(conversation, run)
            token = page.next_page_token
            if not token:
                return

    async def _read(self, conversation: Conversation, own: str, after: str) -> str:
        """Feeds what the journal has of a session, up to where clients were told; the cursor there."""
        stream = self._client.subscribe(after, sessions=[own], follow=False).batches()
        async with aclosing(stream) as batches:
            async for batch in batches:
                for event in batch.events:
                    if event.seq > self._seq:
                        return after
                    if event.session_id == own:
                        conversation.feed(to_dict(event))
                after = batch.cursor or after
        return after

    async def _copied(self, session: v1.Session, facts: Facts) -> list[Json]:
        try:
            source = await self._client.sessions.get(session.forked_from)
        except NotFound:
            return []
        conversation = await self.whole(source)
        gone = hidden_runs(source.labels, [*conversation.turns])
        return copies(conversation.messages(gone), facts, session.created_at)

    def known(self, own: str) -> Conversation | None:
        return self._conversations.get(own)

    def forget(self, own: str) -> None:
        """A session that is gone: nobody waits for its runs any more."""
        conversation = self._conversations.pop(own, None)
        self._touched.pop(own, None)
        for run_id in conversation.open if conversation is not None else ():
            if (waiter := self._waiting.get(run_id)) is not None:
                waiter.set()

    def learn_options(self, conversation: Conversation) -> None:
        """Modes and commands are offered by entry: what its newest session told holds."""
        if conversation.options:
            self._catalog.options.setdefault(conversation.facts.entry_id, {}).update(
                {k: v for k, v in conversation.options.items() if k in ("modes", "commands")}
            )

    # Waiting and telling

    async def ended(self, run_id: str) -> None:
        """Waits until clients have been told the end of a run.

        Raises:
            HttpError: the server stops before.
        """
        waiter = self._waiting.setdefault(run_id, anyio.Event())
        try:
            if not self._told_end(run_id) and not self._stopping:
                await waiter.wait()
        finally:
            self._waiting.pop(run_id, None)
        if self._stopping:
            raise plain(503, "The server stops; the agent goes on. Read the messages later.")

    def stop(self) -> None:
        """Ends every stream, and whoever waits for an answer is told."""
        self._stopping = True
        self.bus.close()
        for waiter in self._waiting.values():
            waiter.set()

    def _told_end(self, run_id: str) -> bool:
        turns = (c.turns.get(run_id) for c in self._conversations.values())
        return any(turn is not None and turn.done for turn in turns)

    def publish(self, said: Said, directory: str, what: str) -> None:
        """Tells clients something that is in no journal."""
        project = project_id(directory) if directory else ""
        self.bus.publish(Event(passing_id(what), said, directory, project))

    def recent(self) -> Iterator[Event]:
        """What happened a moment ago, once more."""
        since = _now() - RECENT_MS
        for own, conversation in self._conversations.items():
            if conversation.open or self._touched.get(own, 0) >= since:
                for said in conversation.state():
                    yield _event(passing_id("again"), said, conversation)

    def _forget_all(self) -> None:
        """The journal has lost events, or is another one: everyone reads anew."""
        self._conversations.clear()
        self.publish(Said("server.instance.disposed", {"directory": ""}), "", "gap")

    def _evict(self) -> None:
        idle = [own for own, c in self._conversations.items() if not c.open]
        for own in idle[: max(0, len(self._conversations) - KEPT)]:
            self.forget(own)


def fed(conversation: Conversation, event: v1.AgentEvent) -> list[Said]:
    """What an event comes to; one that cannot be shown is logged, and the stream goes on."""
    try:
        return conversation.feed(to_dict(event))
    except Exception:  # the edge: an event of a newer daemon, or a fault of ours, ends no stream
        logger.exception("event %s cannot be shown", event.cursor)
        return []


def _event(own: str, said: Said, conversation: Conversation) -> Event:
    directory = conversation.facts.directory
    return Event(own, said, directory, project_id(directory))


def _now() -> int:
    return time.time_ns() // 1_000_000
