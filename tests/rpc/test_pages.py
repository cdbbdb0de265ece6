"""No answer is larger than a client takes: prompts are cut, long pages end early."""

import pytest

from agentctl import v1
from agentctl.core.limits import EVENT_BYTES
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import ContentType
from agentctl.rpc.pages import ANSWER_BYTES, fitted
from agentctl.rpc.records import run_message
from agentctl.session.records import RunRecord


def key(run: v1.Run) -> str:
    return run.run_id


@pytest.mark.anyio
async def test_a_page_ends_where_the_answer_is_full_and_goes_on_from_there() -> None:
    rows = [v1.Run(run_id=f"run_{n}", session_id="x" * 1_000_000) for n in range(5)]
    kept, token = await fitted(rows, "", key)
    assert [key(row) for row in kept] == ["run_0", "run_1", "run_2"] and token == "run_2"
    assert sum(row.ByteSize() for row in kept) < ANSWER_BYTES
    assert await fitted(rows[3:], "more", key) == (rows[3:], "more")


@pytest.mark.anyio
async def test_a_page_has_one_row_however_large() -> None:
    row = v1.Run(run_id="run_0", session_id="x" * (ANSWER_BYTES + 1))
    assert await fitted([row, row], "", key) == ([row], "run_0")
    assert await fitted([], "", key) == ([], "")


@pytest.mark.parametrize("limit", [EVENT_BYTES, 4096])
@pytest.mark.parametrize("count", [1, 3, 5000])
def test_a_run_shows_the_beginning_of_a_huge_prompt(limit: int, count: int) -> None:
    blocks = tuple(ContentBlock(ContentType.TEXT, text="é" * 500_000) for _ in range(count))
    message = run_message(RunRecord("run_1", "ses_1", PromptSpec(blocks)), prompt_bytes=limit)
    assert message.ByteSize() < limit + 1000
    assert message.prompt[0].truncated and message.prompt[0].text.startswith("éé")
    assert blocks[0].text == "é" * 500_000
