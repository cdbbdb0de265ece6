"""A daemon with one scripted agent, and clients of it."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from agentctl.client import AgentCtl
from agentctl.testing.fake_daemon import FakeDaemon, ScriptedAgent

# A scripted turn takes milliseconds; what waits longer has hung.
TEST_S = 30.0


@pytest.fixture
async def daemon() -> AsyncGenerator[FakeDaemon]:
    with anyio.fail_after(TEST_S):
        async with FakeDaemon("coder") as made:
            yield made


@pytest.fixture
def coder(daemon: FakeDaemon) -> ScriptedAgent:
    return daemon.agent("coder")


@pytest.fixture
async def client(daemon: FakeDaemon) -> AsyncGenerator[AgentCtl]:
    async with daemon.client() as made:
        yield made
