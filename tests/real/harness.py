"""What a test with a real agent needs: a private home, a hermetic environment, a scripted model.

Owns the recipes (command, environment and files of each agent) and the checks on processes. Knows
neither the daemon nor a protocol; a daemon fixture takes `agent_env` as its own environment and
`registry_entry` as the entry it serves.
"""

import json
import os
import shutil
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import psutil

NODE_MODULES = Path(__file__).parent / "node_modules"
FAKE_KEY = "fake-key-for-tests"

# Cold starts take 1.5 s alone and three times that beside other tests on a small machine.
START_TIMEOUT_S = 30.0
# A scripted turn takes milliseconds; agents wait up to 6 s before they try a failed request again.
TURN_TIMEOUT_S = 30.0
# How long a tree that was told to end may need until the kernel has reaped all of it.
GONE_TIMEOUT_S = 10.0
POLL_S = 0.02
_SESSION_STAMP = "%Y-%m-%dT%H-%M"


@dataclass(frozen=True, slots=True)
class Home:
    """The directories of one test; nothing of the user's own home is reachable from them."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one agent is made hermetic. `{model}` in `env` stands for the model's base URL."""

    name: str
    protocol: str
    binary: str
    arguments: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def command(self) -> list[str]:
        """The whole argv.

        Raises:
            FileNotFoundError: the agent is not installed.
        """
        path = NODE_MODULES / ".bin" / self.binary
        if not path.exists():
            raise FileNotFoundError(f"{path}: run `npm ci` in {NODE_MODULES.parent}")
        return [str(path), *self.arguments]


GEMINI = Recipe(
    name="gemini",
    protocol="acp",
    binary="gemini",
    arguments=("--experimental-acp",),
    env={
        "GEMINI_API_KEY": FAKE_KEY,
        "GOOGLE_GEMINI_BASE_URL": "{model}",
        "GEMINI_CLI_NO_RELAUNCH": "1",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    files={
        ".gemini/settings.json": {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {
                "enableAutoUpdate": False,
                "maxAttempts": 2,
                "sessionRetention": {"enabled": False},
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "model": {"name": "gemini-2.5-flash"},
            "tools": {"shell": {"enableInteractiveShell": False}},
        }
    },
)


def make_home(root: Path, *recipes: Recipe) -> Home:
    """Makes the directories and writes the files of the recipes into the home."""
    home = Home(root)
    for directory in (home.home, home.tmp, home.workspace):
        directory.mkdir(parents=True)
    for recipe in recipes:
        for name, value in recipe.files.items():
            path = home.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
    return home


def agent_env(home: Home, model: str, recipe: Recipe = GEMINI) -> dict[str, str]:
    """The whole environment of an agent (or of a daemon that starts it): nothing is inherited.

    Args:
        home: The directories of the test.
        model: Base URL of the scripted model.
        recipe: The agent.
    """
    node = shutil.which("node")
    tools = [str(Path(node).parent)] if node else []
    return {
        "PATH": os.pathsep.join([*tools, "/usr/bin", "/bin"]),
        "HOME": str(home.home),
        "TMPDIR": str(home.tmp),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        **{name: value.format(model=model) for name, value in recipe.env.items()},
    }


def registry_entry(recipe: Recipe, model: str) -> dict[str, Any]:
    """The entry of agents.json under which a daemon starts this agent."""
    return {
        "id": recipe.name,
        "name": recipe.name,
        "enabled": True,
        "protocol": recipe.protocol,
        "cmd": recipe.command,
        "env": {name: value.format(model=model) for name, value in recipe.env.items()},
    }


def write_registry(home: Home, model: str, *recipes: Recipe) -> Path:
    """Writes an agents.json with the entries of the recipes and returns its path."""
    path = home.root / "agents.json"
    entries = [registry_entry(recipe, model) for recipe in recipes]
    path.write_text(json.dumps({"version": 1, "agents": entries}))
    return path


@dataclass(frozen=True, slots=True)
class Model:
    """A running fake model, seen from a test."""

    url: str

    def log(self) -> list[dict[str, Any]]:
        """All exchanges in order (fields: tests/fakes/models/endpoint.py, Exchange)."""
        with urllib.request.urlopen(f"{self.url}/_log") as answer:
            return json.load(answer)

    def turns(self) -> list[dict[str, Any]]:
        """The exchanges that belong to the conversation, the agent's own errands left out."""
        return [exchange for exchange in self.log() if not exchange["auxiliary"]]

    def sent_text(self) -> str:
        """All text that the model sent, in order."""
        return "".join(exchange["sent_text"] for exchange in self.turns())

    async def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        """Waits until the log fulfils a condition (polled: it lives in another thread)."""
        with anyio.fail_after(TURN_TIMEOUT_S):
            while not condition(self.turns()):  # noqa: ASYNC110 - its log is behind HTTP
                await anyio.sleep(POLL_S)


def processes_of(home: Home) -> list[psutil.Process]:
    """Every process that was started with this home, whoever is its parent now."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == str(home.home):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


async def wait_until_gone(home: Home) -> None:
    """Waits until no process of this home is left.

    Raises:
        TimeoutError: some are; the message names them.
    """
    with anyio.move_on_after(GONE_TIMEOUT_S):
        while processes_of(home):  # noqa: ASYNC110 - no event for foreign pids
            await anyio.sleep(POLL_S)
        return
    raise TimeoutError(f"still running: {processes_of(home)}")


def age_gemini_sessions(home: Home) -> None:
    """Makes Gemini CLI's stored sessions two minutes older.

    It names their files by the minute, and one that is loaded in its own minute is not found. A
    test moves the files into the past instead of waiting; the oldest first, so that none is hit.
    """
    for path in sorted((home.home / ".gemini").rglob("session-*.jsonl")):
        stamp, _, rest = path.name.removeprefix("session-").rpartition("-")
        older = datetime.strptime(stamp, _SESSION_STAMP) - timedelta(minutes=2)
        path.rename(path.with_name(f"session-{older.strftime(_SESSION_STAMP)}-{rest}"))
