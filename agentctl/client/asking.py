"""Owns what an app sees of an approval and a question, and its answers to them.

An answer is one call; the first one wins, a later one raises ALREADY_RESOLVED.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from agentctl import v1
from agentctl.rpc.jsonview import to_dict

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Option:
    """An answer that the agent offers. `kind`: allow_once, allow_always, reject_once, reject_always."""

    option_id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer that a question offers; `id` is what to send."""

    id: str
    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class QuestionItem:
    """One of the questions of a request. Without `options` any text answers it."""

    question: str
    header: str | None = None
    options: tuple[Choice, ...] = ()
    multiple: bool = False
    custom: bool = False


class _Request:
    """What a request of an agent has in any case."""

    __slots__ = ("_client", "_told", "id", "parent_tool_call_id", "run_id", "session_id")

    def __init__(self, client: "AgentCtl", id_: str, told: Json, about: Json) -> None:
        self._client = client
        self._told = told
        self.id = id_
        self.session_id: str | None = about.get("session_id") or None
        self.run_id: str | None = about.get("run_id")
        self.parent_tool_call_id: str | None = about.get("parent_tool_call_id")

    @property
    def data(self) -> Json:
        """All that was told, as plain data."""
        return self._told

    @property
    def expires_at(self) -> int | None:
        """Unix ms; None when it waits without limit."""
        return self._told.get("expires_at")

    @property
    def tool_call_id(self) -> str | None:
        """The tool that waits."""
        return self._told.get("tool_call_id")

    async def ask_user(self) -> None:
        """Leaves it to people: it stays open, for whoever answers it at any other client."""


class Approval(_Request):
    """An agent asks for leave to do something."""

    __slots__ = ("by", "decision", "option_id", "reason")

    def __init__(self, client: "AgentCtl", told: Json, about: Json) -> None:
        super().__init__(client, told["approval_id"], told, about)
        self.decision: str | None = about.get("decision")
        """approved, denied, cancelled or expired; None while it is open."""
        self.by: str | None = about.get("by")
        """client, policy, rule, agent or elsewhere."""
        self.option_id: str | None = about.get("option_id")
        self.reason: str | None = about.get("reason")

    @property
    def kind(self) -> str:
        """tool, plan, mode, mcp, environment or other."""
        return self._told.get("kind", "other")

    @property
    def summary(self) -> str:
        """What is asked, in words for people."""
        for name in ("title", "action", "tool_name"):
            if self._told.get(name):
                return self._told[name]
        return self.command or self.file or self.kind

    @property
    def tool_name(self) -> str | None:
        """The tool's own name, or the action on an environment."""
        return self._told.get("tool_name") or self._told.get("action")

    @property
    def tool_kind(self) -> str | None:
        """What the tool does: read, edit, execute …"""
        return self._told.get("tool_kind")

    @property
    def command(self) -> str | None:
        return self._told.get("details", {}).get("command")

    @property
    def file(self) -> str | None:
        return self._told.get("details", {}).get("file")

    @property
    def input(self) -> Any:
        """The tool's arguments."""
        return self._told.get("input")

    @property
    def risk(self) -> str | None:
        """How dangerous the agent says it is: low, medium or high."""
        return self._told.get("risk")

    @property
    def reusable(self) -> bool:
        """Whether the answer can be kept as a rule of the session."""
        return bool(self._told.get("reusable"))

    @property
    def options(self) -> tuple[Option, ...]:
        """The answers that the agent itself offers, for `choose`."""
        return tuple(
            Option(each["option_id"], each.get("name", ""), each.get("kind", ""))
            for each in self._told.get("options", ())
        )

    @property
    def decisions(self) -> tuple[str, ...]:
        """Which of approve_once, approve_always and deny can be called."""
        once = any(option.kind == "allow_once" for option in self.options)
        always = once and self.reusable
        return (*(["approve_once"] * once), *(["approve_always"] * always), "deny")

    async def approve_once(
        self, reason: str | None = None, updated_input: Any = None
    ) -> "Approval":
        """Allows it this time; `updated_input` are changed arguments, where the agent takes them.

        Raises:
            AgentctlError: ALREADY_RESOLVED, somebody was first; OPTION_NOT_OFFERED.
        """
        given = None if updated_input is None else orjson.dumps(updated_input)
        return self._settled(
            await self._client.approvals.respond(
                self.id, "approve", reason=reason, updated_input_json=given
            )
        )

    async def approve_always(self, reason: str | None = None) -> "Approval":
        """Allows it, and exactly this command or path for the rest of the session."""
        return self._settled(
            await self._client.approvals.respond(self.id, "approve", reason=reason, always=True)
        )

    async def deny(self, reason: str | None = None) -> "Approval":
        """Refuses it; the agent is told why, where it can be."""
        return self._settled(await self._client.approvals.respond(self.id, "deny", reason=reason))

    async def choose(self, option_id: str, reason: str | None = None) -> "Approval":
        """Answers with exactly this option of the agent."""
        return self._settled(
            await self._client.approvals.respond(self.id, option_id=option_id, reason=reason)
        )

    def _settled(self, answer: v1.Approval) -> "Approval":
        return approval(self._client, answer)

    def __repr__(self) -> str:
        return f"Approval({self.id!r}, {self.kind!r}, {self.summary!r})"


class Question(_Request):
    """An agent asks for information: questions, a form (`schema`), or a page to open (`url`)."""

    __slots__ = ("answers", "outcome")

    def __init__(self, client: "AgentCtl", told: Json, about: Json) -> None:
        super().__init__(client, told["question_id"], told, about)
        self.outcome: str | None = about.get("outcome")
        """answered, rejected, cancelled or expired; None while it is open."""
        self.answers: tuple[tuple[str, ...], ...] = tuple(
            tuple(each.get("values", ())) for each in about.get("answers", ())
        )

    @property
    def message(self) -> str | None:
        """What it is about."""
        return self._told.get("message")

    @property
    def questions(self) -> tuple[QuestionItem, ...]:
        return tuple(
            QuestionItem(
                each.get("question", ""),
                each.get("header"),
                tuple(
                    Choice(
                        option["id"], option.get("name") or option["id"], option.get("description")
                    )
                    for option in each.get("options", ())
                ),
                bool(each.get("multiple")),
                bool(each.get("custom")),
            )
            for each in self._told.get("questions", ())
        )

    @property
    def text(self) -> str:
        """What it is about, else its first question."""
        first = next(iter(self.questions), None)
        return self.message or (first.question if first else None) or self.url or ""

    @property
    def schema(self) -> Any:
        """The JSON schema that `answer(content=…)` must meet."""
        return self._told.get("schema")

    @property
    def url(self) -> str | None:
        return self._told.get("url")

    async def answer(
        self, *answers: str | Sequence[str], content: Mapping[str, Any] | None = None
    ) -> "Question":
        """Answers each of its questions in order, with a text or with several; or fills in its form.

        Raises:
            AgentctlError: ALREADY_RESOLVED, somebody was first; INVALID_PARAMETERS.
        """
        values = [[each] if isinstance(each, str) else list(each) for each in answers]
        filled = None if content is None else orjson.dumps(dict(content))
        done = await self._client.questions.answer(self.id, values, content_json=filled)
        return question(self._client, done)

    async def reject(self, reason: str | None = None) -> "Question":
        """Declines to answer; the agent goes on without."""
        return question(self._client, await self._client.questions.reject(self.id, reason=reason))

    def __repr__(self) -> str:
        return f"Question({self.id!r}, {self.text!r})"


def approval(client: "AgentCtl", record: v1.Approval) -> Approval:
    """Of a list or an answer."""
    about = to_dict(record)
    return Approval(
        client, about.pop("request", None) or {"approval_id": record.approval_id}, about
    )


def question(client: "AgentCtl", record: v1.QuestionRecord) -> Question:
    about = to_dict(record)
    return Question(
        client, about.pop("request", None) or {"question_id": record.question_id}, about
    )


def asked(client: "AgentCtl", event: v1.AgentEvent) -> Approval | Question:
    """Of the event that asks."""
    whole = to_dict(event)
    told: Json = whole["data"]
    kind = Approval if "approval_id" in told else Question
    return kind(client, told, whole)
