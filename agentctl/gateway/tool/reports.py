"""Owns the actions that only look: status, export, statistics."""

import orjson

from agentctl import v1
from agentctl.client.times import iso
from agentctl.gateway.tool import shape
from agentctl.gateway.tool.house import Ask, Json
from agentctl.gateway.tool.instance import Instance, one_each
from agentctl.gateway.tool.sessions import walk
from agentctl.gateway.tool.talk import messages, waiting


async def get_status(ask: Ask) -> Json:
    instance, session = await ask.session()
    answer: Json = {
        "session_id": session.session_id,
        "instance": instance.name,
        "project": shape.project(session),
        "status": shape.status(session),
        "progress": shape.progress(session),
        "model": session.model,
        "tokens": shape.tokens(session.usage, shape.cost_of(session)),
        "timing": shape.timing(session),
    }
    if said := await _said(instance, session):
        answer["message"] = said
    return answer


async def _said(instance: Instance, session: v1.Session) -> str:
    """What it waits for, with the ids that answer it; else why it is where it is."""
    if session.state != v1.SessionState.SESSION_STATE_AWAITING:
        return session.reason
    told = await waiting(instance, session)
    lines: list[str] = []
    for each in told.get("permission_requests", ()):
        what = " ".join([each["action"], *each["details"].values()])
        lines.append(f"It waits for a permission: {each['request_id']} ({what})")
    lines += [f"It asks: {each['question']}" for each in told.get("questions", ())]
    return "; ".join(lines)


async def export_session(ask: Ask) -> Json:
    instance, session = await ask.session()
    form: str = ask.args["format"]
    data = await (_markdown if form == "markdown" else _json)(ask, instance, session)
    return {"session_id": session.session_id, "format": form, "data": data}


async def _markdown(ask: Ask, instance: Instance, session: v1.Session) -> str:
    pieces = instance.client.sessions.export(
        session.session_id,
        format="markdown",
        include_messages=ask.args["include_messages"],
        include_files=ask.args["include_files"],
        include_stats=ask.args["include_stats"],
    )
    return b"".join([piece.data async for piece in pieces]).decode()


async def _json(ask: Ask, instance: Instance, session: v1.Session) -> Json:
    args = ask.args
    files: dict[str, Json] = {}
    ended: list[Json] = []
    lines = instance.client.sessions.export(
        session.session_id, include_messages=False, include_files=args["include_files"]
    )
    rest = b""
    async for piece in lines:
        *whole, rest = (rest + piece.data).split(b"\n")
        for line in whole:
            _take(orjson.loads(line), files, ended)
    over = session.closed_at or max((each["ended_at"] for each in ended), default=0)
    answer: Json = {
        "session_id": session.session_id,
        "project": shape.project(session),
        "created": iso(session.created_at),
    }
    end = over or shape.last_active(session)
    if over and not _open(session):
        answer["completed"] = iso(over)
    answer["duration_seconds"] = max(round((end - session.created_at) / 1000, 3), 0)
    if args["include_messages"]:
        answer["messages"], _ = await messages(instance, session, limit=None)
    answer["files_changed"] = list(files.values()) if args["include_files"] else list(files)
    if args["include_stats"]:
        answer["tokens"] = shape.tokens(session.usage, shape.cost_of(session))
    answer["outcome"] = _outcome(session, ended)
    return answer


def _take(line: Json, files: dict[str, Json], ended: list[Json]) -> None:
    data: Json = line["data"]
    match line["type"]:
        case "file_change":
            files.setdefault(data["path"], {"path": data["path"]})
        case "file":
            names = (("size", "size"), ("content", "text"), ("note", "note"))
            told = {name: data[ours] for name, ours in names if ours in data}
            files[data["path"]] = {"path": data["path"], **told}
        case "run" if "ended_at" in data:
            ended.append(data)
        case _:
            pass


def _open(session: v1.Session) -> bool:
    return session.state in (
        v1.SessionState.SESSION_STATE_STARTING,
        v1.SessionState.SESSION_STATE_ACTIVE,
        v1.SessionState.SESSION_STATE_AWAITING,
    )


_OUTCOMES = {"completed": "success", "cancelled": "cancelled"}


def _outcome(session: v1.Session, ended: list[Json]) -> str:
    """How the last run ended; `in_progress` while one runs or before the first."""
    if _open(session):
        return "in_progress"
    if not ended:
        failed = session.phase == v1.SessionPhase.SESSION_PHASE_FAILED
        return "failed" if failed else "in_progress"
    last = max(ended, key=lambda each: each["ended_at"])
    return _OUTCOMES.get(last["state"], "failed")


async def get_stats(ask: Ask) -> Json:
    totals = shape.Totals()
    if ask.args["session_id"]:
        instance, session = await ask.session()
        counted = await instance.client.stats.get(session_id=session.session_id)
        totals.stats(counted)
        totals.sessions = max(totals.sessions, 1)
        totals.active = int(session.phase in shape.ACTIVE)
        return {"scope": "session", "stats": totals.view()}
    name: str | None = ask.args["instance"]
    found, away = await ask.instances.reachable(name)
    if name is None:
        for instance in one_each(found):
            totals.stats(await instance.client.stats.get())
    else:
        await _of_instance(ask, found[0], totals)
    answer: Json = {"scope": "all" if name is None else "instance", "stats": totals.view()}
    if away:
        answer["message"] = f"Not reachable now: {', '.join(away)}"
    return answer


async def _of_instance(ask: Ask, instance: Instance, totals: shape.Totals) -> None:
    """A daemon's own count, less what its OpenCode URLs used; a URL's is the sum of its sessions."""
    if instance.http:
        async for session in walk(ask, instance):
            totals.session(session)
        return
    totals.stats(await instance.client.stats.get())
    for other in ask.instances.others(instance):
        async for session in walk(ask, other):
            totals.session(session, -1)
