"""Owns how each real agent stands behind a daemon: its home, its entry, its scripted model, its script.

Knows no test. The packaged entry is what is driven; laid over it is only what makes it hermetic.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from agentctl.testing.conformance import BaseScript, Line
from tests.fakes.models.anthropic import AnthropicEndpoint
from tests.fakes.models.endpoint import Endpoint, in_thread
from tests.fakes.models.gemini import GeminiEndpoint
from tests.fakes.models.openai import OpenAiEndpoint
from tests.fakes.models.responses import ResponsesEndpoint
from tests.real import claude, codex, opencode
from tests.real.harness import (
    FAKE_KEY,
    GEMINI,
    Home,
    Model,
    Recipe,
    age_gemini_sessions,
    make_home,
)
from tests.real.served import Row, Served, serving


class ModelScript(BaseScript):
    """Whatever stands in front of a scripted model says what the model's script says."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def say(self, text: str) -> Line:
        return Line(f"SAYTEXT {json.dumps(text)}")

    def run(self, command: str) -> Line:
        return Line(f"TOOL {command} || SAYTEXT That was it.")

    def stream(self) -> Line:
        return Line("HANGMID")

    def recall(self, earlier: int) -> Line:
        return Line("HISTORY", tells=f"HISTORY {earlier + 1}")


class GeminiScript(ModelScript):
    """It has no tool that asks a question over ACP."""

    async def rest(self, workspace: Path) -> None:
        # It cannot load a conversation within the minute of its beginning.
        await anyio.to_thread.run_sync(age_gemini_sessions, self.home)


class ClaudeScript(ModelScript):
    def ask(self, question: str, options: Sequence[str]) -> Line:
        choices = [{"label": each, "description": each} for each in options]
        asked = {"question": question, "header": "It", "multiSelect": False, "options": choices}
        return Line(f"CALL AskUserQuestion {json.dumps({'questions': [asked]})}")


class CodexScript(ModelScript):
    def create(self) -> Mapping[str, Any]:
        return {"mode": "untrusted"}

    def ask(self, question: str, options: Sequence[str]) -> Line:
        choices = [{"label": each, "description": each} for each in options]
        asked = {"id": "it", "question": question, "header": "It", "options": choices}
        return Line(f"CALL request_user_input {json.dumps({'questions': [asked]})}")


class OpenCodeScript(ModelScript):
    def ask(self, question: str, options: Sequence[str]) -> Line:
        choices = [{"label": each, "description": each} for each in options]
        asked = {"question": question, "header": "It", "options": choices}
        return Line(f"CALL question {json.dumps({'questions': [asked]})}")


def _gemini(home: Home, model: Model) -> Row:
    asking = {"mode": "default", "instead_of": ["autoEdit", "yolo"]}
    return {"protocol_config": {"asking_mode": asking}}


def _claude(home: Home, model: Model) -> Row:
    return {"cmd": [str(claude.binary())]}


def _codex(home: Home, model: Model) -> Row:
    codex.configure(home, model)
    return {"env": {"SCRIPTED_KEY": FAKE_KEY}}


def _opencode(home: Home, model: Model) -> Row:
    env = {"OPENCODE_CONFIG_CONTENT": opencode.config(model.url)}
    return {
        "protocol": "opencode",
        "cmd": list(opencode.command()),
        "env": {**opencode.OPENCODE.env, **env},
    }


@dataclass(frozen=True, slots=True)
class RealAgent:
    """`entry` makes what the home needs and returns the fields that are laid over the entry."""

    recipe: Recipe
    endpoint: Callable[[], Endpoint]
    entry: Callable[[Home, Model], Row]
    script: type[ModelScript]
    process: str

    @asynccontextmanager
    async def serving(self, root: Path, **more: Any) -> AsyncGenerator[Served]:
        """A daemon with this agent in a fresh home, and its model; `more` fields of its entry."""
        home = await anyio.to_thread.run_sync(make_home, root, self.recipe)
        with in_thread(self.endpoint()) as url:
            model = Model(url)
            fields = await anyio.to_thread.run_sync(self.entry, home, model)
            async with serving(home, model, recipe=self.recipe, **fields, **more) as served:
                yield served


AGENTS: dict[str, RealAgent] = {
    each.recipe.name: each
    for each in (
        RealAgent(GEMINI, GeminiEndpoint, _gemini, GeminiScript, "node"),
        RealAgent(claude.CLAUDE, AnthropicEndpoint, _claude, ClaudeScript, "claude"),
        RealAgent(codex.CODEX, ResponsesEndpoint, _codex, CodexScript, "codex"),
        RealAgent(opencode.OPENCODE, OpenAiEndpoint, _opencode, OpenCodeScript, "opencode"),
    )
}
