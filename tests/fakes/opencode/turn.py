"""The turns of the fake server: what the script says, told in the order in which the real one tells it."""

import asyncio
from typing import Any

from tests.fakes.models import script
from tests.fakes.models.script import Fail, Op, plan
from tests.fakes.opencode.bus import Json
from tests.fakes.opencode.store import Session, Store, conversation, now
from tests.fakes.opencode.tools import Rejected, Tools, call

PROMPT_TOKENS, CACHED_TOKENS = 100, 20
RETRY_S = 0.1
# The real server tells the end of an aborted answer so much after its first idle.
AFTERMATH_S = 0.05
_FINISH = {"MAX_TOKENS": "length"}
ABORTED: Json = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}


class Turns:
    """One loop for each busy session: it answers what is queued, then is idle."""

    def __init__(self, store: Store, tools: Tools, faults: set[str]) -> None:
        self._store = store
        self._tools = tools
        self._faults = faults
        self._failed: dict[str, int] = {}
        tools.child = self._child

    def start(self, session: Session) -> None:
        if session.queue and (session.task is None or session.task.done()):
            session.task = asyncio.ensure_future(self._run(session))

    async def abort(self, session: Session) -> None:
        if session.task is not None and not session.task.done():
            session.task.cancel()
            await asyncio.gather(session.task, return_exceptions=True)

    async def _run(self, session: Session) -> None:
        store = self._store
        try:
            store.status(session, {"type": "busy"})
            while session.queue:
                await self._answer(session, session.queue[-1])
            self._idle(session)
        except asyncio.CancelledError:
            session.queue.clear()
            store.emit(session, "session.error", {"error": ABORTED})
            self._idle(session)
            await asyncio.sleep(AFTERMATH_S)
            self._close(session, ABORTED)
            self._idle(session)
        except _ModelFailed as failed:
            session.queue.clear()
            store.emit(session, "session.error", {"error": failed.error})
            self._idle(session)
            self._close(session, failed.error)
            self._idle(session)

    def _idle(self, session: Session) -> None:
        if "forgets" in self._faults and session.status["type"] == "busy":
            self._store.bus.cut()
        self._store.status(session, {"type": "idle"})
        if "double_idle" in self._faults:
            self._store.status(session, {"type": "idle"})

    def _close(self, session: Session, error: Json) -> None:
        row = session.messages[-1]
        if row["info"]["role"] != "assistant":
            return
        for part in row["parts"]:
            state: Json = part.get("state", {})
            if state.get("status") in ("pending", "running"):
                state |= {"status": "error", "error": "Tool execution aborted"}
                self._store.part(session, row, part)
        row["info"] |= {"error": error, "time": {**row["info"]["time"], "completed": now()}}
        self._store.tell(session, row)

    async def _answer(self, session: Session, user: Json) -> None:
        """All steps of one answer."""
        store = self._store
        while True:
            row = store.assistant(session, user)
            planned = plan(conversation(session))
            store.part(session, row, {"type": "step-start", "snapshot": "s"})
            calls, reason = await self._say(session, row, self._chosen(planned.ops))
            stop = await self._use(session, row, calls)
            said = sum(p["type"] == "text" for p in row["parts"])
            words = sum(isinstance(op, script.Text) for op in planned.ops) if said else 1
            tokens: Json = {
                "input": PROMPT_TOKENS - CACHED_TOKENS,
                "output": max(1, words),
                "reasoning": 0,
                "cache": {"read": CACHED_TOKENS, "write": 0},
                "total": PROMPT_TOKENS + max(1, words),
            }
            done = reason or ("tool-calls" if calls else "stop")
            end = {"type": "step-finish", "reason": done, "cost": 0.0001, "tokens": tokens}
            store.part(session, row, end)
            info: Json = row["info"]
            info |= {"finish": done, "tokens": tokens, "cost": 0.0001}
            store.tell(session, row)
            info["time"] = {**info["time"], "completed": now()}
            store.tell(session, row)
            if stop or not calls:
                session.queue[:] = [
                    one for one in session.queue if one["info"]["id"] > user["info"]["id"]
                ]
                return
            user = session.queue[-1]

    def _chosen(self, ops: tuple[Op, ...]) -> tuple[Op, ...]:
        match ops[0]:
            case Fail(status=status, times=times):
                key = repr(ops)
                self._failed[key] = self._failed.get(key, 0) + 1
                if times is not None and self._failed[key] > times:
                    return (script.Text("recovered"),)
                if times is None or status < 429:
                    raise _ModelFailed(status)
                return ops
            case _:
                return ops

    async def _say(
        self, session: Session, row: Json, ops: tuple[Op, ...]
    ) -> tuple[list[Json], str]:
        calls: list[Json] = []
        text: Json | None = None
        reason = ""
        for op in ops:
            match op:
                case script.Text(text=words) | script.Thought(text=words):
                    kind = "text" if isinstance(op, script.Text) else "reasoning"
                    if text is None or text["type"] != kind:
                        self._end_text(session, row, text)
                        text = self._begin_text(session, row, kind)
                    self._delta(session, row, text, words)
                case script.Pause(ms=ms):
                    await asyncio.sleep(ms / 1000)
                case script.Hang() | script.Cut():
                    await asyncio.get_running_loop().create_future()
                case Fail(status=status):
                    await self._retry(session, status)
                    return await self._say(session, row, self._chosen(ops))
                case script.Finish(reason=word):
                    reason = _FINISH.get(word, word.lower())
                case script.Empty():
                    pass
                case _:
                    name, source = call(op)
                    calls.append({"name": name, "input": source})
        self._end_text(session, row, text)
        return calls, reason

    def _begin_text(self, session: Session, row: Json, kind: str) -> Json:
        part: Json = {"type": kind, "text": "", "time": {"start": now()}}
        part["id"] = self._store.new_id("prt")
        if not {"no_deltas", "delta_first", "old"} & self._faults:
            self._store.part(session, row, part)
        part["whole"] = ""
        return part

    def _delta(self, session: Session, row: Json, part: Json, words: str) -> None:
        part["whole"] += words
        if "no_deltas" in self._faults:
            return
        if {"old", "flat"} & self._faults:
            shown = {**part, "text": part["whole"]}
            shown.pop("whole")
            self._store.part(session, row, shown, delta=words)
            return
        told = {"messageID": row["info"]["id"], "partID": part["id"], "field": "text"}
        self._store.emit(session, "message.part.delta", {**told, "delta": words})

    def _end_text(self, session: Session, row: Json, part: Json | None) -> None:
        if part is None:
            return
        row["parts"] = [one for one in row["parts"] if one["id"] != part["id"]]
        part["text"] = part.pop("whole")
        part["time"] = {**part["time"], "end": now()}
        self._store.part(session, row, part)

    async def _use(self, session: Session, row: Json, calls: list[Json]) -> bool:
        """Runs the calls side by side; true when the user ended the turn."""
        parts: list[Json] = []
        for one in calls:
            own = self._store.new_id("call")
            state: Json = {"status": "pending", "input": {}, "raw": ""}
            part: Json = {"type": "tool", "callID": own, "tool": one["name"], "state": state}
            parts.append(self._store.part(session, row, part))
            state["input"] = one["input"]
        done: list[Any] = await asyncio.gather(*(self._tool(session, row, part) for part in parts))
        return any(done)

    async def _tool(self, session: Session, row: Json, part: Json) -> bool:
        try:
            await self._tools.run(session, row, part)
        except Rejected as rejected:
            words = "The user rejected permission"
            if rejected.words:
                words += f" with the following feedback: {rejected.words}"
            part["state"] |= {"status": "error", "error": words}
            self._store.part(session, row, part)
            return not rejected.words
        return False

    async def _retry(self, session: Session, status: int) -> None:
        at = now() + int(RETRY_S * 1000)
        told = {"type": "retry", "attempt": 1, "message": f"failure {status}", "next": at}
        self._store.status(session, told)
        await asyncio.sleep(RETRY_S)
        self._store.status(session, {"type": "busy"})

    async def _child(self, session: Session, row: Json, part: Json) -> str:
        """A subagent: a session of its own that works for the call."""
        store = self._store
        child = store.create(session.directory, {"title": "child"}, parent=session.id)
        part["state"]["metadata"] = {"sessionId": child.id}
        store.part(session, row, part)
        prompt = {"parts": [{"type": "text", "text": part["state"]["input"]["prompt"]}]}
        store.user(child, prompt)
        try:
            await self._run(child)
        except asyncio.CancelledError:
            child.queue.clear()
            raise
        last = child.messages[-1]
        return "".join(p["text"] for p in last["parts"] if p["type"] == "text")


class _ModelFailed(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(status)
        data: Json = {"message": f"failure {status}", "statusCode": status, "isRetryable": False}
        self.error: Json = {"name": "APIError", "data": data}
