"""The part of the fake app-server that is right: threads and turns over its own pipes, in one thread.

Owns framing, ids and the faultless turn. A fault is a subclass in another file which overrides the one
thing it does wrong. The prompt is the script, steps separated by ";;": SAY n, RUN command (asks first),
PATCH name (asks first), ASK, SLEEP command (runs until it is cleaned), HANG (until interrupted).
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

Json = dict[str, Any]
# A forgotten fake must not live for ever, whatever it ignores.
LIFETIME_S = 600.0
FAULTS: "dict[str, type[Server]]" = {}


class Server:
    """An app-server without a fault; `fault` in a subclass names the one it has."""

    fault: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "fault" in cls.__dict__:
            FAULTS[cls.fault] = cls

    def __init__(self, argument: str = "") -> None:
        self.argument = argument
        self.threads: dict[str, Json] = {}
        self.running: dict[str, tuple[str, str]] = {}
        self.turns: dict[str, Iterator[None]] = {}
        self.active: dict[str, str] = {}
        self.interrupted: set[str] = set()
        self.answers: dict[int, Json] = {}
        self.steered: list[str] = []
        self._buffer = b""
        self._next = 0
        self._asked = -1
        self._ends_at = time.monotonic() + LIFETIME_S

    # What a fault overrides.

    def begin(self) -> None:
        """Before the first message is read."""

    def initialize(self, request: Any) -> None:
        self.answer(request, {"userAgent": "agentctl/0.169.0 (fake)", "codexHome": "/nowhere"})

    def account(self) -> Json:
        return {"account": None, "requiresOpenaiAuth": False}

    def config(self) -> Json:
        """What its user has configured."""
        return {
            "sandbox_mode": self.argument or None,
            "sandbox_workspace_write": {"network_access": bool(self.argument)},
        }

    def settings(self, params: Json) -> Json:
        """What is in force in a new thread."""
        return {
            "model": params.get("model") or "fake-1",
            "modelProvider": "fake",
            "approvalPolicy": params.get("approvalPolicy") or "on-request",
            "sandbox": {"type": _policy(params.get("sandbox") or "danger-full-access")},
            "reasoningEffort": None,
        }

    def start_turn(self, request: Any, thread: str, turn: str) -> None:
        self.answer(request, {"turn": {"id": turn, "rootTurnId": turn, "status": "inProgress"}})
        self.notify("thread/status/changed", threadId=thread, status={"type": "active"})
        self.turn_notice("turn/started", thread, turn, status="inProgress")

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        steps: dict[str, Callable[[str, str, str], Iterator[None]]] = {
            "SAY": self.say,
            "RUN": self.run_command,
            "PATCH": self.patch,
            "ASK": self.ask_user,
            "SLEEP": self.sleep,
            "HANG": self.hang,
        }
        yield from steps.get(word, self.say)(thread, turn, rest)

    def end_turn(self, thread: str, turn: str, status: str, **more: Any) -> None:
        idle = {"type": "systemError" if status == "failed" else "idle"}
        self.notify("thread/status/changed", threadId=thread, status=idle)
        self.turn_notice("turn/completed", thread, turn, status=status, **more)

    def interrupt(self, request: Any, thread: str) -> None:
        if thread not in self.active:
            self.refuse(request, "no active turn to interrupt")
            return
        self.interrupted.add(thread)
        self.answer(request, {})

    # The turn.

    def say(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        words = [f"w{n} " for n in range(int(rest))] if rest.isdigit() else [rest]
        item = self.message(thread, turn)
        for word in words:
            self.delta(thread, turn, item, word)
            yield
        self.item("completed", thread, turn, type="agentMessage", id=item, text="".join(words))

    def run_command(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        item: Json = {
            "type": "commandExecution",
            "id": self.new("call"),
            "command": f"/bin/bash -lc '{rest}'",
            "cwd": "/",
            "source": "agent",
            "processId": None,
            "commandActions": [{"type": "unknown", "command": rest}],
        }
        self.item("started", thread, turn, **item, status="inProgress")
        asked = self.ask(
            "item/commandExecution/requestApproval",
            threadId=thread,
            turnId=turn,
            itemId=item["id"],
            kind="command",
            command=item["command"],
            availableDecisions=["accept", "cancel"],
        )
        yield from self.wait_for(asked)
        decision = self.answers[asked].get("result", {}).get("decision", "decline")
        done = decision in ("accept", "acceptForSession")
        if decision == "cancel":
            self.interrupted.add(thread)
        facts = {"aggregatedOutput": f"ran {rest}\n", "exitCode": 0} if done else {}
        status = "completed" if done else "declined"
        self.item("completed", thread, turn, **item, status=status, **facts)

    def patch(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        change = {"path": f"/code/{rest}", "kind": {"type": "add"}, "diff": "hello\n"}
        item: Json = {"type": "fileChange", "id": self.new("call"), "changes": [change]}
        self.item("started", thread, turn, **item, status="inProgress")
        asked = self.ask(
            "item/fileChange/requestApproval", threadId=thread, turnId=turn, itemId=item["id"]
        )
        yield from self.wait_for(asked)
        done = self.answers[asked].get("result", {}).get("decision") == "accept"
        self.item("completed", thread, turn, **item, status="completed" if done else "declined")

    def ask_user(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        question: Json = {"id": "color", "header": "Color", "question": "Which?", "isOther": True}
        question["options"] = [{"label": "Red", "description": "warm"}, {"label": "Blue"}]
        asked = self.ask(
            "item/tool/requestUserInput",
            threadId=thread,
            turnId=turn,
            itemId=self.new("call"),
            questions=[question],
        )
        yield from self.wait_for(asked)
        yield from self.say(thread, turn, json.dumps(self.answers[asked].get("result")))

    def sleep(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        item: Json = {
            "type": "commandExecution",
            "id": self.new("call"),
            "command": rest or "sleep 60",
            "cwd": "/",
            "source": "unifiedExecStartup",
            "processId": "77",
            "commandActions": [],
        }
        self.item("started", thread, turn, **item, status="inProgress")
        self.running[thread] = (turn, json.dumps(item))
        yield from self.hang(thread, turn, rest)

    def hang(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        while thread not in self.interrupted:
            yield

    def play(self, thread: str, turn: str, script: str) -> Iterator[None]:
        for step in script.split(" ;; "):
            word, _, rest = step.strip().partition(" ")
            for _ in self.step(thread, turn, word, rest):
                if thread in self.interrupted:
                    break
                yield
            if thread in self.interrupted:
                break
        self.usage(thread, turn)
        over = thread in self.interrupted
        self.active.pop(thread, None)
        self.interrupted.discard(thread)
        self.end_turn(thread, turn, "interrupted" if over else "completed")

    def wait_for(self, asked: int) -> Iterator[None]:
        while asked not in self.answers:
            yield

    def usage(self, thread: str, turn: str) -> None:
        count = self.threads[thread]["requests"] = self.threads[thread].get("requests", 0) + 1
        last = {"totalTokens": 120, "inputTokens": 100, "cachedInputTokens": 40, "outputTokens": 20}
        total = {name: value * count for name, value in last.items()}
        told = {"total": total, "last": last, "modelContextWindow": 1000}
        self.notify("thread/tokenUsage/updated", threadId=thread, turnId=turn, tokenUsage=told)

    # What is asked of it.

    def on_request(self, request: Any, method: str, params: Json) -> None:
        thread = str(params.get("threadId", ""))
        rows = [{"id": t, "cwd": "/", "preview": "p", "updatedAt": 5} for t in self.threads]
        plain: dict[str, Json] = {
            "model/list": {"data": [{"id": "fake-1", "model": "fake-1"}]},
            "thread/list": {"data": rows, "nextCursor": None},
            "config/read": {"config": self.config()},
            "mcpServerStatus/list": self.servers(str(params.get("cursor") or "")),
            "thread/unsubscribe": {},
            "thread/delete": {},
            "account/login/start": {},
        }
        match method:
            case _ if method in plain:
                self.answer(request, plain[method])
            case "initialize":
                self.initialize(request)
            case "account/read":
                self.answer(request, self.account())
            case "turn/start" | "review/start" | "thread/compact/start":
                self.on_turn(request, method, thread, params)
            case "turn/interrupt":
                self.interrupt(request, thread)
            case _:
                self.on_thread_request(request, method, thread, params)

    def servers(self, cursor: str) -> Json:
        """Two pages: a server each."""
        name, after = ("two", None) if cursor else ("one", "more")
        tool = {"name": "look", "annotations": {"readOnlyHint": True}}
        return {"data": [{"name": name, "tools": {"look": tool}}], "nextCursor": after}

    def on_thread_request(self, request: Any, method: str, thread: str, params: Json) -> None:
        match method:
            case "thread/start" | "thread/fork":
                self.open_thread(request, self.new("thread"), params)
            case "thread/resume" if thread not in self.threads and "old" not in thread:
                self.refuse(request, f"no rollout found for thread id {thread}")
            case "thread/resume":
                self.open_thread(request, thread, params)
            case "thread/settings/update":
                self.answer(request, {})
                told = self.threads[thread] = {**self.threads[thread], **params}
                self.notify("thread/settings/updated", threadId=thread, threadSettings=told)
            case "turn/steer" if thread not in self.active:
                self.refuse(request, "no active turn to steer")
            case "turn/steer":
                self.steered.append(params["input"][0]["text"])
                self.answer(request, {"turnId": self.active[thread]})
            case "thread/backgroundTerminals/clean":
                self.answer(request, {})
                self.clean(thread)
            case _:
                self.refuse(request, f"Invalid request: unknown variant `{method}`, expected one")

    def open_thread(self, request: Any, thread: str, params: Json) -> None:
        told = self.settings(params)
        self.threads[thread] = {**told, "sandboxPolicy": told["sandbox"]}
        self.answer(request, {"thread": {"id": thread, "status": {"type": "idle"}}, **told})

    def on_turn(self, request: Any, method: str, thread: str, params: Json) -> None:
        if thread not in self.threads:
            self.refuse(request, f"thread not found: {thread}")
            return
        if thread in self.active:
            # As the real one: a second prompt goes into the running turn.
            self.steered.append(json.dumps(params.get("input")))
            self.answer(request, {"turn": {"id": self.active[thread]}})
            return
        turn = self.active[thread] = self.new("turn")
        script = params["input"][0]["text"] if method == "turn/start" else "SAY 1"
        if method == "thread/compact/start":
            self.answer(request, {})
            self.turn_notice("turn/started", thread, turn)
        else:
            self.start_turn(request, thread, turn)
        self.turns[turn] = self.play(thread, turn, script)

    def clean(self, thread: str) -> None:
        if (left := self.running.pop(thread, None)) is not None:
            turn, item = left
            self.item("completed", thread, turn, **json.loads(item), status="failed", exitCode=-1)

    # Speaking.

    def new(self, kind: str) -> str:
        self._next += 1
        return f"{kind}-{os.getpid()}-{self._next}"

    def message(self, thread: str, turn: str) -> str:
        item = self.new("msg")
        self.item("started", thread, turn, type="agentMessage", id=item, text="")
        return item

    def delta(self, thread: str, turn: str, item: str, text: str) -> None:
        told = {"threadId": thread, "turnId": turn, "itemId": item, "delta": text}
        self.notify("item/agentMessage/delta", **told)

    def item(self, what: str, thread: str, turn: str, **item: Any) -> None:
        self.notify(f"item/{what}", threadId=thread, turnId=turn, item=item)

    def turn_notice(self, method: str, thread: str, turn: str, **more: Any) -> None:
        self.notify(method, threadId=thread, turn={"id": turn, "rootTurnId": turn, **more})

    def notify(self, method: str, **params: Any) -> None:
        self.write({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> int:
        self._asked += 1
        self.write({"id": self._asked, "method": method, "params": params})
        return self._asked

    def answer(self, request: Any, result: Json) -> None:
        self.write({"id": request, "result": result})

    def refuse(self, request: Any, message: str, code: int = -32600) -> None:
        self.write({"id": request, "error": {"code": code, "message": message}})

    def write(self, message: Json) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]

    # Listening.

    def serve(self) -> int:
        """Runs until stdin ends or the lifetime is over."""
        self.begin()
        while time.monotonic() < self._ends_at:
            pause = 0.002 if self.turns else 0.5
            if select.select([0], [], [], pause)[0]:
                if not (data := os.read(0, 1 << 16)):
                    return self.eof()
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                for line in lines:
                    self.on_message(json.loads(line))
            for turn, script in list(self.turns.items()):
                if next(script, self) is self:
                    self.turns.pop(turn, None)
        return 1

    def eof(self) -> int:
        return 0

    def on_message(self, message: Json) -> None:
        if "method" not in message:
            self.answers[message["id"]] = message
        elif "id" in message:
            self.on_request(message["id"], message["method"], message.get("params") or {})


def _policy(sandbox: str) -> str:
    words = {"read-only": "readOnly", "workspace-write": "workspaceWrite"}
    return words.get(sandbox, "dangerFullAccess")


def fail(words: str, code: int) -> int:
    """Says the last words on stderr."""
    sys.stderr.write(words + "\n")
    return code
