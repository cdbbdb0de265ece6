"""An ACP agent that does what the prompt says: used where a test needs one exact message.

A prompt is a JSON list of steps: ["request", method, params], ["notify", method, params], ["raw", text],
["hold"] (until session/cancel), ["after-cancel", text] (raw, then its answer), ["mute"] (closes
stdout and lives on), ["deaf"] (reads no more), ["exit", code]. It says each answer as one chunk of JSON. Environment:
PUPPET_INIT (result of initialize), PUPPET_RESULTS (method -> result), PUPPET_ERRORS (method -> error), PUPPET_TEXT_IDS
(gives ids back as text), PUPPET_HISTORY (so many words of history after a session/load, one before each later answer),
PUPPET_SILENT (a method that it never answers).
"""

import json
import os
import sys
import time
from typing import Any, cast

Json = dict[str, Any]


def send(message: Json) -> None:
    if "PUPPET_TEXT_IDS" in os.environ and "method" not in message:
        message = {**message, "id": str(message["id"])}
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def receive() -> Json:
    line = sys.stdin.buffer.readline()
    if not line:
        raise SystemExit(0)
    return cast(Json, json.loads(line))


def table(name: str) -> Json:
    return cast(Json, json.loads(os.environ.get(name, "{}")))


class Puppet:
    def __init__(self) -> None:
        self.init, self.results, self.errors = map(
            table, ("PUPPET_INIT", "PUPPET_RESULTS", "PUPPET_ERRORS")
        )
        self.sessions = 0
        self.stop = ""
        self.requests = 0
        self.loaded = ""
        self.history = int(os.environ.get("PUPPET_HISTORY", "0"))

    def serve(self) -> None:
        while True:
            message = receive()
            method = message.get("method", "")
            if "id" not in message or method in ("", os.environ.get("PUPPET_SILENT")):
                continue
            if self.loaded and self.history:
                self.history -= 1
                self.say(self.loaded, f"old{self.history} ")
            if method in self.errors:
                send({"id": message["id"], "error": self.errors[method]})
            elif method == "session/prompt":
                self.turn(message)
            else:
                send({"id": message["id"], "result": self.result(method)})
            if method == "session/load":
                self.loaded = message["params"]["sessionId"]

    def result(self, method: str) -> Any:
        if method == "initialize":
            return {"protocolVersion": 1, **self.init}
        if method in self.results:
            return self.results[method]
        if method in ("session/new", "session/fork"):
            self.sessions += 1
            return {"sessionId": f"puppet-{self.sessions}"}
        return {}

    def turn(self, prompt: Json) -> None:
        session = prompt["params"]["sessionId"]
        self.stop = "end_turn"
        for step in json.loads(prompt["params"]["prompt"][0]["text"]):
            self.perform(session, step)
        send({"id": prompt["id"], "result": {"stopReason": self.stop}})

    def perform(self, session: str, step: Any) -> None:
        match step:
            case ["request", method, params]:
                self.requests += 1
                params = {"sessionId": session, **params}
                send({"id": f"p{self.requests}", "method": method, "params": params})
                self.say(session, self.answer())
            case ["notify", method, params]:
                send({"method": method, "params": params})
            case ["hold"]:
                self.say(session, "holding")
                self.wait_cancel()
                self.stop = "cancelled"
            case ["after-cancel", text]:
                self.wait_cancel()
                self.raw(text)
                self.say(session, self.answer())
            case ["raw", text]:
                self.raw(text)
            case ["mute" | "deaf" as how]:
                self.say(session, how)
                if how == "mute":
                    os.close(1)
                time.sleep(600)
            case ["exit", code]:
                os._exit(code)
            case _:
                self.say(session, json.dumps(step))

    def wait_cancel(self) -> None:
        while receive().get("method") != "session/cancel":
            pass

    def raw(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def answer(self) -> str:
        while True:
            message = receive()
            if "method" not in message:
                return json.dumps(message.get("result", message.get("error")))

    def say(self, session: str, text: str) -> None:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        send({"method": "session/update", "params": {"sessionId": session, "update": update}})


if __name__ == "__main__":
    Puppet().serve()
