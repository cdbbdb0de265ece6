"""Owns an agent that follows a script inside the daemon's own process: a protocol without a program.

It speaks to the daemon as any adapter does, in drafts. What it is told to do is `steps`.
"""

import itertools
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import orjson
from anyio.abc import TaskGroup

from agentctl.core.adapter import (
    AgentInfo,
    AnyDraft,
    CancelSent,
    Draft,
    Feature,
    Launch,
    NativeSession,
    PermissionAnswer,
    PermissionAnswered,
    ProcessGone,
    Progress,
    QuestionAnswer,
    QuestionAnswered,
    Sink,
    Translator,
    TurnEnded,
    TurnStarted,
)
from agentctl.core.errors import AgentFailed, Unsupported
from agentctl.core.events import Payload, SessionStatus
from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.toolspace import ToolOffer
from agentctl.core.words import Decision, Outcome, SessionChange
from agentctl.testing.player import Player
from agentctl.testing.steps import Fail, Step


@dataclass(frozen=True, slots=True)
class Answer:
    """What reached the agent: of an approval a decision, of a question `values`.

    Attributes:
        asked: the title or the question.
        decision: approved, denied, cancelled, expired; answered or rejected.
    """

    asked: str
    decision: str
    option_id: str | None = None
    reason: str | None = None
    updated_input: Any = None
    values: tuple[tuple[str, ...], ...] = ()


@dataclass(slots=True)
class ScriptedAgent:
    """An agent of the fake daemon: what it answers to which prompt, and what it was told.

    Attributes:
        prompts: the text of each prompt that reached it.
        answers: what it got for its approvals and questions.
        sessions: what each of its conversations was made with.
        tools: the tools that it says it has.
    """

    id: str
    prompts: list[str] = field(default_factory=list[str])
    answers: list[Answer] = field(default_factory=list[Answer])
    sessions: list[SessionSpec] = field(default_factory=list[SessionSpec])
    tools: list[ToolOffer] = field(default_factory=list[ToolOffer])
    _scripts: list[tuple[str, tuple[Step, ...]]] = field(
        default_factory=list[tuple[str, tuple[Step, ...]]]
    )

    def on(self, words: str, *script: Step) -> "ScriptedAgent":
        """Plays `script` when a prompt holds these words; "" fits any. The last that fits wins."""
        self._scripts.append((words, script))
        return self

    def script_for(self, prompt: str) -> tuple[Step, ...]:
        for words, script in reversed(self._scripts):
            if words in prompt:
                return script
        known = ", ".join(repr(words) for words, _ in self._scripts) or "nothing"
        return (Fail("MODEL_ERROR", f"{self.id} has no script for this prompt, only {known}."),)


class Scripted:
    """The protocol adapter: one scripted connection for each process that the daemon wants."""

    name = "scripted"

    def __init__(self) -> None:
        self.agents: dict[str, ScriptedAgent] = {}

    def translator(self, *, live: bool = False) -> Translator:
        raise Unsupported("a scripted agent sends no frames: there is nothing to translate.")

    @asynccontextmanager
    async def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AsyncGenerator["Connection"]:
        agent = self.agents.get(launch.entry.id)
        if agent is None:
            raise AgentFailed(f'no script: call daemon.agent("{launch.entry.id}") first.')
        connection = Connection(agent, sink)
        try:
            async with anyio.create_task_group() as group:
                connection.serve(group)
                try:
                    yield connection
                finally:
                    with anyio.CancelScope(shield=True):
                        await sink([] if connection.gone else [ProcessGone(0)])
                    connection.gone = True
                    group.cancel_scope.cancel()
        finally:
            connection.close()


class Connection:
    """A core.adapter.Connection that plays scripts."""

    def __init__(self, agent: ScriptedAgent, sink: Sink) -> None:
        self.agent = agent
        self.gone = False
        self._sink = sink
        self._group: TaskGroup | None = None
        self._numbers = itertools.count(1)
        self._send, self._drafts = anyio.create_memory_object_stream[AnyDraft](float("inf"))
        self._turns: dict[NativeSessionId, anyio.CancelScope] = {}
        self._specs: dict[NativeSessionId, SessionSpec] = {}
        self._asks: dict[str, Asked] = {}

    @property
    def info(self) -> AgentInfo:
        can = {Feature.RESUME, Feature.FORK, Feature.CLOSE, Feature.IMAGE, Feature.EMBEDDED_CONTEXT}
        return AgentInfo(self.agent.id, "scripted", frozenset(can))

    def serve(self, group: TaskGroup) -> None:
        """Its turns and its reader live in that group."""
        self._group = group
        group.start_soon(self._read)

    async def _read(self) -> None:
        """Hands over what was said, in order and in batches, as a reader of a pipe does."""
        async for draft in self._drafts:
            batch = [draft]
            while self._drafts.statistics().current_buffer_used:
                batch.append(self._drafts.receive_nowait())
            await self._sink(batch)

    def close(self) -> None:
        self._send.close()
        self._drafts.close()

    def put(self, *drafts: AnyDraft) -> None:
        if self.gone:
            raise AgentFailed(f"{self.agent.id}: it has exited.")
        for draft in drafts:
            self._send.send_nowait(draft)

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        await anyio.lowlevel.checkpoint()
        self.agent.sessions.append(spec)
        number = len(self.agent.sessions)
        native = NativeSessionId(f"{self.agent.id}-{number}")
        self._specs[native] = spec
        return native

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        await anyio.lowlevel.checkpoint()
        self._specs[native] = spec
        return native

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        return await self.new_session(spec)

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        await anyio.lowlevel.checkpoint()
        return [NativeSession(native, spec.workspace) for native, spec in self._specs.items()]

    async def close_session(self, native: NativeSessionId) -> None:
        await anyio.lowlevel.checkpoint()

    async def delete_session(self, native: NativeSessionId) -> None:
        await anyio.lowlevel.checkpoint()

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        await anyio.lowlevel.checkpoint()
        turn = NativeTurnId(f"turn-{next(self._numbers)}")
        self.put(TurnStarted(native, turn))
        scope = self._turns[native] = anyio.CancelScope()
        if self._group is not None:
            self._group.start_soon(self._play, native, turn, prompt, scope)

    async def _play(
        self,
        native: NativeSessionId,
        turn: NativeTurnId,
        prompt: PromptSpec,
        scope: anyio.CancelScope,
    ) -> None:
        player = Player(self, native, self._specs[native].workspace)
        with scope:
            await player.play(prompt)
        self._turns.pop(native, None)
        if self.gone:
            return
        error = None if scope.cancelled_caught else player.error
        outcome = Outcome.FAILED if error else Outcome.COMPLETED
        if scope.cancelled_caught:
            outcome = Outcome.CANCELLED
        stop = "cancelled" if scope.cancelled_caught else "end_turn"
        self.put(
            TurnEnded(
                native, turn, outcome, stop, player.usage, cost_usd=player.cost_usd, error=error
            )
        )

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        raise Unsupported(f"{self.agent.id} takes nothing into a running turn.")

    async def cancel(self, native: NativeSessionId) -> None:
        await anyio.lowlevel.checkpoint()
        self.put(CancelSent(native))
        if scope := self._turns.get(native):
            scope.cancel()

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        await anyio.lowlevel.checkpoint()
        asked = self._asks.pop(request, None)
        if asked is None:
            return
        self.put(
            PermissionAnswered(
                request, answer.decision, asked.session, answer.option_id, reason=answer.reason
            )
        )
        given = answer.updated_input_json
        asked.settle(
            Answer(
                asked.what,
                answer.decision.value,
                answer.option_id,
                answer.reason,
                updated_input=None if given is None else orjson.loads(given),
            )
        )
        self.agent.answers.append(asked.answer)

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        await anyio.lowlevel.checkpoint()
        asked = self._asks.pop(request, None)
        if asked is None:
            return
        self.put(QuestionAnswered(request, answer.outcome, asked.session, list(answer.answers)))
        values = tuple(tuple(each.values) for each in answer.answers)
        asked.settle(Answer(asked.what, answer.outcome.value, values=values))
        self.agent.answers.append(asked.answer)

    def ask(self, session: NativeSessionId, what: str, payload: Payload) -> "Asked":
        request = NativeRequestId(f"ask-{next(self._numbers)}")
        asked = self._asks[request] = Asked(session, what)
        self.put(Draft(payload, session, request=request))
        return asked

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        await self._set(native, SessionStatus(SessionChange.UPDATED, model=model))

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        await self._set(native, SessionStatus(SessionChange.UPDATED, mode=mode))

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        await anyio.lowlevel.checkpoint()

    async def _set(self, native: NativeSessionId, payload: Payload) -> None:
        await anyio.lowlevel.checkpoint()
        self.put(Draft(payload, native))

    async def authenticate(self, method: str) -> None:
        await anyio.lowlevel.checkpoint()

    async def tools(self, native: NativeSessionId) -> Sequence[ToolOffer] | None:
        await anyio.lowlevel.checkpoint()
        return self.agent.tools or None

    async def goodbye(self) -> None:
        await anyio.lowlevel.checkpoint()

    def exit(self, code: int) -> None:
        self.put(ProcessGone(code, None, [f"the script of {self.agent.id} ends it"]))
        self.gone = True


class Asked:
    """A request of a script that waits for its answer."""

    def __init__(self, session: NativeSessionId, what: str) -> None:
        self.session = session
        self.what = what
        self.answer = Answer(what, Decision.CANCELLED)
        self._answered = anyio.Event()

    def settle(self, answer: Answer) -> None:
        self.answer = answer
        self._answered.set()

    async def wait(self) -> Answer:
        await self._answered.wait()
        if self.answer.decision == Decision.CANCELLED:
            # The cancel of the turn follows at once.
            await anyio.sleep_forever()
        return self.answer
