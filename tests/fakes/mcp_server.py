"""A minimal MCP server with two tools, over stdio or over streamable HTTP.

Owns the four MCP methods that agents need; `shout` answers its text in upper case, `environment`
the value of one variable, so that a test sees whether configured variables arrive. Knows no agent.
"""

import argparse
import asyncio
import json
import os
import sys
from typing import Any

from tests.fakes.models.http import Reply, Request, serving

_METHOD_NOT_FOUND = -32601
_TOOLS = [
    {
        "name": "shout",
        "description": "Answers the text in upper case.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
    {
        "name": "environment",
        "description": "Answers the value of an environment variable of the server.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "the variable's name"}},
            "required": ["text"],
        },
    },
]


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Answers one JSON-RPC message; None for a notification."""
    if "id" not in message:
        return None
    params: dict[str, Any] = message.get("params") or {}
    result: dict[str, Any]
    match message.get("method"):
        case "initialize":
            result = {
                "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake-mcp", "version": "1"},
            }
        case "tools/list":
            result = {"tools": _TOOLS}
        case "tools/call":
            result = {"content": [{"type": "text", "text": _call(params)}]}
        case "ping":
            result = {}
        case other:
            error = {"code": _METHOD_NOT_FOUND, "message": f"no method {other}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _call(params: dict[str, Any]) -> str:
    arguments: dict[str, Any] = params.get("arguments") or {}
    text = str(arguments.get("text", ""))
    if params.get("name") == "environment":
        return os.environ.get(text, "(not set)")
    return text.upper()


async def over_http(request: Request, reply: Reply) -> None:
    """Streamable HTTP without a stream of the server's own: every answer is one JSON body."""
    if request.method != "POST":
        return await reply.send(200 if request.method == "DELETE" else 405, b"")
    response = answer(request.json())
    if response is None:
        return await reply.send(202, b"")
    await reply.send(200, response)


def over_stdio() -> None:
    """Reads a message a line until the end of stdin."""
    for line in sys.stdin.buffer:
        response = answer(json.loads(line)) if line.strip() else None
        if response is not None:
            sys.stdout.write(json.dumps(response) + "\n")
            sys.stdout.flush()


async def _serve_http(port: int) -> None:
    async with serving(over_http, port) as url:
        sys.stdout.write(f"listening on {url}/mcp\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP; 0 = any free port")
    options = parser.parse_args()
    if options.http is None:
        over_stdio()
    else:
        asyncio.run(_serve_http(options.http))


if __name__ == "__main__":
    main()
