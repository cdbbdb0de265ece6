"""Owns the calls about where sessions work: the directory, the environments, the place of a new one.

It refuses to know how an environment works (`agentctl.workspace`).
"""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import anyio

from agentctl.core.errors import AgentctlError, Invalid, NotFound
from agentctl.core.spec import SessionSpec
from agentctl.session.placing import leave
from agentctl.session.records import EnvironmentInfo, SessionRecord
from agentctl.session.session_reads import SessionReads
from agentctl.workspace.providers import Place

logger = logging.getLogger(__name__)

# The environment that is the given directory itself: nothing is made, found or left.
LOCAL = "local"


class PlaceCalls(SessionReads):
    def list_environments(self) -> list[EnvironmentInfo]:
        """All of them, the usual ones first."""
        environments = self.deps.environments
        return [self.get_environment(name) for name in environments.names]

    def get_environment(self, name: str) -> EnvironmentInfo:
        """Raises Invalid for a name that nobody has."""
        provider = self.deps.environments.get(name)
        return EnvironmentInfo(
            name=name,
            available=provider.available,
            detail=provider.detail,
            capabilities=tuple(sorted(provider.capabilities)),
            options=dict(provider.options),
            sessions=sum(s.record.spec.environment == name for s in self.sessions.values()),
        )

    async def place_of(
        self, session_id: str, spec: SessionSpec
    ) -> tuple[SessionSpec, Place | None]:
        """The spec with the directory that the agent works in, and what it is part of.

        Raises:
            Invalid, Unsupported: there is no such environment, or not for this directory.
        """
        environments = self.deps.environments
        environments.check_options(spec.environment, spec.environment_options)
        if spec.environment == LOCAL:
            return spec, None
        provider = environments.get(spec.environment)
        place = await provider.plan(
            session_id, spec.workspace, spec.environment_options, source=None
        )
        return dataclasses.replace(spec, workspace=place.workspace), place

    async def place_fork(self, record: SessionRecord, source: SessionRecord) -> None:
        """A fork works in a place of its own, made from that of its origin.

        Raises:
            AgentctlError: it cannot be made.
        """
        if source.place is None:
            return
        provider = self.deps.environments.get(source.spec.environment)
        options = source.spec.environment_options
        place = await provider.plan(record.id, source.spec.workspace, options, source=source.place)
        record.place = place
        record.spec = dataclasses.replace(record.spec, workspace=place.workspace)

    async def delete_place(self, record: SessionRecord) -> None:
        """Removes what is left of a session's place, with the work in it."""
        if record.place is not None:
            provider = self.deps.environments.find(record.spec.environment)
            left = await leave(provider, record.id, record.place, delete=True)
            if left.kept:
                logger.warning("of the deleted session %s %s", record.id, left.note)

    async def recover_places(self) -> None:
        """Lets every environment clean up after a daemon that was killed."""

        async def known(session_id: str) -> bool:
            try:
                await self.get_session(session_id)
            except NotFound:
                return False
            return True

        environments = self.deps.environments
        for name in environments.names:
            try:
                await environments.get(name).recover(known)
            except AgentctlError as error:
                logger.error("the environment %s did not recover: %s", name, error)
            except Exception:
                # A provider may be foreign code; its defect must not stop the daemon.
                logger.exception("the environment %s did not recover", name)

    async def _workspace(self, told: str, more: Sequence[str]) -> str:
        path = Path(told)
        if not path.is_absolute():
            root = self.deps.workspace_root
            if root is None:
                raise Invalid(
                    f'the workspace "{told}" is relative, and no workspace_root is set. Send an '
                    "absolute path."
                )
            path = root / path
        kind = await anyio.to_thread.run_sync(lambda: _kind_of(path))
        if kind != "directory":
            what = "is a file" if kind == "file" else "does not exist"
            raise Invalid(
                f"the workspace {path} {what}. Name an existing directory.",
                metadata={"field": "workspace"},
            )
        for each in more:
            kind = await anyio.to_thread.run_sync(_kind_of, Path(each))
            if kind != "directory":
                what = "is a file" if kind == "file" else "does not exist"
                raise Invalid(
                    f"the directory {each} {what}. Name an existing one, or leave it out."
                )
        return str(path)


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "directory"
    return "file" if path.exists() else ""
