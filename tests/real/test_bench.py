"""The bench drives the real Codex both ways: sessions on one server, and each with its own."""

from pathlib import Path

import pytest

from bench import inside
from bench.agents import row

pytestmark = [pytest.mark.anyio, pytest.mark.real]


async def test_a_session_on_a_shared_server_costs_less_than_one_with_its_own(
    tmp_path: Path,
) -> None:
    told = row("codex", await inside.measure("codex", 3, 1, tmp_path))
    assert told.shared is not None and told.own is not None
    assert told.memory_ratio > 1
    assert told.shared.ready_ms.low > 0
    assert told.shared.ready_ms.middle < told.own.ready_ms.middle
