"""What the tests of the tool share: a daemon for each file, a tool on it, and waiting for events."""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.gateway.tool import OpenCodeTool
from agentctl.gateway.tool.config import ToolConfig
from agentctl.gateway.tool.feed import Feed

Json = dict[str, Any]

# A daemon, an agent or an event that takes longer on a loaded machine has hung.
PATIENCE_S = 30.0


@dataclass
class Served:
    """A daemon, where its projects may lie, and the environment of a user of it."""

    root: Path
    env: dict[str, str]
    argv: list[str]
    process: subprocess.Popen[bytes] | None = None
    listening: str = ""
    """The address that it printed."""

    @property
    def data_dir(self) -> Path:
        return self.root / "data"

    @property
    def address(self) -> str:
        return f"unix:{self.data_dir / 'run' / 'agentctl.sock'}"

    def start(self) -> None:
        """Returns once it serves."""
        with (self.root / "daemon.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, env=self.env, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert line.startswith("agentctl listening on "), (self.root / "daemon.log").read_text()
        self.listening = line.split()[-1]

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None and process.stdout is not None:
            process.terminate()
            process.wait(PATIENCE_S)
            process.stdout.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def project(self, name: str) -> str:
        path = self.root / "work" / name
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def holds(self, project: str, name: str) -> bool:
        """Whether a project has a file."""
        return Path(self.project(project), name).exists()

    def tool(self, config: ToolConfig | None = None, **how: Any) -> OpenCodeTool:
        """A tool with a state file of its own unless one is named."""
        how.setdefault("data_dir", Path(tempfile.mkdtemp(dir=self.root)))
        return OpenCodeTool(config or ToolConfig(), address=self.address, **how)


def environment(root: Path) -> dict[str, str]:
    home = root / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TMPDIR": str(root),
        "DEMO_AGENT_HOME": str(home),
        "AGENTCTL_DATA_DIR": str(root / "data"),
        "AGENTCTL_CONFIG": str(root / "agentctl.toml"),
    }


@contextmanager
def serving(settings: str = "", *options: str, token: str = "") -> Generator[Served]:
    """A daemon in a short directory, stopped at the end whatever happens."""
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        root = Path(folder)
        (root / "work").mkdir()
        (root / "token").write_text(token)
        (root / "agentctl.toml").write_text(settings.format(root=root))
        argv = [sys.executable, "-m", "agentctl", "serve", *options]
        served = Served(root, environment(root), argv)
        try:
            served.start()
            yield served
        finally:
            served.stop()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        here = item.path.parent == Path(__file__).parent
        if here and isinstance(item, pytest.Function) and item.get_closest_marker("anyio"):
            item.fixturenames.insert(0, "one_loop")


@pytest.fixture(scope="session")
async def one_loop() -> AsyncGenerator[None]:
    """Keeps the event loop from test to test: gRPC reports the end of a call that was left to the
    loop in which it was made, a moment later, and fails whoever comes next when that one is closed."""
    yield


SETTINGS = 'default_agent = "demo"\nworkspace_root = "{root}/work"\n'


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(SETTINGS) as found:
        yield found


@pytest.fixture
async def tool(served: Served) -> AsyncGenerator[OpenCodeTool]:
    async with served.tool() as made:
        yield made


async def ok(tool: OpenCodeTool, **request: Any) -> Json:
    """The answer of a call that must succeed, without `success`."""
    with anyio.fail_after(PATIENCE_S):
        answer = await tool(request)
    assert answer.pop("success") is True, answer
    return answer


async def refused(tool: OpenCodeTool, **request: Any) -> Json:
    """The error of a call that must be refused."""
    with anyio.fail_after(PATIENCE_S):
        answer = await tool(request)
    assert answer.keys() == {"success", "error"} and answer["success"] is False, answer
    error: Json = answer["error"]
    assert error.keys() <= {"code", "message", "details"}
    assert isinstance(error["code"], str) and error["message"]
    return error


async def session(tool: OpenCodeTool, served: Served, **more: Any) -> str:
    """A new session of the demo agent."""
    request = {"action": "create_session", "project": served.project("p"), **more}
    made = await ok(tool, **request)
    return str(made["session_id"])


async def until(feed: Feed, found: Callable[[Json], bool]) -> list[Json]:
    """The events up to the first that is found, that one included."""
    rows: list[Json] = []
    with anyio.fail_after(PATIENCE_S):
        async for event in feed:
            rows.append(event)
            if found(event):
                return rows
    raise AssertionError("the stream ended")


def completes(event: Json) -> bool:
    return event["type"] == "agent.complete"


async def approve_all(tool: OpenCodeTool, feed: Feed, found: str) -> list[Json]:
    """The events of a turn, every request of which is approved."""
    rows: list[Json] = []
    with anyio.fail_after(PATIENCE_S):
        async for event in feed:
            rows.append(event)
            if event["type"] == "agent.permission_request":
                await ok(
                    tool,
                    action="approve_permission",
                    session_id=found,
                    request_id=event["request_id"],
                    approved=True,
                )
            if completes(event):
                break
    return rows
