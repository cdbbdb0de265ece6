"""Owns what each directory of a server offers, as far as a call has to know it: models, agents, commands.

Asked once for each directory, because it does not change while the server runs; the answers are seen by
the translator as well, which tells them to clients.
"""

from dataclasses import dataclass

import anyio

from agentctl.core.errors import AgentctlError, Invalid
from agentctl_adapters.opencode.client import Api
from agentctl_adapters.opencode.shapes import as_object, as_objects, as_text

# The first request for a directory boots it; a plugin of the workspace was seen to hold it for 70 s.
BOOT_TIMEOUT_S = 150.0


@dataclass(slots=True)
class Offer:
    """None: the server did not say, so that nothing can be refused."""

    models: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    commands: frozenset[str] | None = None
    default_model: str = ""

    def check(self, model: str | None, agent: str | None) -> None:
        """Raises Invalid: the server would take it and fail only later, without a run."""
        if model and self.models is not None and model not in self.models:
            raise Invalid(
                f'there is no model "{model}" here. There are: {_some(self.models)}',
                reason="INVALID_MODEL",
            )
        if agent and self.agents is not None and agent not in self.agents:
            raise Invalid(f'there is no mode "{agent}" here. There are: {_some(self.agents)}')


class Catalog:
    """The offers of all directories."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._offers: dict[str, Offer] = {}

    def known(self, directory: str) -> Offer:
        return self._offers.get(directory) or Offer()

    async def of(self, directory: str) -> Offer:
        """Asks for it unless it was asked for before.

        Raises:
            AgentctlError: the server does not answer.
        """
        if directory not in self._offers:
            first = await self._get("/config/providers", directory)
            answers: dict[str, object] = {}

            async def get(path: str) -> None:
                answers[path] = await self._get(path, directory)

            async with anyio.create_task_group() as group:
                for path in ("/agent", "/command", "/mcp"):
                    group.start_soon(get, path)
            agents, commands = answers["/agent"], answers["/command"]
            self._offers[directory] = Offer(
                models=_models(first),
                agents=_names(agents),
                commands=_names(commands),
                default_model=_default(first),
            )
        return self._offers[directory]

    async def _get(self, path: str, directory: str) -> object:
        """None for a server that lacks the route; a dead one is noticed by the caller's own call."""
        try:
            answer = await self._api.call(
                "GET", path, directory=directory, timeout_s=BOOT_TIMEOUT_S
            )
        except AgentctlError:
            return None
        return answer.body if answer.ok else None


def _models(body: object) -> frozenset[str] | None:
    providers = as_objects(as_object(body).get("providers"))
    names = [
        f"{as_text(provider.get('id'))}/{as_text(as_object(model).get('id')) or key}"
        for provider in providers
        for key, model in as_object(provider.get("models")).items()
    ]
    return frozenset(names) or None


def _default(body: object) -> str:
    for provider, model in as_object(as_object(body).get("default")).items():
        if as_text(model):
            return f"{provider}/{as_text(model)}"
    return ""


def _names(body: object) -> frozenset[str] | None:
    names = {as_text(item.get("name")) for item in as_objects(body)} - {""}
    return frozenset(names) or None


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)[:12]
    return ", ".join(shown) + (" …" if len(names) > len(shown) else "")
