"""What every test shares: one event loop backend, the marker of promises, no blocking calls."""

from collections.abc import Iterator

import psutil
import pytest

from tests import blocking


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(*ids): the rows of tests/behaviours.py it proves")
    blocking.install()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[None]:
    """Fails a test in which code of ours blocked the loop."""
    blocking.findings.clear()
    yield
    assert not blocking.findings, "\n".join(blocking.findings)


@pytest.fixture(scope="session", autouse=True)
def no_daemon_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the run when a daemon that a test started outlives all of them."""
    yield
    root = str(tmp_path_factory.getbasetemp())
    left: list[str] = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "agentctl serve" in line and root in line:
            left.append(line)
    assert not left, "\n".join(left)
