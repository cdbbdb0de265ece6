"""Tools of the real Gemini CLI through the daemon: who allows them, what they do, what they change."""

import sys
from pathlib import Path

import pytest

from agentctl import v1
from tests.real.harness import Home, Model
from tests.real.served import ONCE, REJECT, TOOL_ALWAYS, Served, reason_of, serving

pytestmark = [pytest.mark.anyio, pytest.mark.real]

REPOSITORY = Path(__file__).parents[2]
TOUCH = "TOOL touch made.txt; echo from-the-command"


@pytest.mark.proves("A1", "A3", "M9")
async def test_a_command_waits_for_leave_and_runs_once_it_is_allowed(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, TOUCH)
    request = await daemon.asked(run)
    assert request["details"]["command"] == "touch made.txt; echo from-the-command"
    assert not (daemon.home.workspace / "made.txt").exists()
    answered = await daemon.client.approvals.respond(request["approval_id"], "approve")
    turn = await daemon.ended(run)

    assert answered.option_id == ONCE
    assert (daemon.home.workspace / "made.txt").exists()
    assert turn.outcome == "completed" and turn.text == gemini_model.sent_text()
    tool = turn.tool()
    assert (tool["kind"], tool["status"]) == ("execute", "completed")
    assert tool["tool_call_id"] == request["tool_call_id"]
    assert "from-the-command" in str(tool)
    (resolved,) = turn.of("permission_resolved")
    assert (resolved["decision"], resolved["by"]) == ("approved", "client")
    late = daemon.client.approvals.respond(request["approval_id"], "deny")
    assert await reason_of(late) == "ALREADY_RESOLVED"


async def test_always_is_a_rule_of_ours_for_exactly_this_command(daemon: Served) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, TOUCH)
    request = await daemon.asked(run)
    answered = await daemon.client.approvals.respond(request["approval_id"], "approve", always=True)
    assert answered.option_id == ONCE
    await daemon.ended(run)
    (rule,) = (await daemon.client.approvals.list_rules(session.session_id)).rules
    assert rule.command == "touch made.txt; echo from-the-command"

    same = await daemon.ask(session, TOUCH)
    (resolved,) = same.of("permission_resolved")
    assert (resolved["by"], resolved["rule_id"]) == ("rule", rule.rule_id)
    assert same.outcome == "completed"

    other = await daemon.begin(session, "TOOL touch other.txt; echo x")
    request = await daemon.asked(other)
    await daemon.client.approvals.respond(request["approval_id"], "deny")
    assert (await daemon.ended(other)).tool()["status"] == "cancelled"
    assert not (daemon.home.workspace / "other.txt").exists()


@pytest.mark.proves("A4")
async def test_the_agents_own_always_is_sent_when_exactly_that_option_is_picked(
    daemon: Served,
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, TOUCH)
    request = await daemon.asked(run)
    unknown = daemon.client.approvals.respond(request["approval_id"], option_id="proceed_at_will")
    assert await reason_of(unknown) == "OPTION_NOT_OFFERED"
    answered = await daemon.client.approvals.respond(request["approval_id"], option_id=TOOL_ALWAYS)
    assert answered.option_id == TOOL_ALWAYS
    await daemon.ended(run)

    # Gemini's own always means the whole tool.
    other = await daemon.ask(session, "TOOL touch other.txt; echo x")
    assert other.of("permission_request") == []
    assert (daemon.home.workspace / "other.txt").exists()
    assert list((await daemon.client.approvals.list_rules(session.session_id)).rules) == []


@pytest.mark.proves("M9")
async def test_a_denied_command_does_not_run_and_the_turn_goes_on(
    daemon: Served, gemini_model: Model
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "TOOL touch made.txt || SAYTEXT went on")
    request = await daemon.asked(run)
    answered = await daemon.client.approvals.respond(
        request["approval_id"], "deny", reason="not today"
    )
    turn = await daemon.ended(run)

    assert answered.option_id == REJECT
    assert not (daemon.home.workspace / "made.txt").exists()
    assert turn.outcome == "completed"
    assert turn.text == gemini_model.sent_text() == "I will run it. went on"
    assert turn.tool()["status"] == "cancelled"
    (resolved,) = turn.of("permission_resolved")
    assert (resolved["decision"], resolved["reason"]) == ("denied", "not today")


async def test_a_client_that_comes_late_finds_the_open_request_and_answers_it(
    daemon: Served,
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, TOUCH)
    await daemon.asked(run)
    async with daemon.daemon.client() as late:
        (found,) = (await late.approvals.list()).approvals
        assert (found.session_id, found.run_id) == (session.session_id, run)
        await late.approvals.respond(found.approval_id, "approve")
    assert (await daemon.ended(run)).outcome == "completed"


async def test_a_failed_command_says_so_and_its_output_reaches_the_client(daemon: Served) -> None:
    session = await daemon.session(policy="allow", mode="yolo")
    turn = await daemon.ask(session, "TOOL echo to-both >&2; exit 3")
    assert turn.outcome == "completed"
    assert "to-both" in str(turn.tool())


async def test_several_commands_of_one_answer_are_asked_and_end_one_by_one(
    daemon: Served,
) -> None:
    session = await daemon.session()
    run = await daemon.begin(session, "TOOLS touch a.txt; echo a ;; touch b.txt; echo b")
    first = await daemon.asked(run)
    await daemon.client.approvals.respond(first["approval_id"], "deny")
    second = await daemon.asked(run, 2)
    await daemon.client.approvals.respond(second["approval_id"], "approve")
    turn = await daemon.ended(run)

    assert [each["decision"] for each in turn.of("permission_resolved")] == ["denied", "approved"]
    assert not (daemon.home.workspace / "a.txt").exists()
    assert (daemon.home.workspace / "b.txt").exists()


async def _written(served: Served, prompt: str) -> str:
    """Runs a prompt that changes a file; returns its diff after checking what was told of it."""
    session = await served.session()
    run = await served.begin(session, prompt)
    request = await served.asked(run)
    await served.client.approvals.respond(request["approval_id"], "approve")
    turn = await served.ended(run)
    assert turn.outcome == "completed"
    assert turn.text == served.model.sent_text()
    (change,) = turn.of("file_change")
    assert change["path"] == request["details"]["file"]
    assert change["tool_call_id"] == turn.tool()["tool_call_id"]
    kinds = turn.kinds
    done = max(i for i, kind in enumerate(kinds) if kind == "tool_update")
    assert kinds.index("file_change") > done or turn.tool()["status"] == "completed"
    assert change["diff"] == request["details"]["diff"]
    return f"{change['change']} +{change['additions']} -{change['deletions']}\n{change['diff']}"


@pytest.mark.proves("M11")
async def test_a_new_file_is_a_change_with_its_diff(daemon: Served) -> None:
    path = daemon.home.workspace / "new.txt"
    diff = await _written(daemon, f"WRITE {path} hello")
    assert path.read_text() == "hello\n"
    assert diff.startswith("create +1 -0\n")
    assert "+hello" in diff.split("\n")


@pytest.mark.proves("M11")
async def test_an_edit_is_a_change_with_its_diff(daemon: Served) -> None:
    path = daemon.home.workspace / "old.txt"
    path.write_text("one\ntwo\nthree\n")
    diff = await _written(daemon, f"EDIT {path} two 2")
    assert path.read_text() == "one\n2\nthree\n"
    assert diff.startswith("modify +1 -1\n")
    assert {"-two", "+2", " one"} <= set(diff.split("\n"))


@pytest.mark.parametrize("reads", [True, False])
async def test_a_file_is_written_through_us_where_the_entry_offers_files(
    home: Home, gemini_model: Model, reads: bool
) -> None:
    files = {"readTextFile": reads, "writeTextFile": True}
    config = {"client_capabilities": {"fs": files}}
    async with serving(home, gemini_model, protocol_config=config) as served:
        path = home.workspace / "new.txt"
        diff = await _written(served, f"WRITE {path} hello")
        assert path.read_text() == "hello\n"
        assert diff.startswith("create +1 -0\n")


async def test_reading_a_file_needs_no_leave_and_names_it(daemon: Served) -> None:
    path = daemon.home.workspace / "old.txt"
    path.write_text("content")
    session = await daemon.session()
    turn = await daemon.ask(session, f"READ {path}")
    assert turn.outcome == "completed" and turn.of("permission_request") == []
    assert turn.tool()["kind"] == "read"
    assert str(path) in str(turn.tool()) or "old.txt" in str(turn.tool())
    assert turn.of("file_change") == []


@pytest.mark.proves("S5")
async def test_an_mcp_server_given_with_the_session_answers_with_its_own_environment(
    daemon: Served, gemini_model: Model
) -> None:
    server = v1.McpServer(
        name="local",
        command=sys.executable,
        args=["-m", "tests.fakes.mcp_server"],
        env={"PYTHONPATH": str(REPOSITORY), "SHOUTER": "variable arrived"},
    )
    session = await daemon.session(mcp_servers=[server])
    run = await daemon.begin(session, "MCP shout loud || MCP environment SHOUTER")
    for nth in (1, 2):
        request = await daemon.asked(run, nth)
        await daemon.client.approvals.respond(request["approval_id"], "approve")
    turn = await daemon.ended(run)

    assert turn.text == gemini_model.sent_text()
    assert "variable arrived" in turn.text
    assert [turn["called"] for turn in gemini_model.turns()] == [
        ["mcp_local_shout"],
        ["mcp_local_environment"],
        [],
    ]
    ends = [each for each in turn.of("tool_update") if each.get("status") == "completed"]
    assert len(ends) == len(turn.of("tool_call")) == 2


@pytest.mark.proves("A7")
async def test_a_session_that_denies_asks_nobody(daemon: Served) -> None:
    session = await daemon.session(policy="deny")
    turn = await daemon.ask(session, "TOOL touch made.txt || SAYTEXT went on")
    (resolved,) = turn.of("permission_resolved")
    assert (resolved["decision"], resolved["by"]) == ("denied", "policy")
    assert not (daemon.home.workspace / "made.txt").exists()
    assert turn.outcome == "completed"
