"""The routes of the fake server: the part of the real one's that a client uses, and what they refuse."""

import asyncio
import base64
from typing import Any

from tests.fakes.models.http import Reply, Request
from tests.fakes.opencode.bus import Bus, Json
from tests.fakes.opencode.store import MODELS, Session, Store
from tests.fakes.opencode.tools import Tools
from tests.fakes.opencode.turn import Turns

SLOW_S = 1.0
PAGE = b"<!doctype html><title>app</title>"
AGENTS: list[Json] = [{"name": n, "mode": "primary", "permission": []} for n in ("build", "plan")]
BASH: Json = {"type": "object", "properties": {"command": {"type": "string"}}}
COMMANDS: list[Json] = [{"name": "init", "template": "", "hints": ["$ARGUMENTS"]}]


class App:
    """Answers one request after the other; state is in the store."""

    def __init__(self, faults: set[str], rules: Json, password: str) -> None:
        self.bus = Bus(faults)
        self.store = Store(self.bus)
        self.tools = Tools(self.store, rules)
        self.turns = Turns(self.store, self.tools, faults)
        self.seen: list[Json] = []
        self._faults = faults
        self._rules = rules
        self._basic = "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode()
        self._open = not password
        self._mcp: Json = {}

    async def __call__(self, request: Request, reply: Reply) -> None:
        if request.path == "/_seen":
            return await reply.send(200, self.seen)
        if "html" in self._faults:
            return await self._page(reply)
        if "locked" in self._faults or not self._may(request):
            return await reply.send(401, {"error": "Unauthorized"})
        self.seen.append({"method": request.method, "path": request.path, "query": request.query})
        path = [part for part in request.path.split("/") if part]
        body: Json = request.json() if request.body else {}
        if {"old", "sync_only"} & self._faults and self._lacks(path):
            return await reply.send(404, {"error": "no such route"})
        status, answer = await self._route(request, path, body, reply)
        if status:
            await reply.send(status, answer if answer is not None else b"")

    def _may(self, request: Request) -> bool:
        token = self._basic.removeprefix("Basic ")
        given = request.headers.get("authorization")
        return self._open or given == self._basic or request.query.get("auth_token") == token

    def _lacks(self, path: list[str]) -> bool:
        match path:
            case ["doc"] | ["global", "event" | "health"] | ["question", *_] | ["experimental", *_]:
                return True
            case ["permission", _, "reply"]:
                return "old" in self._faults
            case ["event"] | ["session", _, "prompt_async"]:
                return "sync_only" in self._faults
            case _:
                return False

    async def _page(self, reply: Reply) -> None:
        await reply.start(200, "text/html")
        await reply.write(PAGE)
        await reply.end()

    async def _route(
        self, request: Request, path: list[str], body: Json, reply: Reply
    ) -> tuple[int, Any]:
        directory = request.query.get("directory", "/")
        match request.method, path:
            case "GET", ["event"]:
                await self.bus.serve(reply, directory)
                return 0, None
            case "GET", ["global", "event"]:
                await self.bus.serve(reply, None)
                return 0, None
            case "GET", ["session", "status"]:
                return 200, self._statuses(directory)
            case _, ["session", own, *rest] if own in self.store.sessions:
                session = self.store.sessions[own]
                return await self._session(request.method, session, rest, body)
            case "POST", ["session", _, "prompt_async"] if "parts" not in body:
                return 400, {"name": "BadRequest", "data": {"message": "Missing key: parts"}}
            case _, ["session", own, *_]:
                words = f"Session not found: {own}"
                return 404, {"name": "NotFoundError", "data": {"message": words}}
            case "POST", ["session"]:
                return 200, self.store.create(directory, body).info
            case "GET", ["session"] | ["experimental", "session"]:
                where = request.query.get("directory")
                rows = [s for s in self.store.sessions.values() if where in (None, s.directory)]
                return 200, [session.info for session in rows]
            case "POST", ["experimental", "control-plane", "move-session"] if (
                "old" not in self._faults and body["sessionID"] in self.store.sessions
            ):
                moved = self.store.sessions[body["sessionID"]]
                moved.info["directory"] = body["destination"]["directory"]
                return 200, True
            case _, ["permission" | "question", *_]:
                return self._asks(request.method, path, body)
            case _:
                return await self._others(request.method, path, body, reply)

    async def _others(
        self, method: str, path: list[str], body: Json, reply: Reply
    ) -> tuple[int, Any]:
        match method, path:
            case "GET", ["global", "health"]:
                return 200, {"healthy": True, "version": "1.18.33"}
            case "POST", ["global", "dispose"]:
                for session in self.store.sessions.values():
                    await self.turns.abort(session)
                return 200, True
            case "GET", ["config", "providers"]:
                models: Json = {
                    name: {
                        "id": name,
                        "name": name.title(),
                        "limit": {"context": 100_000, "output": 8_000},
                        "capabilities": {"input": {"image": True}},
                    }
                    for name in MODELS
                }
                options = {"apiKey": "a-secret-key"}
                provider: Json = {"id": "fake", "models": models, "options": options}
                return 200, {"providers": [provider], "default": {"fake": MODELS[0]}}
            case "GET", ["experimental", "tool"]:
                return 200, [{"id": "bash", "description": "Runs", "parameters": BASH}]
            case "GET", ["experimental", "tool", "ids"]:
                return 200, ["bash", "read"]
            case "GET", ["agent"]:
                return 200, AGENTS
            case "GET", ["command"]:
                return 200, COMMANDS
            case "GET", ["config"]:
                return 200, {"model": "fake/fast", "permission": self._rules}
            case "GET", ["mcp"]:
                return 200, self._mcp
            case "POST", ["mcp"]:
                self._mcp[body["name"]] = {"status": "connected"}
                return 200, self._mcp
            case _:
                # As the real one: what it does not know is its web application.
                await self._page(reply)
                return 0, None

    def _statuses(self, directory: str) -> Json:
        return {
            session.id: session.status
            for session in self.store.sessions.values()
            if session.directory == directory and session.status["type"] != "idle"
        }

    async def _session(
        self, method: str, session: Session, rest: list[str], body: Json
    ) -> tuple[int, Any]:
        match method, rest:
            case "GET", []:
                return 200, session.info
            case "DELETE", []:
                del self.store.sessions[session.id]
                return 200, True
            case "GET", ["message"]:
                return 200, session.messages
            case "GET", ["children"]:
                rows = self.store.sessions.values()
                return 200, [s.info for s in rows if s.info.get("parentID") == session.id]
            case "GET", ["todo"]:
                return 200, [] if "old" in self._faults else session.todos
            case "POST", ["prompt_async"]:
                return await self._prompt(session, body)
            case "POST", ["message" | "command" | "summarize" as how]:
                return await self._sync(session, how, body)
            case "POST", ["abort"]:
                await self.turns.abort(session)
                return 200, True
            case "POST", ["fork"]:
                return 200, self.store.fork(session, body.get("messageID", "")).info
            case "POST", ["permissions", own]:
                taken = self.tools.reply(own, {"reply": body["response"]})
                return (200, True) if taken else (404, {"error": "no such request"})
            case "POST", ["revert" | "unrevert"]:
                return 200, session.info
            case _:
                return 404, {"error": "no such route"}

    async def _prompt(self, session: Session, body: Json) -> tuple[int, Any]:
        if "slow_accept" in self._faults:
            await asyncio.sleep(SLOW_S)
        if "loses_prompts" in self._faults:
            return 204, None
        agent = body.get("agent", "build")
        if agent not in [each["name"] for each in AGENTS]:
            error = {"name": "UnknownError", "data": {"message": f"Agent not found: {agent}"}}
            self.store.emit(session, "session.error", {"error": error})
            return 204, None
        self.store.user(session, body)
        self.turns.start(session)
        return 204, None

    async def _sync(self, session: Session, how: str, body: Json) -> tuple[int, Any]:
        if how == "command":
            body = {**body, "parts": [{"type": "text", "text": body.get("arguments", "")}]}
            body.pop("model", None)
        elif how == "summarize":
            body = {"parts": [{"type": "text", "text": "SAYTEXT summary"}]}
        row = self.store.user(session, body)
        if body.get("noReply") is True:
            return 200, row
        self.turns.start(session)
        await asyncio.gather(session.task, return_exceptions=True)
        if how == "summarize":
            self.store.emit(session, "session.compacted", {})
            return 200, True
        return 200, session.messages[-1]

    def _asks(self, method: str, path: list[str], body: Json) -> tuple[int, Any]:
        match method, path:
            case "GET", ["permission"]:
                return 200, [asked for _, asked, _ in self.tools.permissions.values()]
            case "GET", ["question"]:
                return 200, [asked for _, asked, _ in self.tools.questions.values()]
            case "POST", ["permission", own, "reply"]:
                taken = self.tools.reply(own, body)
            case "POST", ["question", own, "reply" | "reject" as how]:
                taken = self.tools.answer(own, body if how == "reply" else {})
            case _:
                return 404, {"error": "no such route"}
        gone = {"_tag": "PermissionNotFoundError", "message": "not found"}
        return (200, True) if taken else (404, gone)
