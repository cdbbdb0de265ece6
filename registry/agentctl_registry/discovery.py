"""Finds out which agents are on this machine, which version, and whether somebody is logged in.

Owns the looking. It starts no agent (only `BINARY --version`), takes no model turn, downloads nothing,
writes nothing to the user's home and reads no credential: that one exists is all it wants to know.
"""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import anyio
from anyio import to_thread
from anyio.abc import Process

from agentctl.core.spec import Entry
from agentctl.process.env import scrub, which
from agentctl_registry import files
from agentctl_registry.overlay import parse_settings

logger = logging.getLogger(__name__)

# The slowest agents (Node, cold disk, loaded machine) need 3 to 5 s to print their version.
VERSION_TIMEOUT_S = 10.0
# A killed process is gone at once; one stuck in the kernel must not hold up the rest.
REAP_TIMEOUT_S = 2.0
# Each is a whole runtime starting: more at once only make each other slower.
AT_ONCE = 4
# A version stands in the first lines; the rest of a talkative program is not kept.
VERSION_BYTES = 16 * 1024

RUNNERS = {"npx": ("-y", "--yes", "-q", "--quiet"), "bunx": ("-y",), "pnpx": (), "uvx": ()}
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.-]+)?")


class Login(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """The entry names no sign of a login, or only a chosen way to log in was seen."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen of one entry.

    `path` is the program ("" when only its files were found); `version` is "" when it told none.
    `via` is the file or variable that shows the login. `note` is one sentence for a person.
    """

    entry_id: str
    installed: bool
    path: str = ""
    version: str = ""
    login: Login = Login.UNKNOWN
    via: str = ""
    install: str = ""
    supports_mcp: bool = False
    mcp_config_paths: tuple[str, ...] = ()
    note: str = ""


class Discovery:
    """Remembers versions by program file, so that looking again costs no process."""

    def __init__(self, *, python: str = sys.executable) -> None:
        self._python = python
        self._versions: dict[tuple[str, files.Signature], str] = {}

    async def discover(
        self, entries: Sequence[Entry], *, base: Mapping[str, str], home: Path
    ) -> list[Found]:
        """Look for each entry, several at once.

        Args:
            base: the environment to look in (PATH, keys); only what an entry may see reaches its
                program.
            home: the user's home directory, for ~ and {home}.
        """
        results: list[Found | None] = [None] * len(entries)
        limit = anyio.CapacityLimiter(AT_ONCE)

        async def look(index: int, entry: Entry) -> None:
            async with limit:
                results[index] = await self._look(entry, base, home)

        async with anyio.create_task_group() as group:
            for index, entry in enumerate(entries):
                group.start_soon(look, index, entry)
        return [each for each in results if each is not None]

    async def _look(self, entry: Entry, base: Mapping[str, str], home: Path) -> Found:
        seen = await to_thread.run_sync(self._seen, entry, base, home)
        if not seen.path or _runner_of(entry) == seen.path_name:
            version = ""
        else:
            version = await self._version(seen.path, entry, base)
        return Found(
            entry_id=entry.id,
            installed=seen.installed,
            path=seen.path,
            version=version,
            login=seen.login,
            via=seen.via,
            install=entry.install,
            supports_mcp=entry.supports_mcp,
            mcp_config_paths=tuple(_expand(each, home) for each in entry.mcp_config_paths),
            note=seen.note,
        )

    def _seen(self, entry: Entry, base: Mapping[str, str], home: Path) -> "_Seen":
        login, via = login_of(entry, base, home)
        if entry.url:
            return _Seen(True, "", login, via, f"a server at {_without_login(entry.url)}")
        runner, program = _runner_of(entry), program_of(entry, home)
        path = which(program, base, [Path(self._python).parent]) if program else None
        if path is not None:
            return _Seen(True, path, login, via)
        marks = (_expand(each, home) for each in entry.installation_paths)
        mark = next((each for each in marks if Path(each).exists()), "")
        through = which(runner, base) if runner else None
        note = ""
        if through is not None:
            note = f"runs through {runner}, which downloads it at the first start"
        elif mark:
            note = f"{mark} exists, but {program or runner} is not on PATH"
        return _Seen(bool(mark or through), through or "", login, via, note)

    async def _version(self, path: str, entry: Entry, base: Mapping[str, str]) -> str:
        key = (path, files.signature(Path(path)))
        if key not in self._versions:
            found = await to_thread.run_sync(packaged_version, path)
            found = found or await _asked_version(path, entry, base)
            if not found:
                return ""
            self._versions[key] = found
        return self._versions[key]


@dataclass(frozen=True, slots=True)
class _Seen:
    installed: bool
    path: str
    login: Login
    via: str
    note: str = ""

    @property
    def path_name(self) -> str:
        return Path(self.path).name


def program_of(entry: Entry, home: Path) -> str:
    """The agent's own program: `binary`, else what cmd starts, looking through a runner (npx)."""
    if entry.binary or not entry.cmd:
        return entry.binary
    if not _runner_of(entry):
        return entry.cmd[0].replace("{home}", str(home)).replace("{python}", sys.executable)
    flags = RUNNERS[entry.cmd[0]]
    package = next((each for each in entry.cmd[1:] if each not in flags), "")
    name = package.rsplit("/", 1)[-1]
    return name.split("@", 1)[0]


def login_of(entry: Entry, base: Mapping[str, str], home: Path) -> tuple[Login, str]:
    """Whether somebody is logged in, and what shows it."""
    signs = entry.login
    for name in (*signs.env, *entry.required_env):
        if base.get(name) or entry.env.get(name):
            return Login.YES, name
    for each in signs.files:
        if Path(_expand(each, home)).exists():
            return Login.YES, each
    for file, field in signs.settings:
        if value := _setting(Path(_expand(file, home)), field):
            return Login.UNKNOWN, f"{field} {value} in {file}"
    return (Login.NO if signs.files or signs.env else Login.UNKNOWN), ""


def packaged_version(path: str) -> str:
    """The version of the npm package that a program belongs to, read and not asked for."""
    program = Path(path).resolve()
    if "node_modules" not in program.parts:
        return ""
    for directory in program.parents:
        if directory.name == "node_modules":
            break
        version = _setting(directory / "package.json", "version")
        if version:
            return version
    return ""


async def _asked_version(path: str, entry: Entry, base: Mapping[str, str]) -> str:
    # Some agents write to their settings even then: not to the user's.
    home = await to_thread.run_sync(lambda: TemporaryDirectory(ignore_cleanup_errors=True))
    try:
        env = scrub(
            base,
            entry_env={k: v for k, v in entry.env.items() if not _is_reference(v)},
            passthrough=(),
            strip=[*entry.strip_env, "XDG_*"],
            extra={"HOME": home.name},
        )
        return await read_version(path, env, Path(home.name))
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(REAP_TIMEOUT_S):
            await to_thread.run_sync(home.cleanup)


async def read_version(path: str, env: Mapping[str, str], cwd: Path) -> str:
    """The first thing like a version that `PATH --version` prints; "" when there is none in time."""
    try:
        async with _killed_at_exit([path, "--version"], env, cwd) as process:
            with anyio.move_on_after(VERSION_TIMEOUT_S):
                return _first_version(await _read_start(process))
    except OSError as error:
        logger.info("%s --version: %s", path, error.strerror)
    return ""


@contextlib.asynccontextmanager
async def _killed_at_exit(
    command: list[str], env: Mapping[str, str], cwd: Path
) -> AsyncGenerator[Process, None]:
    process = await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(REAP_TIMEOUT_S):
            # Its own session: what the program started goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()


async def _read_start(process: Process) -> str:
    start = b""
    if process.stdout is not None:
        with contextlib.suppress(anyio.EndOfStream):
            while len(start) < VERSION_BYTES:
                start += await process.stdout.receive(VERSION_BYTES)
    return start.decode(errors="replace")


def _first_version(text: str) -> str:
    found = _VERSION.search(text)
    return found.group() if found else ""


def _without_login(url: str) -> str:
    """The URL without the user and password that may stand in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _runner_of(entry: Entry) -> str:
    return entry.cmd[0] if entry.cmd and entry.cmd[0] in RUNNERS else ""


def _expand(path: str, home: Path) -> str:
    if path.startswith("~/"):
        path = "{home}" + path[1:]
    return path.replace("{home}", str(home))


def _is_reference(value: str) -> bool:
    return value.startswith(("env:", "file:"))


def _setting(path: Path, field: str) -> str:
    try:
        value: Any = parse_settings(files.read(path) or "{}")
    except (files.Unreadable, ValueError):
        return ""
    for step in field.split("."):
        value = cast(dict[str, Any], value).get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
