"""A daemon for each file of tests, started by its first client as a user's would be, and its clients."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.demo.driver import PATIENCE_S
from tests.gateway.acp.client import Client, clean_env


@dataclass(frozen=True, slots=True)
class House:
    """A home with a daemon in it; `settings` is its settings file."""

    home: Path
    env: dict[str, str]

    def agentctl(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "agentctl", *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S * 4,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        home = Path(folder)
        (home / "agentctl.toml").write_text('default_agent = "demo"\n')
        made = House(home, clean_env(home))
        try:
            yield made
        finally:
            made.agentctl("down")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def connect(house: House) -> Iterator[Callable[..., Client]]:
    """Starts clients and introduces them, with these capabilities; all are gone at the end."""
    with ExitStack() as stack:

        def begin(*options: str, **capabilities: object) -> Client:
            client = stack.enter_context(Client(*options, **house.env))
            client.initialize(**capabilities)
            return client

        yield begin


@pytest.fixture
def demo(connect: Callable[..., Client], workspace: Path) -> Client:
    """A client with a session of the demo agent."""
    client = connect("--agent", "demo")
    client.open(workspace)
    return client
