"""Owns which session a client means: ids, sessions that wait for their first prompt, the session object.

A client may make a session before it says with which agent. Such a one lives here until its first prompt;
the daemon's session then carries its id as a label, so that the id stays good after a restart.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentctl import v1
from agentctl.client import AgentCtl
from agentctl.client.times import iso
from agentctl.core.errors import NotFound
from agentctl.gateway.opencode import words
from agentctl.gateway.opencode.errors import no_session
from agentctl.gateway.opencode.message import NO_MODEL
from agentctl.gateway.opencode.places import project_id
from agentctl.gateway.opencode.prompts import Choice
from agentctl.gateway.opencode.words import Json
from agentctl.rpc.jsonview import to_dict

# Labels of ours on the daemon's sessions and runs.
SESSION = "opencode.session"
WORKSPACE = "opencode.workspace"
MESSAGE = "opencode.message"
REVERT = "opencode.revert"
HIDDEN = "opencode.hidden"

PAGE = 1000
VERSION = "1"


@dataclass
class Lazy:
    """A session that has no agent yet."""

    id: str
    directory: str
    created: int
    title: str = ""
    workspace: str = ""
    chosen: Choice = field(default_factory=Choice)
    rules: Sequence[v1.Rule] = ()
    policy: str = ""
    updated: int = 0

    def view(self) -> Json:
        base = _base(
            self.id, self.directory, self.title, self.created, self.updated or self.created
        )
        if self.workspace:
            base["workspaceID"] = self.workspace
        if self.chosen.agent:
            base["agent"] = self.chosen.agent
        return base


def _base(own: str, directory: str, title: str, created: int, updated: int) -> Json:
    return {
        "id": own,
        "slug": own.removeprefix("ses_"),
        "projectID": project_id(directory),
        "directory": directory,
        "path": "",
        "title": title or f"New session - {iso(created)}",
        "version": VERSION,
        "time": {"created": created, "updated": updated},
        "tokens": words.tokens(None),
        "cost": 0,
    }


def directory_of(session: v1.Session) -> str:
    """The directory that was asked for, also where the agent works in a copy of it."""
    return session.source_workspace or session.workspace


def hidden_runs(labels: Mapping[str, str], runs: Sequence[str]) -> list[str]:
    """Runs that were reverted and then left behind by a new prompt."""
    spans = [span.partition("-") for span in labels.get(HIDDEN, "").split() if span]
    return [r for r in runs if any(f"run_{a}" <= r < f"run_{b}" for a, _, b in spans)]


class Roster:
    """All sessions, by the ids that clients have for them.

    `models` holds what was last asked for in each of the daemon's sessions: a client names the model
    with every prompt, and an agent is told only of another one.
    """

    def __init__(self, client: AgentCtl) -> None:
        self._client = client
        self.lazies: dict[str, Lazy] = {}
        self.models: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._shown: dict[str, str] = {}

    async def load(self) -> list[v1.Session]:
        """All sessions of the daemon; learns the ids under which clients know them."""
        return [each async for each in self.sessions()]

    async def sessions(self) -> AsyncIterator[v1.Session]:
        token = ""
        while True:
            page = await self._client.sessions.list(page_size=PAGE, page_token=token)
            for each in page.sessions:
                self.learn(each)
                yield each
            token = page.next_page_token
            if not token:
                return

    def learn(self, session: v1.Session) -> str:
        """The id of a session as clients know it."""
        own = session.session_id
        # A fork has the labels of its source, and is another session all the same.
        label = "" if session.forked_from else session.labels.get(SESSION, "")
        shown = label or own
        self._shown[own], self._own[shown] = shown, own
        return shown

    def shown(self, own: str) -> str:
        return self._shown.get(own, own)

    def forget(self, shown: str) -> None:
        self.lazies.pop(shown, None)
        self._shown.pop(self._own.pop(shown, ""), None)

    async def get(self, shown: str) -> v1.Session:
        """The daemon's session behind an id.

        Raises:
            HttpError: there is none (or it waits for its first prompt).
        """
        own = self._own.get(shown, shown)
        try:
            session = await self._client.sessions.get(own)
        except NotFound:
            self._own.pop(shown, None)
            raise no_session() from None
        if session.session_id != own:
            raise no_session()
        if own not in self._shown:
            self.learn(session)
        return session

    async def view_of(self, shown: str) -> Json:
        lazy = self.lazies.get(shown)
        if lazy is not None and shown not in self._own:
            return lazy.view()
        return self.view(await self.get(shown))

    def view(self, session: v1.Session) -> Json:
        """The session object."""
        shown = self.learn(session)
        updated = max(session.updated_at, session.last_active_at)
        out = _base(
            shown,
            directory_of(session),
            session.title or session.name,
            session.created_at,
            updated,
        )
        out["agent"] = session.entry_id
        # Until its agent has told which one it has, it is the one that was asked for.
        model = session.model or self.models.get(session.session_id) or NO_MODEL
        out["model"] = {"id": model, "providerID": session.entry_id}
        if session.HasField("usage"):
            out["tokens"] = words.tokens(to_dict(session.usage))
        out["cost"] = session.cost_usd
        if workspace := session.labels.get(WORKSPACE):
            out["workspaceID"] = workspace
        if session.forked_from:
            out["parentID"] = self.shown(session.forked_from)
        if mark := session.labels.get(REVERT):
            out["revert"] = {"messageID": mark.partition(" ")[2]}
        return out
