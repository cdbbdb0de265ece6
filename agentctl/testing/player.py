"""Owns one turn of a scripted agent: each step as the drafts that a real agent would make."""

import difflib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import orjson

from agentctl.core.adapter import Draft
from agentctl.core.events import (
    FileChange,
    MessageChunk,
    Payload,
    PermissionRequest,
    QuestionRequest,
    Reasoning,
    SessionStatus,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.events import Plan as PlanPayload
from agentctl.core.ids import NativeSessionId
from agentctl.core.parts import (
    Choice,
    ContentBlock,
    PermissionDetails,
    PermissionOption,
    PlanEntry,
    Question,
    RunError,
    Usage,
)
from agentctl.core.spec import PromptSpec
from agentctl.core.words import (
    ChangeKind,
    ContentType,
    Decision,
    OptionKind,
    PermissionKind,
    PlanStatus,
    Risk,
    Role,
    SessionChange,
    ToolKind,
    ToolStatus,
)
from agentctl.testing.steps import (
    AskApproval,
    AskQuestion,
    Emit,
    Exit,
    Fail,
    Plan,
    Say,
    ShowImage,
    Spend,
    Step,
    Think,
    UseTool,
    Wait,
    WriteFile,
)

if TYPE_CHECKING:
    from agentctl.testing.scripted import Connection

OPTIONS = (("once", "allow_once"), ("always", "allow_always"), ("no", "reject_once"))
_tools = itertools.count(1)


class Player:
    """Plays one prompt's script."""

    def __init__(self, connection: "Connection", native: NativeSessionId, workspace: str) -> None:
        self._connection = connection
        self._native = native
        self._workspace = workspace
        self._values: list[str] = []
        self.error: RunError | None = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None

    async def play(self, prompt: PromptSpec) -> None:
        """Returns at the end of the turn; `error` says whether it was a bad one."""
        if prompt.compact:
            self._say(SessionStatus(SessionChange.COMPACTED))
            await anyio.lowlevel.checkpoint()
            return
        text = "".join(block.text or "" for block in prompt.blocks)
        if prompt.command is not None:
            text = f"/{prompt.command.name} {prompt.command.arguments}".strip()
        self._connection.agent.prompts.append(text)
        await self._all(self._connection.agent.script_for(text))

    async def _all(self, script: Sequence[Step]) -> None:
        for step in script:
            await anyio.lowlevel.checkpoint()
            if self.error is not None or self._connection.gone:
                return
            await self._step(step)

    async def _step(self, step: Step) -> None:
        match step:
            case UseTool():
                await self._tool(step)
            case WriteFile():
                await self._write(step)
            case AskApproval():
                allowed = await self._leave(_approval(step), step.title)
                await self._all(step.allowed if allowed else step.denied)
            case AskQuestion():
                await self._question(step)
            case Wait():
                await step.gate.wait()
            case Say():
                text = step.text if isinstance(step.text, str) else step.text(self._values)
                for piece in _words(text) if step.in_words else [text]:
                    self._say(MessageChunk("", Role.ASSISTANT, piece))
            case Think() | Plan() | ShowImage() | Emit():
                self._say(_payload(step))
            case Spend() | Fail() | Exit():
                self._end(step)

    def _end(self, step: Spend | Fail | Exit) -> None:
        match step:
            case Spend():
                self.usage = Usage(step.input_tokens, step.output_tokens)
                self.cost_usd = step.cost_usd
            case Fail():
                self.error = RunError(step.code, step.message, step.recoverable)
            case Exit():
                self._connection.exit(step.code)

    def _say(self, payload: Payload) -> None:
        self._connection.put(Draft(payload, self._native))

    async def _leave(self, request: PermissionRequest, what: str) -> bool:
        answer = await self._connection.ask(self._native, what, request).wait()
        return answer.decision == Decision.APPROVED

    async def _question(self, step: AskQuestion) -> None:
        asked = Question(
            step.question,
            header=step.header or None,
            options=[Choice(option) for option in step.options],
            multiple=step.multiple,
            custom=step.custom,
        )
        request = QuestionRequest("", questions=[asked])
        answer = await self._connection.ask(self._native, step.question, request).wait()
        self._values = [value for values in answer.values for value in values]

    async def _tool(self, step: UseTool) -> None:
        call = ToolCall(
            f"tool-{next(_tools)}",
            name=step.name,
            title=step.title or step.command or step.name,
            kind=ToolKind(step.kind),
            status=ToolStatus.PENDING if step.ask else ToolStatus.RUNNING,
            input_json=_json(step.input),
            command=step.command or None,
            paths=list(step.paths),
        )
        if not await self._may(call, ask=step.ask, risk=step.risk):
            return
        for piece in step.pieces:
            self._say(ToolUpdate(call.tool_call_id, output_delta=piece))
        done = ToolUpdate(
            call.tool_call_id,
            ToolStatus.FAILED if step.error else ToolStatus.COMPLETED,
            content=[_png(each) for each in step.images] or None,
            output_replace=step.output or None,
            exit_code=step.exit_code,
            error=step.error or None,
        )
        self._say(done)

    async def _write(self, step: WriteFile) -> None:
        path = anyio.Path(self._workspace) / step.path
        before = await path.read_text() if await path.exists() else None
        call = ToolCall(
            f"tool-{next(_tools)}",
            name="write",
            title=f"Write {step.path}",
            kind=ToolKind.EDIT,
            status=ToolStatus.PENDING if step.ask else ToolStatus.RUNNING,
            paths=[str(path)],
        )
        if not await self._may(call, ask=step.ask, risk=""):
            return
        await path.parent.mkdir(parents=True, exist_ok=True)
        await path.write_text(step.content)
        self._say(ToolUpdate(call.tool_call_id, ToolStatus.COMPLETED))
        self._say(_change(str(path), before, step.content, call.tool_call_id))

    async def _may(self, call: ToolCall, *, ask: bool, risk: str) -> bool:
        """Begins a tool; asks for leave first where it shall. False: it was denied, and has failed."""
        self._say(call)
        if not ask:
            return True
        request = PermissionRequest(
            "",
            tool_call_id=call.tool_call_id,
            title=call.title,
            tool_name=call.name,
            tool_kind=call.kind,
            input_json=call.input_json,
            details=PermissionDetails(call.command, next(iter(call.paths), None)),
            risk=Risk(risk) if risk else None,
            options=_options(OPTIONS),
        )
        if await self._leave(request, call.title or ""):
            self._say(ToolUpdate(call.tool_call_id, ToolStatus.RUNNING))
            return True
        self._say(ToolUpdate(call.tool_call_id, ToolStatus.FAILED, error="denied"))
        return False


def _words(text: str) -> list[str]:
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


def _json(value: Any) -> bytes | None:
    return None if value is None else orjson.dumps(value)


def _options(pairs: Sequence[tuple[str, str]]) -> list[PermissionOption]:
    return [PermissionOption(id_, id_, OptionKind(kind)) for id_, kind in pairs]


def _approval(step: AskApproval) -> PermissionRequest:
    return PermissionRequest(
        "",
        PermissionKind(step.kind),
        title=step.title,
        tool_name=step.tool_name or None,
        details=PermissionDetails(step.command) if step.command else None,
        risk=Risk(step.risk) if step.risk else None,
        options=_options(step.options),
        expires_at=step.expires_at,
    )


def _payload(step: Think | Plan | ShowImage | Emit) -> Payload:
    match step:
        case Think():
            return Reasoning("", step.text)
        case Plan():
            return _plan(step)
        case ShowImage():
            return MessageChunk("", Role.ASSISTANT, content=_png(step.data, step.mime_type))
        case Emit():
            return step.payload


def _png(data: bytes, mime_type: str = "image/png") -> ContentBlock:
    return ContentBlock(ContentType.IMAGE, data=data, mime_type=mime_type)


def _plan(step: Plan) -> PlanPayload:
    states = [PlanStatus.COMPLETED] * step.done + [PlanStatus.IN_PROGRESS]
    states += [PlanStatus.PENDING] * len(step.entries)
    return PlanPayload(
        [PlanEntry(entry, state) for entry, state in zip(step.entries, states, strict=False)]
    )


def _change(path: str, before: str | None, after: str, tool_call_id: str) -> FileChange:
    old = (before or "").splitlines(keepends=True)
    lines = list(difflib.unified_diff(old, after.splitlines(keepends=True), path, path))
    body = [line for line in lines if not line.startswith(("+++", "---"))]
    return FileChange(
        path,
        ChangeKind.CREATE if before is None else ChangeKind.MODIFY,
        additions=sum(line.startswith("+") for line in body),
        deletions=sum(line.startswith("-") for line in body),
        diff="".join(lines),
        tool_call_id=tool_call_id,
    )
