"""How the real Claude Code is made hermetic. Knows neither the daemon nor a test."""

import platform
from pathlib import Path

from tests.real.harness import FAKE_KEY, NODE_MODULES, Recipe

_ARCH = {"x86_64": "x64", "aarch64": "arm64"}

CLAUDE = Recipe(
    name="claude",
    protocol="claude-code",
    binary="claude",
    arguments=(),
    env={
        "ANTHROPIC_API_KEY": FAKE_KEY,
        "ANTHROPIC_BASE_URL": "{model}",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    },
)


def binary() -> Path:
    """The native program; the npm package links it only when install scripts may run.

    Raises:
        FileNotFoundError: it is not installed.
    """
    arch = _ARCH.get(platform.machine(), platform.machine())
    package = f"claude-code-{platform.system().lower()}-{arch}"
    path = NODE_MODULES / "@anthropic-ai" / package / "claude"
    if not path.exists():
        raise FileNotFoundError(f"{path}: run `npm ci` in {NODE_MODULES.parent}")
    return path
