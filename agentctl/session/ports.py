"""Owns what the session room needs from outside, as Protocols; `daemon.py` fills them.

It refuses to know how a registry is read, how a journal stores, and which protocols exist.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentctl.core.adapter import Frame, ProtocolAdapter
from agentctl.core.events import Event
from agentctl.core.spec import Entry, SessionSpec
from agentctl.core.words import Policy
from agentctl.journal.select import Selection
from agentctl.journal.store import Doc, Page, Where
from agentctl.workspace.snapshot import Patch, Snapshot


class JournalPort(Protocol):
    """The part of the journal that lifecycles need."""

    @property
    def head(self) -> int: ...

    async def append(
        self, events: Sequence[Event], docs: Sequence[Doc] = (), *, vital: bool = False
    ) -> None: ...

    async def doc(self, kind: str, id: str) -> Doc | None: ...  # noqa: A002  (the journal's name)

    async def docs(
        self,
        kind: str,
        *,
        session_id: str | None = None,
        open: bool | None = None,  # noqa: A002  (the journal's name)
        after_id: str = "",
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[Doc]: ...

    async def briefed(
        self,
        kind: str,
        where: Sequence[Where],
        *,
        but: Collection[str] = (),
        before_id: str = "",
        limit: int = 1000,
    ) -> list[Doc]: ...

    async def count_briefed(
        self, kind: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> int: ...

    async def count_by(
        self, kind: str, name: str, where: Sequence[Where], *, but: Collection[str] = ()
    ) -> dict[str, int]: ...

    async def lacking(self, kind: str, other: str, *, limit: int = 1000) -> list[str]: ...

    async def newest(self, sessions: Collection[str]) -> dict[str, int]: ...

    async def page(self, selection: Selection, after: int, upto: int | None = None) -> Page: ...

    async def forget_session(self, session_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """How to start a process: complete argv and environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    secrets: tuple[str, ...] = ()


class Entries(Protocol):
    """The registry as the session room sees it."""

    def get(self, entry_id: str) -> Entry:
        """Raises NotFound (with the nearest name) or Refused(AGENT_DISABLED)."""
        ...

    def prepare(self, entry: Entry, spec: SessionSpec, *, policy: Policy, rules: bool) -> Prepared:
        """Fills the entry's templates. Raises Refused (not installed, env missing) or Invalid."""
        ...

    def attached(self, entry: Entry, spec: SessionSpec) -> Entry:
        """The entry with the session's own `url` and `auth`; itself when there is none.

        Raises:
            Unsupported: its protocol has no servers to attach to.
        """
        ...

    def carried(self, entry: Entry, workspace: str) -> Sequence[str]:
        """Files of the workspace that set up this agent, relative to it. Blocks: use a thread."""
        ...

    def adapter(self, protocol: str) -> ProtocolAdapter:
        """Raises Unsupported when no installed adapter speaks it."""
        ...


class Recorder(Protocol):
    """Makes the tap of one process's recording (`serve --record DIR`)."""

    def __call__(
        self, entry_id: str, agent_id: str, prepared: Prepared
    ) -> Callable[[Frame], None]: ...


Decode = Callable[[bytes], Sequence[Event]]
"""The other way of the journal's encode: the events of one block that it stored."""


class Snapshots(Protocol):
    """Pictures of the work tree that a workspace lies in; see `workspace.snapshot.Snapshots`."""

    async def take(self, workspace: str) -> Snapshot | None:
        """None: there is no work tree, or it cannot be read in time."""
        ...

    def trouble(self, workspace: str) -> str:
        """Why a work tree is too large or too slow to be read; "" when it is neither."""
        ...

    async def patch(self, before: Snapshot, after: Snapshot) -> Patch | None:
        """None: they are equal."""
        ...


class Room(Protocol):
    """Where bytes go that a pipe must not be faster than."""

    @property
    def crowded(self) -> bool: ...

    async def room(self) -> None:
        """Waits while it is crowded."""
        ...


Redactor = Callable[[Sequence[str]], Callable[[str], str]]
"""Secrets in, a cleaner of text out."""
