"""Owns requests to an OpenCode server: each is seen by the translator before it leaves and when it returns.

Knows routes only as text; what an answer means is the translator's, what a refusal means to the caller
stands here. Secrets of configurations never enter a frame.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import orjson

from agentctl.core.adapter import Frame, Launch
from agentctl.core.errors import (
    AgentctlError,
    AgentFailed,
    Invalid,
    NotFound,
    Refused,
    TimedOut,
    Unsupported,
)
from agentctl_adapters.common.failures import death_error, quoted
from agentctl_adapters.opencode.errors import said
from agentctl_adapters.opencode.link import ServerLink
from agentctl_adapters.opencode.shapes import EMPTY, Json, as_object

# Reads of a warm instance take milliseconds, of a large history some seconds.
CALL_TIMEOUT_S = 30.0
# A connection on this machine is made at once or not at all; across a network in a few seconds.
CONNECT_TIMEOUT_S = 5.0
# A page instead of an answer is shown to nobody at length.
PAGE_CHARS = 2_000

_SECRET = ("key", "token", "secret", "password", "authorization")
_HIDDEN = "[redacted]"
_WITH_SECRETS = ("/config", "/provider", "/mcp")


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is parsed JSON, or text. `page`: a web page stands where an answer should."""

    status: int
    ctype: str
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def page(self) -> bool:
        return self.ctype.startswith("text/html")

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300 and not self.page

    @property
    def told(self) -> Json:
        """The body of a good answer, when it is an object."""
        return as_object(self.body) if self.ok else EMPTY

    @property
    def absent(self) -> bool:
        """The server has no such route (or no such thing: the body tells)."""
        return self.status in (404, 405, 501) or self.page


@dataclass(frozen=True, slots=True)
class Call:
    """A request that the translator has seen, ready to be sent. `quiet`: it has not."""

    id: int
    method: str
    path: str
    params: Mapping[str, str]
    body: Any
    quiet: bool = False


class Api:
    """The HTTP side of one server."""

    def __init__(self, http: httpx.AsyncClient, link: ServerLink, launch: Launch) -> None:
        self.http = http
        self._link = link
        self._launch = launch
        self._ids = itertools.count(1)

    def open(
        self,
        method: str,
        path: str,
        *,
        directory: str = "",
        query: Mapping[str, str] | None = None,
        body: Any = None,
        resync: bool = False,
        quiet: bool = False,
    ) -> Call:
        """Tells the translator of a request that is sent next."""
        params = {**(query or {}), **({"directory": directory} if directory else {})}
        call = Call(next(self._ids), method, path, params, body, quiet)
        if not quiet:
            msg: dict[str, Any] = {"id": call.id, "method": method, "path": path}
            if params:
                msg["query"] = params
            if body is not None:
                msg["body"] = hidden(body) if path.startswith(_WITH_SECRETS) else body
            if resync:
                msg["resync"] = True
            self._link.feed(Frame("http_request", msg))
        return call

    async def send(self, call: Call, timeout_s: float | None = CALL_TIMEOUT_S) -> Answer:
        """Sends it, and lets the translator see the answer.

        Raises:
            AgentFailed: the server died, or closed the connection without an answer.
            TimedOut: it did not answer in time (s).
        """
        content = None if call.body is None else orjson.dumps(call.body)
        headers = None if content is None else {"content-type": "application/json"}
        timeout = httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S)
        try:
            answer = await self.http.request(
                call.method,
                call.path,
                params=call.params,
                content=content,
                headers=headers,
                timeout=timeout,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise await self._unanswered(call, error, timeout_s) from error
        return self._answered(call, answer)

    def tell(self, call: Call, answer: Answer) -> None:
        """Lets the translator see a quiet request and its answer after all, as one that is a refetch."""
        told = self.open(call.method, call.path, query=call.params, body=call.body, resync=True)
        self._feed_answer(told, answer)

    async def call(self, method: str, path: str, **how: Any) -> Answer:
        """open() and send() in one; `timeout_s` (s) is send()'s, the rest open()'s."""
        timeout_s = how.pop("timeout_s", CALL_TIMEOUT_S)
        return await self.send(self.open(method, path, **how), timeout_s)

    async def need(self, doing: str, method: str, path: str, **how: Any) -> Any:
        """The body of an answer that has to be a good one.

        Raises:
            AgentctlError: what the refusal means; see refusal().
        """
        answer = await self.call(method, path, **how)
        if not answer.ok:
            raise self.refusal(answer, doing)
        return answer.body

    def refusal(self, answer: Answer, doing: str) -> AgentctlError:
        """What an error answer to `doing` means to the caller."""
        entry = self._launch.entry.id
        words = quoted(said(answer.body) if not answer.page else "a web page came back")
        text = f"{entry} could not {doing} (HTTP {answer.status}{f': {words}' if words else ''})"
        metadata = {"entry": entry, "status": str(answer.status)}
        match answer.status:
            case 401 | 403:
                return Refused(
                    f"{text}. Check the user and password in the auth of the entry.",
                    reason="AUTH_REQUIRED",
                    metadata=metadata,
                )
            case 404 if said(answer.body) and not answer.page:
                return NotFound(f"{text}.", metadata=metadata)
            case 404 | 405 | 501:
                return Unsupported(f"{text}: this server cannot do that.", metadata=metadata)
            case 400 | 422:
                return Invalid(f"{text}.", metadata=metadata)
            case 409:
                return Refused(
                    f"{text}: wait for the run to end.", reason="SESSION_BUSY", metadata=metadata
                )
            case _ if answer.page:
                return Unsupported(f"{text}: this server cannot do that.", metadata=metadata)
            case _:
                return AgentFailed(f"{text}. Look into the server's log.", metadata=metadata)

    def _answered(self, call: Call, response: httpx.Response) -> Answer:
        ctype = response.headers.get("content-type", "")
        answer = Answer(response.status_code, ctype, _body(response, ctype), response.headers)
        if not call.quiet:
            self._feed_answer(call, answer)
        return answer

    def _feed_answer(self, call: Call, answer: Answer) -> None:
        hide = call.path.startswith(_WITH_SECRETS)
        msg = {
            "id": call.id,
            "status": answer.status,
            "ctype": answer.ctype,
            "response": hidden(answer.body) if hide else answer.body,
        }
        self._link.feed(Frame("http_response", msg))

    async def _unanswered(
        self, call: Call, error: Exception, timeout_s: float | None
    ) -> AgentctlError:
        """A dead server is told by its exit; of a live one the missing answer is news."""
        entry = self._launch.entry.id
        if self._link.process is not None and await self._link.dies():
            return death_error(self._launch, self._link.death, "before it answered")
        words = str(error) or type(error).__name__
        if not call.quiet:
            msg = {"id": call.id, "status": 0, "ctype": "", "response": words}
            self._link.feed(Frame("http_response", msg))
        what = f"{call.method} {call.path}"
        if isinstance(error, httpx.TimeoutException) and not isinstance(
            error, httpx.ConnectTimeout
        ):
            return TimedOut(f"{entry} did not answer {what} within {timeout_s or 0:g} s")
        return AgentFailed(
            f"{entry} gave no answer to {what}: {quoted(words)}. Check that its server runs.",
            metadata={"entry": entry},
        )


def _body(response: httpx.Response, ctype: str) -> Any:
    if ctype.startswith("text/html"):
        return response.text[:PAGE_CHARS]
    data = response.content
    if not data:
        return None
    try:
        return orjson.loads(data)
    except ValueError:
        return response.text


def hidden(value: Any) -> Any:
    """The same JSON with what looks like a key, an environment or headers left out."""
    if isinstance(value, list):
        return [hidden(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    return {name: _hide(name, inner) for name, inner in as_object(cast(object, value)).items()}


def _hide(name: str, value: Any) -> Any:
    lower = name.lower()
    if isinstance(value, str) and value and any(lower.endswith(word) for word in _SECRET):
        return _HIDDEN
    if lower in ("environment", "headers"):
        return dict.fromkeys(as_object(value), _HIDDEN)
    return hidden(value)
