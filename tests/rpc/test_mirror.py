"""The way between dataclasses and messages, where it must say no."""

import dataclasses

import pytest

from agentctl import v1
from agentctl.core.errors import Invalid
from agentctl.core.events import AgentStatus
from agentctl.core.parts import ContentBlock, McpServerState
from agentctl.core.words import McpState
from agentctl.rpc.mirror import fill, nested, read


@dataclasses.dataclass(slots=True)
class Strange:
    text: str = ""
    colour: str = "red"


def test_a_field_that_the_wire_does_not_have_is_a_defect() -> None:
    with pytest.raises(TypeError, match="no field colour of Strange"):
        fill(v1.ContentBlock.DESCRIPTOR, Strange())


def test_a_scalar_field_holds_no_message() -> None:
    with pytest.raises(TypeError, match="text holds no message"):
        nested(v1.ContentBlock.DESCRIPTOR.fields_by_name["text"])


@pytest.mark.parametrize("kind", [ContentBlock, AgentStatus])
def test_a_word_that_must_be_told_is_asked_for(
    kind: type[ContentBlock] | type[AgentStatus],
) -> None:
    message = v1.ContentBlock() if kind is ContentBlock else v1.AgentStatus()
    with pytest.raises(Invalid, match="must be one of"):
        read(kind, message)


def test_a_word_that_may_be_left_out_keeps_its_default() -> None:
    assert read(McpServerState, v1.McpServerState(name="x")).state is McpState.UNKNOWN
