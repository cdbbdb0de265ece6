"""Owns a run as an app sees it: wait for it, read it, answer it, cancel it."""

import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import anyio

from agentctl import v1
from agentctl.client.artifact import ArtifactsOf
from agentctl.client.asking import Approval, Question, approval, question
from agentctl.client.callbacks import ApprovalCallback, Callbacks, QuestionCallback
from agentctl.client.event import Event
from agentctl.client.results import RunResult, run_as_it_is, run_result
from agentctl.client.stream import FIRST_PAUSE_S, LAST_PAUSE_S, retryable
from agentctl.client.toolspace import ToolSpace, tool_space
from agentctl.core.errors import AgentctlError
from agentctl.rpc.enums import word

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl
    from agentctl.client.session import Session


class Run:
    """One prompt until its end. Two objects of the same run are independent of each other."""

    def __init__(self, client: "AgentCtl", run_id: str, told: v1.Run | None = None) -> None:
        self._client = client
        self._session_id = told.session_id if told else ""
        self._reached = told is not None
        self._callbacks = Callbacks(client, runs=[run_id])
        self.id = run_id
        self.artifacts = ArtifactsOf(client, run_id=run_id)
        """What it makes."""

    async def wait(self, timeout_ms: int | None = None) -> RunResult:
        """Waits for its end, also across a restart of the daemon.

        Args:
            timeout_ms: how long; when that is up the result is `accepted`, and the run goes on.

        Raises:
            AgentctlError: RUN_NOT_FOUND; SERVER_ERROR: the daemon stayed away for too long
                (`client.patience_s`).
            Exception: what a callback raised, once; the run goes on.
        """
        return await self._callbacks.unless_failed(lambda: self._wait(timeout_ms))

    async def _wait(self, timeout_ms: int | None) -> RunResult:
        end = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        pause, away_since = FIRST_PAUSE_S, 0.0
        while True:
            left = None if end is None else max(1, round((end - time.monotonic()) * 1000))
            try:
                answer = run_result(await self._client.runs.wait(self.id, timeout_ms=left))
                self._reached, pause, away_since = True, FIRST_PAUSE_S, 0.0
                if answer.status != "accepted" or end is not None:
                    return answer
            except AgentctlError as error:
                # A daemon that is stopped cuts the call; the one that comes back knows the run.
                now = time.monotonic()
                away_since = away_since or now
                over = now - away_since > self._client.patience_s or (
                    end is not None and now >= end
                )
                if over or not self._reached or not retryable(error):
                    raise
            await anyio.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE_S)

    async def result(self) -> RunResult:
        """How it stands, without waiting: `accepted` while it has not ended."""
        return run_as_it_is(await self._told())

    async def state(self) -> str:
        """created, queued, running, completed, failed, cancelled or timed_out."""
        return word(v1.RunState, (await self._told()).state, field="state")

    async def cancel(self, *, drop_queue: bool = False, force: bool = False) -> None:
        """Cancels it; returns when that is on its way. A second cancel of an open run does nothing.

        Args:
            drop_queue: cancels what is queued behind it too.
            force: stops the agent when it does not end by itself at once.

        Raises:
            AgentctlError: RUN_FINISHED, it had ended.
        """
        await self._client.runs.cancel(self.id, drop_queue=drop_queue, force=force)

    async def events(
        self,
        after: str = "",
        *,
        follow: bool = True,
        include_raw: bool = False,
        include_log: bool = False,
    ) -> AsyncIterator[Event]:
        """Its events in order, each once, across reconnects; ends after its last one.

        Args:
            after: the cursor of the last event that was seen; "" begins with the first.
            follow: False ends it with the newest event that there is.
            include_raw: with the agent's own messages, where they are journalled.
            include_log: with lines outside the protocol.

        Raises:
            AgentctlError: INVALID_CURSOR; SERVER_ERROR: the daemon stayed away for too long.
            Exception: what a callback raised, once; read on with `after`.
        """
        subscription = self._client.subscribe(
            after,
            runs=[self.id],
            follow=follow,
            include_raw=include_raw,
            include_log=include_log,
        )
        subscription.reached = self._reached
        async for event in self._callbacks.read(subscription):
            yield event

    def on_approval(self, callback: ApprovalCallback) -> None:
        """Has `callback(approval)` called for each approval that is or becomes open.

        It may be a coroutine function, and runs beside whatever else reads the run. Returning without
        an answer leaves the approval to people. What it raises, `wait` and `events` raise.
        """
        self._callbacks.on_approval(callback)

    def on_question(self, callback: QuestionCallback) -> None:
        """The same for questions."""
        self._callbacks.on_question(callback)

    async def approvals(self) -> list[Approval]:
        """Those of it that are open, the oldest first."""
        open_ones = await self._client.approvals.list(session_id=await self.session_id())
        mine = [each for each in open_ones.approvals if each.run_id == self.id]
        return [approval(self._client, each) for each in mine]

    async def questions(self) -> list[Question]:
        """Those of it that are open, the oldest first."""
        open_ones = await self._client.questions.list(session_id=await self.session_id())
        mine = [each for each in open_ones.questions if each.run_id == self.id]
        return [question(self._client, each) for each in mine]

    async def session_id(self) -> str:
        if not self._session_id:
            await self._told()
        return self._session_id

    async def session(self) -> "Session":
        """The session that it is of."""
        return self._client.session(await self.session_id())

    async def tool_space(self) -> ToolSpace:
        """The tools that its agent has at this moment."""
        return await tool_space(self._client, await self.session_id())

    async def _told(self) -> v1.Run:
        told = await self._client.runs.get(self.id)
        self._session_id = told.session_id
        return told

    def __repr__(self) -> str:
        return f"Run({self.id!r})"
