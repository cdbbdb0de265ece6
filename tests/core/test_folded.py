"""Prompts that the agent took into one turn: each completes, and says whose the text is."""

from typing import cast

import pytest

from agentctl.core.adapter import TurnEnded, TurnStarted
from agentctl.core.events import Complete
from agentctl.core.ids import NativeSessionId, NativeTurnId
from agentctl.core.words import Outcome
from tests.replaying import payloads, turns

S = NativeSessionId("s")


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_folded_prompt_names_the_run_that_took_it_in(order: tuple[str, str]) -> None:
    made = turns()
    for name in ("a", "b"):
        made.apply(TurnStarted(S, NativeTurnId(name)))
    events = [
        event
        for name in order
        for event in made.apply(
            TurnEnded(
                S,
                NativeTurnId(name),
                Outcome.COMPLETED,
                folded_into=NativeTurnId("a") if name == "b" else None,
            )
        )
    ]
    folded = {event.run_id: cast(Complete, event.payload).folded_into for event in events}
    assert folded == {"run_1": None, "run_2": "run_1"}
    assert len(payloads(events, Complete)) == 2
