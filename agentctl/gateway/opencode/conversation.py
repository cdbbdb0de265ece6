"""Owns a session as OpenCode shows it: its turns, its plan, what it has asked, whether it is busy. Pure.

It is fed with every event of the session in journal order; one that it has had is passed over.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from agentctl.gateway.opencode import asks, ids
from agentctl.gateway.opencode.message import Facts, Said
from agentctl.gateway.opencode.turn import Turn
from agentctl.gateway.opencode.words import Json

INFO = "info"
"""Stands in a session event where the session's own record is to be filled in."""

_SHOWN = frozenset({"created", "forked", "closed", "updated", "resumed", "interrupted"})


class Conversation:
    """One session.

    Args:
        facts: What its messages tell of it.
        names: The message ids that clients chose, by run.
    """

    def __init__(self, facts: Facts, names: Mapping[str, str]) -> None:
        self.facts = facts
        self.turns: dict[str, Turn] = {}
        self.open: set[str] = set()
        self.todos: list[Json] = []
        self.options: Json = {}
        self.copied: list[Json] = []
        self.permissions: dict[str, Json] = {}
        self.questions: dict[str, Json] = {}
        self.forms: dict[str, asks.Form] = {}
        self.models: dict[str, str] = {}
        self.seq = 0
        self.whole = False
        self.announced = False
        self.held = False
        self.retry: Json | None = None
        self._names = names
        self._offered: dict[str, Json] = {}
        self._busy = False
        self._started: set[str] = set()
        self._touched: dict[str, Turn] = {}

    @property
    def status(self) -> Json:
        if self.retry is not None:
            return self.retry
        waits = self.held and not self._started & self.open
        return {"type": "busy" if self.open and not waits else "idle"}

    def under_way(self, runs: Iterable[str]) -> None:
        """Runs that began before this was made."""
        self.open |= {*runs}

    def turn_of(self, message_id: str) -> Turn | None:
        return next((t for t in self.turns.values() if t.message(message_id)), None)

    def messages(self, hidden: Iterable[str] = ()) -> Iterator[Json]:
        """All messages in their order, those of `hidden` runs left out."""
        yield from self.copied
        gone = frozenset(hidden)
        for turn in self.turns.values():
            if turn.run_id not in gone:
                for message in turn.messages:
                    yield message.view(self.facts)

    def diffs(self) -> list[Json]:
        """What changed in the files, by all turns together."""
        out: dict[str, Json] = {}
        for turn in self.turns.values():
            for path, diff in turn.diffs.items():
                known = out.get(path)
                if known is None:
                    out[path] = dict(diff)
                    continue
                known["patch"] = "\n".join(p for p in (known["patch"], diff["patch"]) if p)
                known["additions"] += diff["additions"]
                known["deletions"] += diff["deletions"]
                if diff["status"] != "modified":
                    known["status"] = diff["status"]
        return [*out.values()]

    def feed(self, event: Json) -> list[Said]:
        seq = int(event.get("seq") or 0)
        if seq and seq <= self.seq:
            return []
        self.seq = max(self.seq, seq)
        return self._apply(event)

    def _apply(self, event: Json) -> list[Said]:
        data: Json = event["data"]
        match event["type"]:
            case "session_status":
                return self._session(data)
            case "session_options":
                self.options |= data
                if data.get("model"):
                    self.facts.model = str(data["model"])
                if data.get("mode"):
                    self.facts.mode = str(data["mode"])
                return []
            case "plan" if not event.get("parent_tool_call_id"):
                return self._plan(data)
            case "permission_request" | "permission_resolved":
                return self._ahead(event) + self._permission(event["type"], data, event)
            case "question_request" | "question_resolved":
                return self._ahead(event) + self._question(event["type"], data, event)
            case "rate_limit":
                return self._ahead(event) + self._limited(data, int(event["ts"]))
            case "error":
                return self._ahead(event) + self._error(data)
            case "git" if data.get("branch"):
                return [Said("vcs.branch.updated", {"branch": data["branch"]})]
            case _:
                return self._of_turn(event)

    def recall(self, event: Json) -> None:
        """An event from before this was made; nobody is told."""
        self._apply(event)

    def flush(self) -> list[Said]:
        out = [said for turn in self._touched.values() for said in turn.flush()]
        self._touched.clear()
        return out

    def state(self) -> Iterator[Said]:
        """What a client must know that was away: the last turn, what waits, whether it works."""
        if self.turns:
            last = self.turns[max(self.turns)]
            yield from last.state()
        for asked in self.permissions.values():
            yield Said("permission.asked", asked)
        for asked in self.questions.values():
            yield Said("question.asked", asked)
        yield self._status()

    # Turns

    def _of_turn(self, event: Json) -> list[Said]:
        run_id = str(event.get("run_id") or event.get("after_run_id") or "")
        if not run_id:
            return []
        turn = self.turns.get(run_id)
        if turn is None:
            model = self.models.get(run_id, "")
            turn = Turn(run_id, self.facts, self._names.get(run_id, ""), model)
            self.turns[run_id] = turn
        self._touched[run_id] = turn
        out: list[Said] = []
        kind = event["type"]
        if kind == "run_status" and not turn.done:
            self.open.add(run_id)
            if event["data"].get("status") == "started":
                self._started.add(run_id)
                self.held = False
        out += turn.feed(event)
        if run_id in self.open and kind != "complete" and not self._busy and not self.held:
            self._busy = True
            out.append(self._status())
        elif self.retry is not None and kind != "complete" and event.get("run_id"):
            self.retry = None
            out.append(self._status())
        if kind == "complete":
            out += self._ended(run_id)
        return out

    def _ended(self, run_id: str) -> list[Said]:
        self.open.discard(run_id)
        self._started.discard(run_id)
        self.retry = None
        return [self._updated(), *self._rest()]

    def _rest(self) -> list[Said]:
        """Nothing runs and nothing will by itself."""
        if self.status["type"] != "idle" or not self._busy:
            return []
        self._busy = False
        return [self._status(), Said("session.idle", {"sessionID": self.facts.id})]

    def _ahead(self, event: Json) -> list[Said]:
        """What the turn has collected goes before what is told at once."""
        turn = self.turns.get(str(event.get("run_id") or ""))
        return turn.flush() if turn is not None else []

    def _status(self) -> Said:
        return Said("session.status", {"sessionID": self.facts.id, "status": self.status})

    def _updated(self, kind: str = "session.updated") -> Said:
        return Said(kind, {"sessionID": self.facts.id, INFO: None})

    def _session(self, data: Json) -> list[Said]:
        if data.get("model"):
            self.facts.model = str(data["model"])
        if data.get("mode"):
            self.facts.mode = str(data["mode"])
        out: list[Said] = []
        if data.get("queue_held") is not None or data.get("status") == "interrupted":
            # Prompts that wait go on when a client prompts or resumes: until then it is at rest.
            self.held = data.get("queue_held") is not False
            out = self._rest()
        return out + self._changed(str(data.get("status") or ""), str(data.get("reason") or ""))

    def _changed(self, status: str, reason: str) -> list[Said]:
        match status:
            case "starting" if not self.announced:
                self.announced = True
                return [self._updated("session.created"), self._updated()]
            case "compacted":
                told = {"sessionID": self.facts.id}
                return [Said("session.compacted", told), self._updated()]
            case "failed" if reason:
                error = {"name": "UnknownError", "data": {"message": reason}}
                told = {"sessionID": self.facts.id, "error": error}
                return [Said("session.error", told), self._updated()]
            case _ if status in _SHOWN:
                return [self._updated()]
            case _:
                return []

    def _plan(self, data: Json) -> list[Said]:
        entries: list[Json] = data.get("entries") or []
        self.todos = [
            {
                "id": str(number),
                "content": str(each.get("content") or ""),
                "status": str(each.get("status") or "pending"),
                "priority": str(each.get("priority") or "medium"),
            }
            for number, each in enumerate(entries, 1)
        ]
        return [Said("todo.updated", {"sessionID": self.facts.id, "todos": self.todos})]

    # Requests

    def _place(self, data: Json, event: Json) -> Json | None:
        turn = self.turns.get(str(event.get("run_id") or ""))
        call = str(data.get("tool_call_id") or "")
        return turn.place_of(call) if turn is not None and call else None

    def _permission(self, kind: str, data: Json, event: Json) -> list[Said]:
        own = ids.permission(str(data["approval_id"]))
        if kind == "permission_request":
            asked = asks.permission(data, self.facts.id, self._place(data, event))
            self.permissions[own] = asked
            options: list[Json] = data.get("options") or []
            self._offered[own] = {str(o["option_id"]): o.get("kind") for o in options}
            return [Said("permission.asked", asked)]
        self.permissions.pop(own, None)
        reply = asks.replied(data, self._offered.pop(own, {}))
        told = {"sessionID": self.facts.id, "requestID": own, "reply": reply}
        return [Said("permission.replied", told)]

    def _question(self, kind: str, data: Json, event: Json) -> list[Said]:
        own = ids.question(str(data["question_id"]))
        told: Json = {"sessionID": self.facts.id, "requestID": own}
        if kind == "question_request":
            asked = asks.question(data, self.facts.id, self._place(data, event))
            self.questions[own], self.forms[own] = asked, asks.form(data)
            return [Said("question.asked", asked)]
        self.questions.pop(own, None)
        self.forms.pop(own, None)
        if data.get("outcome") != "answered":
            return [Said("question.rejected", told)]
        rows: list[Json] = data.get("answers") or []
        answers: list[Any] = [[str(v) for v in row.get("values") or ()] for row in rows]
        content = data.get("content")
        if not answers and isinstance(content, dict):
            given: Json = cast(Json, content)
            answers = [_texts(value) for value in given.values()]
        return [Said("question.replied", {**told, "answers": answers})]

    def _limited(self, data: Json, ts: int) -> list[Said]:
        after = data.get("next_try_at") or data.get("resets_at") or ts
        self.retry = {
            "type": "retry",
            "attempt": int(data.get("attempt") or 1),
            "message": str(data.get("message") or "The model's limit is reached."),
            "next": int(after),
        }
        return [self._status()] if self.open else []

    def _error(self, data: Json) -> list[Said]:
        """Only what ends a run is an error to clients, and its end tells it; the rest is a notice."""
        if not data.get("recoverable"):
            return []
        told = {"title": "Warning", "message": str(data.get("message") or ""), "variant": "warning"}
        return [Said("tui.toast.show", told)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in cast("list[Any]", value)]
    return [str(value)]


def copies(messages: Iterable[Json], facts: Facts, before: int) -> list[Json]:
    """The messages of one session as a fork made at `before` (Unix ms) has them.

    What was under way then has ended in the fork: nobody works on the copy.
    """
    out: list[Json] = []
    for row in messages:
        info, parts = row["info"], cast("list[Json]", row["parts"])
        if info["time"]["created"] > before:
            continue
        own = ids.copied(info["id"], facts.id)
        copy = {**info, "id": own, "sessionID": facts.id}
        if info["role"] == "assistant":
            ended = min(info["time"].get("completed") or before, before)
            copy["time"] = {**info["time"], "completed": ended}
        if info.get("parentID"):
            copy["parentID"] = ids.copied(info["parentID"], facts.id)
        told = [
            {**p, "id": ids.copied(p["id"], facts.id), "sessionID": facts.id, "messageID": own}
            for p in parts
        ]
        out.append({"info": copy, "parts": told})
    return out
