"""Owns what a ledger needs from its session, and the fixed words both use; does nothing itself."""

from collections.abc import Sequence
from typing import Protocol

from agentctl.core.adapter import PermissionAnswer, QuestionAnswer
from agentctl.core.events import Event
from agentctl.core.ids import NativeRequestId
from agentctl.core.parts import ContentBlock
from agentctl.core.spec import PromptSpec
from agentctl.core.words import ContentType
from agentctl.session.records import RunRecord

# After these ends the prompts behind are not sent into the same trouble (design section 5).
HOLDING = frozenset(
    {
        "AGENT_EXITED",
        "AGENT_FAILED",
        "AGENT_NOT_INSTALLED",
        "AGENT_DISABLED",
        "AGENT_NOT_FOUND",
        "AUTH_REQUIRED",
        "RATE_LIMITED",
        "DISK_FULL",
        "SERVER_ERROR",
    }
)


class Hooks(Protocol):
    """What follows once a change is durable; called on the loop, never awaited."""

    def answer(self, request: NativeRequestId, answer: PermissionAnswer) -> None: ...

    def answer_question(self, request: NativeRequestId, answer: QuestionAnswer) -> None: ...

    def redact(self, text: str) -> str:
        """At once: the text without the secrets of its agent."""
        ...

    def asked(self, approval_id: str) -> None: ...

    def resolved(self, approval_id: str) -> None: ...

    def tool_ended(self, run_id: str) -> None:
        """At once: a tool that does more than read."""
        ...

    def started(self, run: RunRecord) -> None: ...

    def ended(self, run: RunRecord) -> None: ...

    def made(self, event: Event) -> None:
        """At once, not once it is durable: an event of which there may be an artifact."""
        ...


def as_blocks(prompt: PromptSpec) -> Sequence[ContentBlock]:
    """What a prompt without content looks like in its event."""
    if prompt.command is not None:
        text = f"/{prompt.command.name} {prompt.command.arguments}".strip()
    else:
        text = "/compact" if prompt.compact else "/review"
    return [ContentBlock(ContentType.TEXT, text=text)]
