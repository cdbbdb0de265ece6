"""Owns what an environment is: where a session's agent runs. Third parties may add one.

A package with an entry point in the group `agentctl.environments` adds an environment: the entry
point is called with a `Context` and gives an `EnvironmentProvider`. This file refuses to know how
any of them works and what a session is beyond its id.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from agentctl.core.errors import Invalid, Unsupported
from agentctl.workspace.git import Git
from agentctl.workspace.snapshot import Snapshots

GROUP = "agentctl.environments"

# What an environment can do; other words in `capabilities` are refused.
CAPABILITIES = frozenset(
    {"checkout", "sandbox", "network_policy", "secrets", "artifacts", "logs", "pull_requests"}
    | {"long_running"}
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a provider gets of the daemon: a place for its files, a bounded git, and snapshots."""

    data_dir: Path
    git: Git
    snapshots: Snapshots


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session works, in a form that outlives the daemon.

    `workspace` is the agent's directory, `source` the one that was asked for ("" when they are the
    same), `branch` what is checked out in it ("" without one). `made` turns true once it exists;
    `facts` are the provider's own words.
    """

    workspace: str
    source: str = ""
    branch: str = ""
    made: bool = False
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Program:
    """An agent's process before it is started. `shared`: sessions in other places may use it too."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """What became of a place: whether it still exists, and a sentence for people ("" = nothing)."""

    place: Place
    kept: bool = False
    note: str = ""


Known = Callable[[str], Awaitable[bool]]
"""Whether there is a session of that id, open or closed."""


class EnvironmentProvider(Protocol):
    """One environment. Every method but `bind` may take its time; none may block the loop."""

    @property
    def id(self) -> str:
        """Its name in Sessions.Create."""
        ...

    @property
    def detail(self) -> str:
        """What it does, or why it is not available, in one sentence."""
        ...

    @property
    def available(self) -> bool: ...

    @property
    def capabilities(self) -> frozenset[str]:
        """Of CAPABILITIES."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """What it takes in environment_options, each with its meaning."""
        ...

    async def plan(
        self, session_id: str, workspace: str, options: Mapping[str, str], *, source: Place | None
    ) -> Place:
        """Where that session will work; makes nothing yet. `source` is the place of a fork's origin.

        Raises:
            Invalid: it cannot be made of this directory, or an option is wrong.
        """
        ...

    async def make(self, session_id: str, place: Place) -> Place:
        """Makes it, or finds it again when it is made; called before each start of an agent.

        Raises:
            AgentctlError: it cannot be made, or it is gone.
        """
        ...

    def bind(self, place: Place, program: Program) -> Program:
        """The agent's program with what the environment adds: variables, secrets, a wrapper."""
        ...

    async def leave(self, session_id: str, place: Place, *, delete: bool) -> Left:
        """The session was closed, or is deleted: cleans up or keeps, as its options say."""
        ...

    async def recover(self, known: Known) -> None:
        """The daemon has started; what belongs to sessions that are not known may go."""
        ...


class Local:
    """The machine of the daemon, in the directory that was asked for."""

    id = "local"
    detail = "The agent works in the given directory itself, with the rights of the daemon's user."
    available = True
    capabilities = frozenset({"secrets", "artifacts", "logs", "long_running"})
    options: Mapping[str, str] = {}

    async def plan(
        self, session_id: str, workspace: str, options: Mapping[str, str], *, source: Place | None
    ) -> Place:
        return Place(workspace, made=True)

    async def make(self, session_id: str, place: Place) -> Place:
        return place

    def bind(self, place: Place, program: Program) -> Program:
        return program

    async def leave(self, session_id: str, place: Place, *, delete: bool) -> Left:
        return Left(place, kept=True)

    async def recover(self, known: Known) -> None:
        return


class Missing:
    """An environment that has a name and nobody who provides it."""

    available = False
    capabilities: frozenset[str] = frozenset()
    options: Mapping[str, str] = {}

    def __init__(self, name: str) -> None:
        self.id = name
        self.detail = (
            f"Nothing that is installed provides it: a package can, by an entry point "
            f"`{name}` of the group {GROUP}."
        )

    def _no(self) -> Unsupported:
        return Unsupported(f'the environment "{self.id}" is not available. {self.detail}')

    async def plan(
        self, session_id: str, workspace: str, options: Mapping[str, str], *, source: Place | None
    ) -> Place:
        raise self._no()

    async def make(self, session_id: str, place: Place) -> Place:
        raise self._no()

    def bind(self, place: Place, program: Program) -> Program:
        return program

    async def leave(self, session_id: str, place: Place, *, delete: bool) -> Left:
        return Left(place, kept=True, note=f"{self.id} is no longer available: nothing was removed")

    async def recover(self, known: Known) -> None:
        return


class Environments:
    """All environments by name."""

    def __init__(self, providers: Sequence[EnvironmentProvider] = ()) -> None:
        self._by_name: dict[str, EnvironmentProvider] = {
            each.id: each for each in (Local(), Missing("sandbox"), Missing("container"))
        }
        for provider in providers:
            self._by_name[provider.id] = provider
        order = ("local", "worktree", "sandbox", "container")
        self.names = sorted(
            self._by_name, key=lambda name: (*(name != each for each in order), name)
        )

    def get(self, name: str) -> EnvironmentProvider:
        """Raises Invalid for a name that nobody has."""
        provider = self._by_name.get(name)
        if provider is None:
            raise Invalid(
                f'there is no environment "{name}". There are: {", ".join(self.names)}.',
                metadata={"field": "environment"},
            )
        return provider

    def find(self, name: str) -> EnvironmentProvider:
        """Also for a session whose environment is no longer installed."""
        return self._by_name.get(name) or Missing(name)

    def check_options(self, name: str, options: Mapping[str, str]) -> None:
        """Raises Invalid for an option that the environment does not take."""
        taken = self.get(name).options
        for option in options:
            if option not in taken:
                known = ", ".join(taken) or "none"
                raise Invalid(
                    f'the environment "{name}" takes no option "{option}". It takes: {known}.',
                    metadata={"field": "environment_options"},
                )


def checked(provider: EnvironmentProvider) -> EnvironmentProvider:
    """Raises Invalid for a provider that claims what no environment is known to do."""
    if unknown := provider.capabilities - CAPABILITIES:
        raise Invalid(
            f'the environment "{provider.id}" claims {", ".join(sorted(unknown))}. Capabilities '
            f"are: {', '.join(sorted(CAPABILITIES))}."
        )
    return provider


Factory = Callable[[Context], EnvironmentProvider]
"""What an entry point of the group names."""


def unmade(place: Place) -> Place:
    """The same place after it was removed: the next start makes it anew."""
    return replace(place, made=False)
