"""A conversation of the gateway that is fed by hand, and what its clients were told."""

from collections.abc import Sequence
from typing import Any

from agentctl.gateway.opencode.conversation import Conversation
from agentctl.gateway.opencode.message import Facts, Said

Json = dict[str, Any]
RUN = "run_01m8q02dwdcwbyahs6rwfmv5dw"
OTHER = "run_01m8q02dwzzzzzzzzzzzzzzzzz"
SESSION = "ses_01m8q02djjmk8g33dmybpy8nm8"


class Story:
    """A conversation that is fed, and what it said."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        facts = Facts(SESSION, "demo", "/work")
        self.conversation = Conversation(facts, names or {})
        self.seq = 0
        self.said: list[Said] = []

    def feed(self, kind: str, data: Json, run: str = RUN, **more: Any) -> list[Said]:
        self.seq += 1
        event: Json = {"type": kind, "seq": self.seq, "ts": 1000 + self.seq, "data": data, **more}
        if run:
            event["run_id"] = run
        told = self.conversation.feed(event)
        self.said += told
        return told

    def flush(self) -> list[Said]:
        told = self.conversation.flush()
        self.said += told
        return told

    def begin(self, *texts: str, run: str = RUN, **more: Any) -> None:
        prompt = [{"type": "text", "text": text} for text in texts]
        self.feed(
            "run_status", {"status": "created", "origin": "client", "prompt": prompt, **more}, run
        )
        self.feed("run_status", {"status": "started"}, run)

    def end(self, outcome: str = "completed", run: str = RUN, **more: Any) -> list[Said]:
        return self.feed("complete", {"outcome": outcome, **more}, run)

    def say(self, text: str, own: str = "m1", run: str = RUN) -> list[Said]:
        return self.feed(
            "message_chunk", {"message_id": own, "role": "assistant", "text": text}, run
        )

    def tool(self, call: str = "c1", **fields: Any) -> list[Said]:
        return self.feed("tool_call", {"tool_call_id": call, "status": "running", **fields})

    def shown(self) -> list[Json]:
        """All parts of the answers, as a client has them now."""
        rows = [*self.conversation.messages()]
        return [part for row in rows if row["info"]["role"] == "assistant" for part in row["parts"]]

    def replayed(self) -> list[Json]:
        """The same, put together from what was said live, as a client does."""
        messages: dict[str, Json] = {}
        parts: dict[str, dict[str, Json]] = {}
        for said in self.said:
            told = said.properties
            match said.type:
                case "message.updated":
                    messages[told["info"]["id"]] = told["info"]
                case "message.part.updated":
                    own = parts.setdefault(told["part"]["messageID"], {})
                    own[told["part"]["id"]] = dict(told["part"])
                case "message.part.delta":
                    part = parts[told["messageID"]][told["partID"]]
                    part[told["field"]] += told["delta"]
                case "message.part.removed":
                    del parts[told["messageID"]][told["partID"]]
                case _:
                    pass
        return [
            {"info": messages[own], "parts": [parts[own][p] for p in sorted(parts.get(own, {}))]}
            for own in sorted(messages)
        ]


def kinds(said: Sequence[Said]) -> list[str]:
    return [each.type for each in said]
