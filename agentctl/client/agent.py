"""Owns an agent as an app sees it: a name of the registry that can be prompted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import anyio

from agentctl import v1
from agentctl.client.params import Prompt, RunOptions, RunParams
from agentctl.client.results import AgentInfo, agent_info
from agentctl.client.run import Run
from agentctl.client.session import Session
from agentctl.core.errors import AgentctlError

if TYPE_CHECKING:
    from agentctl.client.api import AgentCtl


class Agent:
    """An entry of the registry (or a running process of it, by `agt_` id)."""

    def __init__(self, client: "AgentCtl", agent_id: str) -> None:
        self._client = client
        self.id = agent_id

    async def info(self) -> AgentInfo:
        """What the registry has of it; AGENT_NOT_FOUND when it knows none of that name."""
        entry = self.id
        if entry.startswith("agt_"):
            entry = (await self._client.agents.get(entry)).entry_id
        return agent_info(await self._client.registry.get(entry))

    async def run(
        self, prompt: Prompt | RunParams | Mapping[str, Any] = "", **params: Unpack[RunOptions]
    ) -> Run:
        """Prompts it, in a session of its own or, with `session_key`, in that one.

        Args:
            prompt: the prompt, or all parameters: a RunParams, or a mapping with its names.
            params: fields of RunParams; they win over those in `prompt`.

        Raises:
            AgentctlError: AGENT_NOT_FOUND, AGENT_DISABLED, AGENT_NOT_INSTALLED, INVALID_PARAMETERS,
                SESSION_LIMIT, DISK_FULL. What goes wrong later is the run's end.
            TypeError: RunParams has no such field.
        """
        wanted = _params(prompt, params)
        session = await self._session(wanted)
        return await session.send(
            wanted.input,
            timeout_ms=wanted.timeout_ms,
            model=wanted.model,
            mode=wanted.mode,
            effort=wanted.effort,
            output_schema=wanted.output_schema,
            labels=wanted.labels,
            idempotency_key=wanted.idempotency_key,
        )

    async def session(
        self,
        params: RunParams | None = None,
        *,
        name: str | None = None,
        **more: Unpack[RunOptions],
    ) -> Session:
        """An open session for many prompts; with `session_key` the one of that key, if there is one.

        Args:
            params, more: RunParams; what concerns a single run is not looked at.
            name: the session's name. It and `labels` are of a session that is made here: one that
                was found by its key keeps its own (`Session.update` changes them).
        """
        wanted = replace(params or RunParams(), **{**more, "keep_session": True})
        told = {"name": name, "labels": wanted.labels}
        named = {key: value for key, value in told.items() if value is not None}
        return await self._session(replace(wanted, session={**wanted.session, **named}))

    async def _session(self, wanted: RunParams) -> Session:
        if wanted.session_key and (found := await self._open(wanted.session_key)):
            return found
        here = wanted.workspace or await anyio.Path.cwd()
        one_shot = not (wanted.session_key or wanted.keep_session)
        asked: dict[str, Any] = {
            "key": wanted.session_key,
            "model": wanted.model,
            "mode": wanted.mode,
            "policy": wanted.policy,
            "environment": wanted.environment,
            "environment_options": wanted.environment_options,
            "env": wanted.env,
            "close_when_done": one_shot,
            "idempotency_key": wanted.idempotency_key,
            **wanted.session,
        }
        workspace = str(await anyio.Path(here).resolve())
        try:
            made = await self._client.sessions.create(self.id, workspace, **asked)
        except AgentctlError as error:
            # Somebody else made one with this key in the same moment.
            taken = error.reason == "IDEMPOTENCY_CONFLICT" and wanted.session_key
            found = await self._open(taken) if taken else None
            if found is None:
                raise
            return found
        return Session(self._client, made.session_id)

    async def _open(self, key: str) -> Session | None:
        """The open session of that key, when it is one of this agent."""
        found = await self._client.sessions.list(key=key, open_only=True, page_size=1)
        told: v1.Session | None = next(iter(found.sessions), None)
        if told is None or self.id not in (told.entry_id, told.agent_id, "default"):
            return None
        return Session(self._client, told.session_id)

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"


def _params(prompt: Prompt | RunParams | Mapping[str, Any], more: Mapping[str, Any]) -> RunParams:
    match prompt:
        case RunParams():
            return replace(prompt, **more)
        case Mapping():
            return RunParams(**{**prompt, **more})
        case _:
            return replace(RunParams(input=prompt), **more)
