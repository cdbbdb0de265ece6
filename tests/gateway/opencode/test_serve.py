"""`agentctl serve --mode opencode` as a program: what it prints, where it listens, how it ends."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import psutil
import pytest

from agentctl.cli import app, out
from tests.daemon.harness import READY_S, daemon, wait_until_gone

STOP_S = 20


def environment(root: Path, **more: str) -> dict[str, str]:
    config = root / "agentctl.toml"
    config.write_text("")
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    home = {"HOME": str(root), "TMPDIR": str(root), "DEMO_AGENT_HOME": str(root)}
    return {"PATH": path, "AGENTCTL_CONFIG": str(config), **home, **more}


@contextmanager
def served(root: Path, *arguments: str, **more: str) -> Generator[tuple[str, list[str], int]]:
    """(URL, printed lines, pid) of a server; it ends well and within its time."""
    argv = [sys.executable, "-m", "agentctl", "serve", "--data-dir", str(root / "data"), *arguments]
    with (root / "err").open("wb") as errors:
        process = subprocess.Popen(
            argv, env=environment(root, **more), cwd=root, stdout=subprocess.PIPE, stderr=errors
        )
    lines: list[str] = []
    try:
        assert process.stdout is not None
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and "listening on http" not in "".join(lines[-1:]):
            lines.append(process.stdout.readline().decode().rstrip("\n"))
            assert lines[-1], (root / "err").read_text()
        yield lines[-1].rpartition(" ")[2], lines, process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, (root / "err").read_text()
        assert "Traceback" not in (root / "err").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(STOP_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.anyio
@pytest.mark.proves("GO3")
async def test_the_server_says_where_it_is_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def whole() -> None:
        with served(tmp_path, "--mode", "opencode", "--port", "0") as (url, lines, _):
            assert lines[0].startswith("agentctl listening on unix:")
            assert lines[1].startswith("Warning: OPENCODE_SERVER_PASSWORD is not set")
            assert re.fullmatch(r"opencode server listening on http://127\.0\.0\.1:\d+", lines[2])
            with httpx.Client(base_url=url, timeout=30) as http:
                assert http.get("/path").json()["directory"] == str(tmp_path)
                own = http.post("/session", json={"agent": "demo"}).json()["id"]
                told = {"parts": ["hang"]}
                assert http.post(f"/session/{own}/prompt_async", json=told).status_code == 204
                with http.stream("GET", "/event") as events:
                    assert "event: message" in next(events.iter_lines())

    with anyio.fail_after(READY_S + STOP_S):
        await anyio.to_thread.run_sync(whole)
    await wait_until_gone(tmp_path)


@pytest.mark.proves("GO3")
def test_the_password_of_the_environment_is_asked_for_and_reaches_no_agent(tmp_path: Path) -> None:
    secret = {"OPENCODE_SERVER_PASSWORD": "very-secret", "OPENCODE_SERVER_USERNAME": "me"}
    with served(tmp_path, "--mode", "opencode", "--port", "0", **secret) as (url, lines, _):
        assert not any("Warning" in line for line in lines)
        assert httpx.get(f"{url}/global/health").status_code == 401
        with httpx.Client(base_url=url, auth=("me", "very-secret"), timeout=30) as http:
            own = http.post("/session", json={"agent": "demo"}).json()["id"]
            rules = [{"permission": "*", "pattern": "*", "action": "allow"}]
            http.patch(f"/session/{own}", json={"permission": rules})
            answer = http.post(f"/session/{own}/message", json={"prompt": "run env"})
            shown = answer.json()["parts"][0]["state"]["output"]
            assert "PATH=" in shown and "very-secret" not in shown


@pytest.mark.anyio
async def test_it_serves_beside_a_daemon_that_runs_and_leaves_it_running(tmp_path: Path) -> None:
    with anyio.fail_after(READY_S + STOP_S):
        async with daemon(tmp_path) as running, running.client() as client:

            def beside() -> None:
                with served(tmp_path, "--mode", "opencode", "--port", "0") as (url, lines, _):
                    assert not any(line.startswith("agentctl listening") for line in lines)
                    created = httpx.post(f"{url}/session", json={"agent": "demo"}, timeout=30)
                    made.append(created.json()["id"])

            made: list[str] = []
            await anyio.to_thread.run_sync(beside)
            assert (await client.sessions.get(made[0])).entry_id == "demo"


@pytest.mark.proves("GO3")
def test_the_plain_daemon_listens_for_no_http_and_loads_none_of_it(tmp_path: Path) -> None:
    program = (
        "import sys, agentctl.daemon, agentctl.cli.app, agentctl.cli.serve\n"
        "heavy = {'starlette', 'uvicorn', 'h11', 'agentctl.gateway.opencode.app'}\n"
        "assert not heavy & {*sys.modules}, heavy & {*sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=READY_S)
    argv = [sys.executable, "-m", "agentctl", "serve", "--data-dir", str(tmp_path / "data")]
    env = environment(tmp_path)
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as plain:
        assert plain.stdout is not None
        assert plain.stdout.readline().startswith(b"agentctl listening on unix:")
        assert psutil.Process(plain.pid).net_connections("inet") == []
        plain.send_signal(signal.SIGTERM)
        assert plain.wait(STOP_S) == 0


WRONG = [
    (("--port", "4096"), "--port goes with --mode opencode"),
    (("--mode", "acp", "--password", "x"), "--password goes with --mode opencode"),
    (("--mode", "opencode", "--hostname", "0.0.0.0"), "set a password"),
    (("--mode", "opencode", "--cors", "*"), "set a password"),
]


@pytest.mark.proves("GO3")
@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_a_start_that_would_stand_open_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.delenv("OPENCODE_SERVER_PASSWORD", raising=False)
    for stream in (out.out, out.err):
        stream.cache_clear()
    assert app.run(["serve", "--data-dir", str(tmp_path), *arguments]) != 0
    assert words in capsys.readouterr().err
