"""How an ACP client comes and goes: the daemon is started, survives and restarts, and nothing is lost."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.demo.driver import PATIENCE_S, Json
from tests.gateway.acp.client import Client, clean_env
from tests.gateway.acp.conftest import House

Connect = Callable[..., Client]


def outcome(house: House, client: Client) -> str:
    rows = house.agentctl("events", "--session", client.session_id, "--type", "complete", "--json")
    return json.loads(rows.splitlines()[-1])["data"]["outcome"]


def state(house: House, client: Client) -> str:
    return json.loads(house.agentctl("session", "show", client.session_id, "--json"))["state"]


def ended(house: House) -> None:
    """Waits for the end of the newest run."""
    run = json.loads(house.agentctl("runs", "ls", "--json").splitlines()[0])["run_id"]
    house.agentctl("events", "--run", run, "--follow", "--json")


@pytest.mark.proves("GA9")
@pytest.mark.parametrize("how", ["eof", "term", "kill"])
def test_a_client_that_leaves_in_mid_turn_cancels_it_and_can_come_back(
    demo: Client, connect: Connect, house: House, workspace: Path, how: str
) -> None:
    demo.prompt("say one || hang")
    demo.until("agent_message_chunk")
    match how:
        case "eof":
            demo.close_stdin()
        case "term":
            demo.signal(signal.SIGTERM)
        case _:
            # Nothing of it is left that could cancel: the run is the daemon's and goes on.
            demo.signal(signal.SIGKILL)
            house.agentctl("cancel", demo.session_id)
    assert demo.exit_code() == (-signal.SIGKILL if how == "kill" else 0)
    ended(house)
    assert outcome(house, demo) == "cancelled"
    assert state(house, demo) == "idle"
    other = connect("--agent", "demo")
    other.load(demo.session_id, workspace)
    other.turn("history")
    assert other.text().endswith("This session has seen 2 user turns.")


@pytest.mark.proves("GA9")
def test_a_client_that_reads_no_more_is_gone(house: House, workspace: Path) -> None:
    command = [sys.executable, "-m", "agentctl", "acp", "--agent", "demo"]
    with subprocess.Popen(
        command,
        env=house.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None

        def call(number: int, method: str, **params: object) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()

        call(1, "initialize", protocolVersion=1)
        call(2, "session/new", cwd=str(workspace), mcpServers=[])
        session = ""
        while not session:
            told: Json = json.loads(stdout.readline())
            session = told.get("result", {}).get("sessionId", "")
        text = [{"type": "text", "text": "chunks 20000 1000 || hang"}]
        call(3, "session/prompt", sessionId=session, prompt=text)
        while b"agent_message_chunk" not in stdout.readline():
            pass
        stdout.close()
        assert process.wait(PATIENCE_S) == 0
    run = json.loads(house.agentctl("runs", "ls", "--json").splitlines()[0])["run_id"]
    rows = house.agentctl("events", "--run", run, "--follow", "--type", "complete", "--json")
    assert json.loads(rows.splitlines()[-1])["data"]["outcome"] == "cancelled"


@pytest.mark.proves("GA9")
def test_a_prompt_that_is_on_its_way_when_its_client_leaves_does_not_run_on(
    demo: Client, house: House
) -> None:
    demo.prompt("say one || hang")
    demo.close_stdin()
    assert demo.exit_code() == 0
    # It was cancelled, or it was never made: what was made is at its end.
    listed = house.agentctl("runs", "ls", "--json").splitlines()
    mine = [each for each in map(json.loads, listed) if each["session_id"] == demo.session_id]
    for run in mine:
        house.agentctl("events", "--run", run["run_id"], "--follow", "--json")
        assert outcome(house, demo) == "cancelled"


@pytest.mark.proves("GA9")
def test_a_session_that_nobody_heard_of_is_not_left_open(
    connect: Connect, house: House, workspace: Path
) -> None:
    client = connect("--agent", "demo")
    client.request("session/new", {"cwd": str(workspace), "mcpServers": []})
    client.close_stdin()
    assert client.exit_code() == 0
    answered = any("result" in (message or {}) for message in iter(client.next, None))
    rows = map(json.loads, house.agentctl("session", "ls", "--json").splitlines())
    open_here = [each for each in rows if each["workspace"] == str(workspace)]
    assert bool(open_here) == answered


@pytest.mark.proves("GA9")
def test_a_session_whose_making_is_cancelled_is_not_left_open(
    connect: Connect, house: House, workspace: Path
) -> None:
    client = connect("--agent", "demo")
    request = client.request("session/new", {"cwd": str(workspace), "mcpServers": []})
    client.send({"method": "$/cancel_request", "params": {"requestId": request}})
    response = client.response(request)
    rows = map(json.loads, house.agentctl("session", "ls", "--json").splitlines())
    open_here = [each for each in rows if each["workspace"] == str(workspace)]
    assert bool(open_here) == ("result" in response)
    assert "result" in response or response["error"]["code"] == -32800


@pytest.mark.proves("GA9")
def test_sessions_are_closed_when_that_is_asked_for(
    connect: Connect, house: House, workspace: Path
) -> None:
    client = connect("--agent", "demo", "--close-on-exit")
    client.open(workspace)
    client.turn("say one")
    client.close_stdin()
    assert client.exit_code() == 0
    assert state(house, client) == "closed"


@pytest.mark.proves("GA9")
def test_nothing_but_the_protocol_stands_on_standard_output(demo: Client) -> None:
    demo.turn("stderr noise || say one")
    demo.close_stdin()
    assert demo.exit_code() == 0
    while demo.next() is not None:
        pass
    assert demo.noise == []
    assert b"Traceback" not in demo.stderr


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    home = Path(tmp_path / "h")
    home.mkdir()
    (home / "agentctl.toml").write_text("")
    made = House(home, clean_env(home))
    try:
        yield made
    finally:
        subprocess.run([sys.executable, "-m", "agentctl", "down"], env=made.env, check=False)


@pytest.mark.proves("GA10")
@pytest.mark.parametrize("force", [True, False])
def test_a_restart_of_the_daemon_in_mid_prompt_ends_it_with_its_real_outcome(
    own_house: House, workspace: Path, *, force: bool
) -> None:
    with Client("--agent", "demo", **own_house.env) as client:
        client.initialize()
        client.open(workspace)
        assert "result" in client.turn("say before")
        request = client.prompt("say one || run! echo two || say three || hang")
        client.until("agent_message_chunk", content={"type": "text", "text": "three"})
        own_house.agentctl("down", *(["--force"] if force else []))
        own_house.agentctl("up")
        response = client.response(request)
        if force:
            assert response["error"]["data"]["reason"] == "DAEMON_RESTARTED"
        else:
            assert "error" in response or response["result"]["stopReason"] == "cancelled"
        assert client.text() == "beforeonethree"
        assert len(client.updates("tool_call")) == 1
        # The session is taken up again by the next prompt.
        assert client.turn("history")["result"]["stopReason"] == "end_turn"
        assert client.text() == "beforeonethreeThis session has seen 3 user turns."


@pytest.mark.proves("GA10")
def test_a_prompt_to_a_daemon_that_is_away_waits_for_it(own_house: House, workspace: Path) -> None:
    with Client("--agent", "demo", **own_house.env) as client:
        client.initialize()
        client.open(workspace)
        client.turn("say one")
        own_house.agentctl("down")
        # The client started it the first time, and does so again.
        assert len(client.result("session/list")["sessions"]) == 1
        own_house.agentctl("down")
        assert client.turn("say two")["result"]["stopReason"] == "end_turn"
        assert client.text() == "onetwo"
