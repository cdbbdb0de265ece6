"""Fixtures for tests with real agents, and the rule that such tests only run without a way out.

A plain `pytest` leaves them out; `pytest -m real` outside of a loopback-only network namespace fails.
"""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.fakes.models.anthropic import AnthropicEndpoint
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.gemini import GeminiEndpoint
from tests.fakes.models.responses import ResponsesEndpoint
from tests.real import netns
from tests.real.codex import configure
from tests.real.harness import GEMINI, Home, Model, make_home
from tests.real.served import Cli, Served, serving

_HOW = "run `python -m tests.real.netns -- pytest -m real tests/real`"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    real = [item for item in items if item.get_closest_marker("real") is not None]
    if not real or not (open_interfaces := netns.ways_out()):
        return
    if "real" in str(config.getoption("markexpr")):
        if "not real" in str(config.getoption("markexpr")):
            return
        raise pytest.UsageError(f"real agents could call out through {open_interfaces}: {_HOW}")
    config.hook.pytest_deselected(items=real)
    items[:] = [item for item in items if item not in real]


@pytest.fixture(autouse=True)
def no_way_out(request: pytest.FixtureRequest) -> None:
    """Guards each real test again, however it was selected."""
    if request.node.get_closest_marker("real") is not None and netns.ways_out():
        pytest.fail(f"a real agent could call out: {_HOW}")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A private home with the settings of every agent that the tests know."""
    return make_home(tmp_path, GEMINI)


@pytest.fixture
def gemini_model() -> Generator[Model]:
    """A scripted Gemini API in a thread of its own."""
    with in_thread(GeminiEndpoint()) as url:
        yield Model(url)


@pytest.fixture
def claude_home(tmp_path: Path) -> Home:
    """A private home in which nobody has logged in: the key stands in the environment."""
    return make_home(tmp_path)


@pytest.fixture
def claude_model() -> Generator[Model]:
    """A scripted Anthropic API in a thread of its own."""
    with in_thread(AnthropicEndpoint()) as url:
        yield Model(url)


@pytest.fixture
def responses() -> Generator[Model]:
    """A scripted Responses API in a thread of its own."""
    with in_thread(ResponsesEndpoint()) as url:
        yield Model(url)


@pytest.fixture
def codex_home(tmp_path: Path, responses: Model) -> Home:
    """A private home whose settings name the scripted API."""
    home = make_home(tmp_path)
    configure(home, responses)
    return home


@pytest.fixture
def gemini_command() -> list[str]:
    """The argv that starts the real Gemini CLI as an ACP agent."""
    return GEMINI.command


@pytest.fixture
async def daemon(home: Home, gemini_model: Model) -> AsyncGenerator[Served]:
    """A daemon with the packaged registry, in whose environment Gemini CLI is installed."""
    async with serving(home, gemini_model) as served:
        yield served


@pytest.fixture
def cli(home: Home, gemini_model: Model) -> Cli:
    """`agentctl` in the same home, finding the same daemon."""
    return Cli.of(home, gemini_model)
