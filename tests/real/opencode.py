"""How the real OpenCode server is made hermetic: its binary, its environment, its scripted model.

Knows neither the adapter nor a daemon.
"""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

from tests.real.harness import FAKE_KEY, NODE_MODULES, Home, Recipe

ARGUMENTS = ("serve", "--hostname", "127.0.0.1", "--port", "0")
MODEL = "fake/fast"
OTHER_MODEL = "fake/slow"
_SWITCHES = (
    "AUTOUPDATE",
    "MODELS_FETCH",
    "LSP_DOWNLOAD",
    "DEFAULT_PLUGINS",
    "CLAUDE_CODE",
    "EXTERNAL_SKILLS",
)


def binary() -> Path:
    """The program itself: the launcher of the package needs an install script, which is not run.

    Raises:
        FileNotFoundError: it is not installed.
    """
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    path = NODE_MODULES / f"opencode-linux-{machine}" / "bin" / "opencode"
    if not path.exists():
        raise FileNotFoundError(f"{path}: run `npm ci` in {NODE_MODULES.parent}")
    return path


def command() -> tuple[str, ...]:
    return (str(binary()), *ARGUMENTS)


def config(model_url: str) -> str:
    """OPENCODE_CONFIG_CONTENT with the scripted model and no word on permissions."""
    model = {
        "tool_call": True,
        "reasoning": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 100_000, "output": 8_000},
        "cost": {"input": 1, "output": 2},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": FAKE_KEY},
        "models": {"fast": {"name": "Fast", **model}, "slow": {"name": "Slow", **model}},
    }
    told = {
        "model": MODEL,
        "small_model": MODEL,
        "share": "disabled",
        "autoupdate": False,
        "enabled_providers": ["fake"],
        "provider": {"fake": provider},
    }
    return json.dumps(told)


OPENCODE = Recipe(
    name="opencode",
    protocol="opencode",
    binary="opencode",
    arguments=ARGUMENTS,
    env={f"OPENCODE_DISABLE_{name}": "1" for name in _SWITCHES},
)


def environment(home: Home, model_url: str) -> dict[str, str]:
    """The whole environment of the server."""
    return {
        "PATH": os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin")),
        "HOME": str(home.home),
        "TMPDIR": str(home.tmp),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **OPENCODE.env,
        "OPENCODE_CONFIG_CONTENT": config(model_url),
    }


def make_repository(folder: Path) -> None:
    """A git work tree with one commit: without one the server tells no diffs and reverts no files."""
    git = shutil.which("git") or "git"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "readme.md").write_text("hello\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run([git, *arguments], cwd=folder, check=True, capture_output=True)
