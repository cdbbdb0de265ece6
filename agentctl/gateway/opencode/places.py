"""Owns which directory a request means, and what is to be known of one: its project, its repository."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import anyio
import anyio.to_thread

from agentctl.gateway.opencode.errors import plain
from agentctl.gateway.opencode.words import Json
from agentctl.workspace.git import Git, GitFailed, Job, locate
from agentctl.workspace.status import GitState, look

# A client shows a branch while it starts: a repository on a slow disk is shown without one.
LOOK_S = 5.0

SHOWN_PATH = 300
DIRECTORY_HEADER = "x-opencode-directory"
WORKSPACE_HEADER = "x-opencode-workspace"


def project_id(directory: str) -> str:
    """A name that is the same for one directory at every start."""
    name = re.sub(r"[^0-9A-Za-z]+", "-", Path(directory).name).strip("-") or "root"
    return f"proj_{name}_{hashlib.sha256(directory.encode()).hexdigest()[:8]}"


def workspace_id(query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """The client's own name of its workspace; it is handed back and means nothing here."""
    return query.get("workspace") or headers.get(WORKSPACE_HEADER) or ""


class Places:
    """Directories of this machine. `default`: what a request means that names none."""

    def __init__(self, default: str) -> None:
        self.default = default
        self._git = Git()

    async def of(self, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
        """The directory that a request means, absolute and without links.

        Raises:
            HttpError: it is no directory.
        """
        told = query.get("directory") or unquote(headers.get(DIRECTORY_HEADER) or "")
        if not told:
            return self.default
        return await self.check(told)

    async def check(self, told: str) -> str:
        """An existing directory, by its one name; a relative one lies under the default.

        Raises:
            HttpError: there is none.
        """
        if "\0" in told:
            raise plain(400, "The directory has a zero byte in its name.")
        path = os.path.join(self.default, told)  # noqa: PTH118  told may be absolute
        found = await anyio.to_thread.run_sync(_directory, path)
        if found is None:
            shown = path if len(path) <= SHOWN_PATH else f"{path[:SHOWN_PATH]}…"
            raise plain(400, f"There is no directory {shown}: name an existing one.")
        return found

    async def vcs(self, directory: str) -> tuple[str, GitState | None]:
        """(top of its work tree, its state); the directory itself and None where there is none."""

        def work(job: Job) -> tuple[str, GitState | None]:
            where = locate(job, directory)
            return (where.top, look(job, where)) if where is not None else (directory, None)

        try:
            return await self._git.do(work, LOOK_S)
        except GitFailed:
            return directory, None

    async def project(self, directory: str) -> Json:
        """What clients know of the project that a directory is in."""
        top, state = await self.vcs(directory)
        return project(top, git=state is not None)


def project(directory: str, *, git: bool) -> Json:
    out: Json = {
        "id": project_id(directory),
        "name": Path(directory).name or "/",
        "path": directory,
        "directory": directory,
        "worktree": directory,
        "time": {"created": 0, "updated": 0},
        "sandboxes": [],
    }
    return {**out, "vcs": "git"} if git else out


def _directory(path: str) -> str | None:
    real = os.path.realpath(path)
    return real if os.path.isdir(real) else None  # noqa: PTH112  it is False for what is no path
