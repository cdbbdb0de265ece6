"""Owns the questions on the screen: cards for permission requests and questions, and their keys.

It draws and turns keys into answers; `Follow` hears the stream and tells what was resolved.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentctl.cli.cards import card, choices, full_diff, question_card
from agentctl.cli.keyboard import ENTER, ERASE, ESCAPE
from agentctl.cli.out import clean
from agentctl.cli.screen import Screen
from agentctl.core.errors import AgentctlError

if TYPE_CHECKING:
    from agentctl.client import AgentCtl

Json = dict[str, Any]

_REACH = {"edit": " this file", "delete": " this file", "execute": " this command"}
_ONCE = frozenset({"allow_once", "reject_once"})


@dataclass(slots=True)
class Ask:
    """One open request. `typing` is the line that is being typed, None when a key is awaited."""

    id: str
    data: Json
    is_question: bool
    typing: str | None = None
    answers: list[list[str]] = field(default_factory=list[list[str]])


class Asks:
    """The open requests of a run at a keyboard: one card at a time, the others wait."""

    def __init__(
        self,
        client: "AgentCtl",
        screen: Screen,
        forget_typed: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._screen = screen
        self._forget_typed = forget_typed
        self._open: dict[str, Ask] = {}
        self._shown: Ask | None = None

    @property
    def busy(self) -> bool:
        """Whether a card is on the screen, so that keys belong to it."""
        return self._shown is not None

    def add(self, identifier: str, data: Json, *, question: bool) -> None:
        self._open[identifier] = Ask(identifier, data, question)

    def resolved(self, identifier: str, how: str) -> None:
        """Takes a request away; says how, when somebody else was first."""
        if self._open.pop(identifier, None) is None:
            return
        if self._shown is not None and self._shown.id == identifier:
            self._shown = None
            self._screen.keep_bottom(f" {how}")

    def show(self) -> None:
        """Draws the next card when none is on the screen."""
        if self._shown is not None or not self._open:
            return
        ask = self._shown = next(iter(self._open.values()))
        self._forget_typed()
        lines = question_card if ask.is_question else card
        for line in lines(ask.data, self._screen):
            self._screen.line(line)
        if ask.is_question:
            self._question(ask)
        else:
            self._screen.bottom(self._prompt(ask))

    async def key(self, character: str) -> None:
        """Takes a key for the card on the screen."""
        ask = self._shown
        if ask is None:
            return
        if ask.typing is not None:
            await self._typed(ask, character)
            return
        options = _further(ask.data)
        match character.lower():
            case "y":
                await self._answer(ask, "y", decision="approve")
            case "n":
                await self._answer(ask, "n", decision="deny")
            case "a":
                await self._answer(ask, "a", decision="approve", always=True)
            case "r":
                self._type(ask, "  reason: ")
            case "d":
                self._screen.bottom("")
                for line in full_diff(ask.data, self._screen):
                    self._screen.line(line)
                self._screen.bottom(self._prompt(ask))
            case digit if digit.isdecimal() and 1 <= int(digit) <= len(options):
                option = options[int(digit) - 1]
                await self._answer(ask, digit, option_id=option["option_id"])
            case _:
                pass

    def _prompt(self, ask: Ask) -> str:
        reach = _REACH.get(ask.data.get("tool_kind", ""), "")
        choices = ["[y]es", f"[a]lways{reach}", "[n]o", "[r]eason…", "[d]iff"]
        if not (ask.data.get("details", {}).get("diff") or ask.data.get("document")):
            choices.pop()
        return "  allow " + " · ".join(choices) + " "

    async def _answer(self, ask: Ask, said: str, **answer: Any) -> None:
        self._shown = None
        self._screen.keep_bottom(f" {said}")
        self._open.pop(ask.id, None)
        try:
            await self._client.approvals.respond(ask.id, **answer)
        except AgentctlError as error:
            self._failed(ask, error)
        self.show()

    def _failed(self, ask: Ask, error: AgentctlError) -> None:
        self._screen.line("  " + self._screen.style(clean(error.message), "yellow"))
        if error.reason == "OPTION_NOT_OFFERED":
            self._open = {ask.id: ask, **self._open}

    def _type(self, ask: Ask, prompt: str) -> None:
        self._screen.keep_bottom()
        ask.typing = ""
        self._screen.bottom(prompt)

    def _question(self, ask: Ask) -> None:
        asked = ask.data.get("questions", [])
        at = len(ask.answers)
        many = asked[at]["question"] if at and at < len(asked) else ""
        if many:
            self._screen.line(f"  {clean(many)}")
            for line in choices(asked[at], self._screen):
                self._screen.line(line)
        ask.typing = ""
        self._screen.bottom("  answer: ")

    async def _typed(self, ask: Ask, character: str) -> None:
        label = "  answer: " if ask.is_question else "  reason: "
        line = ask.typing or ""
        if character == ESCAPE:
            if ask.is_question:
                await self._reject(ask)
            else:
                ask.typing = None
                self._screen.bottom(self._prompt(ask))
            return
        if character in ENTER:
            if ask.is_question:
                await self._next_answer(ask, line)
            elif line.strip():
                await self._answer(ask, "", decision="deny", reason=line.strip())
            return
        if character in ERASE:
            ask.typing = line[:-1]
        elif character.isprintable():
            ask.typing = line + character
        self._screen.bottom(label + (ask.typing or ""))

    async def _next_answer(self, ask: Ask, line: str) -> None:
        asked = ask.data.get("questions", [])
        at = len(ask.answers)
        ask.answers.append(values(asked[at], line) if at < len(asked) else [line])
        self._screen.keep_bottom()
        if len(ask.answers) < len(asked):
            self._question(ask)
            return
        self._shown = None
        self._open.pop(ask.id, None)
        try:
            if asked:
                await self._client.questions.answer(ask.id, ask.answers)
            else:
                await self._client.questions.answer(ask.id, content_json=content(ask.data, line))
        except AgentctlError as error:
            self._failed(ask, error)
        self.show()

    async def _reject(self, ask: Ask) -> None:
        await self._leave(ask, lambda: self._client.questions.reject(ask.id))

    async def _leave(self, ask: Ask, call: Callable[[], Awaitable[object]]) -> None:
        self._shown = None
        self._open.pop(ask.id, None)
        self._screen.keep_bottom(" no answer")
        try:
            await call()
        except AgentctlError as error:
            self._failed(ask, error)
        self.show()


def _further(data: Json) -> list[Json]:
    """The agent's own options that none of our keys sends."""
    return [each for each in data.get("options", []) if each.get("kind") not in _ONCE]


def values(question: Json, line: str) -> list[str]:
    """What was typed, as option ids where it names options by number, id or name, else as it is."""
    options: list[Json] = question.get("options", [])
    parts = line.split(",") if question.get("multiple") else [line]
    return [_option(options, part.strip()) for part in parts if part.strip()]


def _option(options: list[Json], text: str) -> str:
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return str(options[int(text) - 1]["id"])
    for each in options:
        if text.lower() in (str(each["id"]).lower(), str(each.get("name", "")).lower()):
            return str(each["id"])
    return text


def content(data: Json, line: str) -> bytes:
    """The content for a schema: JSON as typed, or the text as its only required field."""
    import json

    try:
        typed: Any = json.loads(line)
    except ValueError:
        typed = line
    if not isinstance(typed, dict):
        schema = data.get("schema", {})
        names = [*schema.get("required", []), *schema.get("properties", {})]
        typed = {names[0]: line} if names else {"value": line}
    return json.dumps(typed).encode()
