"""Owns what every route needs: the rooms behind it, its request in plain terms, answers as JSON."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentctl.client import AgentCtl
from agentctl.core.errors import AgentctlError
from agentctl.gateway.opencode import errors
from agentctl.gateway.opencode.catalog import Catalog
from agentctl.gateway.opencode.chat import Chat
from agentctl.gateway.opencode.errors import HttpError
from agentctl.gateway.opencode.places import Places, workspace_id
from agentctl.gateway.opencode.pump import Pump
from agentctl.gateway.opencode.roster import Roster
from agentctl.gateway.opencode.words import Json

logger = logging.getLogger(__name__)

JSON = "application/json"

# More than any count or time has; Python refuses to read thousands of them.
MAX_DIGITS = 30


@dataclass(frozen=True, slots=True)
class Rooms:
    """Everything behind the routes."""

    client: AgentCtl
    places: Places
    catalog: Catalog
    roster: Roster
    pump: Pump
    chat: Chat
    version: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    request: Request
    rooms: Rooms

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        return self.request.query_params.get(name) or ""

    def flag(self, name: str) -> bool:
        return self.query(name).lower() in ("true", "1")

    def number(self, name: str) -> int | None:
        """A count or a time of the query.

        Raises:
            HttpError: it is none.
        """
        told = self.query(name)
        if not told:
            return None
        if not (told.isdecimal() and len(told) <= MAX_DIGITS):
            raise errors.plain(400, f"{name} must be a number of at most {MAX_DIGITS} digits")
        return int(told)

    @property
    def workspace(self) -> str:
        return workspace_id(self.request.query_params, self.request.headers)

    async def directory(self) -> str:
        return await self.rooms.places.of(self.request.query_params, self.request.headers)

    async def body(self) -> Json:
        """The JSON object that came; an empty body is an empty one.

        Raises:
            HttpError: it is something else.
        """
        data = await self.request.body()
        if not data.strip():
            return {}
        try:
            told = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise errors.plain(400, "Invalid JSON") from None
        if not isinstance(told, dict):
            raise errors.plain(400, "The body must be a JSON object")
        return cast(Json, told)


Handler = Callable[[Call], Awaitable[Any]]


def answer(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type=JSON)


def route(rooms: Rooms, method: str, path: str, handler: Handler) -> Route:
    """A route whose answer is a JSON value, or a response of its own."""

    async def endpoint(request: Request) -> Response:
        try:
            value = await handler(Call(request, rooms))
        except HttpError as error:
            return answer(error.body, error.status)
        except AgentctlError as error:
            told = errors.of_daemon(error)
            return answer(told.body, told.status)
        except Exception:  # the edge: a request that meets a fault of ours ends alone
            logger.exception("%s %s failed", method, path)
            return answer({"error": "Internal error: see the server's log"}, 500)
        return value if isinstance(value, Response) else answer(value)

    return Route(path, endpoint, methods=[method])
