"""A protocol whose agents do in-process what a test tells them to, and a manager to run them."""

import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

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
from agentctl.core.errors import AgentctlError, AgentFailed
from agentctl.core.events import (
    MessageChunk,
    Payload,
    PermissionRequest,
    QuestionRequest,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.ids import NativeRequestId, NativeSessionId, NativeTurnId
from agentctl.core.parts import (
    Choice,
    PermissionDetails,
    PermissionOption,
    Question,
    RunError,
)
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.words import OptionKind, Origin, Outcome, Role, ToolKind, ToolStatus

ALLOW = PermissionOption("yes", "Yes", OptionKind.ALLOW_ONCE)
ALWAYS = PermissionOption("always", "Always", OptionKind.ALLOW_ALWAYS)
REJECT = PermissionOption("no", "No", OptionKind.REJECT_ONCE)

Call = tuple[str, object]


class Bell:
    """Rings whenever something has happened that a test may wait for."""

    def __init__(self) -> None:
        self._rung = anyio.Event()

    def ring(self) -> None:
        self._rung.set()
        self._rung = anyio.Event()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await self._rung.wait()


@dataclass
class Plan:
    """How the agents of a protocol behave; a test changes it at any time."""

    features: frozenset[str] = frozenset({Feature.RESUME, Feature.CLOSE})
    fails: dict[str, AgentctlError | Exception] = field(
        default_factory=dict[str, AgentctlError | Exception]
    )
    """Method (`start` too) -> what it raises."""
    holds: dict[str, anyio.Event] = field(default_factory=dict[str, anyio.Event])
    """Method (`start` too) -> what it waits for."""
    hears_cancel: bool = True
    steers: bool = True
    bell: Bell = field(default_factory=Bell)
    on_call: Callable[["FakeAgent", str, object], None] = lambda agent, method, argument: None


class FakeAgent:
    """A core.adapter.Connection. `calls` is all that was asked of it, in order."""

    def __init__(
        self, number: int, launch: Launch, sink: Sink, plan: Plan, progress: Progress
    ) -> None:
        self.number = number
        self.progress = progress
        self.launch = launch
        self.plan = plan
        self.calls: list[Call] = []
        self.gone = False
        self.turns: dict[str, NativeTurnId] = {}
        self._sink = sink
        self._numbers = itertools.count(1)
        self._send, self._drafts = anyio.create_memory_object_stream[AnyDraft](1000)
        self._prompts_in, self._prompts = anyio.create_memory_object_stream[str](1000)
        self._given = self._taken = 0
        self._progress = anyio.Event()

    @property
    def info(self) -> AgentInfo:
        methods = (Choice("key"),)
        return AgentInfo("fake", "1.0", self.plan.features, methods, pid=None)

    async def read(self) -> None:
        """The one reader, as a real adapter has one."""
        async for draft in self._drafts:
            batch = [draft]
            while self._drafts.statistics().current_buffer_used:
                batch.append(self._drafts.receive_nowait())
            await self._sink(batch)
            self._taken += len(batch)
            self._progress.set()
            self._progress = anyio.Event()

    def close(self) -> None:
        self._taken = self._given + 1_000_000
        self._progress.set()
        for stream in (self._send, self._drafts, self._prompts_in, self._prompts):
            stream.close()

    async def _called(self, method: str, argument: object) -> None:
        self.plan.on_call(self, method, argument)
        self.calls.append((method, argument))
        self.plan.bell.ring()
        if (held := self.plan.holds.get(method)) is not None:
            await held.wait()
        if (error := self.plan.fails.get(method)) is not None:
            raise error
        if self.gone:
            raise AgentFailed("fake: the pipe is broken")
        await anyio.lowlevel.checkpoint()

    def named(self, method: str) -> list[object]:
        return [argument for name, argument in self.calls if name == method]

    # What the session room asks of it.

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        await self._called("new_session", spec)
        return NativeSessionId(f"native-{self.number}-{next(self._numbers)}")

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        await self._called("resume_session", native)
        return native

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        await self._called("fork_session", native)
        return NativeSessionId(f"{native}-fork-{next(self._numbers)}")

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        await self._called("list_sessions", cwd)
        return [NativeSession(NativeSessionId("kept"))]

    async def close_session(self, native: NativeSessionId) -> None:
        await self._called("close_session", native)

    async def delete_session(self, native: NativeSessionId) -> None:
        await self._called("delete_session", native)

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        text = prompt.blocks[0].text or "" if prompt.blocks else ""
        await self._called("prompt", text)
        turn = NativeTurnId(str(next(self._numbers)))
        self.turns[native] = turn
        self._put(TurnStarted(native, turn))
        self._prompts_in.send_nowait(text)

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        await self._called("steer", prompt.blocks[0].text)
        return self.plan.steers

    async def cancel(self, native: NativeSessionId) -> None:
        await self._called("cancel", native)
        self._put(CancelSent(native))
        if self.plan.hears_cancel and (turn := self.turns.pop(native, None)):
            self._put(TurnEnded(native, turn, Outcome.CANCELLED))

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        await self._called("answer_permission", answer)
        self._put(PermissionAnswered(request, answer.decision, option_id=answer.option_id))

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        await self._called("answer_question", answer)
        self._put(QuestionAnswered(request, answer.outcome))

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        await self._called("set_model", model)

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        await self._called("set_mode", mode)

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        await self._called("set_option", (option, value))

    async def authenticate(self, method: str) -> None:
        await self._called("authenticate", method)

    async def goodbye(self) -> None:
        self.calls.append(("goodbye", None))

    # What a test has it do.

    def _put(self, draft: AnyDraft) -> None:
        try:
            self._send.send_nowait(draft)
            self._given += 1
        except anyio.ClosedResourceError:
            raise AgentFailed("fake: it is gone") from None

    async def emit(self, *drafts: AnyDraft) -> None:
        """Returns when the session room has taken them all (they are durable then)."""
        for draft in drafts:
            self._put(draft)
        last = self._given
        while self._taken < last:
            await self._progress.wait()

    async def prompted(self) -> str:
        """The text of the next prompt; its turn has started."""
        return await self._prompts.receive()

    @property
    def native(self) -> NativeSessionId:
        """The conversation that was prompted last."""
        return NativeSessionId(next(reversed(self.turns)))

    async def say(self, payload: Payload, *, request: str | None = None) -> None:
        key = None if request is None else NativeRequestId(request)
        await self.emit(Draft(payload, self.native, request=key))

    async def text(self, text: str) -> None:
        await self.say(MessageChunk("", Role.ASSISTANT, text))

    async def tool(self, tool_id: str = "t1", status: ToolStatus = ToolStatus.RUNNING) -> None:
        await self.say(ToolCall(tool_id, name="shell", kind=ToolKind.EXECUTE, status=status))

    async def tool_done(self, tool_id: str = "t1") -> None:
        await self.say(ToolUpdate(tool_id, ToolStatus.COMPLETED))

    async def ask(
        self,
        request: str = "r1",
        *,
        command: str = "ls",
        file: str = "",
        options: Sequence[PermissionOption] = (ALLOW, ALWAYS, REJECT),
        expires_at: int | None = None,
    ) -> None:
        payload = PermissionRequest(
            "",
            tool_call_id=f"tool-{request}",
            tool_kind=ToolKind.EXECUTE,
            details=PermissionDetails(command or None, file or None),
            options=list(options),
            expires_at=expires_at,
        )
        await self.say(payload, request=request)

    async def ask_outside(self, native: str, request: str = "r0") -> None:
        """Before any prompt."""
        payload = PermissionRequest("", details=PermissionDetails("ls"), options=[ALLOW, REJECT])
        key = NativeRequestId(request)
        await self.emit(Draft(payload, NativeSessionId(native), request=key))

    async def question(self, *questions: Question, request: str = "q1") -> None:
        asked = list(questions) or [Question("Which?", options=[Choice("a"), Choice("b")])]
        await self.say(QuestionRequest("", questions=asked), request=request)

    async def end(
        self, outcome: Outcome = Outcome.COMPLETED, *, error: RunError | None = None
    ) -> None:
        native = self.native
        turn = self.turns.pop(native)
        await self.emit(TurnEnded(native, turn, outcome, error=error))

    async def own_turn(self, native: str, turn: str = "own-1") -> None:
        """It begins a turn that nobody asked for."""
        self.turns[native] = NativeTurnId(turn)
        await self.emit(TurnStarted(NativeSessionId(native), NativeTurnId(turn), Origin.AGENT))

    async def die(self, code: int | None = 7, signal: int | None = None) -> None:
        self.gone = True
        await self.emit(ProcessGone(code, signal, ["last words"]))


class FakeProtocol:
    """A core.adapter.ProtocolAdapter. `agents` are all it ever started, `alive` those that run."""

    name = "fake"

    def __init__(self) -> None:
        self.plan = Plan()
        self.agents: list[FakeAgent] = []
        self.alive: set[FakeAgent] = set()
        self.entered = 0

    def translator(self, *, live: bool = False) -> Translator:
        raise NotImplementedError

    async def starting(self, number: int = 1) -> None:
        """Returns when that many starts have begun."""
        await self.plan.bell.until(lambda: self.entered >= number)

    @asynccontextmanager
    async def connect(
        self, launch: Launch, sink: Sink, progress: Progress
    ) -> AsyncGenerator[FakeAgent]:
        self.entered += 1
        self.plan.bell.ring()
        agent = FakeAgent(len(self.agents) + 1, launch, sink, self.plan, progress)
        progress("starting")
        self.alive.add(agent)
        try:
            if (held := self.plan.holds.get("start")) is not None:
                await held.wait()
            if (error := self.plan.fails.get("start")) is not None:
                raise error
            self.agents.append(agent)
            self.plan.bell.ring()
            async with anyio.create_task_group() as group:
                group.start_soon(agent.read)
                try:
                    yield agent
                finally:
                    with anyio.CancelScope(shield=True):
                        await sink([] if agent.gone else [ProcessGone(0)])
                        agent.gone = True
                        group.cancel_scope.cancel()
        finally:
            agent.close()
            self.alive.discard(agent)
            self.plan.bell.ring()
