"""A scripted Gemini API (generativelanguage, v1beta) on loopback.

Owns the wire format of generateContent, streamGenerateContent and countTokens and the names of
Gemini CLI's own tools. The script says what is answered (script.py), http.py how bytes travel.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tests.fakes.models import script
from tests.fakes.models.endpoint import Exchange, Log, main
from tests.fakes.models.http import Reply, Request
from tests.fakes.models.script import Op, Plan, Turn, plan

_ERROR_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_PROMPT_TOKENS = 100
_TOKENS_A_THOUGHT = 7
_TOTAL_TOKENS = 42
# Opaque to the client, which has to send it back; newer models demand one beside a call.
_SIGNATURE = "c2lnbmF0dXJl"


class GeminiEndpoint:
    """Answers the requests of Gemini CLI by script; usage is 100 in, one token out per text."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or Log()
        self._failed: dict[str, int] = {}

    async def answer(self, request: Request, reply: Reply, exchange: Exchange) -> str:
        model, _, verb = request.path.rpartition("/models/")[2].partition(":")
        exchange.api_key_header = request.headers.get("x-goog-api-key", "")
        if verb == "countTokens":
            exchange.auxiliary = True
            await reply.send(200, {"totalTokens": _TOTAL_TOKENS})
            return "completed"
        if verb not in ("generateContent", "streamGenerateContent"):
            await reply.send(404, _error(404))
            return "failed"
        body = request.json()
        exchange.model, exchange.tools = model, tool_names(body)
        turns = conversation(body.get("contents") or [])
        planned = plan(turns)
        exchange.steps, exchange.rounds = list(planned.steps), planned.round
        ops = self._chosen(planned, turns, body, exchange)
        match ops[0]:
            case script.Fail(status=status):
                await reply.send(status, _error(status))
                return "failed"
            case script.Hang():
                await _for_ever()
            case _:
                pass
        if verb == "generateContent":
            return await self._whole(ops, reply, exchange)
        return await self._stream(ops, reply, exchange)

    def _chosen(
        self, planned: Plan, turns: Sequence[Turn], body: dict[str, Any], exchange: Exchange
    ) -> Sequence[Op]:
        ops = planned.ops
        match ops[0]:
            case script.Fail(times=int(times)):
                key = repr(turns)
                self._failed[key] = self._failed.get(key, 0) + 1
                return ops if self._failed[key] <= times else (script.Text("recovered"),)
            case script.Fail() | script.Hang():
                return ops
            case _ if not exchange.tools:
                exchange.auxiliary = True
                return (script.Text(_auxiliary_text(body)),)
            case _:
                return ops

    async def _whole(self, ops: Sequence[Op], reply: Reply, exchange: Exchange) -> str:
        parts = [part for op in ops if (part := _part(op, exchange)) is not None]
        exchange.usage = _usage(exchange, ops)
        await reply.send(200, _chunk(parts, exchange.model, _finish(ops), exchange.usage))
        return "completed"

    async def _stream(self, ops: Sequence[Op], reply: Reply, exchange: Exchange) -> str:
        await reply.start()
        calls: list[dict[str, Any]] = []
        for op in ops:
            match op:
                case script.Text() | script.Thought():
                    part = _part(op, exchange)
                    await _event(reply, _chunk([part] if part else [], exchange.model))
                case script.Pause(ms=ms):
                    await asyncio.sleep(ms / 1000)
                case script.Hang():
                    await _for_ever()
                case script.Cut():
                    reply.cut()
                    return "cut"
                case script.Empty():
                    await _event(reply, {"usageMetadata": _usage(exchange, ops)})
                    await reply.end()
                    return "completed"
                case script.Finish() | script.Fail():
                    pass
                case _:
                    calls.append(_part(op, exchange) or {})
        exchange.usage = _usage(exchange, ops)
        last = _chunk(calls or [{"text": ""}], exchange.model, _finish(ops), exchange.usage)
        await _event(reply, last)
        await reply.end()
        return "completed"


def conversation(contents: Iterable[dict[str, Any]]) -> list[Turn]:
    """Gemini's contents as turns; a tool result and a text in one content stay in that order."""
    turns: list[Turn] = []
    for content in contents:
        parts: list[dict[str, Any]] = content.get("parts") or []
        if content.get("role") == "model":
            turns.append(script.ModelTurn())
            continue
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        turns.extend(script.ToolResult(_result_text(result)) for result in results)
        said = [part for part in parts if "functionResponse" not in part]
        if said:
            text = "\n".join(part.get("text", "") for part in said)
            turns.append(script.UserTurn(text, tuple(_kind(part) for part in said)))
    return turns


def tool_names(body: dict[str, Any]) -> list[str]:
    """The names of all functions that a request declares."""
    names: list[str] = []
    tools: list[dict[str, Any]] = body.get("tools") or []
    for tool in tools:
        functions: list[dict[str, Any]] = tool.get("functionDeclarations") or []
        names.extend(str(function["name"]) for function in functions)
    return names


def _kind(part: dict[str, Any]) -> str:
    blob = part.get("inlineData")
    if blob is not None:
        return str(blob.get("mimeType", "")).partition("/")[0] or "file"
    return "file" if "fileData" in part else "text"


def _result_text(result: dict[str, Any]) -> str:
    response: dict[str, Any] = result.get("response") or {}
    value = response.get("output", response.get("error", response))
    return value if isinstance(value, str) else json.dumps(value)


def _call(op: script.Use, tools: Sequence[str]) -> tuple[str, dict[str, Any]]:
    match op:
        case script.RunCommand(command=command):
            return "run_shell_command", {"command": command, "description": "scripted command"}
        case script.WriteFile(path=path, text=text):
            return "write_file", {"file_path": path, "content": text}
        case script.EditFile(path=path, old=old, new=new):
            edit = {"file_path": path, "old_string": old, "new_string": new}
            return "replace", {**edit, "instruction": "scripted edit"}
        case script.ReadFile(path=path):
            return "read_file", {"file_path": path}
        case script.WriteTodos(items=items):
            todos = [{"description": text, "status": status} for text, status in items]
            return "write_todos", {"todos": todos}
        case script.CallTool(name=name, arguments=arguments):
            return name, arguments
        case script.CallMcp(tool=tool, text=text):
            served = (name for name in tools if name.startswith("mcp_") and name.endswith(tool))
            return next(served, tool), {"text": text}


def _part(op: Op, exchange: Exchange) -> dict[str, Any] | None:
    match op:
        case script.Text(text=text):
            exchange.sent_text += text
            return {"text": text}
        case script.Thought(text=text):
            exchange.sent_thoughts += text
            return {"text": text, "thought": True}
        case (
            script.Pause()
            | script.Fail()
            | script.Cut()
            | script.Hang()
            | script.Finish()
            | script.Empty()
        ):
            return None
        case _:
            name, arguments = _call(op, exchange.tools)
            exchange.called.append(name)
            return {
                "functionCall": {"name": name, "args": arguments},
                "thoughtSignature": _SIGNATURE,
            }


def _finish(ops: Iterable[Op]) -> str:
    return next((op.reason for op in ops if isinstance(op, script.Finish)), "STOP")


def _usage(exchange: Exchange, ops: Sequence[Op]) -> dict[str, int]:
    output = max(1, sum(isinstance(op, script.Text) for op in ops))
    thoughts = _TOKENS_A_THOUGHT * sum(isinstance(op, script.Thought) for op in ops)
    exchange.usage = {
        "promptTokenCount": _PROMPT_TOKENS,
        "candidatesTokenCount": output,
        "totalTokenCount": _PROMPT_TOKENS + output + thoughts,
    }
    if thoughts:
        exchange.usage["thoughtsTokenCount"] = thoughts
    return exchange.usage


def _chunk(
    parts: list[dict[str, Any]],
    model: str,
    finish: str | None = None,
    usage: dict[str, int] | None = None,
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": model}
    return chunk if usage is None else {**chunk, "usageMetadata": usage}


def _error(status: int) -> dict[str, Any]:
    word = _ERROR_STATUS.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": f"scripted failure {status}", "status": word}}


def _auxiliary_text(body: dict[str, Any]) -> str:
    """A request without tools is the client's own errand: the least that fits its schema."""
    config: dict[str, Any] = body.get("generationConfig") or {}
    schema = config.get("responseSchema") or config.get("responseJsonSchema")
    if schema is None and config.get("responseMimeType") != "application/json":
        return "ok"
    return json.dumps(_least(schema or {}))


def _least(schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][-1]
    types: str | list[str] = schema.get("type", "object")
    kind = types if isinstance(types, str) else types[0]
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    match kind.lower():
        case "object":
            return {name: _least(inner) for name, inner in properties.items()}
        case "array":
            return []
        case "boolean":
            return False
        case "number" | "integer":
            return 0
        case _:
            return "ok"


async def _event(reply: Reply, value: dict[str, Any]) -> None:
    await reply.write(b"data: " + json.dumps(value).encode() + b"\r\n\r\n")


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main(GeminiEndpoint)
