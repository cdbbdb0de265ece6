"""Fixtures of the demo agent's tests: a workspace, and an agent with a session in it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.demo.driver import DEMO, Driver


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Starts demo agents that share one home; all are stopped at the end."""
    with ExitStack() as stack:

        def begin(*arguments: str, **capabilities: object) -> Driver:
            home = str(tmp_path / "home")
            driver = stack.enter_context(Driver([*DEMO, *arguments], DEMO_AGENT_HOME=home))
            driver.initialize(**capabilities)
            return driver

        yield begin


@pytest.fixture
def demo(start: Callable[..., Driver], workspace: Path) -> Driver:
    driver = start()
    driver.open(workspace)
    return driver
