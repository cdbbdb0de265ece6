"""What does not fit into an event goes along with it, once and as it was."""

from agentctl.core.events import Event, FileChange, Message, MessageChunk, Reasoning, ToolUpdate
from agentctl.core.limits import EVENT_BYTES, bound
from agentctl.core.parts import ContentBlock
from agentctl.core.tools import WHOLE_BYTES, Output
from agentctl.core.whole import Whole
from agentctl.core.words import ContentType, Role

LONG = "x" * (EVENT_BYTES + 1)


def test_a_field_that_is_cut_goes_along_as_it_was() -> None:
    (small,) = bound(Event(FileChange("a", diff=LONG)))
    assert small.whole == [Whole("diff", LONG)]
    (both,) = bound(Event(ToolUpdate("t", output_replace=LONG, error=LONG)))
    assert both.whole is not None
    assert [(one.field, one.value == LONG) for one in both.whole] == [
        ("output", True),
        ("error", True),
    ]
    blocks = [ContentBlock(ContentType.TEXT, text=LONG), ContentBlock(ContentType.TEXT, text="s")]
    (message,) = bound(Event(Message("m", Role.ASSISTANT, blocks)))
    assert message.whole == [Whole("text", LONG)]


def test_text_that_travels_in_pieces_goes_along_with_none() -> None:
    for payload in (MessageChunk("m", text=LONG), Reasoning("m", text=LONG)):
        events = bound(Event(payload))
        assert len(events) == 2 and [event.whole for event in events] == [None, None]


def test_an_image_goes_along_whether_it_fits_or_not() -> None:
    for data in (b"small", b"l" * EVENT_BYTES):
        block = ContentBlock(ContentType.IMAGE, data=data, mime_type="image/png")
        (event,) = bound(Event(MessageChunk("m", content=block)))
        assert event.whole == [Whole("data", data, "image/png")]
    of_user = ContentBlock(ContentType.IMAGE, data=b"small", mime_type="image/png")
    (event,) = bound(Event(Message("m", Role.USER, [of_user])))
    assert event.whole is None


def test_of_output_in_pieces_the_end_is_held_in_bounded_room() -> None:
    output = Output()
    piece = "p" * 1_000_000
    for _ in range(40):
        output.append(piece)
    whole = output.finish()
    assert whole is not None
    assert WHOLE_BYTES <= len(whole) <= 2 * WHOLE_BYTES + len(piece)
    assert output.size == 40_000_000
    assert output.finish() is None
