"""Owns what an app says when it prompts: parts of a prompt, and the parameters of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from agentctl import v1


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as part of a prompt."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Resource:
    """A text that goes with a prompt, as the agent would find it at `uri`."""

    text: str
    uri: str
    mime_type: str = "text/plain"


Part: TypeAlias = str | Image | Resource | Path
"""A text, a picture, a text with an address, or the path of a file that the agent shall see."""

Prompt: TypeAlias = str | Sequence[Part] | v1.RunInput


@dataclass(frozen=True, slots=True)
class RunParams:
    """All that `agent.run` takes.

    Attributes:
        input: the prompt.
        session_key: run in the open session of this key, which is made when there is none; it
            stays open. Without a key the run has a session of its own, which ends with it.
        keep_session: leaves a session without a key open, for further prompts.
        workspace: the directory to work in; absent: the current one of this program.
        output_schema: a JSON schema that the answer must meet, where the agent can.
        policy: what answers approvals: ask (default), allow or deny.
        environment: local (default), worktree …; `environment_options` is what it takes.
        env: further variables for the agent, as values or references (`env:NAME`, `file:PATH`).
            Nothing else of this program's environment is handed over.
        timeout_ms: the run ends as `timed_out` after so many ms; absent: no limit.
        session: further arguments of `client.sessions.create`.
    """

    input: Prompt = ""
    session_key: str | None = None
    keep_session: bool = False
    workspace: str | Path | None = None
    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    output_schema: Mapping[str, Any] | None = None
    policy: str = ""
    environment: str | None = None
    environment_options: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    timeout_ms: int | None = None
    labels: Mapping[str, str] | None = None
    idempotency_key: str = ""
    session: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RunOptions(TypedDict, total=False):
    """The fields of RunParams beside the prompt, as arguments by name."""

    session_key: str | None
    keep_session: bool
    workspace: str | Path | None
    model: str | None
    mode: str | None
    effort: str | None
    output_schema: Mapping[str, Any] | None
    policy: str
    environment: str | None
    environment_options: Mapping[str, str] | None
    env: Mapping[str, str] | None
    timeout_ms: int | None
    labels: Mapping[str, str] | None
    idempotency_key: str
    session: Mapping[str, Any]


def prompt_input(prompt: Prompt) -> str | v1.RunInput:
    """A prompt as the API takes it."""
    if isinstance(prompt, str | v1.RunInput):
        return prompt
    if isinstance(prompt, bytes):
        raise TypeError("a prompt is a text, or a list of parts: decode these bytes.")
    return v1.RunInput(blocks=[_block(part) for part in prompt])


def _block(part: Part) -> v1.ContentBlock:
    kinds = v1.ContentType
    match part:
        case str():
            return v1.ContentBlock(type=kinds.CONTENT_TYPE_TEXT, text=part)
        case Image():
            return v1.ContentBlock(
                type=kinds.CONTENT_TYPE_IMAGE, data=part.data, mime_type=part.mime_type
            )
        case Resource():
            return v1.ContentBlock(
                type=kinds.CONTENT_TYPE_RESOURCE,
                text=part.text,
                uri=part.uri,
                mime_type=part.mime_type,
            )
        case Path():
            return v1.ContentBlock(type=kinds.CONTENT_TYPE_FILE, path=str(part.absolute()))
        case _:
            kind = type(part).__name__
            raise TypeError(f"a part of a prompt is a str, Image, Resource or Path, not {kind}.")
