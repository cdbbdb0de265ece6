"""Owns what belongs together for one live server: its requests, its events, its sessions of ours.

Plain state that the calls of a connection share; it does nothing by itself.
"""

from dataclasses import dataclass, field

from anyio.abc import TaskGroup

from agentctl.core.adapter import Launch
from agentctl.core.errors import NotFound
from agentctl.core.ids import NativeSessionId
from agentctl_adapters.opencode.bodies import InForce
from agentctl_adapters.opencode.catalog import Catalog
from agentctl_adapters.opencode.client import Api
from agentctl_adapters.opencode.lanes import Lane
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.refetch import Refetch
from agentctl_adapters.opencode.roster import Roster
from agentctl_adapters.opencode.streams import Streams
from agentctl_adapters.opencode.translate import OpenCodeTranslator


@dataclass(slots=True)
class Open:
    """A session of ours. `aborts`: how often it was told to stop."""

    native: NativeSessionId
    directory: str
    chosen: InForce
    lane: Lane
    aborts: int = 0


@dataclass(slots=True)
class Host:
    """One server. `own`: we started it. `sync_only`: it takes a prompt only in a call that lasts.

    `absent`: words of `Feature` for what a call found it cannot.
    """

    launch: Launch
    api: Api
    link: ServerLink
    roster: Roster
    refetch: Refetch
    catalog: Catalog
    translator: OpenCodeTranslator
    streams: Streams
    group: TaskGroup
    own: bool
    version: str = ""
    sync_only: bool = False
    remote: bool = False
    absent: set[str] = field(default_factory=set[str])
    sessions: dict[str, Open] = field(default_factory=dict[str, Open])

    def session(self, native: NativeSessionId) -> Open:
        """Raises NotFound: it is not open here."""
        session = self.sessions.get(native)
        if session is None:
            raise NotFound(f"{self.launch.entry.id} has no open session {native}: resume it first")
        return session

    def runs(self, native: str) -> bool:
        """Whether a turn of the session is open."""
        return native in self.refetch.running()
