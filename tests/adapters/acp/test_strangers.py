"""A command that is no agent at all: it ends at once, or writes without end."""

import sys
import time

import anyio
import pytest

from agentctl.core.adapter import Draft
from agentctl.core.errors import AgentFailed
from agentctl.core.events import Log
from agentctl_adapters.acp.adapter import connect
from tests.adapters.acp.adapter_harness import Seen, Spy, alive, launch, running

pytestmark = pytest.mark.anyio


@pytest.mark.proves("P6")
async def test_a_command_that_ends_without_a_word_tells_its_exit_code() -> None:
    for _ in range(3):
        with pytest.raises(AgentFailed) as failure:
            async with running(["sh", "-c", "exec 0<&-; sleep 0.05; exit 7"]):
                pytest.fail("it ended")
        assert "exited with code 7 before it answered initialize" in failure.value.message
        assert "Run it by hand to see why: sh -c" in failure.value.message


@pytest.mark.proves("P9")
async def test_a_flood_of_lines_that_are_no_messages_leaves_others_their_turn() -> None:
    seen = Seen()
    flood = (sys.executable, "-c", "while True: print('y\\n' * 10000)")
    start = launch(flood, config={"handshake_timeout_ms": 1500})
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.monotonic()
            await anyio.sleep(0.01)
            worst = max(worst, time.monotonic() - before)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            with pytest.raises(AgentFailed, match="did not answer initialize"):
                async with connect(start, Spy(), seen.sink, seen.progress.append):
                    pytest.fail("it says y only")
            group.cancel_scope.cancel()
    assert worst < 0.5
    assert alive(start.cookie) == []
    logs = [d.payload for d in seen.drafts if isinstance(d, Draft) and isinstance(d.payload, Log)]
    notes = [log for log in logs if log.dropped]
    assert 1 <= len(notes) <= 10
    assert sum(log.dropped or 0 for log in notes) > 10_000 > len(logs)
