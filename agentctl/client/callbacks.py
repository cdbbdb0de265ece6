"""Owns an app's callbacks for approvals and questions: one reader of the stream calls them.

Each call is a task of its own, so that none waits for another or for whoever reads events. A callback
that raises leaves its request open; the error is kept for whoever waits for the run or reads it next.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio
from anyio.abc import TaskGroup

from agentctl import v1
from agentctl.client.asking import Approval, Question, asked
from agentctl.client.event import Event
from agentctl.client.stream import Subscription
from agentctl.core.errors import AgentctlError

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl

logger = logging.getLogger(__name__)

T = TypeVar("T")
ApprovalCallback: TypeAlias = Callable[[Approval], Any]
QuestionCallback: TypeAlias = Callable[[Question], Any]
Callback: TypeAlias = Callable[[Any], Any]

_ASKS = ("permission_request", "question_request")
_SETTLES = ("permission_resolved", "question_resolved")


class Callbacks:
    """The callbacks of one run, or of one session."""

    def __init__(
        self, client: "AgentCtl", *, runs: Sequence[str] = (), sessions: Sequence[str] = ()
    ) -> None:
        self._client = client
        self._runs, self._sessions = runs, sessions
        self._approvals: list[Callback] = []
        self._questions: list[Callback] = []
        self._open: dict[str, v1.AgentEvent] = {}
        self._group: TaskGroup | None = None
        self._live = False
        self._errors: list[Exception] = []
        self._failed = anyio.Event()
        self._watching = False

    def on_approval(self, callback: ApprovalCallback) -> None:
        self._add(self._approvals, callback, "permission_request")

    def on_question(self, callback: QuestionCallback) -> None:
        self._add(self._questions, callback, "question_request")

    def _add(self, callbacks: list[Callback], callback: Callback, kind: str) -> None:
        callbacks.append(callback)
        if not self._watching:
            self._watching = True
            self._client.background(self._watch())
        elif self._live:
            for event in self._open.values():
                if event.WhichOneof("payload") == kind:
                    self._start(callback, event)

    async def unless_failed(self, what: Callable[[], Awaitable[T]]) -> T:
        """Does `what`, and raises instead what a callback raised before or meanwhile, once."""
        if not self._watching:
            return await what()
        results: list[T] = []
        raised: list[Exception] = []

        async def work(group: TaskGroup) -> None:
            try:
                results.append(await what())
            except Exception as error:  # noqa: BLE001  (it is the caller's, who raises it below)
                raised.append(error)
            group.cancel_scope.cancel()

        if not self._errors:
            async with anyio.create_task_group() as group:
                group.start_soon(work, group)
                await self._failed.wait()
                group.cancel_scope.cancel()
        if self._errors:
            error = self._errors.pop(0)
            if not self._errors:
                self._failed = anyio.Event()
            raise error
        if raised:
            raise raised[0]
        return results[0]

    async def read(self, subscription: Subscription) -> AsyncIterator[Event]:
        """The events of a subscription; what a callback raises is raised here too, once."""
        async with aclosing(subscription.batches()) as batches:
            while True:
                batch = await self.unless_failed(lambda: anext(batches, None))
                if batch is None:
                    return
                for event in batch.events:
                    yield Event(event)

    async def _watch(self) -> None:
        subscription = self._client.subscribe(
            runs=self._runs, sessions=self._sessions, types=(*_ASKS, *_SETTLES, "complete")
        )
        # Who asked for callbacks has the run or session from a daemon; it may be restarting.
        subscription.reached = True
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                async for batch in subscription.batches():
                    self._take(batch)
        except* AgentctlError as errors:
            # The daemon stayed away, or the run is unknown: whoever waits for it is told.
            for error in errors.exceptions:
                if isinstance(error, AgentctlError):
                    self._fail(error)
        finally:
            self._group = None

    def _take(self, batch: v1.EventBatch) -> None:
        fresh: list[v1.AgentEvent] = []
        for event in batch.events:
            match event.WhichOneof("payload"):
                case "permission_request":
                    self._open[event.permission_request.approval_id] = event
                    fresh.append(event)
                case "question_request":
                    self._open[event.question_request.question_id] = event
                    fresh.append(event)
                case "permission_resolved":
                    self._open.pop(event.permission_resolved.approval_id, None)
                case "question_resolved":
                    self._open.pop(event.question_resolved.question_id, None)
                case _:
                    pass
        if not self._live:
            # What is read until the head may be answered already, further on.
            self._live = batch.caught_up
            fresh = list(self._open.values()) if self._live else []
        for event in fresh:
            kind = event.WhichOneof("payload")
            for callback in self._approvals if kind == "permission_request" else self._questions:
                if _id(event) in self._open:
                    self._start(callback, event)

    def _start(self, callback: Callback, event: v1.AgentEvent) -> None:
        if self._group is not None:
            self._group.start_soon(self._call, callback, event)

    async def _call(self, callback: Callback, event: v1.AgentEvent) -> None:
        try:
            result = callback(asked(self._client, event))
            while inspect.isawaitable(result):
                result = await result
        except AgentctlError as error:
            if error.reason != "ALREADY_RESOLVED":
                self._fail(error)
        except Exception as error:
            # The edge to an app's own code: its defect is its run's owner's to hear.
            logger.exception("a callback failed; its request %s stays open", _id(event))
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._errors.append(error)
        self._failed.set()


def _id(event: v1.AgentEvent) -> str:
    asks = event.permission_request.approval_id
    return asks if event.HasField("permission_request") else event.question_request.question_id
