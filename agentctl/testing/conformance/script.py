"""Owns what the kit must be told of an agent: which prompt makes it do a thing. Knows no protocol.

A real agent stands in front of a scripted model, so that its answer follows from the prompt; the words
differ with the model. An agent that cannot do a thing says None: the scenario is reported `unsupported`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Line:
    """A prompt, and a text that the agent's answer to it must hold."""

    prompt: str
    tells: str = ""


class Script(Protocol):
    """How one agent, with its model, is made to do things."""

    def create(self) -> Mapping[str, Any]:
        """Further arguments of Sessions.create: a mode in which commands need leave, a model."""
        ...

    def say(self, text: str) -> Line | None:
        """Answers with exactly this text and calls no tool."""
        ...

    def usage(self) -> Line | None:
        """Answers with any text; the agent tells the tokens of the turn."""
        ...

    def run(self, command: str) -> Line | None:
        """Says something, runs a shell command that needs leave, says something, whatever the leave."""
        ...

    def ask(self, question: str, options: Sequence[str]) -> Line | None:
        """Asks the user to choose one option, then says a text with the answer in it."""
        ...

    def stream(self) -> Line | None:
        """Says something, then nothing for a minute, or a word now and then."""
        ...

    def recall(self, earlier: int) -> Line | None:
        """Says something that only who knows the `earlier` prompts of this conversation can say."""
        ...

    async def rest(self, workspace: Path) -> None:
        """What must happen between the end of a session and its resume."""
        ...


class BaseScript:
    """A script whose agent can do nothing yet: override what yours can."""

    def create(self) -> Mapping[str, Any]:
        return {}

    def say(self, text: str) -> Line | None:
        return None

    def usage(self) -> Line | None:
        """Most agents tell the usage of every turn."""
        return self.say("counted")

    def run(self, command: str) -> Line | None:
        return None

    def ask(self, question: str, options: Sequence[str]) -> Line | None:
        return None

    def stream(self) -> Line | None:
        return None

    def recall(self, earlier: int) -> Line | None:
        return None

    async def rest(self, workspace: Path) -> None:
        return None
