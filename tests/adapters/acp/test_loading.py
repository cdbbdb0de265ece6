"""Loading a session: the history that an agent tells after its answer is not taken for new."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentctl.core.ids import NativeSessionId
from agentctl_adapters.acp import loading
from tests.adapters.acp.adapter_harness import one_turn, puppet, running, spec, text

pytestmark = pytest.mark.anyio

OLD = NativeSessionId("old")
LOADS = {"agentCapabilities": {"loadSession": True}}


def late(words: int) -> dict[str, Any]:
    how = puppet(LOADS)
    return {**how, "env": {**how["env"], "PUPPET_HISTORY": str(words)}}


@pytest.mark.proves("M5")
@pytest.mark.parametrize("words", [0, 1, 7])
async def test_history_that_comes_after_the_answer_is_not_new(tmp_path: Path, words: int) -> None:
    async with running(**late(words)) as (connection, seen):
        await connection.resume_session(OLD, spec(tmp_path))
        said = await one_turn(connection, seen, OLD, text(json.dumps(["new"])))
    assert said == '"new"'
    assert len(seen.sent(loading.SETTLED)) == words + 1


async def test_an_agent_that_never_answers_the_unknown_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SETTLE_TIMEOUT_S", 0.1)
    how = puppet(LOADS)
    how["env"]["PUPPET_SILENT"] = loading.SETTLED
    async with running(**how) as (connection, seen):
        with anyio.fail_after(5):
            await connection.resume_session(OLD, spec(tmp_path))
            said = await one_turn(connection, seen, OLD, text(json.dumps(["new"])))
        assert "new" in said
