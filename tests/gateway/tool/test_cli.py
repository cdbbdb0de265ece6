"""The tool at a terminal and in plain Python: `agentctl tool`, `agentctl tool serve`, `opencode(…)`."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentctl.cli import tool
from agentctl.core.errors import Unsupported
from agentctl.gateway.tool import opencode
from tests.gateway.tool.conftest import PATIENCE_S, Served, environment

Json = dict[str, Any]


def run(env: dict[str, str], *words: str, stdin: str = "") -> tuple[int, list[Json], str]:
    """Exit code, what was printed as JSON lines, and what was said beside it."""
    done = subprocess.run(
        ["agentctl", "tool", *words],
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def request(**fields: Any) -> str:
    return json.dumps(fields)


@pytest.mark.proves("TL1")
def test_a_call_prints_its_answer_and_its_exit_code_tells_success(served: Served) -> None:
    code, (answer,), said = run(served.env, request(action="list_sessions"))
    assert (code, answer["success"], said) == (0, True, "")
    code, (answer,), said = run(served.env, request(action="nope"))
    assert (code, answer["error"]["code"], said) == (1, "INVALID_PARAMETERS", "")
    code, (answer,), _ = run(served.env, "-", stdin=request(action="get_stats"))
    assert (code, answer["scope"]) == (0, "all")


@pytest.mark.parametrize("text", ["", "{", "[]", "5"])
def test_what_is_no_json_object_is_a_usage_error(served: Served, text: str) -> None:
    code, rows, said = run(served.env, "-", stdin=text)
    assert (code, rows) == (2, []) and said.startswith("error: ")


@pytest.mark.proves("TL4")
def test_follow_prints_the_events_of_the_turn_that_the_call_began(served: Served) -> None:
    made = request(
        action="create_session",
        project=served.project("follow"),
        message="say hello || run! true",
    )
    code, rows, _ = run(served.env, "--follow", made)
    answer, *events = rows
    assert code == 0 and answer["status"] == "created"
    kinds = [row["type"] for row in events]
    assert kinds == ["agent.message", "agent.command_run", "agent.complete"]
    assert {row["session_id"] for row in events} == {answer["session_id"]}
    sent = request(
        action="send_message",
        session_id=answer["session_id"],
        message="say two",
        wait_for_completion=True,
    )
    code, rows, _ = run(served.env, sent, "--follow")
    assert code == 0 and {"agent.message", "agent.complete"} <= {r.get("type") for r in rows}
    assert [row["response"] for row in rows if "success" in row] == ["two"]
    code, (answer,), _ = run(served.env, "-f", request(action="get_status", session_id="ses_none"))
    assert (code, answer["error"]["code"]) == (1, "SESSION_NOT_FOUND")


@pytest.mark.proves("TL11")
def test_a_first_call_starts_the_daemon_and_the_next_ones_remember() -> None:
    with tempfile.TemporaryDirectory(prefix="actl-", dir="/tmp") as folder:
        root = Path(folder)
        (root / "agentctl.toml").write_text("")
        env = environment(root)
        try:
            made = request(action="create_session", project=folder, agent="demo")
            code, (answer,), said = run(env, made)
            assert (code, answer["success"]) == (0, True), (answer, said)
            code, (status,), _ = run(
                env, request(action="get_status", session_id=answer["session_id"])
            )
            assert (code, status["status"]) == (0, "active")
            code, (gone,), _ = run(env, request(action="disconnect"))
            assert gone["disconnected"] == ["local"]
            code, (refused,), _ = run(env, request(action="list_sessions"))
            assert refused["error"]["code"] == "INSTANCE_NOT_CONNECTED"
        finally:
            subprocess.run(["agentctl", "down"], env=env, check=True, capture_output=True)


@contextmanager
def listening(env: dict[str, str], *words: str) -> Generator[tuple[str, str]]:
    """A server started at a terminal: its URL and its token; it ends on Ctrl-C without a word."""
    process = subprocess.Popen(
        ["agentctl", *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert line.startswith("agentctl tool listening on http://127.0.0.1:"), line
        url, token = line.split()[4], Path(line.split()[7].rstrip(")")).read_text().strip()
        yield url, token
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.proves("TL7")
def test_the_server_says_where_it_listens_and_ends_on_ctrl_c(served: Served) -> None:
    with listening(served.env, "tool", "serve", "--listen", "127.0.0.1:0") as (url, token):
        told = httpx.post(
            f"{url}/tool",
            json={"action": "list_sessions"},
            headers={"authorization": f"Bearer {token}"},
        )
        assert told.json()["success"] is True
        assert httpx.post(f"{url}/tool", json={}).status_code == 401
        code, rows, said = run(served.env, "serve", "--listen", url.removeprefix("http://"))
        assert (code, rows) == (1, []) and "in use" in said


@pytest.mark.proves("TL7")
def test_mcp_over_http_says_where_it_listens(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a token of my own choice")
    words = ("mcp", "--http", "127.0.0.1:0", "--token-file", str(file))
    with listening(served.env, *words) as (url, token):
        assert url.endswith("/mcp") and token == "a token of my own choice"
        assert httpx.post(url, json={}).status_code == 401


@pytest.mark.proves("TL6")
def test_a_mistake_in_the_file_keeps_servers_from_starting(served: Served) -> None:
    with tempfile.TemporaryDirectory(dir=served.root) as home:
        file = Path(home, ".openclaw", "config", "gateway.yaml")
        file.parent.mkdir(parents=True)
        file.write_text("tools: {opencode: {features: {streaming: 5}}}")
        env = {**served.env, "HOME": home}
        for words in (("serve", "--listen", "127.0.0.1:0"), (request(action="get_stats"),)):
            code, rows, said = run(env, *words)
            told = said or rows[0]["error"]["message"]
            assert code == 1 and "tools.opencode.features.streaming" in told


def test_nothing_listens_unless_it_is_told_to(served: Served) -> None:
    import psutil

    assert served.process is not None
    run(served.env, request(action="list_sessions"))
    daemon = psutil.Process(served.process.pid)
    assert [each for each in daemon.net_connections() if each.status == "LISTEN"] == []


@pytest.mark.proves("TL1")
def test_the_plain_function_needs_no_event_loop(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCTL_ADDRESS", served.address)
    monkeypatch.setenv("AGENTCTL_DATA_DIR", str(tmp_path))
    made = opencode(action="create_session", project=served.project("plain"), message="say hi")
    assert made["success"] is True
    status = opencode({"action": "get_status"}, session_id=made["session_id"])
    assert status["status"] == "active"
    answer = opencode(action="get_status", session_id="ses_none")
    assert answer["error"]["code"] == "SESSION_NOT_FOUND"

    async def inside() -> None:
        with pytest.raises(RuntimeError, match="OpenCodeTool"):
            opencode(action="get_stats")

    anyio.run(inside)


def test_importing_the_command_line_loads_no_gateway(served: Served) -> None:
    heavy = "starlette uvicorn mcp websockets httpx yaml"
    program = (
        "import sys; from agentctl.cli import app\n"
        f"print(*[each for each in '{heavy}'.split() if each in sys.modules])"
    )
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, env=served.env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_without_the_extra_a_server_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        return None

    monkeypatch.setattr("importlib.util.find_spec", nowhere)
    with pytest.raises(Unsupported, match=r"\.\[gateway\]"):
        tool.mcp()
