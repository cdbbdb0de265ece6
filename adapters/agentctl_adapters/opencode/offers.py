"""Owns what a session of the server offers and has in force, as events. Pure.

Models, agents (our modes), commands and MCP servers are told per directory by GET answers; the model,
agent and variant in force by the session and by each user message. Only what changed is told.
"""

from dataclasses import dataclass, field
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import SessionOptions, SessionStatus
from agentctl.core.parts import (
    Choice,
    McpServerState,
    Model,
    PromptCapabilities,
    Setting,
    SlashCommand,
)
from agentctl.core.words import McpState, SessionChange
from agentctl_adapters.opencode.shapes import (
    Json,
    as_object,
    as_objects,
    as_text,
    as_texts,
    info_of,
    model_name,
    number,
    time_of,
)
from agentctl_adapters.opencode.tools import Tools, adopt
from agentctl_adapters.opencode.view import Book, SessionView

Drafts = list[AnyDraft]

_MCP = {
    "connected": McpState.CONNECTED,
    "disabled": McpState.DISABLED,
    "failed": McpState.FAILED,
    "needs_auth": McpState.NEEDS_AUTH,
    "needs_client_registration": McpState.NEEDS_AUTH,
}
_LISTS = ("models", "modes", "commands", "prompt_capabilities", "mcp_servers")


@dataclass(slots=True)
class _Catalog:
    """What one directory offers; None where nobody asked yet."""

    models: list[Model] | None = None
    modes: list[Choice] | None = None
    commands: list[SlashCommand] | None = None
    mcp_servers: list[McpServerState] | None = None
    images: set[str] = field(default_factory=set[str])


class Offers:
    """What the directories of one server offer, and what its sessions have in force."""

    def __init__(self, book: Book, tools: Tools) -> None:
        self._book = book
        self._tools = tools
        self._catalogs: dict[str, _Catalog] = {}

    def session(self, properties: Json, raw: Any, *, ours: bool = False) -> Drafts:
        """A session as an event or an answer tells it. `ours`: we asked for exactly this one."""
        info = info_of(properties)
        own = as_text(info.get("id"))
        if not own:
            return []
        view = self._book.view(own)
        created = time_of(info, "created")
        view.created = view.created if created is None else created
        view.directory = as_text(info.get("directory")) or view.directory
        view.ours = view.ours or ours
        adopt(self._book, view, as_text(info.get("parentID")))
        if view.parent is not None:
            return []
        drafts = self._status(view, info, raw) + self.in_force(view, info, raw)
        return drafts + (self._offered(view) if ours else [])

    def _status(self, view: SessionView, info: Json, raw: Any) -> Drafts:
        drafts: Drafts = []
        title = as_text(info.get("title"))
        if title and title != view.title:
            if view.title is not None:
                told = SessionStatus(SessionChange.UPDATED, title=title)
                drafts.append(Draft(told, view.native, raw=raw))
            view.title = title
        reverted = as_text(as_object(info.get("revert")).get("messageID"))
        if reverted != view.told.get("revert", ""):
            view.told["revert"] = reverted
            reason = f"reverted to before {reverted}" if reverted else "the revert is over"
            told = SessionStatus(SessionChange.UPDATED, reason=reason)
            drafts.append(Draft(told, view.native, raw=raw))
        return drafts

    def in_force(self, view: SessionView, info: Json, raw: Any) -> Drafts:
        """Model, agent and variant of a session or a user message."""
        if view.parent is not None:
            return []
        options = SessionOptions()
        model, agent = model_name(info), as_text(info.get("agent"))
        if model and view.news("model", model):
            options.model = model
        if agent and view.news("mode", agent):
            options.mode = agent
        variant = as_text(as_object(info.get("model")).get("variant"))
        settings = [Setting("variant", variant)] if variant and variant != "default" else []
        if variant and settings != view.told.get("settings", []):
            view.told["settings"] = settings
            options.settings = settings
        return [] if options == SessionOptions() else [Draft(options, view.native, raw=raw)]

    # What GET answers tell of a directory

    def providers(self, directory: str, body: object) -> Drafts:
        """GET /config/providers or /provider. The answer holds keys: nothing of it is kept as raw."""
        told = as_object(body)
        catalog = self._catalog(directory)
        connected = set(as_texts(told.get("connected"))) if "all" in told else None
        catalog.models = []
        for provider in as_objects(told.get("providers", told.get("all"))):
            name = as_text(provider.get("id"))
            if connected is not None and name not in connected:
                continue
            for key, entry in as_object(provider.get("models")).items():
                model = as_object(entry)
                full = f"{name}/{as_text(model.get('id')) or key}"
                window = number(as_object(model.get("limit")).get("context")) or None
                if window is not None:
                    self._book.windows[full] = max(window, self._book.windows.get(full, 0))
                if _takes_images(model):
                    catalog.images.add(full)
                title = as_text(model.get("name")) or None
                catalog.models.append(Model(full, title, provider=name, context_window=window))
        return self._tell(directory)

    def agents(self, directory: str, body: object) -> Drafts:
        """GET /agent: those that a prompt may name."""
        self._catalog(directory).modes = [
            Choice(name, name, as_text(agent.get("description")) or None)
            for agent in as_objects(body)
            if (name := as_text(agent.get("name")))
            and agent.get("mode") != "subagent"
            and agent.get("hidden") is not True
        ]
        return self._tell(directory)

    def commands(self, directory: str, body: object) -> Drafts:
        """GET /command."""
        self._catalog(directory).commands = [
            SlashCommand(name, as_text(item.get("description")) or None, _hint(item))
            for item in as_objects(body)
            if (name := as_text(item.get("name")))
        ]
        return self._tell(directory)

    def mcp(self, directory: str, body: object) -> Drafts:
        """GET or POST /mcp: the servers of a directory and their state."""
        servers = mcp_states(body)
        self._tools.servers |= {server.name for server in servers}
        self._catalog(directory).mcp_servers = servers
        return self._tell(directory)

    def _catalog(self, directory: str) -> _Catalog:
        return self._catalogs.setdefault(directory, _Catalog())

    def _tell(self, directory: str) -> Drafts:
        drafts: Drafts = []
        for view in self._book.views.values():
            if view.ours and view.parent is None and directory in ("", view.directory):
                drafts += self._offered(view)
        return drafts

    def _offered(self, view: SessionView) -> Drafts:
        options = SessionOptions()
        for place in ("", view.directory):
            catalog = self._catalogs.get(place)
            if catalog is None:
                continue
            options.models = catalog.models if catalog.models is not None else options.models
            options.modes = catalog.modes if catalog.modes is not None else options.modes
            options.commands = (
                catalog.commands if catalog.commands is not None else options.commands
            )
            if catalog.mcp_servers is not None:
                options.mcp_servers = catalog.mcp_servers
            if catalog.models is not None:
                image = view.told.get("model") in catalog.images
                options.prompt_capabilities = PromptCapabilities(image, embedded_context=True)
        for name in _LISTS:
            value = getattr(options, name)
            if value is not None and not view.news(name, value):
                setattr(options, name, None)
        return [] if options == SessionOptions() else [Draft(options, view.native)]


def mcp_states(body: object) -> list[McpServerState]:
    """The answer of /mcp."""
    return [
        McpServerState(
            name,
            _MCP.get(as_text(as_object(entry).get("status")), McpState.UNKNOWN),
            as_text(as_object(entry).get("error")) or None,
        )
        for name, entry in as_object(body).items()
    ]


def _takes_images(model: Json) -> bool:
    told = as_object(as_object(model.get("capabilities")).get("input")).get("image")
    if isinstance(told, bool):
        return told
    return "image" in as_texts(as_object(model.get("modalities")).get("input"))


def _hint(item: Json) -> str | None:
    return " ".join(as_texts(item.get("hints"))) or None
