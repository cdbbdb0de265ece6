"""A fake OpenCode server with the faults of its arguments: `python -m tests.fakes.opencode.server [FAULT …]`.

Owns the start: what is printed, which port, which password. Its model is scripted by the prompts
(tests/fakes/models/script.py). Needs no network and no agent.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from tests.fakes.models.http import serving
from tests.fakes.opencode.faults import FAULTS
from tests.fakes.opencode.routes import App


def main() -> None:
    faults = {word for word in sys.argv[1:] if word in FAULTS}
    if "exits" in faults:
        sys.stderr.write("ServeError: Failed to start server on port 4096\n")
        raise SystemExit(1)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(faults))


async def _serve(faults: set[str]) -> None:
    config: dict[str, Any] = json.loads(os.environ.get("OPENCODE_CONFIG_CONTENT") or "{}")
    app = App(
        faults, config.get("permission") or {}, os.environ.get("OPENCODE_SERVER_PASSWORD", "")
    )
    async with serving(app) as url:
        if "noise" in faults:
            _say("Warning: something else")
            _say("see http://example.invalid/docs")
            _say(f"\x1b[32mopencode server listening on {url}\x1b[0m")
        elif "silent" not in faults:
            _say(f"opencode server listening on {url}")
        await asyncio.Event().wait()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
