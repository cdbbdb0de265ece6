"""Owns what the gRPC server needs of its neighbours, as Protocols; refuses to construct any."""

import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentctl.config import Settings
from agentctl.core.spec import Entry
from agentctl.session.hub import Batch, Query


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """What GetInfo tells that does not change. `started_at` is Unix ms."""

    settings: Settings
    version: str
    started_at: int = field(default_factory=_now_ms)
    pid: int = field(default_factory=os.getpid)


class JournalFacts(Protocol):
    """What GetInfo tells of the journal."""

    @property
    def id(self) -> str: ...

    @property
    def head(self) -> int: ...

    @property
    def full(self) -> bool: ...


class HubApi(Protocol):
    """The event stream; see `session.hub.Hub`."""

    def subscribe(self, query: Query) -> AsyncGenerator[Batch, None]: ...


class ProblemView(Protocol):
    """One mistake in a registry file; `line` 0 means the file as a whole."""

    @property
    def file(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def line(self) -> int: ...


class FoundView(Protocol):
    """What discovery saw of one entry; see `agentctl_registry.discovery.Found`."""

    @property
    def entry_id(self) -> str: ...
    @property
    def installed(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def login(self) -> str: ...
    @property
    def via(self) -> str: ...
    @property
    def install(self) -> str: ...
    @property
    def note(self) -> str: ...


Discover = Callable[[Sequence[Entry]], Awaitable[Sequence[FoundView]]]
"""Looks which entries are installed, without a model turn."""


class ChangesView(AbstractContextManager[Any], Protocol):
    """News of the registry, while the context is open."""

    def __aiter__(self) -> AsyncIterator[object]: ...


class CatalogApi(Protocol):
    """The registry; see `agentctl_registry.catalog.Catalog`. Edits raise Invalid, reads NotFound."""

    @property
    def problems(self) -> Sequence[ProblemView]: ...
    def entries(self) -> Sequence[Entry]: ...
    def find(self, entry_id: str) -> Entry | None: ...
    def get(self, entry_id: str) -> Entry: ...
    def validate(self, text: str, file: str = ...) -> Sequence[ProblemView]: ...
    def subscribe(self) -> ChangesView: ...
    async def refresh(self) -> None: ...
    async def put(self, raw: Mapping[str, Any] | str | bytes) -> Entry: ...
    async def enable(self, entry_id: str, on: bool) -> Entry: ...
    async def delete(self, entry_id: str) -> None: ...
