"""Owns what a Codex thread offers and what is in force in it, as session options. Pure.

What was asked for and is not in force is told twice: beside the setting, and as a warning. Codex runs on
its defaults when its config file is not valid.
"""

from typing import Any

from agentctl.core.adapter import AnyDraft
from agentctl.core.events import Error, SessionOptions
from agentctl.core.parts import (
    Choice,
    ConfigOption,
    McpServerState,
    Model,
    PromptCapabilities,
    Setting,
    SlashCommand,
)
from agentctl.core.words import McpState
from agentctl_adapters.codex import modes
from agentctl_adapters.codex.view import Thread
from agentctl_adapters.common.shapes import Json, as_object, as_objects, as_text

Drafts = list[AnyDraft]

EFFORT = "reasoning_effort"
COMMANDS = (
    SlashCommand("compact", "Shortens the context to a summary"),
    SlashCommand("review", "Reviews the uncommitted changes", "what to look at"),
)
NOT_GRANTED = "SETTING_NOT_GRANTED"
_SERVERS = {
    "starting": McpState.CONNECTING,
    "ready": McpState.CONNECTED,
    "connected": McpState.CONNECTED,
    "failed": McpState.FAILED,
    "cancelled": McpState.DISABLED,
}


class Offers:
    """Models of the process; options of each thread."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.efforts: dict[str, list[str]] = {}

    def listed(self, result: Json) -> None:
        """model/list: a later page adds to the earlier ones."""
        for row in as_objects(result.get("data")):
            model = as_text(row.get("model")) or as_text(row.get("id"))
            if not model or row.get("hidden") is True or any(m.id == model for m in self.models):
                continue
            name, words = as_text(row.get("displayName")), as_text(row.get("description"))
            self.models.append(Model(model, name or None, words or None))
            levels = as_objects(row.get("supportedReasoningEfforts"))
            self.efforts[model] = [as_text(level.get("reasoningEffort")) for level in levels]

    def made(self, thread: Thread, asked: Json, result: Json) -> Drafts:
        """A thread was started, resumed or forked."""
        told = self._in_force(thread, result, asked)
        told.models = list(self.models) or None
        told.commands = list(COMMANDS)
        told.prompt_capabilities = PromptCapabilities(image=True, embedded_context=False)
        servers = as_object(as_object(asked.get("config")).get("mcp_servers"))
        if servers:
            thread.servers = {name: McpServerState(name) for name in servers}
            told.mcp_servers = list(thread.servers.values())
        drafts: Drafts = [thread.draft(told)]
        for setting in told.settings or []:
            if setting.asked is not None:
                words = f"{setting.name} is {setting.value}, although {setting.asked} was asked for"
                drafts.append(thread.draft(Error(NOT_GRANTED, words)))
        return drafts

    def changed(self, thread: Thread, settings: Json) -> Drafts:
        """thread/settings/updated: what a turn or we have chosen."""
        return [thread.draft(self._in_force(thread, settings, {}))]

    def server(self, thread: Thread, params: Json) -> Drafts:
        """An MCP server of a thread starts, is ready or has failed."""
        name = as_text(params.get("name"))
        state = _SERVERS.get(as_text(params.get("status")), McpState.UNKNOWN)
        detail = as_text(params.get("error"))[:1000] or None
        thread.servers[name] = McpServerState(name, state, detail)
        servers: list[McpServerState] = list(thread.servers.values())
        return [thread.draft(SessionOptions(mcp_servers=servers))]

    def _in_force(self, thread: Thread, source: Json, asked: Json) -> SessionOptions:
        approval, policy = source.get("approvalPolicy"), source.get("sandbox")
        sandbox = modes.sandbox_of(policy or source.get("sandboxPolicy"))
        effort = as_text(source.get("reasoningEffort")) or as_text(source.get("effort"))
        model = as_text(source.get("model"))
        told = SessionOptions(model=model or None)
        told.mode = modes.mode_of(approval, sandbox, source.get("collaborationMode"))
        told.modes = modes.choices(unconfined=sandbox in (modes.FULL, modes.EXTERNAL))
        told.settings = [
            _setting("approval_policy", approval, asked.get("approvalPolicy")),
            _setting("sandbox", sandbox, asked.get("sandbox")),
            _setting("model_provider", source.get("modelProvider"), asked.get("modelProvider")),
        ]
        if asked.get("model") not in (None, model):
            told.settings.append(_setting("model", model, asked.get("model")))
        levels = self.efforts.get(model, [])
        if levels or effort:
            choices = [Choice(level) for level in levels]
            told.config_options = [
                ConfigOption(
                    EFFORT,
                    "Reasoning effort",
                    category="thought_level",
                    value=effort or None,
                    choices=choices,
                )
            ]
        thread.model, thread.mode = told.model, told.mode
        return told


def _setting(name: str, value: Any, asked: Any) -> Setting:
    words = value if isinstance(value, str) else "granular" if value else "unknown"
    differs = isinstance(asked, str) and asked != words
    return Setting(name, words, asked if differs else None)
