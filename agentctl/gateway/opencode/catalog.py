"""Owns what is on offer: the entries of the registry as OpenCode's agents and providers, and their models.

An entry is an agent, and a provider whose models are those that its agent offers. No key is ever told.
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError, Unsupported
from agentctl.gateway.opencode.errors import HttpError, plain
from agentctl.gateway.opencode.message import NO_MODEL
from agentctl.gateway.opencode.prompts import Choice
from agentctl.gateway.opencode.words import Json

# What OpenDesk-like servers tell of a model whose size nobody knows.
CONTEXT, OUTPUT = 128_000, 16_384
PAGE = 1000

# Names of OpenCode's own agents: what they do is a mode of ours, or nothing special.
PLAIN_AGENTS = frozenset({"build", "main", "default", "general"})
PLAN_AGENT = "plan"
OWN_MODE: Json = {
    "id": "default",
    "description": "The agent's own; it names its modes in a session.",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry and its models; `default` is "" when it says none."""

    entry: v1.Entry
    models: tuple[v1.Model, ...] = ()
    default: str = ""

    @property
    def id(self) -> str:
        return self.entry.entry_id

    @property
    def listed(self) -> list[v1.Model]:
        """Its models, and the one that leaves the choice to the agent."""
        names = {each.id for each in self.models}
        own = [] if NO_MODEL in names else [v1.Model(id=NO_MODEL, name="Default")]
        return [*self.models, *own]

    @property
    def model_ids(self) -> list[str]:
        return [each.id for each in self.listed]

    @property
    def shown_default(self) -> str:
        """What a client is told to choose: it can choose nothing that is not listed."""
        known = self.model_ids
        return self.default if self.default in known else known[0]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who answers a prompt. `model` and `mode` None: whatever the session has."""

    entry_id: str
    model: str | None = None
    mode: str | None = None


@dataclass
class Catalog:
    """The registry as it is now. `chosen`: the default that a client set, in memory."""

    client: AgentCtl
    chosen_entry: str = ""
    chosen_model: str = ""
    default_agent: str = ""
    options: dict[str, Json] = field(default_factory=dict[str, Json])
    """What the newest session of each entry told of modes and commands."""

    async def offers(self) -> dict[str, Offer]:
        """The entries that are switched on, in the registry's order."""
        entries: dict[str, v1.Entry] = {}
        async for page in _pages(self.client.registry.list, enabled_only=True):
            entries |= {each.entry_id: each for each in page.entries}
        models: dict[str, list[v1.Model]] = {}
        defaults: dict[str, str] = {}
        async for page in _pages(self.client.models.list):
            for offer in page.models:
                models.setdefault(offer.entry_id, []).append(offer.model)
                if offer.is_default:
                    defaults[offer.entry_id] = offer.model.id
        return {
            own: Offer(
                entry,
                tuple(models.get(own, ())),
                defaults.get(own)
                or (entry.default_model if entry.HasField("default_model") else ""),
            )
            for own, entry in entries.items()
        }

    def default_entry(self, offers: dict[str, Offer]) -> str:
        """Who is meant when nobody is named.

        Raises:
            HttpError: no entry is switched on.
        """
        for own in (self.chosen_entry, self.default_agent):
            if own in offers:
                return own
        if not offers:
            raise plain(409, "No agent is enabled: enable one with `agentctl registry enable ID`.")
        return next(iter(offers))

    def default_model(self, offers: dict[str, Offer], entry_id: str) -> str:
        if entry_id == self.chosen_entry and self.chosen_model:
            return self.chosen_model
        return offers[entry_id].shown_default

    def choose(self, asked: Choice, offers: dict[str, Offer], bound: str = "") -> Chosen:
        """The entry, the model and the mode of a prompt. `bound`: the entry that the session has.

        Raises:
            HttpError: there is no such agent, or the session has another.
        """
        entry_id = self._entry(asked, offers, bound)
        if bound and entry_id != bound:
            raise plain(
                409,
                f"This session is with {bound}; {entry_id} cannot go on with it. Start a new session.",
            )
        model = asked.model if asked.model and asked.provider in ("", entry_id) else None
        if asked.provider and asked.provider != entry_id:
            model = f"{asked.provider}/{asked.model}"
        if model == NO_MODEL:
            model = None
        if model is None and not asked.provider and entry_id == self.chosen_entry and not bound:
            model = self.chosen_model or None
        mode = self._mode(asked.agent, entry_id) if asked.agent == PLAN_AGENT else None
        return Chosen(entry_id, model, mode)

    def _entry(self, asked: Choice, offers: dict[str, Offer], bound: str) -> str:
        if asked.provider in offers:
            return asked.provider
        name = asked.agent
        if name and name not in offers and name not in PLAIN_AGENTS and name != PLAN_AGENT:
            raise plain(400, f"Agent not found: {name}. There are: {', '.join(offers)}")
        own = name if name in offers else bound or self.default_entry(offers)
        # A provider of the agent's own, as OpenCode has them, is a part of its model's name.
        listed = offers[own].models if own in offers else ()
        whole = f"{asked.provider}/{asked.model}"
        if asked.provider and listed and all(each.id != whole for each in listed):
            raise plain(
                400, f"Provider not found: {asked.provider}. There are: {', '.join(offers)}"
            )
        return own

    def _mode(self, name: str, entry_id: str) -> str:
        modes: list[Json] = self.options.get(entry_id, {}).get("modes") or []
        if any(each.get("id") == name for each in modes):
            return name
        raise plain(400, f"{entry_id} has no mode {name}: name the agent {entry_id} itself")

    # Views

    async def providers(self) -> tuple[list[Json], dict[str, str]]:
        """(providers, default model of each)."""
        offers = await self.offers()
        return [provider(each) for each in offers.values()], {
            own: self.default_model(offers, own) for own in offers
        }

    async def agents(self) -> list[Json]:
        """The default one first: a client begins with the first."""
        offers = await self.offers()
        first = self.default_entry(offers) if offers else ""
        ordered = sorted(offers.values(), key=lambda each: each.id != first)
        return [
            agent(each, self.options.get(each.id, {}), self.default_model(offers, each.id))
            for each in ordered
        ]

    async def config(self) -> Json:
        offers = await self.offers()
        out: Json = {"provider": {own: settings(each) for own, each in offers.items()}}
        if offers:
            first = self.default_entry(offers)
            out["model"] = f"{first}/{self.default_model(offers, first)}"
            out["default_agent"] = first
        return {**out, "permission": {}, "share": "disabled", "autoupdate": False}

    async def set_model(self, told: Choice) -> None:
        """Makes a model, and with it an entry, the default as long as this server lives.

        Raises:
            HttpError: there is no such entry or model.
        """
        offers = await self.offers()
        owner = told.provider or next(
            (own for own, each in offers.items() if told.model in each.model_ids), ""
        )
        if owner not in offers:
            raise plain(
                400, f"Provider not found: {owner or told.model}. There are: {', '.join(offers)}"
            )
        if told.model and offers[owner].models and told.model not in offers[owner].model_ids:
            known = ", ".join(offers[owner].model_ids[:12])
            raise plain(400, f"Model not found: {owner}/{told.model}. There are: {known}")
        self.chosen_entry, self.chosen_model = owner, told.model

    async def login(self) -> dict[str, v1.AuthState]:
        """Whether each entry is logged in, as far as its files and variables show it."""
        try:
            told = await self.client.models.auth_status()
        except Unsupported:
            return {}
        return {each.entry_id: each for each in told.agents}


async def _pages(call: Any, **told: Any) -> AsyncIterator[Any]:
    token = ""
    while True:
        page = await call(page_size=PAGE, page_token=token, **told)
        yield page
        token = page.next_page_token
        if not token:
            return


def model(offer: Offer, told: v1.Model) -> Json:
    """One model. What nobody told of it is what most models are."""
    window = told.context_window if told.HasField("context_window") else CONTEXT
    kinds = {"text": True, "audio": False, "image": True, "video": False, "pdf": False}
    return {
        "id": told.id,
        "providerID": offer.id,
        "name": told.name or told.id,
        "family": "",
        "api": {"id": told.id, "url": "", "npm": ""},
        "status": "active",
        "capabilities": {
            "temperature": False,
            "reasoning": True,
            "attachment": True,
            "toolcall": True,
            "input": kinds,
            "output": {**kinds, "image": False},
            "interleaved": False,
        },
        "cost": {"input": 0, "output": 0, "cache": {"read": 0, "write": 0}},
        "limit": {"context": window, "output": OUTPUT},
        "options": {},
        "headers": {},
        "release_date": "",
        "variants": {},
    }


def provider(offer: Offer) -> Json:
    entry = offer.entry
    return {
        "id": offer.id,
        "name": entry.display_name or offer.id,
        "source": "config",
        "env": [],
        "options": _address(entry),
        "models": {each.id: model(offer, each) for each in offer.listed},
    }


def settings(offer: Offer) -> Json:
    """An entry as a provider of a configuration."""
    entry = offer.entry
    return {
        "name": entry.display_name or offer.id,
        "api": entry.protocol,
        "options": _address(entry),
    }


def _address(entry: v1.Entry) -> Json:
    return {"baseURL": _without_login(entry.url)} if entry.url else {}


def _without_login(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def agent(offer: Offer, options: Json, default: str) -> Json:
    modes: list[Json] = options.get("modes") or [OWN_MODE]
    return {
        "name": offer.id,
        "type": offer.id,
        "description": offer.entry.description or offer.entry.display_name,
        "mode": "primary",
        "native": False,
        "permission": [],
        "options": {},
        "model": {"providerID": offer.id, "modelID": default},
        "modes": [
            {
                "id": str(m.get("id")),
                "description": str(m.get("description") or m.get("name") or ""),
            }
            for m in modes
        ],
    }


def commands(options: dict[str, Json], wanted: Iterable[str]) -> list[Json]:
    """Modes and slash commands of the entries that told some."""
    out: list[Json] = []
    for own in wanted:
        told = options.get(own, {})
        modes: list[Json] = told.get("modes") or []
        slashes: list[Json] = told.get("commands") or []
        rows = [
            (str(m.get("id")), m, f"Switch to mode {m.get('name') or m.get('id')}") for m in modes
        ]
        rows += [(str(c.get("name")), c, "") for c in slashes]
        for name, told_of, words in rows:
            out.append(
                {
                    "id": f"{own}:{name}",
                    "name": name,
                    "description": str(told_of.get("description") or words or name),
                    "agent": own,
                    "source": "command",
                    "template": "",
                    "hints": [str(told_of["hint"])] if told_of.get("hint") else [],
                }
            )
    return out


async def settle(call: Any, seconds: float, missing: Any) -> Any:
    """What a call gives, or `missing` where the daemon cannot tell it now."""
    try:
        with anyio.fail_after(seconds):
            return await call
    except (AgentctlError, TimeoutError):
        return missing


__all__ = ["Catalog", "Chosen", "HttpError", "Offer", "agent", "commands", "model", "provider"]
