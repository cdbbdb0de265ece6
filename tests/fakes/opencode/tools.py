"""The tools of the fake server: they ask, run and tell as the real ones do, on real files and shells."""

import asyncio
import contextlib
import difflib
import os
import signal
from pathlib import Path
from typing import Any

from tests.fakes.models import script
from tests.fakes.opencode.bus import Json
from tests.fakes.opencode.store import Session, Store, now

ASKING = {"bash": "bash", "write": "edit", "edit": "edit", "webfetch": "webfetch"}


class Rejected(Exception):
    """The user said no; without words the turn ends."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class Tools:
    """Runs one call after the other in its session; permissions and questions wait here."""

    def __init__(self, store: Store, rules: Json) -> None:
        self._store = store
        self._rules = rules
        self.always: set[tuple[str, str, str]] = set()
        self.permissions: dict[str, tuple[Session, Json, asyncio.Future[Json]]] = {}
        self.questions: dict[str, tuple[Session, Json, asyncio.Future[Json]]] = {}
        self.child: Any = None
        """Runs a subagent; set by whoever runs turns."""

    async def run(self, session: Session, row: Json, part: Json) -> None:
        """One call, from its card to its end."""
        state: Json = part["state"]
        state |= {"status": "running", "time": {"start": now()}}
        name, source = part["tool"], state["input"]
        self._store.part(session, row, part)
        if name in ASKING:
            await self._ask(session, row, part)
        match name:
            case "bash":
                await self._bash(session, row, part)
            case "write" | "edit":
                self._write(session, part)
            case "read":
                state["output"] = _text(session, source["filePath"])
            case "todowrite":
                session.todos = source["todos"]
                state["output"] = "saved"
                state["metadata"] = {"todos": session.todos}
                self._store.emit(session, "todo.updated", {"todos": session.todos})
            case "question":
                await self._question(session, row, part)
            case "task":
                state["output"] = await self.child(session, row, part)
            case _:
                part["tool"] = "invalid"
                state["output"] = f"unknown tool {name}"
        end = {"start": state["time"]["start"], "end": now()}
        state |= {"status": "completed", "title": name, "time": end}
        self._store.part(session, row, part)

    async def _ask(self, session: Session, row: Json, part: Json) -> None:
        permission = ASKING[part["tool"]]
        source = part["state"]["input"]
        pattern = source.get("command") or source.get("filePath") or source.get("url", "*")
        own = [r for r in session.info.get("permission", []) if r["permission"] == permission]
        rule = own[-1]["action"] if own else self._rules.get(permission)
        if rule != "ask":
            return
        if (session.directory, permission, pattern) in self.always:
            return
        request = self._store.new_id("per")
        metadata: Json = {"command": pattern} if permission == "bash" else {"filepath": pattern}
        asked: Json = {
            "id": request,
            "sessionID": session.id,
            "permission": permission,
            "patterns": [pattern],
            "always": [pattern],
            "metadata": metadata,
            "tool": {"messageID": row["info"]["id"], "callID": part["callID"]},
        }
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.permissions[request] = (session, asked, answer)
        self._store.emit(session, "permission.asked", asked)
        # An abort leaves it listed, as the real server does.
        told = await answer
        if told["reply"] == "reject":
            raise Rejected(told.get("message", ""))

    def reply(self, own: str, body: Json) -> bool:
        """An answer to a request; one reject rejects all of the session."""
        if own not in self.permissions:
            return False
        session, asked, answer = self.permissions.pop(own)
        if body["reply"] == "always":
            kind, patterns = asked["permission"], asked["always"]
            self.always |= {(session.directory, kind, pattern) for pattern in patterns}
        told = {"sessionID": session.id, "requestID": own, "reply": body["reply"]}
        self._store.emit(session, "permission.replied", told)
        if not answer.done():
            answer.set_result(body)
        if body["reply"] == "reject":
            for other in [o for o, (s, _, _) in self.permissions.items() if s is session]:
                self.reply(other, {"reply": "reject"})
        return True

    async def _question(self, session: Session, row: Json, part: Json) -> None:
        own = self._store.new_id("que")
        asked: Json = {
            "id": own,
            "sessionID": session.id,
            "questions": part["state"]["input"]["questions"],
            "tool": {"messageID": row["info"]["id"], "callID": part["callID"]},
        }
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.questions[own] = (session, asked, answer)
        self._store.emit(session, "question.asked", asked)
        told = await answer
        if "answers" not in told:
            raise Rejected("")
        part["state"]["output"] = f"User answered: {told['answers']}"

    def answer(self, own: str, body: Json) -> bool:
        """Answers, or without `answers` a reject."""
        if own not in self.questions:
            return False
        session, _, answer = self.questions.pop(own)
        kind = "question.replied" if "answers" in body else "question.rejected"
        self._store.emit(session, kind, {"requestID": own, **body})
        if not answer.done():
            answer.set_result(body)
        return True

    async def _bash(self, session: Session, row: Json, part: Json) -> None:
        state: Json = part["state"]
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            state["input"]["command"],
            cwd=session.directory,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        output = ""
        try:
            assert process.stdout is not None
            while chunk := await process.stdout.read(4096):
                output += chunk.decode()
                state["metadata"] = {"output": output}
                self._store.part(session, row, part)
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        state["output"] = output
        state["metadata"] = {"output": output, "exit": code}

    def _write(self, session: Session, part: Json) -> None:
        state: Json = part["state"]
        source = state["input"]
        path = Path(session.directory, source["filePath"])
        old = path.read_text() if path.exists() else ""
        new = source.get("content") or old.replace(source["oldString"], source["newString"])
        before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
        diff = "".join(difflib.unified_diff(before, after, str(path), str(path)))
        state["metadata"] = {"diff": diff, "filepath": str(path), "exists": path.exists()}
        path.write_text(new)
        state["output"] = "done"


def _text(session: Session, name: str) -> str:
    return Path(session.directory, name).read_text()


def call(op: script.Use) -> tuple[str, Json]:
    """A scripted use as the tool and its input."""
    match op:
        case script.RunCommand(command=command):
            return "bash", {"command": command}
        case script.WriteFile(path=path, text=text):
            return "write", {"filePath": path, "content": text}
        case script.EditFile(path=path, old=old, new=new):
            return "edit", {"filePath": path, "oldString": old, "newString": new}
        case script.ReadFile(path=path):
            return "read", {"filePath": path}
        case script.WriteTodos(items=items):
            todos = [{"content": t, "status": s, "priority": "medium"} for t, s in items]
            return "todowrite", {"todos": todos}
        case script.CallTool(name=name, arguments=arguments):
            return name, arguments
        case script.CallMcp(tool=tool, text=text):
            return tool, {"text": text}
