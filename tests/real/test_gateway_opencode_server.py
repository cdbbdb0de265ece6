"""Beside the real OpenCode: the same questions give answers of the same shape, and what it can we pass on."""

import re
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest

from agentctl.gateway.opencode.serving import Options, serving
from tests.fakes.models.endpoint import in_thread
from tests.fakes.models.openai import OpenAiEndpoint
from tests.gateway.opencode.live import Live, live
from tests.real import opencode
from tests.real.agents import AGENTS
from tests.real.harness import START_TIMEOUT_S, TURN_TIMEOUT_S, make_home

pytestmark = pytest.mark.real

Json = dict[str, Any]
BOOTSTRAP = [
    "/global/health",
    "/path",
    "/project/current",
    "/config/providers",
    "/experimental/capabilities",
    "/experimental/console",
    "/agent",
    "/config",
    "/provider",
    "/session",
    "/command",
    "/lsp",
    "/mcp",
    "/experimental/resource",
    "/formatter",
    "/session/status",
    "/provider/auth",
    "/vcs",
    "/experimental/workspace",
    "/experimental/workspace/status",
    "/api/location",
    "/api/agent",
    "/api/reference",
]
# Keys of one server's own settings and content, which no client needs: names of models and of rules.
OWN = {
    "/config": {
        "command",
        "plugin",
        "enabled_providers",
        "small_model",
        "username",
        "mode",
        "agent",
        "models",
        "npm",
    },
    "/session": {"variant", "summary"},
    "/agent": {"prompt", "temperature", "topP", "color", "hidden", "steps", "variant"},
    "/command": {"subtask", "model"},
}
OPEN = frozenset(
    {"models", "options", "variants", "provider", "default", "metadata", "input", "cost"}
)
"""Objects whose keys are names that somebody chose."""


def missing(real: Any, ours: Any, where: str = "") -> Iterator[str]:
    """What the real answer has and ours lacks, or has in another type."""
    if type(real) is not type(ours) and not (_number(real) and _number(ours)):
        yield f"{where}: {type(real).__name__} became {type(ours).__name__}"
    elif isinstance(real, dict):
        told, mine = cast(Json, real), cast(Json, ours)
        if where.rpartition(".")[2] in OPEN:
            told, mine = (_first(told), _first(mine)) if mine else ({}, {})
        for key, value in told.items():
            if key not in mine:
                yield f"{where}.{key}"
            else:
                yield from missing(value, mine[key], f"{where}.{key}")
    elif isinstance(real, list) and real and ours:
        yield from missing(real[0], ours[0], f"{where}[]")


def _first(told: Json) -> Json:
    return {"*": next(iter(told.values()))} if told else {}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@contextmanager
def real_server(root: Path) -> Generator[httpx.Client]:
    """The real server with its scripted model."""
    home = make_home(root, opencode.OPENCODE)
    opencode.make_repository(home.workspace)
    with in_thread(OpenAiEndpoint()) as model:
        env = opencode.environment(home, model)
        process = subprocess.Popen(
            opencode.command(), env=env, cwd=home.workspace, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            while (found := re.search(r"http://\S+", line)) is None:
                line = process.stdout.readline().decode()
                assert line, "the real server ended"
            with httpx.Client(base_url=found[0], timeout=START_TIMEOUT_S) as http:
                yield http
        finally:
            process.terminate()
            process.wait(TURN_TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "ours") as running:
        opencode.make_repository(running.workspace)
        yield running


@pytest.mark.proves("GO8")
def test_every_answer_at_the_clients_start_has_what_the_real_server_tells(
    tmp_path: Path, ours: Live
) -> None:
    mine = ours.session(title="Shape")
    ours.say(mine, "say hi || run! echo hi")
    with real_server(tmp_path / "real") as http:
        session = http.post("/session", json={"title": "Shape"}).json()
        parts = [{"type": "text", "text": "TOOL echo hi || SAYTEXT hi"}]
        answer = http.post(f"/session/{session['id']}/message", json={"parts": parts}).json()
        lacks = {path: sorted(_lacks(http, ours, path)) for path in BOOTSTRAP}
        assert {path: found for path, found in lacks.items() if found} == {}
        told = {
            p["type"]: p for p in http.get(f"/session/{session['id']}/message").json()[1]["parts"]
        }
    rows = ours.get(f"/session/{mine}/message")
    assert list(missing(session, ours.get(f"/session/{mine}"))) == []
    assert set(missing(answer["info"], rows[1]["info"], "info")) <= {"info.tokens.total"}
    shown = {part["type"]: part for part in rows[1]["parts"]}
    for kind in ("text", "tool", "step-finish"):
        lacking = set(missing(told[kind], shown[kind], kind)) if kind in told else set[str]()
        own = {
            "metadata.truncated",
            "metadata.description",
            "snapshot",
            "tokens.total",
            ".metadata",
        }
        assert {each for each in lacking if not any(o in each for o in own)} == set()


def _lacks(http: httpx.Client, ours: Live, path: str) -> set[str]:
    real = http.get(path).json()
    found = missing(real, ours.get(path))
    own = OWN.get(path, set[str]())
    return {each for each in found if each.rpartition(".")[2] not in own}


@pytest.mark.anyio
@pytest.mark.proves("GO1")
async def test_what_the_agent_can_take_back_is_taken_back_over_http(tmp_path: Path) -> None:
    """OpenCode behind agentctl as OpenCode: revert, unrevert, delete, summarize, fork."""
    async with AGENTS["opencode"].serving(tmp_path / "agent") as served:
        workspace = served.home.workspace
        await anyio.to_thread.run_sync(opencode.make_repository, workspace)
        options = Options(port=0, directory=workspace)
        async with (
            serving(served.client, options) as url,
            httpx.AsyncClient(base_url=url, timeout=START_TIMEOUT_S) as http,
        ):

            async def post(path: str, body: Any = None) -> Any:
                answer = await http.post(path, json=body or {})
                assert answer.status_code == 200, answer.text
                return answer.json()

            rules = [{"permission": "*", "pattern": "*", "action": "allow"}]
            made = await post("/session", {"agent": "opencode", "permission": rules})
            session = made["id"]
            base = f"/session/{session}"

            async def texts() -> list[str]:
                rows = (await http.get(f"{base}/message")).json()
                return [p["text"] for r in rows for p in r["parts"] if p["type"] == "text"]

            await post(f"{base}/message", {"parts": ["SAYTEXT one"]})
            await post(f"{base}/message", {"parts": ["WRITE made.txt words || SAYTEXT two"]})
            assert (workspace / "made.txt").exists()
            diff = (await http.get(f"{base}/diff")).json()
            assert [each["file"].rpartition("/")[2] for each in diff] == ["made.txt"]
            second = (await http.get(f"{base}/message")).json()[2]["info"]["id"]

            shown = await post(f"{base}/revert", {"messageID": second})
            assert shown["revert"]["messageID"] == second
            assert not (workspace / "made.txt").exists()
            assert "revert" not in await post(f"{base}/unrevert")
            assert (workspace / "made.txt").exists()

            gone = await http.delete(f"{base}/message/{second}")
            assert (gone.status_code, gone.json()) == (200, True), gone.text
            assert not (workspace / "made.txt").exists()
            await post(f"{base}/message", {"parts": ["HISTORY"]})
            assert await texts() == ["SAYTEXT one", "one", "HISTORY", "HISTORY 2"]

            fork = await post(f"{base}/fork")
            copied = (await http.get(f"/session/{fork['id']}/message")).json()
            assert [row["info"]["role"] for row in copied] == ["user", "assistant"] * 2
            assert await post(f"{base}/summarize") is True
