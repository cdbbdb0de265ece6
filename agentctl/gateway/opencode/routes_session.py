"""Owns the routes of sessions and their messages."""

from urllib.parse import urlencode

from starlette.responses import Response

from agentctl import v1
from agentctl.gateway.opencode.asks import reply_of
from agentctl.gateway.opencode.context import Call, Handler, answer
from agentctl.gateway.opencode.errors import no_message, plain
from agentctl.gateway.opencode.roster import hidden_runs
from agentctl.gateway.opencode.routes_asks import reply
from agentctl.gateway.opencode.words import Json

_BUSY = (v1.SessionState.SESSION_STATE_ACTIVE, v1.SessionState.SESSION_STATE_AWAITING)


async def _all(call: Call, *, everywhere: bool) -> list[Json]:
    """Sessions, newest first, with those that wait for their first prompt."""
    rooms = call.rooms
    wanted = "" if everywhere else await call.directory()
    rows = [lazy.view() for lazy in rooms.roster.lazies.values()]
    rows += [rooms.roster.view(session) for session in await rooms.roster.load()]
    if wanted:
        rows = [row for row in rows if row["directory"] == wanted]
    rows.sort(key=lambda row: (row["time"]["updated"], row["id"]), reverse=True)
    if call.flag("roots"):
        rows = [row for row in rows if "parentID" not in row]
    if search := call.query("search").lower():
        rows = [row for row in rows if search in row["title"].lower()]
    return rows


def _newest(rows: list[Json], limit: int | None) -> list[Json]:
    return rows if limit is None else rows[:limit]


async def sessions(call: Call) -> list[Json]:
    since, limit = call.number("start"), call.number("limit")
    rows = await _all(call, everywhere=call.query("scope") == "project")
    return _newest([r for r in rows if since is None or r["time"]["updated"] >= since], limit)


async def all_sessions(call: Call) -> list[Json]:
    since, limit = call.number("start"), call.number("limit")
    rows = await _all(call, everywhere=call.query("scope") == "project")
    return _newest([r for r in rows if since is None or r["time"]["created"] >= since], limit)


async def status(call: Call) -> Json:
    rooms = call.rooms
    out: Json = {own: {"type": "idle"} for own in rooms.roster.lazies}
    for session in await rooms.roster.load():
        known = rooms.pump.known(session.session_id)
        busy = session.state in _BUSY
        told: Json = {"type": "busy" if busy else "idle"}
        out[rooms.roster.shown(session.session_id)] = known.status if known else told
    return out


async def create(call: Call) -> Json:
    body = await call.body()
    return await call.rooms.chat.create(body, await call.directory(), call.workspace)


async def get(call: Call) -> Json:
    return await call.rooms.roster.view_of(call.path("session"))


async def update(call: Call) -> Json:
    return await call.rooms.chat.update(call.path("session"), await call.body())


async def delete(call: Call) -> bool:
    await call.rooms.chat.delete(call.path("session"))
    return True


async def children(call: Call) -> list[Json]:
    own = call.path("session")
    await call.rooms.roster.view_of(own)
    rows = [call.rooms.roster.view(each) for each in await call.rooms.roster.load()]
    return [row for row in rows if row.get("parentID") == own]


async def _messages(call: Call) -> list[Json]:
    own = call.path("session")
    if own in call.rooms.roster.lazies:
        return []
    session, conversation = await call.rooms.chat.conversation(own)
    return [*conversation.messages(hidden_runs(session.labels, [*conversation.turns]))]


async def messages(call: Call) -> Response:
    limit, before = call.number("limit"), call.query("before")
    rows = await _messages(call)
    if before:
        places = [n for n, row in enumerate(rows) if row["info"]["id"] == before]
        if not places:
            raise plain(400, f"before names no message of this session: {before}")
        rows = rows[: places[0]]
    if limit is None or len(rows) <= limit:
        return answer(rows)
    page = rows[len(rows) - limit :]
    response = answer(page)
    if page:
        cursor = page[0]["info"]["id"]
        query = {
            k: v for k, v in call.request.query_params.items() if k not in ("before", "auth_token")
        }
        url = call.request.url.replace(query=urlencode({**query, "before": cursor}))
        response.headers["X-Next-Cursor"] = cursor
        response.headers["Link"] = f'<{url}>; rel="next"'
    return response


async def message(call: Call) -> Json:
    own = call.path("message")
    for row in await _messages(call):
        if row["info"]["id"] == own:
            return row
    raise no_message()


async def delete_message(call: Call) -> bool:
    if call.path("session") in call.rooms.roster.lazies:
        raise no_message()
    await call.rooms.chat.delete_message(call.path("session"), call.path("message"))
    return True


async def prompt(call: Call) -> Json:
    own = call.path("session")
    run_id = await call.rooms.chat.prompt(own, await call.body())
    return await call.rooms.chat.answer(own, run_id)


async def prompt_async(call: Call) -> Response:
    await call.rooms.chat.prompt(call.path("session"), await call.body())
    return Response(status_code=204)


async def command(call: Call) -> Json:
    own = call.path("session")
    body = await call.body()
    await call.rooms.roster.view_of(own)
    run_id = await call.rooms.chat.command(own, body)
    if run_id is not None:
        return await call.rooms.chat.answer(own, run_id)
    return await call.rooms.roster.view_of(own)


async def shell(call: Call) -> Json:
    await call.rooms.roster.view_of(call.path("session"))
    raise plain(400, "Shell not supported")


async def abort(call: Call) -> bool:
    await call.rooms.chat.abort(call.path("session"))
    return True


async def fork(call: Call) -> Json:
    own = call.path("session")
    body = await call.body()
    if own in call.rooms.roster.lazies:
        raise plain(400, "The session has no messages yet: prompt it before you fork it")
    return await call.rooms.chat.fork(own, body)


async def todo(call: Call) -> list[Json]:
    own = call.path("session")
    if own in call.rooms.roster.lazies:
        return []
    _, conversation = await call.rooms.chat.conversation(own)
    return conversation.todos


async def diff(call: Call) -> list[Json]:
    own = call.path("session")
    if own in call.rooms.roster.lazies:
        return []
    return await call.rooms.chat.diff(own, call.query("messageID"))


async def summarize(call: Call) -> bool:
    await call.rooms.roster.view_of(call.path("session"))
    await call.rooms.chat.summarize(call.path("session"))
    return True


async def revert(call: Call) -> Json:
    return await call.rooms.chat.revert(call.path("session"), await call.body())


async def unrevert(call: Call) -> Json:
    return await call.rooms.chat.unrevert(call.path("session"))


async def respond(call: Call) -> bool:
    """The older way to answer a permission request."""
    await call.rooms.roster.view_of(call.path("session"))
    told = reply_of(await call.body())
    if told is None:
        raise plain(400, "Invalid permission reply")
    await reply(call.rooms, call.path("permission"), *told)
    return True


_S = "/session/{session}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/session", sessions),
    ("POST", "/session", create),
    ("GET", "/session/status", status),
    ("GET", "/experimental/session", all_sessions),
    ("GET", _S, get),
    ("PATCH", _S, update),
    ("DELETE", _S, delete),
    ("GET", f"{_S}/children", children),
    ("GET", f"{_S}/message", messages),
    ("POST", f"{_S}/message", prompt),
    ("GET", f"{_S}/message/{{message}}", message),
    ("DELETE", f"{_S}/message/{{message}}", delete_message),
    ("POST", f"{_S}/prompt_async", prompt_async),
    ("POST", f"{_S}/command", command),
    ("POST", f"{_S}/shell", shell),
    ("POST", f"{_S}/abort", abort),
    ("POST", f"{_S}/fork", fork),
    ("GET", f"{_S}/todo", todo),
    ("GET", f"{_S}/diff", diff),
    ("POST", f"{_S}/summarize", summarize),
    ("POST", f"{_S}/revert", revert),
    ("POST", f"{_S}/unrevert", unrevert),
    ("POST", f"{_S}/permissions/{{permission}}", respond),
]
