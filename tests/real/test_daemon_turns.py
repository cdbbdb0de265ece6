"""What the real Gemini CLI says reaches a client of the daemon: text, thoughts, plans, memory."""

import base64
import json

import anyio
import pytest

from agentctl import v1
from tests.real.harness import Home, Model
from tests.real.served import Served, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ODD = ["tab\t, a line end\n, U+2028 \u2028, U+0085 \u0085, äöü, 🙂 ", "   ", "\n", "\n\n", "end "]


@pytest.mark.proves("T1", "M1", "M4", "M6")
async def test_every_byte_of_the_model_arrives_once_and_in_its_own_chunks(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, f"SAYTEXT {json.dumps(ODD)}")

    assert turn.outcome == "completed"
    assert [chunk["text"] for chunk in turn.of("message_chunk")] == ODD
    assert turn.text == gemini_model.sent_text()
    assert len({chunk["message_id"] for chunk in turn.of("message_chunk")}) == 1
    assert turn.complete["usage"]["input"] == 100
    (created,) = [each for each in turn.of("run_status") if each["status"] == "created"]
    assert created["prompt"][0]["text"].startswith("SAYTEXT")


async def test_a_long_answer_arrives_whole_in_events_of_bounded_size(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, "BIG 700000")

    assert turn.text == gemini_model.sent_text()
    assert len(turn.text) == 700_000
    assert max(len(chunk["text"]) for chunk in turn.of("message_chunk")) <= 256 * 1024


async def test_thoughts_are_reasoning_and_not_text(daemon: Served, gemini_model: Model) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, "THINK 2")

    assert turn.text == gemini_model.sent_text() == "After thinking: answer."
    thoughts = "".join(each["text"] for each in turn.of("reasoning"))
    assert "Subject 1" in thoughts and "I am thinking about part 2." in thoughts
    assert turn.complete["usage"]["output"] > 0


async def test_the_session_remembers_its_earlier_prompts(daemon: Served) -> None:
    session = await daemon.session()
    await daemon.ask(session, "SAYTEXT one")
    await daemon.ask(session, "SAYTEXT two")

    assert (await daemon.ask(session, "HISTORY")).text == "HISTORY 3"


@pytest.mark.proves("T8")
async def test_a_prompt_to_a_busy_session_waits_and_cancels_nothing(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    first = await daemon.begin(session, "SLOW 5 100")
    await daemon.said(first, "slow0")
    second = await daemon.begin(session, "SAYTEXT second")

    assert (await daemon.ended(second)).text == "second"
    assert daemon.turn(first).outcome == "completed"
    assert daemon.turn(first).text + "second" == gemini_model.sent_text()


async def test_a_list_of_things_to_do_is_a_tool_of_its_own_kind(
    daemon: Served, gemini_model: Model
) -> None:
    # Gemini tells its list to nobody: over ACP it sends a title alone, so that there is no plan.
    session = await daemon.session(policy="allow")
    turn = await daemon.ask(session, "TODO || SAYTEXT planned")
    assert turn.outcome == "completed"
    assert turn.text == gemini_model.sent_text() == "planned"
    assert (turn.tool()["kind"], turn.tool()["title"]) == ("todo", "Set 3 todo(s)")
    assert turn.of("plan") == []


async def test_a_picture_reaches_the_model(daemon: Served) -> None:
    session = await daemon.session()
    blocks = [
        v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_TEXT, text="PARTS"),
        v1.ContentBlock(type=v1.ContentType.CONTENT_TYPE_IMAGE, data=PIXEL, mime_type="image/png"),
    ]
    made = await daemon.client.runs.create(session.session_id, blocks)
    # Before it stands what Gemini says of the session.
    assert (await daemon.ended(made.run.run_id)).text.endswith("text,image")


async def test_what_the_agent_answers_itself_needs_no_model(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    turn = await daemon.ask(session, v1.RunInput(command=v1.CommandInput(name="about")))
    assert turn.outcome == "completed" and "0.61.0" in turn.text
    assert gemini_model.log() == []


async def test_two_sessions_have_two_processes_and_do_not_mix(
    daemon: Served, gemini_model: Model
) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(daemon.session)
    first, second = (await daemon.client.sessions.list()).sessions
    assert first.agent_id != second.agent_id
    runs = [await daemon.begin(first, "SLOW 5 100"), await daemon.begin(second, "SLOW 5 100")]
    turns = [await daemon.ended(run) for run in runs]

    assert [turn.text for turn in turns] == ["slow0 slow1 slow2 slow3 slow4 "] * 2
    spans = [(turn.complete["started_at"], turn.complete["ended_at"]) for turn in turns]
    assert max(start for start, _ in spans) < min(end for _, end in spans)


async def test_a_shared_process_serves_two_sessions_at_once(
    home: Home, gemini_model: Model
) -> None:
    async with serving(home, gemini_model, sharing="shared") as served:
        first, second = await served.session(), await served.session()
        assert first.agent_id == second.agent_id
        runs = [await served.begin(first, "SLOW 6 80"), await served.begin(second, "SLOW 3 80")]
        turns = [await served.ended(run) for run in runs]
        assert [len(turn.of("message_chunk")) for turn in turns] == [6, 3]
        await served.client.sessions.close(first.session_id)
        assert (await served.ask(second, "HISTORY")).text == "HISTORY 2"
        await served.client.sessions.close(second.session_id)
        assert served.agent_processes() == []
