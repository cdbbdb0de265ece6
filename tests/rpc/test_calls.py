"""What becomes of the calls under way when the daemon stops."""

from typing import Any

import anyio
import pytest

from agentctl.core.errors import DaemonFailed
from agentctl.rpc.calls import Calls

pytestmark = pytest.mark.anyio


async def test_a_change_that_is_nearly_done_is_waited_for() -> None:
    calls, entered, go, done = Calls(), anyio.Event(), anyio.Event(), anyio.Event()

    async def change() -> None:
        entered.set()
        await go.wait()
        done.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(calls.change, change())
            await entered.wait()
            group.start_soon(calls.stop)
            await anyio.lowlevel.checkpoint()
            assert not done.is_set()
            go.set()
    assert done.is_set()


async def test_a_change_that_hangs_is_cut_off(monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr("agentctl.rpc.calls.DRAIN_S", 0.01)
    calls, entered, cut = Calls(), anyio.Event(), anyio.Event()

    async def change() -> None:
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            cut.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(calls.change, change())
            await entered.wait()
            await calls.stop()
            assert cut.is_set()
            group.cancel_scope.cancel()
    assert "cut off" in caplog.text


async def test_a_change_that_comes_while_the_daemon_stops_is_not_begun() -> None:
    calls, begun = Calls(), anyio.Event()

    async def change() -> None:
        begun.set()

    await calls.stop()
    with pytest.raises(DaemonFailed, match="stopping"):
        await calls.change(change())
    assert not begun.is_set()


async def test_a_stream_that_begins_while_the_daemon_stops_is_told_so() -> None:
    calls = Calls()
    await calls.stop()
    with pytest.raises(DaemonFailed, match="stopping"), anyio.fail_after(10):
        await calls.stream(anyio.sleep_forever())


async def test_a_stream_that_ends_by_itself_says_nothing() -> None:
    calls = Calls()
    seen: list[str] = []

    async def stream() -> None:
        seen.append("end")

    await calls.stream(stream())
    assert seen == ["end"]
