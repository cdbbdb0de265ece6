"""Owns looking whether a server is there, which one it is, and whether we understand its version.

It refuses to know names of instances and what becomes of the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from agentctl.client import AgentCtl, Unreachable
from agentctl.core.errors import AgentctlError
from agentctl.gateway.tool.errors import ToolError, away, invalid, refusal

if TYPE_CHECKING:
    import httpx

OPENCODE_MAJORS = (0, 1)
"""Versions of OpenCode whose API the adapter speaks."""

# A server that is connected answers at once; an id that nobody knows must not hold a caller up.
LOOK_S = 2.0

# Who a password of an OpenCode server belongs to when nobody is named.
_USER = "opencode"
_HEALTH = "/global/health"
# What every OpenCode server has, should it be too old for a health.
_PROOFS = ("/config", "/session")
# The daemon follows these words to a variable or a file; a caller of ours may not make it.
_REFERENCES = ("env:", "file:")


@dataclass(frozen=True, slots=True)
class Found:
    """What answers. `version` is "" when it tells none; `login` is how it let us in."""

    version: str = ""
    login: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


async def daemon(client: AgentCtl, timeout_s: float) -> Found:
    """Asks a daemon who it is.

    Raises:
        ToolError: ECONNREFUSED, TIMEOUT, AUTH_FAILED; SERVER_ERROR for a version of another major.
    """
    try:
        info = await client.daemon.get_info(timeout_s=timeout_s)
    except Unreachable as error:
        raise ToolError("ECONNREFUSED", away(error), {"url": client.address}) from error
    except AgentctlError as error:
        if error.reason == "TIMEOUT":
            raise _timeout(client.address, timeout_s) from error
        raise refusal(error, connecting=True) from error
    ours = version_of("agentctl")
    _understood("agentctl", info.version, (_major(ours),))
    return Found(info.version, settings=dict(info.settings))


async def opencode(url: str, token: str, timeout_s: float) -> Found:
    """Asks an OpenCode server for its health, with each way to say who we are.

    Raises:
        ToolError: ECONNREFUSED, TIMEOUT, AUTH_FAILED; SERVER_ERROR for what is no such server.
    """
    import httpx  # heavy, and a tool with daemons alone never needs it

    refused = False
    async with await _client(url, timeout_s) as client:
        for login in _logins(token):
            try:
                found = await _ask(client, login)
            except httpx.TimeoutException as error:
                raise _timeout(url, timeout_s) from error
            except httpx.TransportError as error:
                message = f"Nothing answers at {url}: start it with opencode serve."
                raise ToolError("ECONNREFUSED", message, {"url": url}) from error
            if found is not None:
                return Found(found, login)
            refused = True
    assert refused
    what = "does not take this token" if token else "wants a token: give it as auth_token"
    raise ToolError("AUTH_FAILED", f"{url} {what}.", {"url": url})


async def directory_of(url: str, login: Mapping[str, str], session_id: str) -> str | None:
    """Where a conversation of an OpenCode server's own works; None when it has no such."""
    import httpx

    try:
        async with await _client(url, LOOK_S) as client:
            answer = await _get(client, f"/session/{quote(session_id, safe='')}", login)
            told: object = answer.json() if answer.is_success else None
    except (httpx.HTTPError, ValueError):
        return None
    known = cast("dict[str, object]", told) if isinstance(told, dict) else {}
    place = known.get("directory")
    return place if isinstance(place, str) and known.get("id") == session_id else None


async def _client(url: str, timeout_s: float) -> "httpx.AsyncClient":
    import anyio
    import httpx

    # Making one reads the system's certificates from disk.
    return await anyio.to_thread.run_sync(
        lambda: httpx.AsyncClient(base_url=url, timeout=timeout_s, trust_env=False)
    )


def _logins(token: str) -> Iterator[dict[str, str]]:
    if not token:
        yield {}
        return
    user, colon, password = token.partition(":")
    ways = [{"user": user, "password": password}] if colon else [{"password": token}]
    for way in (*ways, {"bearer": token}):
        if any(value.startswith(_REFERENCES) for value in way.values()):
            raise invalid("auth_token must be the token itself, no reference.", "auth_token")
        yield way


async def _ask(client: "httpx.AsyncClient", login: Mapping[str, str]) -> str | None:
    """The version of the server, None when it does not let us in."""
    for path in (_HEALTH, *_PROOFS):
        answer = await _get(client, path, login)
        if answer.status_code in (401, 403):
            return None
        if answer.status_code >= 500:
            raise _no_server(client, f"HTTP {answer.status_code}")
        try:
            body = answer.json() if answer.is_success else None
        except ValueError:
            raise _no_server(client, "a web page") from None
        if path == _HEALTH and isinstance(body, dict):
            told = body.get("version")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  foreign JSON
            version = told if isinstance(told, str) else ""
            _understood("OpenCode", version, OPENCODE_MAJORS)
            return version
        if isinstance(body, dict | list):
            return ""
    raise _no_server(client, "HTTP 404")


async def _get(
    client: "httpx.AsyncClient", path: str, login: Mapping[str, str]
) -> "httpx.Response":
    import httpx

    headers: dict[str, str] = {}
    auth = None
    if bearer := login.get("bearer"):
        headers["authorization"] = f"Bearer {bearer}"
    elif "password" in login:
        auth = httpx.BasicAuth(login.get("user", _USER), login["password"])
    return await client.get(path, headers=headers, auth=auth)


def _major(version: str) -> int | None:
    head = version.split(".", 1)[0].lstrip("v")
    return int(head) if head.isdecimal() else None


def _understood(what: str, version: str, majors: tuple[int | None, ...]) -> None:
    """A server that tells no version that we can read is taken as it is."""
    major = _major(version)
    if major is None or major in majors:
        return
    known = " and ".join(f"{each}.x" for each in majors)
    raise ToolError(
        "SERVER_ERROR",
        f"The server is {what} {version}, and this tool speaks with {known}: bring both to the "
        "same major version.",
        {"reason": "UNSUPPORTED", "server_version": version, "supported": known},
    )


def _timeout(url: str, timeout_s: float) -> ToolError:
    limit = f"{timeout_s * 1000:.0f} ms"
    return ToolError("TIMEOUT", f"{url} did not answer within {limit}.", {"url": url})


def _no_server(client: "httpx.AsyncClient", what: str) -> ToolError:
    url = str(client.base_url).rstrip("/")
    message = f"{url} is not an OpenCode server: {what} instead of {_HEALTH}. Check the url."
    return ToolError("SERVER_ERROR", message, {"url": url})
