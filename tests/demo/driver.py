"""Drives an ACP agent as a subprocess over raw lines and checks each of its messages by schema.

Owns the pipes and the ids of its own requests. Shares no code with the product's ACP client.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self, cast

from acp import schema
from pydantic import BaseModel

Json = dict[str, Any]
# An agent on a busy two-core machine starts in well under this; a test that hangs must end.
PATIENCE_S = 15.0
DEMO = [sys.executable, "-m", "agentctl_adapters.demo.agent"]

_RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
    "session/prompt": schema.PromptResponse,
}
_CALLS: dict[str, type[BaseModel]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
}


class Driver:
    """One agent process; every message it sends lands in `seen` in order."""

    def __init__(self, command: list[str], *, check: bool = True, **env: str) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )
        self.pid = self._process.pid
        self.seen: list[Json] = []
        self.noise: list[bytes] = []
        self.stderr = bytearray()
        self.session_id = ""
        self._check = check
        self._methods: dict[int, str] = {}
        self._next_id = 0
        self._queue: queue.Queue[Json | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_stdin()
        try:
            self._process.wait(PATIENCE_S / 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S / 5)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def exit_code(self, patience_s: float = PATIENCE_S) -> int:
        return self._process.wait(patience_s)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def raw(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def send(self, message: Json) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def request(self, method: str, params: Json) -> int:
        self._next_id += 1
        self._methods[self._next_id] = method
        self.send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    def call(self, method: str, **params: Any) -> Json:
        """Send a request and return its response, errors included."""
        return self.response(self.request(method, params))

    def result(self, method: str, **params: Any) -> Json:
        response = self.call(method, **params)
        assert "result" in response, response
        return cast(Json, response["result"])

    def next(self) -> Json | None:
        """The next message, or None at the end of its output."""
        message = self._queue.get(timeout=PATIENCE_S)
        if message is not None:
            self.seen.append(message)
            if self._check:
                self._validate(message)
        return message

    def response(self, request_id: int) -> Json:
        while (message := self.next()) is not None:
            if "method" not in message and message.get("id") == request_id:
                return message
        raise AssertionError(f"output ended without an answer to {request_id}: {self.seen[-3:]}")

    def asked(self, method: str = "session/request_permission") -> Json:
        """Wait until the agent sends this request."""
        while (message := self.next()) is not None:
            if message.get("method") == method:
                return message
        raise AssertionError(f"output ended without {method}: {self.seen[-3:]}")

    def until(self, kind: str, **fields: Any) -> Json:
        """Wait for a session/update of this kind with these fields."""
        while (message := self.next()) is not None:
            update = update_of(message)
            if update.get("sessionUpdate") == kind and fields.items() <= update.items():
                return update
        raise AssertionError(f"output ended without {kind}: {self.seen[-3:]}")

    def answer(self, request: Json, result: Json) -> None:
        self.send({"id": request["id"], "result": result})

    def choose(self, request: Json, kind: str) -> None:
        """Answer a permission request by the kind of an offered option."""
        options = [o for o in request["params"]["options"] if o["kind"] == kind]
        outcome = {"outcome": "selected", "optionId": options[0]["optionId"]}
        self.answer(request, {"outcome": outcome})

    def initialize(self, **capabilities: Any) -> Json:
        return self.result(
            "initialize",
            protocolVersion=1,
            clientCapabilities=capabilities,
            clientInfo={"name": "test", "version": "0"},
        )

    def open(self, workspace: Path, **more: Any) -> Json:
        """Make a new session and remember it as the current one."""
        params: Json = {"cwd": str(workspace), "mcpServers": [], **more}
        result = self.result("session/new", **params)
        self.session_id = cast(str, result["sessionId"])
        return result

    def prompt(self, text: str) -> int:
        block = {"type": "text", "text": text}
        params = {"sessionId": self.session_id, "prompt": [block]}
        return self.request("session/prompt", params)

    def turn(self, text: str) -> Json:
        """A whole turn that asks nothing: its response."""
        return self.response(self.prompt(text))

    def cancel(self) -> None:
        params = {"sessionId": self.session_id}
        self.send({"method": "session/cancel", "params": params})

    def updates(self, kind: str | None = None) -> list[Json]:
        found = [update for message in self.seen if (update := update_of(message))]
        return [u for u in found if kind is None or u["sessionUpdate"] == kind]

    def text(self) -> str:
        return "".join(u["content"]["text"] for u in self.updates("agent_message_chunk"))

    def _validate(self, message: Json) -> None:
        method = message.get("method")
        if method is not None:
            _CALLS[method].model_validate(message["params"])
        elif "result" in message and (model := _RESULTS.get(self._methods[message["id"]])):
            model.model_validate(message["result"])
        else:
            error = message.get("error")
            assert error is None or (error["code"] and error["message"]), message

    def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self.noise.append(line)
                continue
            if isinstance(message, dict):
                self._queue.put(cast(Json, message))
            else:
                self.noise.append(line)
        self._queue.put(None)

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.stderr += line


def update_of(message: Json) -> Json:
    if message.get("method") != "session/update":
        return {}
    return cast(Json, message["params"]["update"])


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def gone(pid: int) -> bool:
    """Wait, bounded, for a process to end."""
    deadline = time.monotonic() + PATIENCE_S / 3
    while alive(pid) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return not alive(pid)
