"""Owns the routes of the server itself: health, events, configuration, what clients ask for when they start."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from starlette.responses import StreamingResponse

from agentctl.gateway.opencode import catalog, prompts
from agentctl.gateway.opencode.context import Call, Handler
from agentctl.gateway.opencode.errors import no_mcp_server, plain
from agentctl.gateway.opencode.message import Said
from agentctl.gateway.opencode.places import project_id
from agentctl.gateway.opencode.roster import directory_of
from agentctl.gateway.opencode.words import Json

# Whether an agent is logged in is looked up in its files; a client that starts waits no longer for it.
LOGIN_S = 5.0

_STREAM = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
_MODEL_KEYS = frozenset({"model", "default_model", "providerID", "modelID"})
_MCP_STATES = {
    "connected": {"status": "connected"},
    "needs_auth": {"status": "needs_auth"},
    "failed": {"status": "failed"},
}


async def health(call: Call) -> Json:
    return {"healthy": True, "version": call.rooms.version}


# Events


async def events(call: Call) -> StreamingResponse:
    directory = await call.directory()
    return _stream(call.rooms.pump.bus.stream(directory, directory, project_id(directory)))


async def global_events(call: Call) -> StreamingResponse:
    directory = await call.directory()
    return _stream(call.rooms.pump.bus.stream(None, directory, project_id(directory)))


def _stream(data: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(data, media_type="text/event-stream", headers=_STREAM)


async def dispose(call: Call) -> bool:
    """Tells clients to read everything anew; no agent is stopped."""
    directory = await call.directory()
    said = Said("server.instance.disposed", {"directory": directory})
    call.rooms.pump.publish(said, directory, "disposed")
    return True


# Configuration


async def config(call: Call) -> Json:
    return await call.rooms.catalog.config()


async def change_config(call: Call) -> Json:
    body = await call.body()
    inner = body.get("config")
    told = cast(Json, inner) if isinstance(inner, dict) else body
    strange = sorted({*told} - _MODEL_KEYS - {"provider"})
    if strange:
        raise plain(
            400, f"{strange[0]} cannot be set here: set a model, or switch a provider on or off"
        )
    switches = _switches(told.get("provider"))
    if "default_model" in told and "model" not in told:
        told = {**told, "model": told["default_model"]}
    asked = prompts.choice(told)
    for entry_id, enabled in switches.items():
        await call.rooms.client.registry.enable(entry_id, enabled)
    if asked.model or asked.provider:
        await call.rooms.catalog.set_model(asked)
    if not told:
        await _reload(call)
    return await call.rooms.catalog.config()


async def _reload(call: Call) -> None:
    """Has the daemon read its registry files now; what is wrong with one is told.

    Raises:
        HttpError: a file cannot be taken; what it said before stays in force.
    """
    told = await call.rooms.client.registry.validate()
    if not told.valid:
        first = told.problems[0]
        place = f"{first.file}:{first.line}: " if first.line else f"{first.file}: "
        raise plain(400, f"{place}{first.message}")


def _switches(told: Any) -> dict[str, bool]:
    """Which entries are to be switched on or off.

    Raises:
        HttpError: it asks for more, which belongs into the registry.
    """
    if told is None:
        return {}
    if not isinstance(told, dict):
        raise plain(400, "provider must be an object")
    out: dict[str, bool] = {}
    for entry_id, fields in cast(Json, told).items():
        if not isinstance(fields, dict):
            raise plain(400, f"provider.{entry_id} must be an object")
        values = cast(Json, fields)
        if {*values} - {"enabled"}:
            raise plain(
                400,
                f"provider.{entry_id} can only be switched on or off (enabled): keys and addresses "
                "are set where the agent keeps them, or with `agentctl registry set`",
            )
        if not isinstance(values.get("enabled"), bool):
            raise plain(400, f"provider.{entry_id}.enabled must be true or false")
        out[entry_id] = values["enabled"]
    return out


async def config_providers(call: Call) -> Json:
    providers, default = await call.rooms.catalog.providers()
    return {"providers": providers, "default": default}


async def providers(call: Call) -> Json:
    rows, default = await call.rooms.catalog.providers()
    login = await catalog.settle(call.rooms.catalog.login(), LOGIN_S, {})
    out = {own for own, state in login.items() if state.HasField("authenticated")}
    refused = {own for own in out if not login[own].authenticated}
    connected = [row["id"] for row in rows if row["id"] not in refused]
    return {"all": rows, "default": default, "connected": connected}


async def provider_auth(call: Call) -> Json:
    offers = await call.rooms.catalog.offers()
    login = await catalog.settle(call.rooms.catalog.login(), LOGIN_S, {})
    out: Json = {}
    for own in offers:
        words = login[own].detail if own in login and login[own].detail else "The agent's own login"
        out[own] = [{"type": "api_key", "description": words, "label": words}]
    return out


# What clients ask for when they start


async def path(call: Call) -> Json:
    directory = await call.directory()
    top, _ = await call.rooms.places.vcs(directory)
    home = str(Path.home())
    return {"directory": directory, "home": home, "state": "", "config": "", "worktree": top}


async def current_project(call: Call) -> Json:
    directory = await call.directory()
    return {**await call.rooms.places.project(directory), "directory": directory}


async def projects(call: Call) -> list[Json]:
    return [await current_project(call)]


async def project_directories(call: Call) -> list[Json]:
    return [{"directory": (await call.rooms.places.vcs(await call.directory()))[0]}]


async def vcs(call: Call) -> Json:
    top, state = await call.rooms.places.vcs(await call.directory())
    out: Json = {"sha": "", "branch": "", "dirty": False, "root": top}
    if state is None:
        return out
    out |= {"sha": state.head or "", "branch": state.branch or "", "dirty": state.dirty}
    return {**out, "default_branch": state.branch or ""}


async def agents(call: Call) -> list[Json]:
    return await call.rooms.catalog.agents()


async def commands(call: Call) -> list[Json]:
    offers = await call.rooms.catalog.offers()
    return catalog.commands(call.rooms.catalog.options, offers)


async def location(call: Call) -> Json:
    directory = await call.directory()
    top, _ = await call.rooms.places.vcs(directory)
    return {"directory": directory, "project": {"id": project_id(top), "directory": top}}


async def listed(call: Call) -> Json:
    """A list of the second API, which nothing here fills: clients ask for it and use the first."""
    return {"location": await location(call), "data": []}


async def log(call: Call) -> bool:
    await call.body()
    return True


def fixed(value: Any) -> Handler:
    async def give(call: Call) -> Any:
        return value

    return give


# MCP


async def _servers(call: Call) -> Json:
    """The MCP servers of the sessions in a directory, as the newest session tells them."""
    wanted = await call.directory()
    out: Json = {}
    for session in reversed(await call.rooms.roster.load()):
        if directory_of(session) != wanted or session.HasField("closed_at"):
            continue
        conversation = await call.rooms.pump.whole(session)
        told: list[Json] = conversation.options.get("mcp_servers") or []
        for server in told:
            state = dict(_MCP_STATES.get(str(server.get("state")), {"status": "disabled"}))
            if state["status"] == "failed":
                state["error"] = str(server.get("detail") or "It does not answer.")
            out[str(server["name"])] = state
    return out


async def mcp(call: Call) -> Json:
    return await _servers(call)


async def switch_mcp(call: Call) -> bool:
    """Connects or disconnects a server, which only the agent itself can."""
    name = call.path("name")
    servers = await _servers(call)
    if name not in servers:
        raise no_mcp_server(name)
    wanted = call.request.url.path.rpartition("/")[2]
    if wanted == "connect" and servers[name]["status"] == "connected":
        return True
    raise plain(400, "Agents connect their MCP servers themselves when a session starts")


_GLOBAL: list[tuple[str, str, Handler]] = [
    ("GET", "/global/health", health),
    ("GET", "/event", events),
    ("GET", "/global/event", global_events),
    ("GET", "/config", config),
    ("GET", "/global/config", config),
    ("PATCH", "/config", change_config),
    ("PATCH", "/global/config", change_config),
    ("GET", "/config/providers", config_providers),
    ("GET", "/provider", providers),
    ("GET", "/provider/auth", provider_auth),
    ("POST", "/global/dispose", dispose),
    ("POST", "/instance/dispose", dispose),
    ("GET", "/path", path),
    ("GET", "/project", projects),
    ("GET", "/project/current", current_project),
    ("GET", "/project/{project}/directories", project_directories),
    ("GET", "/vcs", vcs),
    ("GET", "/agent", agents),
    ("GET", "/command", commands),
    ("POST", "/log", log),
    ("GET", "/mcp", mcp),
    ("POST", "/mcp/{name}/connect", switch_mcp),
    ("POST", "/mcp/{name}/disconnect", switch_mcp),
]
_NO_CONSOLE: Json = {"consoleManagedProviders": [], "switchableOrgCount": 0}
_STUBS: dict[str, Any] = {
    "/skill": [],
    "/lsp": [],
    "/formatter": [],
    "/find": [],
    "/find/file": [],
    "/find/symbol": [],
    "/experimental/console": _NO_CONSOLE,
    "/experimental/capabilities": {"backgroundSubagents": False},
    "/experimental/resource": {},
    "/experimental/worktree": [],
    "/experimental/workspace": [],
    "/experimental/workspace/status": [],
}
_SECOND = ("agent", "integration", "model", "provider", "reference", "command", "skill")
ROUTES: list[tuple[str, str, Handler]] = [
    *_GLOBAL,
    *(("GET", where, fixed(value)) for where, value in _STUBS.items()),
    ("POST", "/experimental/workspace/sync-list", fixed([])),
    ("GET", "/api/location", location),
    *(("GET", f"/api/{name}", listed) for name in _SECOND),
]
