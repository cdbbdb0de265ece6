"""Owns one live Claude Code conversation: its process, its handshake and every call that we make of it.

There is one process for each conversation, and it is started when that is named. What the agent says is
not its business: the translator reads that.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup, TaskStatus

from agentctl.core.adapter import (
    AgentInfo,
    Feature,
    Launch,
    NativeSession,
    PermissionAnswer,
    QuestionAnswer,
    Sink,
)
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unsupported,
)
from agentctl.core.ids import NativeRequestId, NativeSessionId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec, SessionSpec
from agentctl.core.toolspace import ToolOffer
from agentctl.core.words import ContentType, Decision
from agentctl.process.errors import SpawnFailed
from agentctl.process.spawn import Process, SpawnSpec
from agentctl.transport.stdio import open_stdio
from agentctl_adapters.claude import asks, history, launching
from agentctl_adapters.claude.content import prompt_content
from agentctl_adapters.claude.control import AgentGone, ControlRefused, success
from agentctl_adapters.claude.launching import Conversation
from agentctl_adapters.claude.link import ClaudeLink
from agentctl_adapters.claude.toolspace import offers_of
from agentctl_adapters.claude.translate import ClaudeTranslator
from agentctl_adapters.common.failures import death_error, handshake_timeout
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text
from agentctl_adapters.common.starting import not_started

# It answers in half a second, in 2 s with five others; MCP servers that are named may be downloaded.
HANDSHAKE_TIMEOUT_S = 60.0
# Answered from memory, also in the middle of a turn.
CALL_TIMEOUT_S = 30.0
# An agent that does not read holds up no cancel and no answer: they stay queued, in order.
WRITE_TIMEOUT_S = 2.0
# An interrupted turn ends within 70 ms; the stop ladder comes next, whatever it answers.
GOODBYE_TIMEOUT_S = 2.0
# stdout has ended; the exit code and the last words of stderr come within milliseconds of it.
EXIT_TIMEOUT_S = 2.0
# A process that is being stopped needs no longer than its ladder to let its conversation go.
HELD_TIMEOUT_S = 10.0

NEWEST = ("continue", "latest")
_NOT_FOUND = "No conversation found"

_held: dict[tuple[str, str], anyio.Event] = {}


class ClaudeConnection:
    """A core.adapter.Connection. Made by adapter.connect()."""

    def __init__(self, launch: Launch, translator: ClaudeTranslator, sink: Sink) -> None:
        self._launch = launch
        self._translator = translator
        self._entry = launch.entry
        self._link = ClaudeLink(launch, translator, sink)
        self._group: TaskGroup | None = None
        self._stop = anyio.Event()
        self._hello: Json = {}
        self._said_goodbye = False
        self._holding: list[tuple[str, str]] = []

    @property
    def info(self) -> AgentInfo:
        process = self._link.process
        features = {
            Feature.RESUME,
            Feature.FORK,
            Feature.GUARDED,
            Feature.LIST,
            Feature.IMAGE,
            Feature.EMBEDDED_CONTEXT,
            Feature.MCP_HTTP,
            Feature.MCP_SSE,
            Feature.ADDITIONAL_DIRECTORIES,
        }
        if not self._entry.can_recover:
            features -= {Feature.RESUME, Feature.FORK}
        return AgentInfo(
            name="Claude Code",
            version=as_text(self._hello.get("claude_code_version")),
            features=frozenset(features),
            pid=process.pid if process is not None else None,
        )

    @property
    def process(self) -> Process | None:
        """The process, once its conversation was named."""
        return self._link.process

    def serve(self, group: TaskGroup) -> None:
        """The process will live in that group."""
        self._group = group

    def end(self) -> None:
        """The process goes down its ladder now."""
        self._stop.set()

    async def new_session(self, spec: SessionSpec) -> NativeSessionId:
        return await self._open(Conversation(str(uuid4())), spec)

    async def resume_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        name = await self._newest(spec) if native in NEWEST else native
        return await self._open(Conversation(name, name), spec)

    async def fork_session(self, native: NativeSessionId, spec: SessionSpec) -> NativeSessionId:
        return await self._open(Conversation(str(uuid4()), native), spec)

    async def list_sessions(self, cwd: str | None) -> Sequence[NativeSession]:
        return await anyio.to_thread.run_sync(history.conversations, self._launch.env, cwd)

    async def close_session(self, native: NativeSessionId) -> None:
        raise Unsupported(f"{self._entry.id} closes a conversation by ending its process")

    async def delete_session(self, native: NativeSessionId) -> None:
        raise Unsupported(f"{self._entry.id} cannot delete its conversations")

    async def tools(self, native: NativeSessionId) -> Sequence[ToolOffer] | None:
        """As its newest turn began with; nothing is known before the first prompt."""
        await anyio.lowlevel.checkpoint()
        return None if self._link.tools is None else offers_of(self._link.tools)

    async def prompt(self, native: NativeSessionId, prompt: PromptSpec) -> None:
        if prompt.output_schema_json is not None:
            raise Unsupported(f"{self._entry.id} takes an output schema at its start only")
        if prompt.effort:
            await self.set_option(native, "effort", prompt.effort)
        uuid = str(uuid4())
        message: Json = {
            "type": "user",
            "message": {"role": "user", "content": prompt_content(self._blocks(prompt))},
            "parent_tool_use_id": None,
            "session_id": "",
            "uuid": uuid,
        }
        with self._alive("before it took the prompt"):
            self._link.prompted(uuid)
            await self._link.control.write(message)

    async def steer(self, native: NativeSessionId, prompt: PromptSpec) -> bool:
        raise Unsupported(
            f"{self._entry.id} does not say into which turn it takes a prompt: queue it"
        )

    async def cancel(self, native: NativeSessionId) -> None:
        with self._alive("before it was told"), anyio.move_on_after(WRITE_TIMEOUT_S):
            self._link.control.post_request("interrupt", cancel_queued=True)
            for task in self._link.shells:
                self._link.control.post_request("stop_task", task_id=task)
            await self._link.control.flush()

    async def answer_permission(self, request: NativeRequestId, answer: PermissionAnswer) -> None:
        asked = self._link.asked.get(request)
        if asked is None or asked.get("tool_name") == "AskUserQuestion":
            return
        if request in self._link.asked_again and answer.decision is Decision.CANCELLED:
            # Its run is over, and with that its approval; the agent waits on under a new one.
            self._link.asked_again.discard(request)
            return
        await self._answer(request, asks.permission_reply(asked, answer))

    async def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None:
        asked = self._link.asked.get(request)
        if asked is None or asked.get("tool_name") != "AskUserQuestion":
            return
        await self._answer(request, asks.question_reply(asked, answer))

    async def set_model(self, native: NativeSessionId, model: str) -> None:
        await self._call("set_model", "INVALID_MODEL", model=model)

    async def set_mode(self, native: NativeSessionId, mode: str) -> None:
        name = launching.checked_mode(self._launch, mode)
        result = await self._call("set_permission_mode", None, mode=name)
        told = as_text(result.get("mode"))
        if told and told != name:
            raise Invalid(f"{self._entry.id} took the mode {told} instead of {name}")

    async def set_option(self, native: NativeSessionId, option: str, value: str) -> None:
        if option != "effort":
            raise Invalid(f"{self._entry.id} has no option {option!r}; it has: effort")
        level = launching.checked_effort(self._launch, value)
        await self._call("apply_flag_settings", None, settings={"effortLevel": level})

    async def authenticate(self, method: str) -> None:
        raise Unsupported(
            f"log in with {self._entry.id}'s own program: type `claude` in a terminal"
        )

    async def goodbye(self) -> None:
        if self._said_goodbye or self._link.process is None or self._link.death.known:
            return
        self._said_goodbye = True
        with anyio.move_on_after(GOODBYE_TIMEOUT_S, shield=True):
            no = {"behavior": "deny", "message": asks.CANCELLED}
            for request in list(self._link.asked):
                self._link.control.post(success(request, no))
            self._link.asked.clear()
            if not self._link.idle.is_set():
                self._link.control.post_request("interrupt", cancel_queued=True)
                await self._link.idle.wait()

    async def _open(self, conversation: Conversation, spec: SessionSpec) -> NativeSessionId:
        if self._link.process is not None or self._holding:
            raise Unsupported(f"{self._entry.id} holds one conversation in each process")
        argv = launching.arguments(self._launch, spec, conversation)
        await self._hold(conversation.native)
        native = NativeSessionId(conversation.native)
        self._translator.name(native)
        assert self._group is not None
        try:
            await self._group.start(self._run, argv)
            await self._shake_hands(conversation)
        except SpawnFailed as error:
            raise not_started(self._launch, error) from error
        return native

    async def _run(self, argv: tuple[str, ...], *, task_status: TaskStatus[None]) -> None:
        """The life of the process; the reader outlives it."""
        assert self._group is not None
        launch, link = self._launch, self._link
        scratch = await anyio.to_thread.run_sync(_make_scratch, launch.env.get("TMPDIR"))
        try:
            env = launching.environment(launch, scratch)
            process = SpawnSpec(argv, env, Path(launch.cwd), launch.cookie)
            async with open_stdio(
                process, on_stderr=link.on_stderr, redact=launch.redact
            ) as transport:
                link.attach(transport)
                self._group.start_soon(link.run)
                task_status.started()
                await self._stop.wait()
        finally:
            with anyio.CancelScope(shield=True):
                if link.process is not None:
                    await link.close()
                await anyio.to_thread.run_sync(shutil.rmtree, scratch, True)
                self._release()

    async def _shake_hands(self, conversation: Conversation) -> None:
        asked = self._entry.protocol_config.get("handshake_timeout_ms")
        deadline_s = asked / 1000 if isinstance(asked, int | float) else HANDSHAKE_TIMEOUT_S
        try:
            self._hello = await self._link.control.request(
                "initialize", timeout_s=deadline_s, hooks=None
            )
        except AgentGone as error:
            raise await self._not_begun(conversation) from error
        except ControlRefused as error:
            raise AgentFailed(f"{self._entry.id} refused initialize: {error.message}") from error
        except TimeoutError as error:
            failure = handshake_timeout(
                self._launch, deadline_s, self._link.death, "", "Claude Code"
            )
            if self._link.process is not None:
                await self._link.process.stop(force=True)
            raise failure from error
        self._refuse_stranger()

    async def _not_begun(self, conversation: Conversation) -> AgentctlError:
        """It died before it answered: why, in its own words."""
        with anyio.move_on_after(EXIT_TIMEOUT_S):
            await self._link.ended.wait()
        said = self._link.refusal or "\n".join(self._link.death.stderr_tail)
        if conversation.resumes and (_NOT_FOUND in said or "--resume" in said):
            return NotFound(
                f"{self._entry.id} has no conversation {conversation.resumes}: start a new session",
                metadata={"entry": self._entry.id, "native_session_id": conversation.resumes},
            )
        return death_error(self._launch, self._link.death, "before it answered initialize")

    def _refuse_stranger(self) -> None:
        """Without any login each prompt would fail; better to hear of it before the first one."""
        account = as_object(self._hello.get("account"))
        if not account or account.get("apiProvider", "firstParty") != "firstParty":
            return
        sources = (account.get("tokenSource", "none"), account.get("apiKeySource", "none"))
        if all(source in ("none", None) for source in sources):
            hint = self._entry.login.hint or "run `claude` once, or set ANTHROPIC_API_KEY"
            raise Refused(
                f"{self._entry.id} is not logged in: {hint}",
                reason="AUTH_REQUIRED",
                metadata={"entry": self._entry.id},
            )

    async def _newest(self, spec: SessionSpec) -> str:
        found = await self.list_sessions(spec.workspace)
        if not found:
            raise NotFound(f"{self._entry.id} has no conversation in {spec.workspace} yet")
        return found[0].native_session_id

    async def _hold(self, native: str) -> None:
        """Two processes in one conversation would both write its history."""
        key = (str(history.projects(self._launch.env)), native)
        with anyio.move_on_after(HELD_TIMEOUT_S):
            while (released := _held.get(key)) is not None:
                await released.wait()
        if key in _held:
            raise Refused(
                f"the conversation {native} is in use by another session: close that one first",
                reason="SESSION_BUSY",
                metadata={"native_session_id": native},
            )
        _held[key] = anyio.Event()
        self._holding.append(key)

    def _release(self) -> None:
        for key in self._holding:
            if (released := _held.pop(key, None)) is not None:
                released.set()

    async def _answer(self, request: NativeRequestId, reply: Json) -> None:
        del self._link.asked[request]
        with self._alive("before it got the answer"), anyio.move_on_after(WRITE_TIMEOUT_S):
            await self._link.control.write(success(request, reply))

    async def _call(self, subtype: str, reason: str | None, **fields: object) -> Json:
        """A setting; what the agent refuses is the caller's mistake."""
        try:
            with self._alive(f"before it answered {subtype}"):
                return await self._link.control.request(subtype, timeout_s=CALL_TIMEOUT_S, **fields)
        except ControlRefused as error:
            raise Invalid(
                f"{self._entry.id} refused {subtype}: {error.message}",
                reason=reason,
                metadata={"entry": self._entry.id, "code": error.code},
            ) from error
        except TimeoutError as error:
            raise TimedOut(
                f"{self._entry.id} did not answer {subtype} within {CALL_TIMEOUT_S:g} s: look at its"
                " log, or stop it and try again"
            ) from error

    @contextmanager
    def _alive(self, doing: str) -> Generator[None]:
        """Words the agent's death for our caller."""
        try:
            yield
        except AgentGone as error:
            version = self.info.version
            raise death_error(self._launch, self._link.death, doing, version) from error

    def _blocks(self, prompt: PromptSpec) -> Sequence[ContentBlock]:
        if prompt.compact:
            return [_text("/compact")]
        if prompt.review:
            names = {as_text(c.get("name")) for c in as_objects(self._hello.get("commands"))}
            return [_text("/code-review" if "code-review" in names else "/review")]
        if prompt.command is not None:
            return [_text(f"/{prompt.command.name} {prompt.command.arguments}".rstrip())]
        return prompt.blocks


def _text(text: str) -> ContentBlock:
    return ContentBlock(ContentType.TEXT, text=text)


def _make_scratch(parent: str | None) -> str:
    """A directory for the temporary files of one process; sockets in it need a short path."""
    with contextlib.suppress(OSError):
        return tempfile.mkdtemp(prefix="agentctl-claude-", dir=parent)
    return tempfile.mkdtemp(prefix="agentctl-claude-")
