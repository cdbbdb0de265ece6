"""What every test shares: one event loop backend and the marker that joins a test to a promise."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(*ids): the rows of tests/behaviours.py it proves")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
