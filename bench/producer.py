"""An ACP agent that says when it spoke: each chunk is CLOCK_MONOTONIC in nanoseconds, as text.

Prompt: `pace RATE COUNT`, chunks a second and how many. Standard library only, so that it costs little
memory beside what is measured. Knows nothing of the daemon.
"""

import json
import os
import sys
import time
from typing import Any, cast

Json = dict[str, Any]

_RESULTS: dict[str, Json] = {
    "initialize": {
        "protocolVersion": 1,
        "agentCapabilities": {},
        "authMethods": [],
        "agentInfo": {"name": "bench", "version": "1"},
    }
}


def line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def chunk(session: str, text: str) -> bytes:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content}
    return line({"method": "session/update", "params": {"sessionId": session, "update": update}})


def plan(text: str) -> tuple[float, int]:
    """Reads `pace RATE COUNT` as (seconds between chunks, how many).

    Raises:
        ValueError: it is something else.
    """
    verb, rate, count = text.split()
    if verb != "pace" or float(rate) <= 0:
        raise ValueError(text)
    return 1 / float(rate), int(count)


def pace(session: str, gap_s: float, count: int) -> None:
    """Speaks on a fixed schedule: a late chunk does not delay the ones behind it."""
    start = time.monotonic()
    for index in range(count):
        wait = start + index * gap_s - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        os.write(1, chunk(session, str(time.monotonic_ns())))


def _prompt_text(params: Json) -> str:
    blocks = cast(list[Json], params.get("prompt", []))
    return "".join(str(block.get("text", "")) for block in blocks)


def main() -> None:
    sessions = 0
    for raw in sys.stdin.buffer:
        message: Json = json.loads(raw)
        if "id" not in message:
            continue
        params: Json = message.get("params") or {}
        method = str(message.get("method"))
        result = _RESULTS.get(method, {})
        if method == "session/new":
            sessions += 1
            result = {"sessionId": f"bench-{sessions}"}
        elif method == "session/prompt":
            pace(str(params["sessionId"]), *plan(_prompt_text(params)))
            result = {"stopReason": "end_turn"}
        os.write(1, line({"id": message["id"], "result": result}))


if __name__ == "__main__":
    main()
