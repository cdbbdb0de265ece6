"""Owns what a client does with a session: makes it, prompts it, stops it, forks it, takes things back.

Each is one or two calls of the daemon. What the daemon or the agent cannot is answered as an error that
says so; nothing is acknowledged that did not happen.
"""

import time
from collections.abc import Mapping

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.runs import run_input
from agentctl.core.errors import AgentctlError, Unsupported
from agentctl.gateway.opencode import prompts
from agentctl.gateway.opencode.catalog import Catalog, Chosen
from agentctl.gateway.opencode.conversation import Conversation
from agentctl.gateway.opencode.errors import no_message, plain
from agentctl.gateway.opencode.message import NO_MODEL, Said
from agentctl.gateway.opencode.patches import split_patch
from agentctl.gateway.opencode.pump import Pump
from agentctl.gateway.opencode.roster import (
    HIDDEN,
    MESSAGE,
    PAGE,
    REVERT,
    SESSION,
    WORKSPACE,
    Lazy,
    Roster,
    directory_of,
    hidden_runs,
)
from agentctl.gateway.opencode.turn import Turn
from agentctl.gateway.opencode.words import Json
from agentctl.session.ids import mint

_CLOSED = (v1.SessionState.SESSION_STATE_CLOSED, v1.SessionState.SESSION_STATE_FAILED)


class Chat:
    """The calls on sessions."""

    def __init__(self, client: AgentCtl, roster: Roster, catalog: Catalog, pump: Pump) -> None:
        self._client = client
        self._roster = roster
        self._catalog = catalog
        self._pump = pump
        self._locks: dict[str, anyio.Lock] = {}

    # Making

    async def create(self, body: Json, directory: str, workspace: str) -> Json:
        """A new session: at once with its agent where the body names one, else when it is prompted.

        Raises:
            HttpError: there is no such agent or model.
        """
        if body.get("parentID"):
            raise plain(400, "parentID is not supported: fork a session to have a child of it")
        chosen = prompts.choice(body)
        rules, policy = prompts.rules(body, directory)
        lazy = Lazy(
            mint("session"),
            directory,
            created=time.time_ns() // 1_000_000,
            title=str(body.get("title") or ""),
            workspace=str(body.get("workspaceID") or workspace),
            chosen=chosen,
            rules=rules,
            policy=policy,
        )
        if chosen.told:
            who = self._catalog.choose(chosen, await self._catalog.offers())
            return self._roster.view(await self._begin(lazy, who, {}))
        self._roster.lazies[lazy.id] = lazy
        view = lazy.view()
        for kind in ("session.created", "session.updated"):
            self._say(Said(kind, {"sessionID": lazy.id, "info": view}), directory)
        return view

    async def _begin(self, lazy: Lazy, who: Chosen, labels: dict[str, str]) -> v1.Session:
        if lazy.workspace:
            labels[WORKSPACE] = lazy.workspace
        session = await self._client.sessions.create(
            who.entry_id,
            lazy.directory,
            name=lazy.title or None,
            labels=labels,
            model=None if who.model == NO_MODEL else who.model,
            mode=who.mode,
            rules=lazy.rules,
            policy=lazy.policy,
        )
        self._roster.learn(session)
        self._roster.lazies.pop(lazy.id, None)
        self._roster.models[session.session_id] = who.model or NO_MODEL
        return session

    async def session(self, shown: str) -> v1.Session:
        """Raises HttpError: there is none, or it waits for its first prompt."""
        return await self._roster.get(shown)

    async def conversation(self, shown: str) -> tuple[v1.Session, Conversation]:
        session = await self._roster.get(shown)
        return session, await self._pump.whole(session)

    # Prompting

    async def prompt(self, shown: str, body: Json) -> str:
        """Sends a prompt, behind what runs; returns the run that answers it."""
        prompts.refuse_unkept(body)
        blocks = prompts.content(body)
        return await self._run(shown, body, run_input(blocks), prompts.output_schema(body))

    async def command(self, shown: str, body: Json) -> str | None:
        """A slash command of the agent as a run; a mode is switched to, which is none."""
        name = body.get("command")
        if not isinstance(name, str) or not name:
            raise plain(400, "command is missing")
        session, conversation = await self._ready(shown, body)
        options = conversation.options or self._catalog.options.get(session.entry_id, {})
        modes: list[Json] = options.get("modes") or []
        commands: list[Json] = options.get("commands") or []
        if not any(each.get("name") == name for each in commands):
            if any(each.get("id") == name for each in modes):
                await self._client.sessions.update(session.session_id, mode=name)
                return None
            if not commands:
                raise plain(400, "Commands not supported")
            known = ", ".join(str(each.get("name")) for each in commands)
            raise plain(400, f"Command not found: {name}. There are: {known}")
        arguments = str(body.get("arguments") or "")
        told = v1.RunInput(command=v1.CommandInput(name=name, arguments=arguments))
        return await self._run(shown, body, told, None)

    async def _ready(self, shown: str, body: Json) -> tuple[v1.Session, Conversation]:
        """The session, with its agent, also when it had waited for one."""
        who = await self._who(shown, body)
        session = await self._open(shown, who)
        return session, await self._pump.whole(session)

    async def _who(self, shown: str, body: Json) -> Chosen:
        asked = prompts.choice(body)
        if (lazy := self._roster.lazies.get(shown)) is not None:
            told = asked if asked.told else lazy.chosen
            return self._catalog.choose(told, await self._catalog.offers())
        bound = (await self._roster.get(shown)).entry_id
        if {asked.agent, asked.provider} <= {"", bound}:
            # Nothing is to be looked up for who goes on as before: the usual prompt.
            return Chosen(bound, asked.model or None)
        return self._catalog.choose(asked, await self._catalog.offers(), bound)

    async def _open(self, shown: str, who: Chosen) -> v1.Session:
        async with self._locks.setdefault(shown, anyio.Lock()):
            lazy = self._roster.lazies.get(shown)
            session = await (
                self._begin(lazy, who, {SESSION: shown}) if lazy else self._roster.get(shown)
            )
        self._locks.pop(shown, None)
        if session.state in _CLOSED:
            session = await self._client.sessions.resume(session.session_id)
        return session

    async def _run(self, shown: str, body: Json, told: v1.RunInput, schema: bytes | None) -> str:
        message_id = body.get("messageID") or ""
        if not isinstance(message_id, str) or (message_id and not message_id.startswith("msg")):
            raise plain(400, "messageID must start with msg")
        who = await self._who(shown, body)
        session = await self._open(shown, who)
        own, asked = session.session_id, self._roster.models
        known = ("", NO_MODEL, session.model, asked.get(own))
        model = None if who.model in known else who.model
        made = await self._client.runs.create(
            own,
            told,
            model=model,
            mode=None if who.mode == session.mode else who.mode,
            effort=prompts.choice(body).variant or None,
            output_schema_json=schema,
            labels={MESSAGE: message_id} if message_id else None,
            idempotency_key=message_id,
        )
        if who.model:
            asked[own] = who.model
        await self._leave_behind(session, made.run.run_id)
        return made.run.run_id

    async def answer(self, shown: str, run_id: str) -> Json:
        """The agent's last message of a run, once it has ended."""
        await self._pump.ended(run_id)
        _, conversation = await self.conversation(shown)
        turn = conversation.turns.get(run_id)
        if turn is None:
            raise no_message()
        if turn.answered is None:
            run = await self._client.runs.get(run_id)
            turn = conversation.turns.get(run.folded_into)
        if turn is None or turn.answered is None:
            raise plain(502, "The agent ended the turn without an answer.")
        return turn.answered.view(conversation.facts)

    # Stopping, changing, deleting

    async def abort(self, shown: str) -> None:
        """Cancels what runs and what waits."""
        lazy = self._roster.lazies.get(shown)
        directory = lazy.directory if lazy else ""
        if lazy is None:
            session = await self._roster.get(shown)
            directory = directory_of(session)
            if session.state not in _CLOSED:
                await self._client.runs.cancel(session_id=session.session_id, drop_queue=True)
        self._say(Said("session.aborted", {"sessionID": shown}), directory)

    async def update(self, shown: str, body: Json) -> Json:
        """Title and model."""
        title = body.get("title")
        asked = prompts.choice(body)
        if title is not None and not isinstance(title, str):
            raise plain(400, "title must be a string")
        if (lazy := self._roster.lazies.get(shown)) is not None:
            lazy.title = lazy.title if title is None else title
            if asked.told:
                self._catalog.choose(asked, await self._catalog.offers())
                lazy.chosen = asked
            lazy.updated = time.time_ns() // 1_000_000
            view = lazy.view()
            self._say(Said("session.updated", {"sessionID": shown, "info": view}), lazy.directory)
            return view
        session = await self._roster.get(shown)
        model = None
        if asked.told or asked.model:
            offers = await self._catalog.offers()
            model = self._catalog.choose(asked, offers, session.entry_id).model
        rules, policy = prompts.rules(body, directory_of(session))
        for rule in rules:
            await self._client.approvals.put_rule(session.session_id, rule)
        if title is not None or model is not None or policy:
            session = await self._client.sessions.update(
                session.session_id,
                title=title,
                model=None if model == session.model else model,
                policy=policy or None,
            )
        return self._roster.view(session)

    async def delete(self, shown: str) -> None:
        view = await self._roster.view_of(shown)
        if shown not in self._roster.lazies:
            own = (await self._roster.get(shown)).session_id
            await self._client.sessions.delete(own)
            self._pump.forget(own)
        self._roster.forget(shown)
        self._say(Said("session.deleted", {"sessionID": shown, "info": view}), view["directory"])

    async def fork(self, shown: str, body: Json) -> Json:
        """A child with the whole history."""
        session = await self._roster.get(shown)
        if message_id := body.get("messageID"):
            _, conversation = await self.conversation(shown)
            if conversation.turn_of(str(message_id)) is None:
                raise no_message()
            raise plain(400, "A fork has the whole conversation: leave messageID out")
        fork = await self._client.sessions.fork(session.session_id)
        labels = {k: v for k, v in fork.labels.items() if k not in (SESSION, REVERT, HIDDEN)}
        fork = await self._client.sessions.update(
            fork.session_id, title=f"{_title(session)} (fork)", labels=labels
        )
        return self._roster.view(fork)

    # Taking back

    async def revert(self, shown: str, body: Json) -> Json:
        """Goes back to before a message, where the agent can."""
        session, conversation = await self.conversation(shown)
        turn = conversation.turn_of(str(body.get("messageID") or ""))
        if turn is None:
            raise no_message()
        session = await self._revert(session, turn)
        return self._roster.view(session)

    async def _revert(self, session: v1.Session, turn: Turn) -> v1.Session:
        native = await self._native(session.session_id, turn)
        await self._client.sessions.revert(session.session_id, native)
        return await self._label(session, {REVERT: f"{turn.run_id} {turn.user_id}"})

    async def _native(self, own: str, turn: Turn) -> str:
        """The agent's own id of the user's message of a turn: the one before the turn's first answer.

        An agent that keeps no history of its own cannot revert either, and says so itself.
        """
        page = await self._client.sessions.messages(own, page_size=PAGE)
        answers = {each.partition("/")[0] for each in turn.natives}
        before = ""
        for event in page.events:
            told = event.message
            if event.type == v1.EventType.EVENT_TYPE_MESSAGE and told.role == v1.Role.ROLE_USER:
                before = told.message_id
            elif told.message_id.partition("/")[0] in answers:
                break
        return before or turn.user_id

    async def unrevert(self, shown: str) -> Json:
        session = await self._roster.get(shown)
        await self._client.sessions.unrevert(session.session_id)
        return self._roster.view(await self._label(session, {REVERT: ""}))

    async def _label(self, session: v1.Session, more: Mapping[str, str]) -> v1.Session:
        labels = {k: v for k, v in {**session.labels, **more}.items() if v}
        return await self._client.sessions.update(session.session_id, labels=labels)

    async def _leave_behind(self, session: v1.Session, run_id: str) -> None:
        """A prompt after a revert: what was reverted is gone for good."""
        mark = session.labels.get(REVERT)
        if not mark:
            return
        first = mark.partition(" ")[0].removeprefix("run_")
        spans = f"{session.labels.get(HIDDEN, '')} {first}-{run_id.removeprefix('run_')}".strip()
        session = await self._label(session, {REVERT: "", HIDDEN: spans})
        conversation = self._pump.known(session.session_id)
        if conversation is None:
            return
        for run in hidden_runs({HIDDEN: spans}, [*conversation.turns]):
            for message in conversation.turns[run].messages:
                told = {"sessionID": conversation.facts.id, "messageID": message.id}
                self._say(Said("message.removed", told), conversation.facts.directory)

    async def delete_message(self, shown: str, message_id: str) -> None:
        """Takes back the last turn, where the agent can; nothing else can be deleted alone.

        Raises:
            HttpError: there is no such message, or it cannot be taken back.
        """
        session, conversation = await self.conversation(shown)
        turn = conversation.turn_of(message_id)
        if turn is None:
            if any(row["info"]["id"] == message_id for row in conversation.copied):
                raise plain(400, "A message that was copied by a fork cannot be deleted")
            raise no_message()
        gone = hidden_runs(session.labels, [*conversation.turns])
        last = max((run for run in conversation.turns if run not in gone), default="")
        if turn.run_id != last:
            raise plain(400, "Only the last message can be deleted: the agent knows the later ones")
        await self._revert(session, turn)

    # Others

    async def summarize(self, shown: str) -> None:
        """Has the agent shorten its context, and waits for it."""
        session = await self._roster.get(shown)
        made = await self._client.sessions.compact(session.session_id)
        await self._pump.ended(made.run_id)
        run = await self._client.runs.get(made.run_id)
        if run.state != v1.RunState.RUN_STATE_COMPLETED:
            words = run.error.message if run.HasField("error") else "The context was not shortened."
            if run.error.code == Unsupported.reason:
                raise Unsupported(words)
            raise plain(502, words)

    async def diff(self, shown: str, message_id: str) -> list[Json]:
        """What changed in the files: of one turn, or of all of them."""
        _, conversation = await self.conversation(shown)
        if not message_id:
            return conversation.diffs()
        turn = conversation.turn_of(message_id)
        if turn is None:
            raise no_message()
        for artifact_id in reversed(turn.patches):
            patch = await self._patch(artifact_id)
            if patch:
                return split_patch(patch)
        return [*turn.diffs.values()]

    async def _patch(self, artifact_id: str) -> str:
        try:
            pieces = [c.data async for c in self._client.artifacts.download(artifact_id)]
        except AgentctlError:
            return ""
        return b"".join(pieces).decode("utf-8", "replace")

    def _say(self, said: Said, directory: str) -> None:
        self._pump.publish(said, directory, "told")


def _title(session: v1.Session) -> str:
    return session.title or session.name or "New session"
