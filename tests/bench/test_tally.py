"""The check at the far end of a flood: what is missing, doubled, cut or out of order counts as lost."""

from collections.abc import Sequence

from agentctl import v1
from bench.tally import Tally


def batch(*events: tuple[int, str]) -> v1.EventBatch:
    made = [
        v1.AgentEvent(
            type=v1.EventType.EVENT_TYPE_MESSAGE_CHUNK,
            seq=seq,
            message_chunk=v1.MessageChunk(message_id="m", text=text),
        )
        for seq, text in events
    ]
    return v1.EventBatch(events=made)


def end(seq: int) -> v1.EventBatch:
    complete = v1.Complete(outcome=v1.Outcome.OUTCOME_COMPLETED)
    event = v1.AgentEvent(type=v1.EventType.EVENT_TYPE_COMPLETE, seq=seq, complete=complete)
    return v1.EventBatch(events=[event])


def tallied(expected: int, batches: Sequence[v1.EventBatch]) -> Tally:
    tally = Tally(expected, size=3)
    for each in batches:
        tally.take(each)
    return tally


def test_a_whole_flood_has_lost_nothing() -> None:
    tally = tallied(3, [batch((7, "abc"), (9, "abc")), batch((10, "abc")), end(11)])
    assert (tally.good, tally.lost, tally.ended) == (3, 0, True)


def test_a_chunk_that_never_came_is_lost() -> None:
    assert tallied(3, [batch((7, "abc"), (9, "abc")), end(11)]).lost == 1


def test_a_chunk_that_came_twice_does_not_stand_for_another() -> None:
    tally = tallied(2, [batch((7, "abc"), (7, "abc"))])
    assert (tally.lost, tally.out_of_order) == (1, 1)


def test_a_chunk_behind_a_later_one_is_out_of_order_also_across_batches() -> None:
    tally = tallied(2, [batch((9, "abc")), batch((8, "abc"))])
    assert (tally.lost, tally.out_of_order) == (1, 1)


def test_a_chunk_with_less_text_than_was_sent_is_lost() -> None:
    tally = tallied(2, [batch((1, "abc"), (2, "ab"))])
    assert (tally.lost, tally.wrong_text) == (1, 1)


def test_a_flood_goes_on_until_its_run_has_ended() -> None:
    assert not tallied(1, [batch((1, "abc"))]).ended
