"""Owns a real daemon with the demo agent and the gateway before it, for tests that speak HTTP to it.

The gateway runs in a thread of the test's own process; what it does there is seen by the checks on
blocking calls. Knows nothing of what is tested.
"""

import json
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from agentctl.gateway.opencode.serving import Options, serving
from tests.daemon.harness import Daemon, daemon, wait_until_gone

Json = dict[str, Any]

# A turn of the demo agent takes milliseconds; who waits so long has found a hang.
PATIENCE_S = 30.0


@dataclass
class Live:
    """A server and a client of it."""

    root: Path
    url: str
    served: Daemon
    portal: BlockingPortal
    http: httpx.Client = field(default_factory=httpx.Client)

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    def call(self, method: str, path: str, body: Any = None, **how: Any) -> httpx.Response:
        if body is not None:
            how["json"] = body
        return self.http.request(method, f"{self.url}{path}", **how)

    def get(self, path: str, **how: Any) -> Any:
        answer = self.call("GET", path, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, **how: Any) -> Any:
        answer = self.call("POST", path, body, **how)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def session(self, **body: Any) -> str:
        """A new session with the demo agent."""
        return str(self.post("/session", {"agent": "demo", **body})["id"])

    def say(self, session: str, text: str, **body: Any) -> Json:
        """Prompts, and waits for the answer."""
        told = {"parts": [{"type": "text", "text": text}], **body}
        return cast(Json, self.post(f"/session/{session}/message", told))

    def begin(self, session: str, text: str, **body: Any) -> None:
        told = {"parts": [{"type": "text", "text": text}], **body}
        answer = self.call("POST", f"/session/{session}/prompt_async", told)
        assert answer.status_code == 204, answer.text

    @contextmanager
    def events(self, path: str = "/global/event", **query: str) -> Generator["Events"]:
        """What a client is told from now on."""
        with self.http.stream("GET", f"{self.url}{path}", params=query) as answer:
            assert answer.status_code == 200
            stream = Events(_frames(answer))
            assert stream.next()["type"] == "server.connected"
            yield stream


def _frames(answer: httpx.Response) -> Iterator[Json]:
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@dataclass
class Events:
    """One event stream; `seen` are the events without their envelope."""

    frames: Iterator[Json]
    seen: list[Json] = field(default_factory=list[Json])
    deadline: float = float("inf")

    def next(self) -> Json:
        """The next event; heartbeats alone do not keep a test waiting."""
        if time.monotonic() > self.deadline:
            raise TimeoutError(f"the last events were {json.dumps(self.seen[-8:], indent=1)}")
        frame = next(self.frames)
        event: Json = frame.get("payload", frame)
        self.seen.append(event)
        return event

    def until(self, kind: str, **properties: Any) -> Json:
        """Reads on to the event of this type."""
        self.deadline = time.monotonic() + PATIENCE_S
        while True:
            event = self.next()
            told: Json = event["properties"]
            if event["type"] == kind and properties.items() <= told.items():
                return told

    def idle(self, session: str) -> list[Json]:
        """Reads on to the end of what the session does; all that was seen."""
        self.until("session.idle", sessionID=session)
        return self.seen

    def of(self, kind: str) -> list[Json]:
        return [each["properties"] for each in self.seen if each["type"] == kind]


@asynccontextmanager
async def _both(root: Path, told: Mapping[str, Any]) -> AsyncGenerator[tuple[str, Daemon]]:
    workspace = root / "workspace"
    await anyio.Path(workspace).mkdir(parents=True, exist_ok=True)
    async with daemon(root) as served, served.client() as client:
        options = Options(port=0, directory=workspace, **told)
        async with serving(client, options) as url:
            yield url, served


@contextmanager
def live(root: Path, **told: Any) -> Generator[Live]:
    """A daemon and a gateway with these options; nothing of them is left at the end."""
    auth = ("opencode", told["password"]) if told.get("password") else None
    with start_blocking_portal() as portal, httpx.Client(auth=auth, timeout=PATIENCE_S) as http:
        both: AbstractContextManager[tuple[str, Daemon]] = portal.wrap_async_context_manager(
            _both(root, told)
        )
        with both as (url, served):
            yield Live(root, url, served, portal, http)
        portal.call(wait_until_gone, root)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def until(condition: Callable[[], Any], what: str) -> Any:
    """Asks again until there is an answer."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := condition():
            return found
    raise AssertionError(f"never: {what}")
