"""Owns a session as an app sees it: prompt it, read it, copy it, end it."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from agentctl import v1
from agentctl.client.artifact import ArtifactsOf
from agentctl.client.asking import Approval, Question, approval, question
from agentctl.client.callbacks import ApprovalCallback, Callbacks, QuestionCallback
from agentctl.client.event import Event
from agentctl.client.params import Prompt, prompt_input
from agentctl.client.results import Message, SessionInfo, message, session_info
from agentctl.client.run import Run
from agentctl.client.toolspace import ToolSpace, tool_space

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl


class Session:
    """One conversation with an agent."""

    def __init__(self, client: "AgentCtl", session_id: str) -> None:
        self._client = client
        self._callbacks = Callbacks(client, sessions=[session_id])
        self.id = session_id
        self.artifacts = ArtifactsOf(client, session_id=session_id)
        """What its runs made."""

    async def info(self) -> SessionInfo:
        """The session as it is at this moment."""
        return session_info(await self._client.sessions.get(self.id))

    async def send(
        self,
        prompt: Prompt,
        *,
        if_busy: str = "",
        timeout_ms: int | None = None,
        model: str | None = None,
        mode: str | None = None,
        effort: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        idempotency_key: str = "",
    ) -> Run:
        """Prompts it. A session at rest is resumed first.

        Args:
            if_busy: queue (default), reject, interrupt, or steer: add to the running turn, whose
                run is returned.
            output_schema: a JSON schema that the answer must meet, where the agent can.
            timeout_ms: the run ends as `timed_out` after so many ms; absent: no limit.

        Raises:
            AgentctlError: SESSION_NOT_FOUND, SESSION_BUSY, SESSION_CLOSED, QUEUE_FULL, DISK_FULL.
        """
        made = await self._client.runs.create(
            self.id,
            prompt_input(prompt),
            if_busy=if_busy,
            timeout_ms=timeout_ms,
            model=model,
            mode=mode,
            effort=effort,
            output_schema_json=None if output_schema is None else orjson.dumps(dict(output_schema)),
            labels=labels,
            idempotency_key=idempotency_key,
        )
        return Run(self._client, made.run.run_id, made.run)

    run = send

    async def runs(self) -> list[Run]:
        """Its latest runs, the newest first."""
        told = await self._client.runs.list(session_id=self.id)
        return [Run(self._client, each.run_id, each) for each in told.runs]

    async def messages(self, *, role: str | None = None, limit: int = 100) -> list[Message]:
        """The newest whole messages in their order; with `role` only those of one.

        Raises:
            AgentctlError: SESSION_NOT_FOUND.
        """
        page = await self._client.sessions.messages(self.id, role=role, page_size=limit)
        return [message(each.message) for each in page.events if each.HasField("message")]

    def events(
        self, after: str = "", *, follow: bool = True, include_log: bool = False
    ) -> AsyncIterator[Event]:
        """Its events in order, each once, across reconnects; see `Run.events`."""
        return self._callbacks.read(
            self._client.subscribe(
                after, sessions=[self.id], follow=follow, include_log=include_log
            )
        )

    def on_approval(self, callback: ApprovalCallback) -> None:
        """As `Run.on_approval`, for all its runs and what its agent asks outside any."""
        self._callbacks.on_approval(callback)

    def on_question(self, callback: QuestionCallback) -> None:
        """The same for questions."""
        self._callbacks.on_question(callback)

    async def approvals(self) -> list[Approval]:
        """Those that are open, the oldest first."""
        told = await self._client.approvals.list(session_id=self.id)
        return [approval(self._client, each) for each in told.approvals]

    async def questions(self) -> list[Question]:
        """Those that are open, the oldest first."""
        told = await self._client.questions.list(session_id=self.id)
        return [question(self._client, each) for each in told.questions]

    async def fork(self, *, name: str | None = None) -> "Session":
        """A copy of the conversation as a session of its own; UNSUPPORTED where the agent cannot."""
        told = await self._client.sessions.fork(self.id, name=name, wait_ready=True)
        return Session(self._client, told.session_id)

    async def compact(self) -> Run:
        """Has the agent shorten its context: a run like any other."""
        told = await self._client.sessions.compact(self.id)
        return Run(self._client, told.run_id)

    async def abort(self, *, drop_queue: bool = False, force: bool = False) -> Run | None:
        """Cancels what runs in it; None when nothing did."""
        told = await self._client.sessions.abort(self.id, drop_queue=drop_queue, force=force)
        return Run(self._client, told.run.run_id, told.run) if told.HasField("run") else None

    async def resume(self) -> None:
        """Takes it up again; its queue goes on too."""
        await self._client.sessions.resume(self.id, wait_ready=True)

    async def update(
        self,
        *,
        title: str | None = None,
        name: str | None = None,
        model: str | None = None,
        mode: str | None = None,
        options: Mapping[str, str] | None = None,
        policy: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """Changes what is not None; `labels` replaces all of them."""
        told: v1.Session = await self._client.sessions.update(
            self.id,
            title=title,
            name=name,
            model=model,
            mode=mode,
            options=options,
            policy=policy,
            labels=labels,
        )
        return session_info(told)

    async def tool_space(self) -> ToolSpace:
        """The tools that its agent has at this moment."""
        return await tool_space(self._client, self.id)

    async def close(self, *, save_state: bool | None = None) -> None:
        """Ends it and, when nobody else uses it, its agent; `save_state` False: for good."""
        await self._client.sessions.close(self.id, save_state=save_state)

    def __repr__(self) -> str:
        return f"Session({self.id!r})"
