"""Owns the actions on sessions as a whole: create, list, attach, terminate.

It refuses to know what is said in them.
"""

import json
import os
import posixpath
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from typing import Any

import anyio

from agentctl import v1
from agentctl.client import AgentCtl, Unreachable
from agentctl.core.errors import AgentctlError, Invalid
from agentctl.gateway.tool import shape
from agentctl.gateway.tool.errors import ToolError, invalid
from agentctl.gateway.tool.house import Ask, Json
from agentctl.gateway.tool.instance import OPENCODE, Instance

PAGE = 1_000

# A session that nobody will hear of is killed, not talked out of it; its caller waits for that.
CLOSE_S = 5.0

_RESUMABLE = (
    v1.SessionPhase.SESSION_PHASE_ACTIVE,
    v1.SessionPhase.SESSION_PHASE_PAUSED,
    v1.SessionPhase.SESSION_PHASE_COMPLETED,
    v1.SessionPhase.SESSION_PHASE_FAILED,
)


async def create_session(ask: Ask) -> Json:
    args = ask.args
    instance = await ask.instances.pick(args["instance"])
    project = directory(instance, args["project"])
    agent, mode = _agent(ask, instance)
    if args["resume"]:
        last = await _last(ask, instance, project, agent if args["agent"] else "")
        if last is not None:
            session = await take_up(ask, instance, last)
            return await _made(ask, instance, session, "resumed")
    model = args["model"] or ask.house.config.defaults.model
    answers = ask.house.config.features.permission_approval
    wanted: dict[str, Any] = {
        "name": args["session_name"],
        "model": model,
        "mode": mode,
        "policy": "ask" if answers else "deny",
        "labels": instance.labels,
        "env": await _variables(instance, agent),
        "idempotency_key": ask.key,
    }
    if instance.http:
        wanted |= {"url": instance.url, "auth": dict(instance.found.login)}
    session = await _start(ask, instance, agent, project, wanted)
    return await _made(ask, instance, session, "created")


async def _start(
    ask: Ask, instance: Instance, agent: str, project: str, wanted: dict[str, Any]
) -> v1.Session:
    """A session that is ready; one that does not get ready is closed again."""
    sessions = instance.client.sessions
    made: v1.Session | None = None
    try:
        made = await sessions.create(agent, project, **wanted)
        ready = await sessions.create(
            agent, project, **wanted, wait_ready=True, wait_timeout_ms=ask.left_ms
        )
        if wanted["model"]:
            await _check_model(instance.client, ready, agent, wanted["model"])
        return ready
    except Unreachable:
        raise
    except (AgentctlError, ToolError, anyio.get_cancelled_exc_class()) as error:
        if made is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await sessions.close(made.session_id, reason="it did not start", force=True)
        if isinstance(error, Invalid) and error.metadata.get("field") == "workspace":
            raise ToolError("PROJECT_NOT_FOUND", error.message, {"project": project}) from error
        raise


async def _check_model(client: AgentCtl, session: v1.Session, agent: str, model: str) -> None:
    """OpenCode takes any model and fails at the first prompt; what it offers is known before."""
    entry = await client.registry.get(session.entry_id or agent)
    if entry.protocol != OPENCODE:
        return
    offers = (await client.models.list(session_id=session.session_id, page_size=PAGE)).models
    known = [offer.model.id for offer in offers]
    if known and model not in known:
        near = ", ".join(known[:5])
        raise ToolError(
            "INVALID_MODEL",
            f"{session.entry_id} has no model {model!r}; it has {near}{' …' * (len(known) > 5)}.",
            {"model": model},
        )


async def _made(ask: Ask, instance: Instance, session: v1.Session, how: str) -> Json:
    await ask.instances.own(session.session_id, instance)
    said = f"Session {session.session_id} {how}"
    if message := ask.args["message"]:
        created = await instance.client.runs.create(
            session.session_id, message, if_busy="reject", idempotency_key=f"{ask.key}.message"
        )
        said += f"; the message is {created.run.run_id}"
    if ask.attach is not None and ask.house.config.features.streaming:
        await ask.attach(session.session_id)
    return {
        "session_id": session.session_id,
        "instance": instance.name,
        "project": shape.project(session),
        "model": session.model or ask.args["model"] or "",
        "status": how,
        "message": said,
    }


def directory(instance: Instance, told: str) -> str:
    """A project as an absolute path."""
    if posixpath.isabs(told):
        return posixpath.normpath(told)
    root = instance.found.settings.get("workspace_root", "")
    if not root:
        raise invalid(
            f"The project {told!r} is relative, and {instance.name} has no workspace_root: give "
            "an absolute path.",
            "project",
        )
    path = posixpath.normpath(posixpath.join(root, told))
    if path != root and not path.startswith(f"{root.rstrip('/')}/"):
        raise invalid(f"The project {told!r} lies outside the workspace_root {root}.", "project")
    return path


def _agent(ask: Ask, instance: Instance) -> tuple[str, str | None]:
    """The entry and the mode. On an OpenCode URL the agents are the modes of its one entry."""
    told = ask.args["agent"] or ask.house.config.defaults.agent
    if instance.http:
        return OPENCODE, None if told == "default" else told
    if told == "default" and not instance.found.settings.get("default_agent"):
        # The tool is named after it.
        return OPENCODE, None
    return told, None


async def _variables(instance: Instance, agent: str) -> dict[str, str]:
    """Our values of the variables that an entry names; they do not leave this machine."""
    if not instance.client.address.startswith("unix:"):
        return {}
    named = instance.found.settings["default_agent"] if agent == "default" else agent
    entry: Json = json.loads((await instance.client.registry.get(named)).entry_json)
    names = [*entry.get("required_env", ()), *entry.get("env_passthrough", ())]
    own = os.environ.items()
    return {key: value for key, value in own if any(fnmatchcase(key, name) for name in names)}


async def take_up(ask: Ask, instance: Instance, session: v1.Session) -> v1.Session:
    """Resumes a session; what the daemon keeps in no file is told it again."""
    secrets = v1.CreateSessionRequest(
        env=await _variables(instance, session.entry_id),
        auth=instance.found.login if instance.http else {},
    )
    return await instance.client.sessions.resume(
        session.session_id, create=secrets, wait_ready=True, wait_timeout_ms=ask.left_ms
    )


async def _last(ask: Ask, instance: Instance, project: str, agent: str) -> v1.Session | None:
    """The session of a project that was used last and can be taken up again."""
    best: v1.Session | None = None
    async for session in walk(ask, instance, workspace=project, entry_id=agent):
        lost = session.HasField("state_saved") and not session.state_saved
        if lost or session.phase not in _RESUMABLE:
            continue
        if best is None or shape.last_active(session) > shape.last_active(best):
            best = session
    return best


async def walk(ask: Ask, instance: Instance, **where: Any) -> AsyncIterator[v1.Session]:
    """The sessions of one instance, the newest first."""
    token = ""
    while True:
        page = await instance.client.sessions.list(
            **where, labels=instance.labels, page_size=PAGE, page_token=token
        )
        for session in page.sessions:
            if ask.instances.owner(instance, session.labels).name == instance.name:
                yield session
        token = page.next_page_token
        if not token:
            return


async def list_sessions(ask: Ask) -> Json:
    args = ask.args
    found, away = await ask.instances.reachable(args["instance"])
    phases = [args["status"]] if args["status"] else []
    rows: list[tuple[int, Json]] = []
    total = 0
    for instance in found:
        where: dict[str, Any] = {"phases": phases}
        if args["project"]:
            where["workspace"] = directory(instance, args["project"])
        shown = 0
        async for session in walk(ask, instance, **where):
            rows.append((session.created_at, shape.row(session, instance.name)))
            shown += 1
            if shown == args["limit"]:
                break
        total += await _total(ask, instance, where)
    rows.sort(key=lambda each: -each[0])
    answer: Json = {
        "sessions": [each for _, each in rows[: args["limit"]]],
        "total": total,
    }
    if away:
        answer["message"] = f"Not reachable now: {', '.join(away)}"
    return answer


async def _total(ask: Ask, instance: Instance, where: dict[str, Any]) -> int:
    sessions = instance.client.sessions
    count = (await sessions.list(**where, labels=instance.labels, page_size=1)).total
    for other in ask.instances.others(instance):
        count -= (await sessions.list(**where, labels=other.labels, page_size=1)).total
    return count


async def attach_session(ask: Ask) -> Json:
    instance, session = await ask.session(adopt=True)
    said = f"Attached to session {session.session_id}"
    if session.phase == v1.SessionPhase.SESSION_PHASE_PAUSED:
        try:
            session = await take_up(ask, instance, session)
        except Unreachable:
            raise
        except AgentctlError as error:
            said += f"; it stays paused: {error.message}"
    await ask.instances.own(session.session_id, instance)
    subscribed = False
    if ask.args["subscribe"]:
        if not ask.house.config.features.streaming:
            said += "; events are switched off (features.streaming)"
        else:
            if ask.attach is not None:
                subscribed = await ask.attach(session.session_id)
            subscribed = subscribed or ask.house.heard(session.session_id)
            if not subscribed:
                said += "; no stream of events is open in this way in"
    told = session.progress
    last = {"last_message": told.last_message} if told.HasField("last_message") else {}
    return {
        "session_id": session.session_id,
        "instance": instance.name,
        "project": shape.project(session),
        "status": shape.status(session),
        **last,
        "subscribed": subscribed,
        "message": said,
    }


async def terminate_session(ask: Ask) -> Json:
    instance, session = await ask.session()
    closed = await instance.client.sessions.close(
        session.session_id, reason=ask.args["reason"], save_state=ask.args["save_state"]
    )
    saved = closed.state_saved
    how = "can be taken up again" if saved else "cannot be taken up again"
    return {
        "session_id": closed.session_id,
        "status": "terminated",
        "saved_state": saved,
        "message": f"Session {closed.session_id} is terminated and {how}",
    }
