"""Owns what may be chosen in a Claude Code session and what is in force: models, modes, commands. Pure.

`initialize` tells what there is, `system/init` before each turn what is in force.
"""

from collections.abc import Sequence

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import SessionOptions
from agentctl.core.parts import Choice, McpServerState, Model, PromptCapabilities, SlashCommand
from agentctl.core.words import McpState
from agentctl_adapters.claude.view import View
from agentctl_adapters.common.shapes import Json, as_objects, as_text

MODES = {
    "default": ("Ask", "Asks before it edits files or runs commands"),
    "acceptEdits": ("Accept edits", "Edits files without asking, asks before other commands"),
    "plan": ("Plan", "Reads and plans, changes nothing"),
    "dontAsk": ("Do not ask", "Refuses whatever is not allowed beforehand"),
    "auto": ("Auto", "Lets a classifier decide; needs an account of the vendor"),
    "bypassPermissions": ("Bypass permissions", "Asks for nothing; only in a sandbox"),
}
ALIASES = {"manual": "default"}
_SERVERS = {
    "connected": McpState.CONNECTED,
    "pending": McpState.CONNECTING,
    "failed": McpState.FAILED,
    "needs-auth": McpState.NEEDS_AUTH,
    "disabled": McpState.DISABLED,
}


def mode_of(name: str) -> str:
    return ALIASES.get(name, name)


def models_of(result: Json) -> list[Model]:
    return [
        Model(
            as_text(model.get("value")),
            as_text(model.get("displayName")) or None,
            as_text(model.get("description")) or None,
            provider="anthropic",
        )
        for model in as_objects(result.get("models"))
        if as_text(model.get("value"))
    ]


def initialized(view: View, result: Json, raw: Json) -> Sequence[AnyDraft]:
    """The answer to initialize."""
    options = SessionOptions(
        models=models_of(result) or None,
        modes=[Choice(name, title, says) for name, (title, says) in MODES.items()],
        commands=[
            SlashCommand(
                as_text(command.get("name")),
                as_text(command.get("description")) or None,
                as_text(command.get("argumentHint")) or None,
            )
            for command in as_objects(result.get("commands"))
        ],
        prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
    )
    mode = mode_of(as_text(result.get("current_permission_mode")))
    if mode and view.news("mode", mode):
        options.mode = mode
    return (Draft(options, view.session, None, None, None, raw),)


def in_force(view: View, msg: Json, raw: Json) -> Sequence[AnyDraft]:
    """system/init: model, mode and MCP servers, as far as they are news."""
    options = SessionOptions()
    if (model := as_text(msg.get("model"))) and view.news("model", model):
        options.model = model
    if (mode := mode_of(as_text(msg.get("permissionMode")))) and view.news("mode", mode):
        options.mode = mode
    servers = [
        McpServerState(
            as_text(server.get("name")),
            _SERVERS.get(as_text(server.get("status")), McpState.UNKNOWN),
            as_text(server.get("error")) or None,
        )
        for server in as_objects(msg.get("mcp_servers"))
    ]
    if (servers or "servers" in view.offers) and view.news("servers", servers):
        options.mcp_servers = servers
    if options == SessionOptions():
        return ()
    return (Draft(options, view.session, None, None, None, raw),)
