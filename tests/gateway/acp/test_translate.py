"""From our events to ACP updates, without a daemon: each type, the order, and what is held back."""

from collections.abc import Sequence
from typing import Any

import pytest
from acp import schema

from agentctl.core.events import (
    Artifact,
    Complete,
    ContextWindow,
    Error,
    Event,
    FileChange,
    Git,
    Message,
    MessageChunk,
    Payload,
    Plan,
    RateLimit,
    Reasoning,
    RunStatus,
    SessionOptions,
    SessionStatus,
    Task,
    ToolCall,
    ToolUpdate,
)
from agentctl.core.parts import (
    Choice,
    ConfigOption,
    ContentBlock,
    Location,
    Model,
    PlanEntry,
    SlashCommand,
)
from agentctl.core.words import (
    ArtifactAction,
    ArtifactKind,
    ChangeKind,
    ContentType,
    Outcome,
    PlanStatus,
    Priority,
    Role,
    RunChange,
    SessionChange,
    ToolKind,
    ToolStatus,
)
from agentctl.gateway.acp.errors import Json
from agentctl.gateway.acp.options import Agents, Offers
from agentctl.gateway.acp.tools import MAX_OUTPUT
from agentctl.gateway.acp.translate import Translator
from tests.gateway.acp.client import conforms

pytestmark = pytest.mark.proves("GA2")

DIFF = """--- /w/a.txt
+++ /w/a.txt
@@ -1,2 +1,2 @@
 kept
-old
+new
@@ -9,1 +9,2 @@
 last
+more
\\ No newline at end of file
"""


def text(words: str) -> ContentBlock:
    return ContentBlock(ContentType.TEXT, text=words)


def told(*payloads: Payload | Event, offers: Offers | None = None) -> list[Json]:
    """What a client is sent of these; each update conforms to the schema."""
    translator = Translator(offers or Offers())
    return said_by(translator, payloads) + checked(translator.flush())


def said_by(translator: Translator, payloads: Sequence[Payload | Event]) -> list[Json]:
    updates: list[Json] = []
    for each in payloads:
        event = each if isinstance(each, Event) else Event(each, run_id="run_1")
        updates += translator.feed(event)
    return checked(updates)


def checked(updates: list[Json]) -> list[Json]:
    for update in updates:
        conforms(schema.SessionNotification, {"sessionId": "s", "update": update})
    return updates


def kinds(updates: list[Json]) -> list[str]:
    return [each["sessionUpdate"] for each in updates]


def texts(updates: list[Json]) -> list[str]:
    return [each["content"]["text"] for each in updates]


def test_a_whole_message_adds_only_what_its_chunks_have_not_said() -> None:
    same = told(MessageChunk("m1", text="a"), Message("m1", content=[text("a")]))
    assert texts(same) == ["a"]
    longer = told(MessageChunk("m1", text="a"), Message("m1", content=[text("ab")]))
    assert [(u["messageId"], u["content"]["text"]) for u in longer] == [("m1", "a"), ("m1", "b")]
    other = told(MessageChunk("m1", text="x"), Message("m1", content=[text("ab")]))
    assert texts(other) == ["x", "\n\nab"]
    assert other[1]["messageId"] != "m1"
    alone = told(Message("m1", content=[text("ab"), ContentBlock(ContentType.IMAGE, data=b"i")]))
    assert [each["content"]["type"] for each in alone] == ["text", "image"]


def test_a_message_that_never_was_is_not_said_again() -> None:
    assert texts(told(MessageChunk("m1", text="a"), Message("m1", retracted=True))) == ["a"]


def test_white_space_counts_and_empty_text_does_not() -> None:
    assert texts(told(MessageChunk("m1", text=" "), MessageChunk("m1", text="\n"))) == [" ", "\n"]
    assert told(MessageChunk("m1", text="")) == []


def test_thoughts_are_thoughts_and_a_whole_one_adds_its_rest() -> None:
    updates = told(Reasoning("t1", "why"), Reasoning("t1", "why not", whole=True))
    assert kinds(updates) == ["agent_thought_chunk"] * 2
    assert texts(updates) == ["why", " not"]


def test_the_words_of_another_client_are_the_users_and_our_own_are_not_repeated() -> None:
    prompt = RunStatus(RunChange.CREATED, prompt=[text("do it")])
    started = RunStatus(RunChange.STARTED)
    assert told(prompt) == []
    (update,) = told(prompt, started)
    assert (update["sessionUpdate"], update["content"]["text"]) == ("user_message_chunk", "do it")
    translator = Translator(Offers())
    translator.own.add("run_1")
    assert said_by(translator, [prompt, started]) == []


def test_a_tool_is_opened_once_and_told_as_it_goes() -> None:
    call = ToolCall(
        "t1",
        name="Read",
        title="Read a.txt",
        kind=ToolKind.READ,
        input_json=b'{"path":"a.txt"}',
        locations=[Location("/w/a.txt", 3)],
    )
    updates = told(
        call,
        ToolUpdate("t1", status=ToolStatus.RUNNING),
        ToolUpdate("t1", status=ToolStatus.COMPLETED, content=[text("hello")]),
    )
    assert kinds(updates) == ["tool_call", "tool_call_update", "tool_call_update"]
    card = updates[0]
    assert (card["kind"], card["status"], card["rawInput"]) == (
        "read",
        "pending",
        {"path": "a.txt"},
    )
    assert card["locations"] == [{"path": "/w/a.txt", "line": 3}]
    assert card["_meta"] == {"toolName": "Read"}
    assert updates[2]["content"][0]["content"]["text"] == "hello"


def test_a_tool_whose_first_word_is_an_update_is_opened_all_the_same() -> None:
    updates = told(ToolUpdate("t1", status=ToolStatus.FAILED, error="no such file"))
    assert kinds(updates) == ["tool_call"]
    assert updates[0]["status"] == "failed"
    assert updates[0]["content"][0]["content"]["text"] == "no such file"


@pytest.mark.parametrize("kind", list(ToolKind))
def test_every_kind_and_status_of_a_tool_has_a_word(kind: ToolKind) -> None:
    for status in ToolStatus:
        (card,) = told(ToolCall("t1", title="x", kind=kind, status=status))
        assert card["kind"] and card["status"]


def test_growing_output_is_held_back_until_something_else_is_said() -> None:
    translator = Translator(Offers())
    call = ToolCall("t1", title="make", kind=ToolKind.EXECUTE, command="make")
    said_by(translator, [call])
    deltas = [ToolUpdate("t1", output_delta=f"{n}\n") for n in range(1000)]
    assert said_by(translator, deltas) == []
    assert translator.tools.growing
    (update,) = checked(translator.flush())
    assert update["content"][0]["content"]["text"].endswith("998\n999\n")
    assert translator.flush() == []
    later = said_by(translator, [ToolUpdate("t1", output_delta="x"), MessageChunk("m", text="a")])
    assert kinds(later) == ["tool_call_update", "agent_message_chunk"]
    end = said_by(translator, [ToolUpdate("t1", output_delta="y", exit_code=0)])
    assert end[0]["rawOutput"] == {"exitCode": 0}
    assert end[0]["content"][0]["content"]["text"].endswith("xy")


def test_output_beyond_the_limit_is_cut_and_says_by_how_much() -> None:
    call = ToolCall("t1", title="make", kind=ToolKind.EXECUTE)
    big = ToolUpdate("t1", output_replace="x" * (MAX_OUTPUT + 50))
    updates = told(call, big, ToolUpdate("t1", output_delta="y" * 10, status=ToolStatus.COMPLETED))
    shown = updates[-1]["content"][0]["content"]["text"]
    assert shown.endswith("[60 more not shown here]")
    assert len(shown) < MAX_OUTPUT + 100


def test_a_change_is_shown_in_its_tool_as_the_texts_before_and_after() -> None:
    change = FileChange("/w/a.txt", diff=DIFF, tool_call_id="t1")
    updates = told(ToolCall("t1", title="Edit", kind=ToolKind.EDIT), change)
    diffs = updates[-1]["content"]
    assert [(d["oldText"], d["newText"]) for d in diffs] == [
        ("kept\nold\n", "kept\nnew\n"),
        ("last\n", "last\nmore"),
    ]


def test_a_change_without_a_tool_is_a_call_of_its_own() -> None:
    made = "--- /dev/null\n+++ /w/n.txt\n@@ -0,0 +1,1 @@\n+hi\n"
    (card,) = told(FileChange("/w/n.txt", ChangeKind.CREATE, diff=made))
    assert (card["sessionUpdate"], card["status"]) == ("tool_call", "completed")
    assert card["content"][0]["oldText"] is None
    assert card["content"][0]["newText"] == "hi\n"
    (gone,) = told(FileChange("/w/n.txt", ChangeKind.DELETE))
    assert (gone["kind"], gone["content"]) == ("delete", [])


def test_what_a_subagent_does_names_its_tool_call() -> None:
    card, words = told(
        Event(ToolCall("t2", title="x"), run_id="run_1", parent_tool_call_id="t1"),
        Event(MessageChunk("m", text="a"), run_id="run_1", parent_tool_call_id="t1"),
    )
    assert card["_meta"]["parentToolCallId"] == words["_meta"]["parentToolCallId"] == "t1"


def test_a_plan_has_a_priority_and_leaves_out_what_was_given_up() -> None:
    entries = [
        PlanEntry("one", PlanStatus.COMPLETED, Priority.HIGH),
        PlanEntry("two", PlanStatus.PENDING),
        PlanEntry("three", PlanStatus.CANCELLED),
    ]
    (plan,) = told(Plan(entries))
    assert [(e["content"], e["priority"]) for e in plan["entries"]] == [
        ("one", "high"),
        ("two", "medium"),
    ]
    assert texts(told(Plan(document="# The plan"))) == ["# The plan"]


def test_usage_needs_both_numbers_and_is_told_when_it_changes() -> None:
    assert told(ContextWindow(used=5)) == []
    updates = told(
        ContextWindow(used=5),
        ContextWindow(size=100),
        ContextWindow(size=100),
        ContextWindow(used=7, cost_usd=0.5),
    )
    assert [(u["used"], u["size"], u.get("cost")) for u in updates] == [
        (5, 100, None),
        (7, 100, {"amount": 0.5, "currency": "USD"}),
    ]


def test_what_may_be_chosen_is_told_once_and_again_when_it_changes() -> None:
    options = SessionOptions(
        modes=[Choice("ask", "Ask"), Choice("auto")],
        mode="ask",
        models=[Model("m1", "One")],
        model="m1",
        commands=[SlashCommand("help", "Help", "topic")],
        config_options=[
            ConfigOption("fast", "Fast", boolean=True, value="true"),
            ConfigOption(
                "effort",
                category="thought_level",
                value="low",
                choices=[Choice("low", group="a"), Choice("high", group="b")],
            ),
        ],
    )
    offers = Offers(booleans=True, agents=Agents("demo", [Choice("demo"), Choice("other")]))
    updates = told(options, options, SessionOptions(mode="auto"), offers=offers)
    assert kinds(updates) == [
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "current_mode_update",
        "config_option_update",
    ]
    first = updates[2]["configOptions"]
    assert [o["id"] for o in first] == ["agent", "mode", "model", "fast", "effort"]
    assert first[3] == {"type": "boolean", "id": "fast", "name": "Fast", "currentValue": True}
    assert [g["name"] for g in first[4]["options"]] == ["a", "b"]
    plain = told(options)[-1]["configOptions"]
    assert next(o for o in plain if o["id"] == "fast")["currentValue"] == "true"


def test_a_title_is_told_once() -> None:
    status = SessionStatus(SessionChange.UPDATED, title="My work")
    updates = told(status, status)
    assert updates == [{"sessionUpdate": "session_info_update", "title": "My work"}]


@pytest.mark.parametrize(
    "payload",
    [
        Error("STALLED", "nothing came"),
        RateLimit("wait"),
        Task("task_1", title="x"),
        Git(branch="main"),
        Artifact("art_1", ArtifactAction.CREATED, ArtifactKind.PATCH),
        SessionStatus(SessionChange.COMPACTED),
    ],
)
def test_what_acp_has_no_update_for_stands_in_meta(payload: Any) -> None:
    (update,) = told(payload)
    seen = update["_meta"]["agentctl"]["event"]
    assert seen["type"] == payload.TYPE
    assert update["sessionUpdate"] == "session_info_update"


def test_the_end_of_a_run_forgets_what_it_said() -> None:
    translator = Translator(Offers())
    turn = [MessageChunk("m1", text="a"), ToolCall("t1", title="x"), Complete(Outcome.COMPLETED)]
    first = said_by(translator, turn)
    again = said_by(translator, [Event(each, run_id="run_2") for each in turn])
    assert kinds(first) == kinds(again) == ["agent_message_chunk", "tool_call"]


@pytest.mark.parametrize("role", list(Role))
def test_no_role_is_passed_off_as_the_agents(role: Role) -> None:
    (update,) = told(MessageChunk("m1", role, "words"))
    assert (update["sessionUpdate"] == "agent_message_chunk") == (role is Role.ASSISTANT)
