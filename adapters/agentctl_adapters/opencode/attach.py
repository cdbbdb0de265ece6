"""Owns how a server that somebody else runs is reached: its URL, who we are there, whether it is one.

Nothing is started and nothing is ever stopped here. Servers of other makes and ages are taken as they
are: what they lack is absent, and only a web page or a refusal makes them unusable.
"""

import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

import anyio
import httpx

from agentctl.core.adapter import Launch
from agentctl.core.errors import AgentctlError, AgentFailed, Invalid
from agentctl.process.env import resolve_secret
from agentctl.process.errors import SecretUnavailable
from agentctl_adapters.opencode.client import Answer, Api
from agentctl_adapters.opencode.settings import USER
from agentctl_adapters.opencode.shapes import as_text

# A request that is made just as the socket opens may go unanswered: several short tries.
TRY_S = 2.0
TRY_PAUSE_S = 0.05
TRIES_S = 20.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEALTH = "/global/health"
# What every server of this kind has, should it have no health.
_PROOFS = ("/session", "/config")
_KEYS = frozenset({"type", "user", "username", "password", "token", "bearer", "auth_token"})


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is and how we say who we are. `remote`: on another machine, so paths are its."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    password: str = ""

    @property
    def remote(self) -> bool:
        return (urlsplit(self.url).hostname or "") not in _LOOPBACK


def target_of(launch: Launch) -> Target:
    """Reads `url` and `auth` of the entry. Blocking: a reference may name a file.

    `auth` has user and password (Basic), `token` or `bearer` (for a proxy), `auth_token` (in the
    query), or type auth_token with user and password. They may stand together.

    Raises:
        Invalid: no http URL, an unknown field, or a secret that cannot be had.
    """
    entry = launch.entry
    parts = urlsplit(entry.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(
            f"{entry.id}: the url {entry.url!r} is none of an HTTP server: write it as "
            "http://HOST:PORT",
            metadata={"entry": entry.id, "field": "url"},
        )
    auth = _auth(launch)
    user = auth.get("user") or auth.get("username") or unquote(parts.username or "")
    password = auth.get("password") or unquote(parts.password or "")
    headers: dict[str, str] = {}
    params: dict[str, str] = {}
    kind = auth.get("type", "").lower()
    if token := auth.get("auth_token") or (auth.get("token") if kind == "auth_token" else ""):
        params["auth_token"] = token
    elif kind == "auth_token":
        pair = f"{user or USER}:{password}"
        params["auth_token"] = base64.b64encode(pair.encode()).decode()
        user = password = ""
    if kind != "auth_token" and (bearer := auth.get("bearer") or auth.get("token")):
        headers["authorization"] = f"Bearer {bearer}"
        if password:
            # One header holds one of them: the proxy gets it, the server reads the query.
            pair = f"{user or USER}:{password}"
            params["auth_token"] = base64.b64encode(pair.encode()).decode()
            user = password = ""
    host = parts.netloc.rpartition("@")[2]
    url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return Target(url, headers, params, user or (USER if password else ""), password)


def _auth(launch: Launch) -> dict[str, str]:
    entry = launch.entry
    env = {**os.environ, **launch.env}
    told: dict[str, str] = {}
    for name, value in entry.auth.items():
        if name not in _KEYS:
            raise Invalid(
                f"{entry.id}: auth has no field {name!r}; it has {', '.join(sorted(_KEYS))}",
                metadata={"entry": entry.id, "field": f"auth.{name}"},
            )
        try:
            told[name] = resolve_secret(value, env)
        except SecretUnavailable as error:
            raise Invalid(
                f"{entry.id}: {name} in auth: {error}",
                metadata={"entry": entry.id, "field": f"auth.{name}"},
            ) from error
    return told


async def http_client(target: Target) -> httpx.AsyncClient:
    """A client for the server; proxies of the environment are used for other machines only."""
    context: ssl.SSLContext | bool = False
    if target.url.startswith("https:"):
        context = await anyio.to_thread.run_sync(ssl.create_default_context)
    auth = httpx.BasicAuth(target.user, target.password) if target.user else None
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    return await anyio.to_thread.run_sync(
        lambda: httpx.AsyncClient(
            base_url=target.url,
            auth=auth,
            headers=dict(target.headers),
            params=dict(target.params),
            verify=context,
            limits=limits,
            trust_env=target.remote,
            follow_redirects=False,
        )
    )


async def version_of(api: Api, launch: Launch, deadline_s: float = TRIES_S) -> str:
    """Waits until the server answers and is one of ours; its version, "" when it tells none.

    Raises:
        Refused: AUTH_REQUIRED, it wants other credentials.
        AgentFailed: nothing answers, or what answers is no OpenCode server.
    """
    until = anyio.current_time() + deadline_s
    while True:
        try:
            answer = await api.call("GET", _HEALTH, quiet=True, timeout_s=TRY_S)
            break
        except AgentctlError as error:
            if anyio.current_time() > until or "exit_code" in error.metadata:
                raise
            if "signal" in error.metadata:
                raise
        await anyio.sleep(TRY_PAUSE_S)
    if answer.told:
        return as_text(answer.told.get("version"))
    _let_in(api, answer)
    for path in _PROOFS:
        proof = await api.call("GET", path, quiet=True)
        _let_in(api, proof)
        if proof.ok and isinstance(proof.body, dict | list):
            return ""
    what = "a web page" if answer.page else f"HTTP {answer.status}"
    raise AgentFailed(
        f"{launch.entry.id}: {launch.redact(launch.entry.url)} is not an OpenCode server ({what} "
        f"instead of {_HEALTH}). Check the url of the entry.",
        metadata={"entry": launch.entry.id, "field": "url"},
    )


def _let_in(api: Api, answer: Answer) -> None:
    if answer.status in (401, 403):
        raise api.refusal(answer, "be reached")
