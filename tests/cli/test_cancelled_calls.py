"""A call that is given up ends quietly: the scope that cancelled it is left as if by itself."""

import anyio
import pytest

from agentctl import v1
from agentctl.client import AgentCtl
from tests.cli.fake_daemon import LIMIT_S, FakeDaemon

pytestmark = pytest.mark.anyio


async def test_a_call_that_is_cancelled_does_not_escape_its_scope(daemon: FakeDaemon) -> None:
    def slow(request: v1.GetInfoRequest) -> v1.GetInfoResponse:
        daemon.sign.wait(LIMIT_S)
        return v1.GetInfoResponse()

    daemon.answers["Daemon/GetInfo"] = slow
    given_up = 0
    with anyio.fail_after(LIMIT_S):
        async with AgentCtl.connect(daemon.address) as client:
            for _ in range(10):
                with anyio.move_on_after(0.01) as scope:
                    await client.daemon.get_info()
                given_up += scope.cancelled_caught
            daemon.sign.set()
    assert given_up == 10


async def test_a_stream_that_is_cancelled_does_not_escape_its_scope(daemon: FakeDaemon) -> None:
    daemon.say("hi")
    with anyio.fail_after(LIMIT_S):
        async with AgentCtl.connect(daemon.address) as client:
            for _ in range(10):
                seen = 0
                with anyio.move_on_after(0.05) as scope:
                    async for _event in client.events():
                        seen += 1
                assert scope.cancelled_caught and seen <= 1
