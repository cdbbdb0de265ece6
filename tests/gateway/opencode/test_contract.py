"""Each path of the API: its status and the shape of its answer, as clients of OpenCode expect them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from agentctl.gateway.opencode.app import ROUTES
from tests.gateway.opencode.live import Live

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
