"""Fakes of Codex that say or ask something strange."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from tests.fakes.codex.base import Server

BIG_CHARS = 5_000_000
STRANGE = ("item/tool/call", "currentTime/read", "attestation/generate", "no/such/request")


class BigLine(Server):
    """An answer of 5 MB in one piece, told again whole."""

    fault: ClassVar[str] = "big-line"

    def say(self, thread: str, turn: str, rest: str) -> Iterator[None]:
        yield from super().say(thread, turn, "abcdefghi\n" * (BIG_CHARS // 10))


class Noise(Server):
    """Lines that are no JSON, and messages without a shape, in the middle of a turn."""

    fault: ClassVar[str] = "noise"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        self.raw(b"panic: not JSON\n\n[1,2]\n\xff\xfe\n")
        self.notify("item/agentMessage/delta", threadId=7, delta=None)
        self.notify("item/started", item="nothing")
        self.notify("turn/completed", threadId=thread)
        self.notify("some/news", threadId=thread)
        self.item("started", thread, turn, type="hologram", id="h")
        yield from super().step(thread, turn, word, rest)


class StrangeRequests(Server):
    """Asks what nobody can answer, and says what it got."""

    fault: ClassVar[str] = "strange-requests"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        asked = {method: self.ask(method, threadId=thread) for method in STRANGE}
        for number in asked.values():
            yield from self.wait_for(number)
        got = {m: "result" in self.answers[n] for m, n in asked.items()}
        yield from self.say(thread, turn, json.dumps(got))


class AsksAfterInterrupt(Server):
    """Asks for leave when it was interrupted already, and ends the turn once it has the answer."""

    fault: ClassVar[str] = "asks-after-interrupt"

    def play(self, thread: str, turn: str, script: str) -> Iterator[None]:
        while thread not in self.interrupted:
            yield
        asked = self.ask(
            "item/commandExecution/requestApproval", threadId=thread, turnId=turn, itemId="late"
        )
        yield from self.wait_for(asked)
        self.active.pop(thread, None)
        self.interrupted.discard(thread)
        self.end_turn(thread, turn, "interrupted")


class TakesBack(Server):
    """Asks for leave and then needs none: somebody else has answered."""

    fault: ClassVar[str] = "takes-back"

    def wait_for(self, asked: int) -> Iterator[None]:
        thread = next(iter(self.active))
        self.notify("serverRequest/resolved", threadId=thread, requestId=asked)
        self.answers[asked] = {"result": {"decision": "accept"}}
        yield


class Elicits(Server):
    """An MCP server of its asks: for leave, then to fill a form, then for what nobody can do."""

    fault: ClassVar[str] = "elicits"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        meta: Any = {"codex_approval_kind": "mcp_tool_call", "tool_name": "write"}
        meta["persist"] = ["session", "always"]
        schema: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
        forms: list[dict[str, Any]] = [
            {"mode": "form", "_meta": meta, "message": "Allow write?"},
            {"mode": "form", "message": "Your name?", "requestedSchema": schema},
            {"mode": "openai/userVerification", "title": "Show your face", "challenge": "c"},
        ]
        got: list[Any] = []
        for form in forms:
            told = {"threadId": thread, "turnId": turn, "serverName": "s", **form}
            asked = self.ask("mcpServer/elicitation/request", **told)
            yield from self.wait_for(asked)
            got.append(self.answers[asked].get("result"))
        yield from self.say(thread, turn, json.dumps(got))


class WantsRights(Server):
    """Asks for more rights of its sandbox, and says what it got."""

    fault: ClassVar[str] = "wants-rights"

    def step(self, thread: str, turn: str, word: str, rest: str) -> Iterator[None]:
        asked = self.ask(
            "item/permissions/requestApproval",
            threadId=thread,
            turnId=turn,
            itemId="none",
            reason="to reach the registry",
            permissions={"network": {"enabled": True}, "fileSystem": None},
        )
        yield from self.wait_for(asked)
        yield from self.say(thread, turn, json.dumps(self.answers[asked].get("result")))
