"""The JSON that a person and a gateway see."""

from typing import Any

import pytest

from agentctl import v1
from agentctl.core.events import Event, MessageChunk, Plan, ToolCall, ToolUpdate
from agentctl.core.words import EventType, ToolStatus
from agentctl.rpc.catalogue import services
from agentctl.rpc.convert import encode_event
from agentctl.rpc.jsonview import event_to_json, to_dict
from agentctl.rpc.mirror import message_class
from tests.rpc.samples import PAYLOADS, full


def test_an_event_has_the_shape_of_the_event_model() -> None:
    event = Event(
        payload=MessageChunk(message_id="m1", text="hi"),
        run_id="run_1",
        session_id="ses_1",
        agent_id="agt_1",
        ts=1764500000000,
        seq=7,
        raw=b'{"jsonrpc":"2.0"}',
    )
    seen = event_to_json(event, "abc123")
    assert seen == {
        "version": 1,
        "cursor": "abc123:7",
        "seq": 7,
        "ts": 1764500000000,
        "type": "message_chunk",
        "agent_id": "agt_1",
        "session_id": "ses_1",
        "run_id": "run_1",
        "data": {"message_id": "m1", "role": "assistant", "text": "hi"},
        "raw": {"jsonrpc": "2.0"},
    }
    assert list(seen)[:5] == ["version", "cursor", "seq", "ts", "type"]


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda kind: kind.__name__)
def test_an_event_reads_the_same_from_the_wire_and_from_the_core(kind: type[Any]) -> None:
    event = Event(payload=full(kind), seq=3, session_key="k", task_id="t")
    message = v1.AgentEvent.FromString(encode_event(event, "abc123"))
    seen = event_to_json(event, "abc123")
    assert to_dict(message) == seen
    assert EventType(seen["type"]) is kind.TYPE


def test_a_replayed_event_has_no_cursor() -> None:
    assert "cursor" not in event_to_json(Event(payload=Plan(), seq=1))


def test_what_was_not_told_is_left_out_and_what_was_cleared_is_empty() -> None:
    seen = event_to_json(Event(payload=ToolUpdate(tool_call_id="t", content=[], exit_code=0)))
    assert seen["data"] == {"tool_call_id": "t", "content": [], "exit_code": 0}


def test_json_of_an_agent_is_an_object_and_anything_else_its_text() -> None:
    def shown(data: bytes) -> Any:
        return event_to_json(Event(payload=ToolCall(tool_call_id="t", input_json=data)))["data"]

    assert shown(b'{"n":9007199254740993}')["input"] == {"n": 9007199254740993}
    assert shown(b"[1,")["input"] == "[1,"
    assert shown(b"null")["input"] is None
    assert "input" not in shown(b"")


def test_large_numbers_stay_numbers() -> None:
    assert to_dict(v1.GetInfoResponse(head_seq=2**60))["head_seq"] == 2**60


def test_bytes_that_are_no_json_are_base64() -> None:
    assert to_dict(v1.ContentBlock(data=b"\0\xff"))["data"] == "AP8="


def test_maps_and_nested_messages_are_objects() -> None:
    session = v1.Session(session_id="ses_1", labels={"a": "b"}, rules=[v1.Rule(rule_id="r1")])
    seen = to_dict(session)
    assert seen["labels"] == {"a": "b"}
    assert seen["rules"] == [{"rule_id": "r1"}]
    assert seen["close_when_done"] is False
    assert "state" not in seen
    assert "closed_at" not in seen


def test_a_word_that_this_version_does_not_know_is_shown_as_such() -> None:
    call = v1.ToolUpdate.FromString(
        v1.ToolUpdate(tool_call_id="t").SerializeToString() + b"\x10\x63"
    )
    assert to_dict(call)["status"] == "unknown_99"
    status: Any = ToolStatus.RUNNING
    assert to_dict(v1.ToolUpdate(tool_call_id="t", status=3))["status"] == status  # pyright: ignore[reportArgumentType]  a raw number


def test_every_message_of_the_api_has_a_json_form_with_distinct_names() -> None:
    for service in services():
        for method in service.methods:
            for descriptor in (method.input_type, method.output_type):
                keys = [field.name.removesuffix("_json") for field in descriptor.fields]
                assert len(keys) == len(set(keys)), descriptor.name
                assert isinstance(to_dict(message_class(descriptor)()), dict)


def test_a_batch_shows_its_events_as_events() -> None:
    event = v1.AgentEvent(type=v1.EventType.EVENT_TYPE_PLAN, version=1, seq=1, plan=v1.Plan())
    seen = to_dict(v1.EventBatch(events=[event], cursor="a:1"))
    assert seen["events"][0]["type"] == "plan"
    assert seen["events"][0]["data"] == {"entries": []}
    assert seen["cursor"] == "a:1"
