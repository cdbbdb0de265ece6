"""Owns a message as OpenCode shows it, and what every message of a session tells. Pure."""

from dataclasses import dataclass, field

from agentctl.gateway.opencode import words
from agentctl.gateway.opencode.parts import Part
from agentctl.gateway.opencode.words import Json

NO_MODEL = "default"
"""The model of an agent that names none."""


@dataclass(frozen=True, slots=True)
class Said:
    """An event for clients: OpenCode's type and properties."""

    type: str
    properties: Json


@dataclass(slots=True)
class Facts:
    """What every message of a session tells. `id` is the session's as clients know it."""

    id: str
    entry_id: str
    directory: str
    model: str = NO_MODEL
    mode: str = ""


@dataclass(slots=True)
class Message:
    """A message on its way."""

    id: str
    role: str
    created: int
    parent: str = ""
    model: str = NO_MODEL
    mode: str = ""
    completed: int | None = None
    error: Json | None = None
    finish: str = ""
    cost: float = 0
    tokens: Json = field(default_factory=lambda: words.tokens(None))
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    diffs: list[Json] = field(default_factory=list[Json])
    made: int = 0

    def info(self, facts: Facts) -> Json:
        base: Json = {"id": self.id, "sessionID": facts.id, "role": self.role}
        if self.role == "user":
            # What was asked for: a client that chose from an older list must know it.
            model = {"providerID": facts.entry_id, "modelID": self.model}
            told = {"time": {"created": self.created}, "agent": facts.entry_id, "model": model}
            return {**base, **told, "summary": {"diffs": self.diffs}}
        times: Json = {"created": self.created}
        if self.completed is not None:
            times["completed"] = self.completed
        out: Json = {
            **base,
            "time": times,
            "parentID": self.parent,
            "modelID": facts.model if self.model == NO_MODEL else self.model,
            "providerID": facts.entry_id,
            "mode": self.mode or "default",
            "agent": facts.entry_id,
            "path": {"cwd": facts.directory, "root": facts.directory},
            "cost": self.cost,
            "tokens": self.tokens,
        }
        if self.finish:
            out["finish"] = self.finish
        if self.error is not None:
            out["error"] = self.error
        return out

    def view(self, facts: Facts) -> Json:
        return {"info": self.info(facts), "parts": [part.view() for part in self.parts.values()]}
