"""OpenCode's own SDK from npm against agentctl: what an app written for OpenCode does."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gateway.opencode.live import live
from tests.real.harness import NODE_MODULES

pytestmark = pytest.mark.real

PROGRAM = Path(__file__).parent / "programs" / "opencode_sdk.mjs"
PASSWORD = "correct horse"

# Node and an agent start on a busy machine.
NODE_S = 60.0


@pytest.mark.proves("GO10")
def test_both_clients_of_the_sdk_do_what_an_app_does(tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node is not None and (NODE_MODULES / "@opencode-ai" / "sdk").exists()
    with live(tmp_path, password=PASSWORD) as server:
        done = subprocess.run(
            [node, str(PROGRAM)],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "URL": server.url,
                "PASSWORD": PASSWORD,
                "DIRECTORY": str(server.workspace),
            },
            capture_output=True,
            text=True,
            timeout=NODE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (server.workspace / "older.txt").exists()
    told = json.loads(done.stdout)
    newer = told["newer"]
    # Whether a text comes in pieces depends on what was on its way at once.
    kinds = set(newer.pop("kinds")) - {"message.part.delta"}
    assert sorted(kinds) == [
        "message.part.updated",
        "message.updated",
        "permission.asked",
        "permission.replied",
        "question.asked",
        "question.replied",
        "server.connected",
        "session.created",
        "session.idle",
        "session.status",
        "session.updated",
    ]
    assert newer == {
        "title": "By the SDK",
        "texts": ["first", "You answered: bluelast"],
        "tools": ["completed"],
        "finish": "stop",
        "roles": ["user", "assistant"],
        "parent": True,
        "copied": 2,
        "renamed": "Renamed",
        "aborted": True,
        "listed": True,
        "missing": 404,
        "deleted": True,
        "left": False,
        "demo": True,
    }
    assert told["older"] == {
        "text": ["demo-smart"],
        "todo": [],
        "children": [],
        "path": str(server.workspace),
        "demo": True,
        "mcp": {},
        "deleted": True,
    }
