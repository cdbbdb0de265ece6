"""Each path of the API: its status and the shape of its answer, as clients of OpenCode expect them."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentctl.gateway.opencode.app import ROUTES
from tests.gateway.opencode.live import Live, git, until

Json = dict[str, Any]
Check = Callable[[Any], bool]

NO_SESSION: Json = {"error": "Session not found"}
NO_MESSAGE: Json = {"error": "Message not found"}
MISSING = "ses_00000000000000000000000000"


@dataclass(frozen=True)
class Row:
    """A request and what it gives. `{session}`, `{message}` and `{lazy}` stand for real ones."""

    method: str
    path: str
    status: int
    check: Check | Any
    body: Any = None

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"

    def fits(self, answer: Any) -> bool:
        return bool(self.check(answer) if callable(self.check) else answer == self.check)


def has(*names: str, **values: Any) -> Check:
    """An object with these keys, and these values."""
    return lambda told: {*names} <= {*told} and values.items() <= told.items()


def rows_of(*names: str) -> Check:
    """A list that is not empty, of objects with these keys."""
    return lambda told: bool(told) and all({*names} <= {*each} for each in told)


SESSION = has(
    "id", "slug", "projectID", "directory", "path", "title", "version", "time", "tokens", "cost"
)
MESSAGE = has("info", "parts")
PROVIDERS = rows_of("id", "name", "source", "env", "options", "models")
PERMISSION_GONE: Json = {
    "_tag": "PermissionNotFoundError",
    "requestID": "per_missing",
    "message": "Permission request not found: per_missing",
}
QUESTION_GONE: Json = {
    "_tag": "QuestionNotFoundError",
    "requestID": "que_missing",
    "message": "Question request not found: que_missing",
}
MCP_GONE: Json = {
    "_tag": "McpServerNotFoundError",
    "name": "missing",
    "message": "MCP server not found: missing",
}
TEXT: Json = {"parts": [{"type": "text", "text": "say again"}]}

TABLE = [
    Row("GET", "/global/health", 200, has("version", healthy=True)),
    Row("GET", "/config", 200, has("model", "provider", "permission")),
    Row("GET", "/global/config", 200, has("model", "provider", "permission")),
    Row("PATCH", "/config", 200, has("model", "provider"), {}),
    Row("PATCH", "/config", 200, has("model", "provider"), {"config": {}}),
    Row("PATCH", "/global/config", 200, has("model", "provider"), {}),
    Row("PATCH", "/config", 400, has("error"), {"applications": {"search": {}}}),
    Row("PATCH", "/config", 400, has("error"), {"model": "nobody/x"}),
    Row(
        "PATCH", "/config", 400, has("error"), {"provider": {"demo": {"options": {"apiKey": "k"}}}}
    ),
    Row("POST", "/global/dispose", 200, True),
    Row("POST", "/instance/dispose", 200, True),
    Row(
        "GET",
        "/config/providers",
        200,
        lambda a: PROVIDERS(a["providers"]) and "demo" in a["default"],
    ),
    Row("GET", "/provider", 200, lambda a: PROVIDERS(a["all"]) and "demo" in a["connected"]),
    Row("GET", "/provider/auth", 200, lambda a: a["demo"][0]["type"] == "api_key"),
    Row("GET", "/path", 200, has("directory", "home", "worktree", state="", config="")),
    Row("GET", "/command", 200, lambda a: isinstance(a, list)),
    Row("GET", "/agent", 200, rows_of("name", "type", "modes", "mode", "model")),
    Row("GET", "/skill", 200, []),
    Row("GET", "/project", 200, rows_of("id", "name", "path", "directory")),
    Row("GET", "/project/current", 200, has("id", "name", "path", "directory", "worktree")),
    Row("GET", "/project/proj_x/directories", 200, rows_of("directory")),
    Row("GET", "/vcs", 200, has("sha", "branch", "dirty", "root")),
    Row("GET", "/lsp", 200, []),
    Row("GET", "/formatter", 200, []),
    Row("GET", "/find", 200, []),
    Row("GET", "/find/file", 200, []),
    Row("GET", "/find/symbol", 200, []),
    Row("POST", "/log", 200, True, {"service": "x", "level": "info", "message": "m"}),
    Row(
        "GET",
        "/experimental/console",
        200,
        {"consoleManagedProviders": [], "switchableOrgCount": 0},
    ),
    Row("GET", "/experimental/capabilities", 200, has("backgroundSubagents")),
    Row("GET", "/experimental/resource", 200, {}),
    Row("GET", "/experimental/worktree", 200, []),
    Row("GET", "/experimental/workspace", 200, []),
    Row("GET", "/experimental/workspace/status", 200, []),
    Row("POST", "/experimental/workspace/sync-list", 200, []),
    Row("GET", "/experimental/session", 200, lambda a: all(map(SESSION, a))),
    Row("GET", "/api/location", 200, has("directory", "project")),
    *(
        Row("GET", f"/api/{name}", 200, has("location", data=[]))
        for name in ("agent", "integration", "model", "provider", "reference", "command", "skill")
    ),
    Row("GET", "/session", 200, lambda a: bool(a) and all(map(SESSION, a))),
    Row("GET", "/session/status", 200, lambda a: all("type" in each for each in a.values())),
    Row("POST", "/session", 200, SESSION, {"title": "Fix tests", "workspaceID": "wrk_123"}),
    Row(
        "POST", "/session", 200, SESSION, {"model": {"providerID": "demo", "modelID": "demo-smart"}}
    ),
    Row("POST", "/session", 200, SESSION, {"providerID": "demo", "modelID": "demo-smart"}),
    Row("POST", "/session", 200, SESSION, {"model": "demo/demo-smart"}),
    Row("POST", "/session", 200, SESSION),
    Row("POST", "/session", 400, has("error"), {"agent": "nobody"}),
    Row("POST", "/session?directory=/no/such/directory", 400, has("error"), {}),
    Row("GET", "/session/{session}", 200, SESSION),
    Row("GET", "/session/{lazy}", 200, SESSION),
    Row("GET", f"/session/{MISSING}", 404, NO_SESSION),
    Row("PATCH", "/session/{session}", 200, has(title="Renamed"), {"title": "Renamed"}),
    Row("PATCH", "/session/{lazy}", 200, has(title="Renamed"), {"title": "Renamed"}),
    Row(
        "PATCH", "/session/{session}", 200, SESSION, {"providerID": "demo", "modelID": "demo-smart"}
    ),
    Row("PATCH", "/session/{session}", 409, has("error"), {"model": "gemini/x"}),
    Row("PATCH", f"/session/{MISSING}", 404, NO_SESSION, {"title": "x"}),
    Row("DELETE", f"/session/{MISSING}", 404, NO_SESSION),
    Row("DELETE", "/session/{lazy}", 200, True),
    Row("GET", "/session/{session}/children", 200, []),
    Row("GET", f"/session/{MISSING}/children", 404, NO_SESSION),
    Row("GET", "/session/{session}/message", 200, lambda a: len(a) == 4 and all(map(MESSAGE, a))),
    Row("GET", "/session/{lazy}/message", 200, []),
    Row("GET", "/session/{session}/message?limit=1", 200, lambda a: len(a) == 1),
    Row("GET", "/session/{session}/message?limit=x", 400, has("error")),
    Row("GET", "/session/{session}/message?before=msg_missing", 400, has("error")),
    Row("GET", f"/session/{MISSING}/message", 404, NO_SESSION),
    Row("GET", "/session/{session}/message/{message}", 200, MESSAGE),
    Row("GET", "/session/{session}/message/msg_missing", 404, NO_MESSAGE),
    Row("GET", f"/session/{MISSING}/message/msg_missing", 404, NO_SESSION),
    Row("POST", "/session/{session}/message", 200, MESSAGE, TEXT),
    Row("POST", "/session/{session}/message", 200, MESSAGE, {"parts": ["say a", "say b"]}),
    Row("POST", "/session/{session}/message", 200, MESSAGE, {"prompt": "say a"}),
    Row("POST", "/session/{session}/message", 200, MESSAGE, {"message": TEXT["parts"]}),
    Row("POST", "/session/{session}/message", 400, {"error": "No message content"}, {}),
    Row("POST", "/session/{session}/message", 400, {"error": "No message content"}, {"parts": []}),
    Row(
        "POST", "/session/{session}/message", 400, {"error": "No message content"}, {"prompt": " "}
    ),
    Row("POST", "/session/{session}/message", 400, has("error"), {**TEXT, "noReply": True}),
    Row("POST", "/session/{session}/message", 400, has("error"), {**TEXT, "messageID": "x"}),
    Row("POST", "/session/{session}/message", 409, has("error"), {**TEXT, "agent": "gemini"}),
    Row("POST", f"/session/{MISSING}/message", 404, NO_SESSION, TEXT),
    Row("POST", "/session/{session}/prompt_async", 204, None, TEXT),
    Row("POST", "/session/{session}/prompt_async", 400, {"error": "No message content"}, {}),
    Row("POST", f"/session/{MISSING}/prompt_async", 404, NO_SESSION, TEXT),
    Row("POST", "/session/{session}/abort", 200, True),
    Row("POST", "/session/{lazy}/abort", 200, True),
    Row("POST", f"/session/{MISSING}/abort", 404, NO_SESSION),
    Row("POST", "/session/{session}/fork", 200, has("parentID"), {}),
    Row("POST", "/session/{session}/fork", 400, has("error"), {"messageID": "{message}"}),
    Row("POST", "/session/{session}/fork", 404, NO_MESSAGE, {"messageID": "msg_missing"}),
    Row("POST", "/session/{lazy}/fork", 400, has("error"), {}),
    Row("POST", f"/session/{MISSING}/fork", 404, NO_SESSION, {}),
    Row("GET", "/session/{session}/todo", 200, rows_of("content", "status", "priority")),
    Row("GET", "/session/{lazy}/todo", 200, []),
    Row("GET", f"/session/{MISSING}/todo", 404, NO_SESSION),
    Row(
        "GET",
        "/session/{session}/diff",
        200,
        rows_of("file", "patch", "additions", "deletions", "status"),
    ),
    Row("GET", "/session/{lazy}/diff", 200, []),
    Row("GET", f"/session/{MISSING}/diff", 404, NO_SESSION),
    Row("DELETE", "/session/{session}/message/{message}", 400, has("error")),
    Row("DELETE", "/session/{session}/message/msg_missing", 404, NO_MESSAGE),
    Row("DELETE", f"/session/{MISSING}/message/msg_missing", 404, NO_SESSION),
    Row(
        "POST", "/session/{session}/command", 200, MESSAGE, {"command": "history", "arguments": ""}
    ),
    Row("POST", "/session/{session}/command", 200, SESSION, {"command": "ask"}),
    Row("POST", "/session/{session}/command", 400, has("error"), {"command": "nothing"}),
    Row("POST", "/session/{session}/command", 400, has("error"), {}),
    Row("POST", f"/session/{MISSING}/command", 404, NO_SESSION, {"command": "help"}),
    Row(
        "POST", "/session/{session}/shell", 400, {"error": "Shell not supported"}, {"command": "ls"}
    ),
    Row("POST", f"/session/{MISSING}/shell", 404, NO_SESSION, {"command": "ls"}),
    Row("POST", "/session/{session}/summarize", 400, has("error", reason="UNSUPPORTED"), {}),
    Row("POST", f"/session/{MISSING}/summarize", 404, NO_SESSION, {}),
    Row(
        "POST",
        "/session/{session}/revert",
        400,
        has("error", reason="UNSUPPORTED"),
        {"messageID": "{message}"},
    ),
    Row("POST", "/session/{session}/revert", 404, NO_MESSAGE, {"messageID": "msg_missing"}),
    Row("POST", "/session/{session}/unrevert", 400, has("error", reason="UNSUPPORTED")),
    Row(
        "POST",
        "/session/{session}/permissions/per_missing",
        404,
        PERMISSION_GONE,
        {"response": "once"},
    ),
    Row("GET", "/mcp", 200, lambda a: isinstance(a, dict)),
    Row("POST", "/mcp/missing/connect", 404, MCP_GONE),
    Row("POST", "/mcp/missing/disconnect", 404, MCP_GONE),
    Row("GET", "/permission", 200, lambda a: isinstance(a, list)),
    Row("POST", "/permission/per_missing/reply", 404, PERMISSION_GONE, {"reply": "once"}),
    Row(
        "POST", "/permission/per_missing/reply", 404, PERMISSION_GONE, {"body": {"reply": "always"}}
    ),
    Row(
        "POST",
        "/permission/per_missing/reply",
        400,
        {"error": "Invalid permission reply"},
        {"reply": "sometimes"},
    ),
    Row("POST", "/permission/per_missing/reply", 400, {"error": "Invalid permission reply"}, {}),
    Row("GET", "/question", 200, lambda a: isinstance(a, list)),
    Row("POST", "/question/que_missing/reply", 404, QUESTION_GONE, {"answers": [["Fast"]]}),
    Row("POST", "/question/que_missing/reply", 400, {"error": "Invalid question reply"}, {}),
    Row("POST", "/question/que_missing/reject", 404, QUESTION_GONE),
    *(
        Row(method, path, 404, {"error": "Not found"})
        for method, path in (
            ("POST", "/global/upgrade"),
            ("POST", "/provider/demo/oauth/authorize"),
            ("POST", "/provider/demo/oauth/callback"),
            ("POST", "/mcp/x/auth"),
            ("DELETE", "/mcp/x/auth"),
            ("GET", "/nowhere"),
        )
    ),
    Row("POST", "/mcp", 405, {"error": "Method not allowed"}, {"name": "x"}),
]
EVENT_PATHS = {"/event", "/global/event"}


@pytest.fixture(scope="module")
def known(server: Live) -> dict[str, str]:
    """A session in which something happened, one of its messages, and a file that it wrote."""
    session = server.session(permission=[{"permission": "*", "pattern": "*", "action": "allow"}])
    server.say(session, "say hello || write made.txt some words")
    server.say(session, "plan || say more")
    message = server.get(f"/session/{session}/message")[0]["info"]["id"]
    return {"session": session, "message": message}


@pytest.mark.proves("GO1")
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_each_path_answers_with_its_status_and_its_shape(
    server: Live, known: dict[str, str], row: Row
) -> None:
    names = dict(known)
    if "{lazy}" in row.path:
        names["lazy"] = server.post("/session", {})["id"]
    elif row.status == 200 and row.method == "POST" and row.path.startswith("/session/{session}"):
        names["session"] = server.session()
        server.say(names["session"], "say hi")
    body = row.body
    if isinstance(body, dict):
        body = {k: v.format(**names) if isinstance(v, str) else v for k, v in row.body.items()}
    answer = server.call(row.method, row.path.format(**names), body)
    assert answer.status_code == row.status, answer.text
    if row.status == 204:
        assert answer.content == b""
    else:
        assert answer.headers["content-type"] == "application/json"
        assert row.fits(answer.json()), answer.text


@pytest.mark.proves("GO1")
def test_every_route_of_the_server_stands_in_the_table() -> None:
    shapes = {(row.method, _shape(row.path)) for row in TABLE} | {("GET", p) for p in EVENT_PATHS}
    served = {(method, _shape(path)) for method, path, _ in ROUTES}
    assert served - shapes == set()


def _shape(path: str) -> str:
    """The path with a word for each thing that it names."""
    path = path.partition("?")[0]
    names = r"\{\w+\}|ses_\w+|per_missing|que_missing|msg_missing|proj_x|(?<=/mcp/)\w+"
    return re.sub(names, "*", path)


# What the shapes do not show


@pytest.mark.proves("GO1")
def test_pages_of_messages_lead_back_to_the_first(server: Live) -> None:
    session = server.session()
    for number in range(3):
        server.say(session, f"say {number}")
    whole = [row["info"]["id"] for row in server.get(f"/session/{session}/message")]
    assert whole == sorted(whole) and len(whole) == 6
    seen: list[str] = []
    path = f"{server.url}/session/{session}/message?limit=4"
    while True:
        answer = server.http.get(path)
        seen = [row["info"]["id"] for row in answer.json()] + seen
        if "x-next-cursor" not in answer.headers:
            break
        assert answer.headers["x-next-cursor"] == seen[0]
        link = re.fullmatch(r'<(.+)>; rel="next"', answer.headers["link"])
        assert link is not None and f"before={seen[0]}" in link[1]
        path = link[1]
    assert seen == whole


@pytest.mark.proves("GO1")
def test_the_state_of_a_session_is_busy_or_idle(server: Live) -> None:
    session = server.session()
    with server.events() as events:
        server.begin(session, "hang")
        events.until("session.status", sessionID=session, status={"type": "busy"})
        assert server.get("/session/status")[session] == {"type": "busy"}
        server.post(f"/session/{session}/abort")
        events.until("session.aborted", sessionID=session)
        seen = events.idle(session) if "session.idle" not in _kinds(events.seen) else events.seen
        assert server.get("/session/status")[session] == {"type": "idle"}
    errors = [e["properties"]["error"] for e in seen if e["type"] == "session.error"]
    assert [error["name"] for error in errors] == ["MessageAbortedError"]


def _kinds(events: list[Json]) -> list[str]:
    return [each["type"] for each in events]


@pytest.mark.proves("GO1")
def test_sessions_are_filtered_by_directory_title_and_parent(server: Live, tmp_path: Path) -> None:
    where = {"directory": str(tmp_path)}
    one = server.call(
        "POST", "/session", {"title": "Alpha one", "agent": "demo"}, params=where
    ).json()
    two = server.call("POST", "/session", {"title": "Beta two"}, params=where).json()
    assert one["directory"] == two["directory"] == str(tmp_path)
    server.say(one["id"], "say x")
    fork = server.post(f"/session/{one['id']}/fork", {})
    assert fork["parentID"] == one["id"]

    def found(**query: str) -> set[str]:
        return {each["id"] for each in server.get("/session", params={**where, **query})}

    assert found() == {one["id"], two["id"], fork["id"]}
    assert found(roots="true") == {one["id"], two["id"]}
    assert found(search="beta") == {two["id"]}
    assert len(found(limit="1")) == 1
    assert found(start="9999999999999") == set()
    assert one["id"] not in {each["id"] for each in server.get("/session")}
    everywhere = {each["id"] for each in server.get("/session", params={"scope": "project"})}
    assert {one["id"], fork["id"]} <= everywhere
    assert [each["id"] for each in server.get(f"/session/{one['id']}/children")] == [fork["id"]]
    by_header = server.get("/session", headers={"x-opencode-directory": str(tmp_path)})
    assert {each["id"] for each in by_header} == found()


@pytest.mark.proves("GO1")
def test_a_fork_shows_what_was_said_before_it(server: Live) -> None:
    session = server.session()
    server.say(session, "say once")
    fork = server.post(f"/session/{session}/fork", {})["id"]
    server.say(fork, "say twice")
    server.say(session, "say elsewhere")
    texts = [
        part["text"]
        for row in server.get(f"/session/{fork}/message")
        for part in row["parts"]
        if part["type"] == "text"
    ]
    assert texts == ["say once", "once", "say twice", "twice"]
    ids = [row["info"]["id"] for row in server.get(f"/session/{fork}/message")]
    assert ids == sorted(ids)
    assert not {*ids} & {row["info"]["id"] for row in server.get(f"/session/{session}/message")}
    one = server.get(f"/session/{fork}/message/{ids[0]}")
    assert one["info"]["sessionID"] == fork
    refused = server.call("DELETE", f"/session/{fork}/message/{ids[0]}")
    assert refused.status_code == 400 and "fork" in refused.json()["error"]


@pytest.mark.proves("GO1")
def test_a_deleted_session_is_gone_and_everyone_is_told(server: Live) -> None:
    session = server.session(title="Gone soon")
    server.say(session, "say x")
    with server.events() as events:
        assert server.call("DELETE", f"/session/{session}").json() is True
        told = events.until("session.deleted", sessionID=session)
    assert told["info"]["title"] == "Gone soon"
    assert server.call("GET", f"/session/{session}").status_code == 404


@pytest.mark.proves("GO1")
def test_the_repository_of_the_directory_is_shown(server: Live, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a").write_text("a\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    where = {"directory": str(tmp_path)}
    clean = server.get("/vcs", params=where)
    assert clean["branch"] == "trunk" and not clean["dirty"] and clean["root"] == str(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean["sha"])
    (tmp_path / "b").write_text("b\n")
    assert server.get("/vcs", params=where)["dirty"] is True
    below = tmp_path / "below"
    below.mkdir()
    assert server.get("/path", params={"directory": str(below)})["worktree"] == str(tmp_path)
    assert server.get("/project/current", params=where)["vcs"] == "git"


@pytest.mark.proves("GO1")
def test_a_provider_that_is_switched_off_disappears_and_comes_back(server: Live) -> None:
    def shown() -> set[str]:
        return {each["id"] for each in server.get("/config/providers")["providers"]}

    assert "qwen" in shown()
    off = server.call("PATCH", "/config", {"provider": {"qwen": {"enabled": False}}})
    assert off.status_code == 200 and "qwen" not in off.json()["provider"]
    assert "qwen" not in shown() and "qwen" not in server.get("/provider/auth")
    assert "qwen" not in {each["name"] for each in server.get("/agent")}
    server.call("PATCH", "/global/config", {"provider": {"qwen": {"enabled": True}}})
    assert "qwen" in shown()


@pytest.mark.proves("GO1")
def test_an_edited_registry_is_in_force_once_the_configuration_is_patched(server: Live) -> None:
    file = Path(server.served.env["HOME"], ".config", "agentctl", "agents.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    entry = '{"id": "mine", "cmd": ["agentctl-demo"], "display_name": "Mine"}'
    file.write_text(f'{{"version": 1, "agents": [{entry}]}}')
    until(lambda: "mine" in server.call("PATCH", "/config", {}).json()["provider"], "the new entry")
    file.unlink()
    until(lambda: "mine" not in server.call("PATCH", "/config", {}).json()["provider"], "its end")


@pytest.mark.proves("GO1")
def test_a_default_model_holds_for_the_sessions_that_name_none(server: Live) -> None:
    before = server.get("/config")["model"]
    told = server.call(
        "PATCH", "/config", {"model": {"providerID": "demo", "modelID": "demo-smart"}}
    )
    assert told.json()["model"] == "demo/demo-smart"
    assert server.get("/config/providers")["default"]["demo"] == "demo-smart"
    session = server.post("/session", {})["id"]
    assert server.say(session, "modelname")["parts"][0]["text"] == "demo-smart"
    server.call("PATCH", "/config", {"model": before})


@pytest.mark.proves("GO1")
def test_no_answer_holds_a_key(server: Live) -> None:
    file = Path(server.served.env["HOME"], ".config", "agentctl", "agents.json")
    secrets = {"url": "http://me:sk-secret@127.0.0.1:1/v1", "auth": {"password": "sk-secret"}}
    entry = {"id": "mine", "protocol": "opencode", "env": {"KEY": "sk-secret"}, **secrets}
    file.write_text(json.dumps({"version": 1, "agents": [entry]}))
    until(lambda: "mine" in server.call("PATCH", "/config", {}).json()["provider"], "the new entry")
    for path in ("/config", "/global/config", "/config/providers", "/provider", "/provider/auth"):
        text = server.call("GET", path).text
        assert '"mine"' in text and "sk-secret" not in text and '"apiKey"' not in text
    shown = server.get("/config")["provider"]["mine"]["options"]
    assert shown == {"baseURL": "http://127.0.0.1:1/v1"}
    file.write_text('{"version": 1, "agents": [{"id": "mine", "protocol": "nonsense"}]}')

    def problem() -> bool:
        answer = server.call("PATCH", "/config", {})
        return answer.status_code == 400 and str(file) in answer.json()["error"]

    until(problem, "what is wrong with the file")
    file.unlink()
    until(lambda: server.call("PATCH", "/config", {}).status_code == 200, "the good registry")


@pytest.mark.proves("GO1")
def test_dispose_tells_every_client_and_stops_no_agent(server: Live) -> None:
    session = server.session()
    with server.events() as events, server.events("/event") as own:
        server.begin(session, "slow 20 50")
        events.until("session.status", sessionID=session)
        assert server.post("/global/dispose") is True
        assert events.until("server.instance.disposed")["directory"] == str(server.workspace)
        own.until("server.instance.disposed")
        events.idle(session)
    last = server.get(f"/session/{session}/message")[-1]
    assert "error" not in last["info"] and last["info"]["time"]["completed"]
