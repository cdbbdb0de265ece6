"""What the tests of the command line share: a fake daemon and a way to run the program."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentctl.cli import app, out
from agentctl.cli.state import STATE, State
from tests.cli.fake_daemon import FakeDaemon


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Cli = Callable[..., Done]


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(short_dir / "d.sock")
    try:
        yield fake
    finally:
        fake.stop()


@pytest.fixture
def quiet_home(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: no settings, no registry and no daemon of the person who runs the tests."""
    for name in ("AGENTCTL_ADDRESS", "AGENTCTL_CONFIG", "AGENTCTL_REGISTRY", "AGENTCTL_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(short_dir))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(short_dir / "config"))
    monkeypatch.setenv("AGENTCTL_DATA_DIR", str(short_dir / "data"))
    return short_dir


@pytest.fixture
def cli(quiet_home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the program in this process: its exit code and what it wrote."""

    def run(*words: str) -> Done:
        fresh = State()
        for name in fresh.__slots__:
            setattr(STATE, name, getattr(fresh, name))
        out.out.cache_clear()
        out.err.cache_clear()
        capsys.readouterr()
        code = app.run(words)
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run


@pytest.fixture
def with_daemon(cli: Cli, daemon: FakeDaemon) -> Cli:
    """The same, at the fake daemon."""
    return lambda *words: cli("--address", daemon.address, *words)
