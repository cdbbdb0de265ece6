"""Owns what the agent has asked in one session and nobody has answered yet; knows no run's state.

Each request gets exactly one resolution: whoever takes it out of here writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from agentctl.core.events import PermissionRequest, QuestionRequest
from agentctl.core.ids import NativeRequestId


@dataclass(slots=True)
class OpenPermission:
    request: NativeRequestId
    run_id: str | None
    payload: PermissionRequest
    after_run_id: str | None = None
    parent: str | None = None


@dataclass(slots=True)
class OpenQuestion:
    request: NativeRequestId
    run_id: str | None
    payload: QuestionRequest
    after_run_id: str | None = None
    parent: str | None = None


class Asks:
    """The open requests of one session, by our id and by the agent's."""

    __slots__ = ("_by_request", "permissions", "questions")

    def __init__(self) -> None:
        self.permissions: dict[str, OpenPermission] = {}
        self.questions: dict[str, OpenQuestion] = {}
        self._by_request: dict[NativeRequestId, str] = {}

    def is_open(self, request: NativeRequestId) -> bool:
        return request in self._by_request

    def own_id(self, request: NativeRequestId) -> str | None:
        return self._by_request.get(request)

    def add(self, ask: OpenPermission | OpenQuestion) -> None:
        if isinstance(ask, OpenPermission):
            own = ask.payload.approval_id
            self.permissions[own] = ask
        else:
            own = ask.payload.question_id
            self.questions[own] = ask
        self._by_request[ask.request] = own

    def take_permission(self, own: str) -> OpenPermission | None:
        ask = self.permissions.pop(own, None)
        if ask is not None:
            self._by_request.pop(ask.request, None)
        return ask

    def take_question(self, own: str) -> OpenQuestion | None:
        ask = self.questions.pop(own, None)
        if ask is not None:
            self._by_request.pop(ask.request, None)
        return ask

    def of_run(self, run_id: str) -> Iterator[OpenPermission | OpenQuestion]:
        """What is open in a run, in the order in which it was asked."""
        yield from [a for a in self.permissions.values() if a.run_id == run_id]
        yield from [q for q in self.questions.values() if q.run_id == run_id]

    def all(self) -> Iterator[OpenPermission | OpenQuestion]:
        yield from [*self.permissions.values()]
        yield from [*self.questions.values()]
