"""What every test shares: one event loop backend, the marker of promises, no blocking calls."""

from collections.abc import Iterator

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
