"""What the fake server remembers: sessions, messages and parts, and how a change of them is told."""

import itertools
import time
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.models import script
from tests.fakes.opencode.bus import Bus, Json

MODELS = ("fast", "slow")


def now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(eq=False)
class Session:
    """`queue`: user messages that have no answer yet. `rules`: what was always allowed."""

    info: Json
    messages: list[Json] = field(default_factory=list[Json])
    queue: list[Json] = field(default_factory=list[Json])
    todos: list[Json] = field(default_factory=list[Json])
    task: Any = None
    status: Json = field(default_factory=lambda: {"type": "idle"})

    @property
    def id(self) -> str:
        return str(self.info["id"])

    @property
    def directory(self) -> str:
        return str(self.info["directory"])


class Store:
    """All sessions of one server."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.sessions: dict[str, Session] = {}
        self._ids = itertools.count(1)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids):06d}"

    def create(self, directory: str, body: Json, parent: str = "") -> Session:
        info: Json = {
            "id": self.new_id("ses"),
            "directory": directory,
            "title": body.get("title", "New session"),
            "version": "1.18.33",
            "time": {"created": now(), "updated": now()},
        }
        if parent:
            info["parentID"] = parent
        for name in ("model", "permission"):
            if name in body:
                info[name] = body[name]
        session = self.sessions[info["id"]] = Session(info)
        self.emit(session, "session.created", {"info": info})
        return session

    def emit(self, session: Session, kind: str, properties: Json) -> None:
        self.bus.emit(session.directory, kind, {"sessionID": session.id, **properties})

    def status(self, session: Session, status: Json) -> None:
        session.status = status
        self.emit(session, "session.status", {"status": status})
        if status["type"] == "idle":
            self.emit(session, "session.idle", {})

    # Messages

    def add(self, session: Session, info: Json, parts: list[Json]) -> Json:
        row: Json = {"info": info, "parts": []}
        session.messages.append(row)
        self.tell(session, row)
        for part in parts:
            self.part(session, row, part)
        return row

    def tell(self, session: Session, row: Json) -> None:
        self.emit(session, "message.updated", {"info": dict(row["info"])})

    def part(self, session: Session, row: Json, part: Json, delta: str = "") -> Json:
        """Adds a part, or tells a known one again."""
        if part.setdefault("id", self.new_id("prt")) not in [p["id"] for p in row["parts"]]:
            row["parts"].append(part)
        part |= {"sessionID": session.id, "messageID": row["info"]["id"]}
        told: Json = {"part": dict(part), "time": now()}
        if delta:
            told["delta"] = delta
        self.emit(session, "message.part.updated", told)
        return part

    def user(self, session: Session, body: Json) -> Json:
        """Stores a prompt; one whose id is known is not run again."""
        own = body.get("messageID") or self.new_id("msg")
        model: Json = body.get("model") or session.info.get("model") or {}
        name = model.get("modelID") or model.get("id") or MODELS[0]
        info: Json = {
            "id": own,
            "sessionID": session.id,
            "role": "user",
            "time": {"created": now()},
            "agent": body.get("agent", "build"),
            "model": {"providerID": model.get("providerID", "fake"), "modelID": name},
        }
        known = any(row["info"]["id"] == own for row in session.messages)
        row = self.add(session, info, [dict(part) for part in body.get("parts", [])])
        if not known and body.get("noReply") is not True:
            session.queue.append(row)
        return row

    def assistant(self, session: Session, user: Json) -> Json:
        info: Json = {
            "id": self.new_id("msg"),
            "sessionID": session.id,
            "role": "assistant",
            "parentID": user["info"]["id"],
            "time": {"created": now()},
            "path": {"cwd": session.directory, "root": session.directory},
            "mode": user["info"]["agent"],
            "agent": user["info"]["agent"],
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            **user["info"]["model"],
        }
        return self.add(session, info, [])

    def fork(self, source: Session, before: str) -> Session:
        """Copies the messages, with new ids, and tells them all."""
        fork = self.create(source.directory, {"title": f"{source.info['title']} (fork #1)"})
        ids: dict[str, str] = {}
        for row in source.messages:
            if row["info"]["id"] == before:
                break
            ids[row["info"]["id"]] = own = self.new_id("msg")
            info = {**row["info"], "id": own, "sessionID": fork.id}
            if "parentID" in info:
                info["parentID"] = ids.get(info["parentID"], info["parentID"])
            parts = [{k: v for k, v in part.items() if k != "id"} for part in row["parts"]]
            self.add(fork, info, parts)
        return fork


def conversation(session: Session) -> list[script.Turn]:
    """What the scripted model is shown."""
    turns: list[script.Turn] = []
    for row in session.messages:
        if row["info"]["role"] == "user":
            said = [part for part in row["parts"] if part["type"] in ("text", "file")]
            text = "\n".join(part.get("text", "") for part in said)
            kinds = (_kind(part) for part in said)
            turns.append(script.UserTurn(text, tuple(kinds)))
            continue
        turns.append(script.ModelTurn())
        for part in row["parts"]:
            state = part.get("state", {})
            if part["type"] == "tool" and state["status"] in ("completed", "error"):
                turns.append(script.ToolResult(state.get("output") or state.get("error", "")))
    return turns


def _kind(part: Json) -> str:
    if part["type"] == "text":
        return "text"
    return str(part.get("mime", "")).partition("/")[0] or "file"
