"""The composition root: the one place that constructs, and the daemon's life from lock to last stop.

lock -> sweep -> journal -> hub -> registry -> manager (recovers) -> gRPC -> "ready"
and back in the other order: refuse new calls, stop agents, close the journal, let go of the lock
"""

import dataclasses
import gc
import hashlib
import logging
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, cast

import anyio

from agentctl.config import Settings, default_address
from agentctl.core.adapter import Frame, ProtocolAdapter
from agentctl.core.errors import Unsupported
from agentctl.core.spec import Entry, SessionSpec
from agentctl.core.words import Policy
from agentctl.journal.lock import lock_data_dir
from agentctl.journal.retention import Retention
from agentctl.journal.schema import read_boot_id
from agentctl.journal.store import open_journal
from agentctl.process.env import redactor
from agentctl.process.sweep import sweep_async
from agentctl.rpc.convert import FrameEncoder, decode_block, strip_raw
from agentctl.rpc.ports import DaemonFacts
from agentctl.rpc.server import Server
from agentctl.session.artifacts import ArtifactRule, Artifacts
from agentctl.session.base import ManagerDeps
from agentctl.session.ending import Limits
from agentctl.session.hub import Hub
from agentctl.session.manager import Manager
from agentctl.session.ports import Prepared
from agentctl.transport.recorder import Recorder
from agentctl.workspace.git import Git
from agentctl.workspace.providers import GROUP, Context, EnvironmentProvider, Environments, checked
from agentctl.workspace.snapshot import Snapshots
from agentctl.workspace.worktree import Worktrees
from agentctl_registry.catalog import Catalog
from agentctl_registry.discovery import Discovery
from agentctl_registry.launch import ATTACHABLE, build_launch
from agentctl_registry.overlay import prepare_home

logger = logging.getLogger(__name__)

ADAPTERS = "agentctl.adapters"

# A batch is thousands of parsed messages on their way; a look for cyclic garbage after each 700 new
# objects, as is usual, walks over all of them again and again: a fifth of a flood's time.
GC_THRESHOLDS = (20_000, 20, 20)


class Adapters:
    """The protocols that are installed, by entry point; `given` ones stand before these."""

    def __init__(self, given: Mapping[str, ProtocolAdapter] | None = None) -> None:
        self._points = {point.name: point for point in entry_points(group=ADAPTERS)}
        self._loaded: dict[str, ProtocolAdapter] = dict(given or {})

    @property
    def names(self) -> list[str]:
        return sorted(self._points)

    def get(self, protocol: str) -> ProtocolAdapter:
        """Raises Unsupported when no installed package speaks it."""
        if protocol not in self._loaded:
            point = self._points.get(protocol)
            if point is None:
                raise Unsupported(
                    f'no installed adapter speaks "{protocol}". There are: {", ".join(self.names)}.'
                )
            self._loaded[protocol] = cast(ProtocolAdapter, point.load())
        return self._loaded[protocol]


@dataclass(frozen=True, slots=True)
class RegistryEntries:
    """The registry as the session room wants it."""

    catalog: Catalog
    adapters: Adapters
    data_dir: Path
    environ: Mapping[str, str]

    def get(self, entry_id: str) -> Entry:
        return self.catalog.startable(entry_id)

    def prepare(self, entry: Entry, spec: SessionSpec, *, policy: Policy, rules: bool) -> Prepared:
        home = self.environ.get("HOME", str(Path.home()))
        overlay = prepare_home(entry, data_dir=self.data_dir, home=Path(home), base=self.environ)
        plan = build_launch(
            entry,
            workspace=spec.workspace,
            home=home,
            base=self.environ,
            model=spec.model,
            policy=policy,
            rules_in_force=rules,
            caller_env=spec.env,
            overlay_env=overlay,
        )
        trusted = entry.trust_workspace if spec.trust_workspace is None else spec.trust_workspace
        told: Any = None if trusted else entry.protocol_config.get("untrusted")
        without: dict[str, Any] = told or {}
        return Prepared(
            argv=(*plan.argv, *without.get("args", ())),
            env={**plan.env, **without.get("env", {})},
            cwd=plan.cwd,
            secrets=plan.secrets,
        )

    def attached(self, entry: Entry, spec: SessionSpec) -> Entry:
        if not spec.url:
            return entry
        if entry.protocol not in ATTACHABLE:
            raise Unsupported(
                f"{entry.id} speaks {entry.protocol}, which has no server to attach to. Leave the "
                "url out, or name an entry that has one."
            )
        return dataclasses.replace(entry, url=spec.url, auth=spec.auth)

    def carried(self, entry: Entry, workspace: str) -> Sequence[str]:
        names: Sequence[str] = entry.protocol_config.get("workspace_config", ())
        return [name for name in names if Path(workspace, name).exists()]

    def adapter(self, protocol: str) -> ProtocolAdapter:
        return self.adapters.get(protocol)


@dataclass(frozen=True, slots=True)
class Recordings:
    """Makes one transcript file for each process (`serve --record DIR`)."""

    folder: Path

    def __call__(self, entry_id: str, agent_id: str, prepared: Prepared) -> Callable[[Frame], None]:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        recorder = Recorder(
            self.folder / f"{entry_id}-{agent_id}.jsonl", redactor(prepared.secrets)
        )
        recorder.note_spawn(prepared.argv, prepared.env)
        return recorder


def cookie_of(data_dir: Path) -> str:
    """What marks every process of the daemon on this data directory, across its restarts."""
    return hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:16]


def _limits(settings: Settings) -> Limits:
    timeout = settings.approval_timeout_seconds
    return Limits(
        cancel_ack_s=settings.cancel_ack_seconds,
        cancel_end_s=settings.cancel_end_seconds,
        stall_s=settings.stall_seconds,
        stall_tool_s=settings.stall_tool_seconds,
        approval_ms=None if timeout is None else int(timeout * 1000),
        max_queue=settings.max_queue,
    )


def _artifact_rule(settings: Settings) -> ArtifactRule:
    return ArtifactRule(
        age_ms=int(settings.artifact_days * 86_400_000), size=settings.artifact_bytes
    )


def _environments(context: Context) -> Environments:
    """Ours, and those of installed packages; one that cannot be loaded is left out and logged."""
    providers: list[EnvironmentProvider] = [Worktrees(context)]
    for point in entry_points(group=GROUP):
        try:
            providers.append(checked(point.load()(context)))
        except Exception:
            # A provider is foreign code; its defect must not stop the daemon.
            logger.exception("the environment %s cannot be used", point.name)
    return Environments(providers)


@asynccontextmanager
async def running(
    settings: Settings, *, given: Mapping[str, ProtocolAdapter] | None = None
) -> AsyncGenerator[Sequence[str]]:
    """The whole daemon; yields the addresses that it serves. Leaving it stops everything.

    Args:
        given: adapters that stand for the installed ones of the same name.

    Raises:
        DaemonFailed: the data directory is in use, not writable, or its journal is damaged.
        Invalid: an address, the token file or a registry file is wrong.
    """
    data_dir = settings.data_dir
    with lock_data_dir(data_dir):
        cookie = cookie_of(data_dir)
        swept = await sweep_async(f"{cookie}.")
        if swept:
            logger.warning("ended %d processes that an earlier daemon left", len(swept))
        rule = Retention(
            age_s=settings.retention_days * 86_400,
            size=settings.retention_bytes,
        )
        encode = FrameEncoder()
        async with open_journal(data_dir / "journal.db", encode=encode, rule=rule) as journal:
            encode.journal_id = journal.id
            hub = Hub(journal, strip_raw=strip_raw)
            catalog = await anyio.to_thread.run_sync(
                lambda: Catalog.load(user=settings.user_registry, project=settings.registry)
            )
            git = Git()
            snapshots = Snapshots(data_dir, git)
            adapters = Adapters(given)
            entries = RegistryEntries(catalog, adapters, data_dir, dict(os.environ))
            deps = ManagerDeps(
                journal=journal,
                entries=entries,
                redactor=redactor,
                decode=decode_block,
                recorder=Recordings(settings.record_dir) if settings.record_dir else None,
                limits=_limits(settings),
                cookie=f"{cookie}.{read_boot_id()[:8]}",
                version=version("agentctl"),
                workspace_root=settings.workspace_root,
                default_agent=settings.default_agent,
                max_sessions=settings.max_sessions,
                idle_agent_s=settings.idle_agent_seconds,
                expose_reasoning=settings.expose_reasoning,
                keep_raw=settings.journal_raw,
                artifacts=Artifacts(data_dir / "blobs", journal, _artifact_rule(settings)),
                snapshots=snapshots,
                git=git,
                environments=_environments(Context(data_dir, git, snapshots)),
            )
            async with Manager(deps) as manager, anyio.create_task_group() as group:
                group.start_soon(catalog.watch)
                group.start_soon(snapshots.clean)
                addresses = settings.listen or [default_address(data_dir)]
                facts = DaemonFacts(settings=settings, version=version("agentctl"))
                server = Server(
                    manager,
                    hub,
                    catalog,
                    journal,
                    facts,
                    addresses=addresses,
                    discover=partial(Discovery().discover, base=os.environ, home=Path.home()),
                )
                async with server:
                    yield server.addresses
                group.cancel_scope.cancel()
            await snapshots.close()


async def serve(settings: Settings, *, ready: Callable[[list[str]], None]) -> None:
    """Runs the daemon until SIGTERM or SIGINT; `ready` gets the addresses once it serves.

    It is the whole work of its process, whose garbage collector it sets.
    """
    async with running(settings) as addresses:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            ready(list(addresses))
            async for number in signals:
                logger.info("stopping on %s", signal.Signals(number).name)
                return
