"""A scripted chat-completions API (OpenAI's, v1) on loopback.

Owns the wire format of chat completions, streamed and whole, and the names of OpenCode's own tools.
The script says what is answered (script.py), http.py how bytes travel.
"""

import asyncio
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from tests.fakes.models import script
from tests.fakes.models.endpoint import Exchange, Log, main
from tests.fakes.models.http import Reply, Request
from tests.fakes.models.script import Op, Plan, Turn, plan

_PROMPT_TOKENS = 100
_CACHED_TOKENS = 20
_TOKENS_A_THOUGHT = 7
_FINISH = {"MAX_TOKENS": "length", "SAFETY": "content_filter"}


class OpenAiEndpoint:
    """Answers by script; usage is 100 in (20 of them cached), one token out per text."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or Log()
        self._failed: dict[str, int] = {}
        self._ids = itertools.count(1)

    async def answer(self, request: Request, reply: Reply, exchange: Exchange) -> str:
        if not request.path.endswith("/chat/completions"):
            await reply.send(404, _error(404))
            return "failed"
        body = request.json()
        exchange.api_key_header = request.headers.get("authorization", "").removeprefix("Bearer ")
        exchange.model, exchange.tools = str(body.get("model")), tool_names(body)
        turns = conversation(body.get("messages") or [])
        planned = plan(turns)
        exchange.steps, exchange.rounds = list(planned.steps), planned.round
        ops = self._chosen(planned, turns, exchange)
        match ops[0]:
            case script.Fail(status=status):
                await reply.send(status, _error(status))
                return "failed"
            case script.Hang():
                await _for_ever()
            case _:
                pass
        if body.get("stream") is not True:
            return await self._whole(ops, reply, exchange)
        return await self._stream(ops, reply, exchange)

    def _chosen(self, planned: Plan, turns: Sequence[Turn], exchange: Exchange) -> Sequence[Op]:
        if not exchange.tools:
            # A title or a summary: the client's own errand, whatever the user's text says.
            exchange.auxiliary = True
            return (script.Text("A short title"),)
        match planned.ops[0]:
            case script.Fail(times=int(times)):
                key = repr(turns)
                self._failed[key] = self._failed.get(key, 0) + 1
                recovered = (script.Text("recovered"),)
                return planned.ops if self._failed[key] <= times else recovered
            case _:
                return planned.ops

    async def _whole(self, ops: Sequence[Op], reply: Reply, exchange: Exchange) -> str:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for op in ops:
            delta = self._delta(op, exchange, 0)
            message["content"] += (delta or {}).get("content", "")
        choice = {"index": 0, "message": message, "finish_reason": _finish(ops, calls=0)}
        exchange.usage = _usage(ops)
        await reply.send(
            200, {**_head(exchange), "choices": [choice], "usage": _wire(exchange.usage)}
        )
        return "completed"

    async def _stream(self, ops: Sequence[Op], reply: Reply, exchange: Exchange) -> str:
        await reply.start()
        calls = 0
        for op in ops:
            match op:
                case script.Pause(ms=ms):
                    await asyncio.sleep(ms / 1000)
                case script.Hang():
                    await _for_ever()
                case script.Cut():
                    reply.cut()
                    return "cut"
                case _:
                    delta = self._delta(op, exchange, calls)
                    calls += "tool_calls" in (delta or {})
                    if delta is not None:
                        await _event(reply, _chunk(exchange, delta))
        exchange.usage = _usage(ops)
        await _event(reply, _chunk(exchange, {}, _finish(ops, calls)))
        last: dict[str, Any] = {**_head(exchange), "choices": [], "usage": _wire(exchange.usage)}
        await _event(reply, last)
        await reply.write(b"data: [DONE]\n\n")
        await reply.end()
        return "completed"

    def _delta(self, op: Op, exchange: Exchange, index: int) -> dict[str, Any] | None:
        match op:
            case script.Text(text=text):
                exchange.sent_text += text
                return {"content": text}
            case script.Thought(text=text):
                exchange.sent_thoughts += text
                return {"reasoning_content": text}
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
                function = {"name": name, "arguments": json.dumps(arguments)}
                own = f"call_{next(self._ids)}"
                call = {"index": index, "id": own, "type": "function", "function": function}
                return {"tool_calls": [call]}


def conversation(messages: Iterable[dict[str, Any]]) -> list[Turn]:
    """The messages as turns; what the system says is none."""
    turns: list[Turn] = []
    for message in messages:
        content = message.get("content")
        match message.get("role"):
            case "user":
                parts = _parts(content)
                text = "\n".join(str(part.get("text", "")) for part in parts)
                turns.append(script.UserTurn(text, tuple(_kind(part) for part in parts)))
            case "assistant":
                turns.append(script.ModelTurn())
            case "tool":
                text = "\n".join(str(part.get("text", "")) for part in _parts(content))
                turns.append(script.ToolResult(text))
            case _:
                continue
    return turns


def tool_names(body: dict[str, Any]) -> list[str]:
    """The names of all functions that a request declares."""
    tools: list[dict[str, Any]] = body.get("tools") or []
    return [str(tool.get("function", {}).get("name")) for tool in tools]


def _parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def _kind(part: dict[str, Any]) -> str:
    kind = str(part.get("type", "text"))
    return "image" if kind == "image_url" else kind


def _call(op: script.Use, tools: Sequence[str]) -> tuple[str, dict[str, Any]]:
    match op:
        case script.RunCommand(command=command):
            return "bash", {"command": command, "description": "scripted command"}
        case script.WriteFile(path=path, text=text):
            return "write", {"filePath": path, "content": text}
        case script.EditFile(path=path, old=old, new=new):
            return "edit", {"filePath": path, "oldString": old, "newString": new}
        case script.ReadFile(path=path):
            return "read", {"filePath": path}
        case script.WriteTodos(items=items):
            todos = [
                {"content": text, "status": status, "priority": "medium"} for text, status in items
            ]
            return "todowrite", {"todos": todos}
        case script.CallTool(name=name, arguments=arguments):
            return name, arguments
        case script.CallMcp(tool=tool, text=text):
            served = (name for name in tools if name.endswith(f"_{tool}"))
            return next(served, tool), {"text": text}


def _finish(ops: Iterable[Op], calls: int) -> str:
    told = next((op.reason for op in ops if isinstance(op, script.Finish)), "")
    return _FINISH.get(told, told) or ("tool_calls" if calls else "stop")


def _usage(ops: Sequence[Op]) -> dict[str, int]:
    return {
        "prompt": _PROMPT_TOKENS,
        "cached": _CACHED_TOKENS,
        "completion": max(1, sum(isinstance(op, script.Text) for op in ops)),
        "reasoning": _TOKENS_A_THOUGHT * sum(isinstance(op, script.Thought) for op in ops),
    }


def _wire(usage: dict[str, int]) -> dict[str, Any]:
    completion = usage["completion"] + usage["reasoning"]
    return {
        "prompt_tokens": usage["prompt"],
        "completion_tokens": completion,
        "total_tokens": usage["prompt"] + completion,
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
        "completion_tokens_details": {"reasoning_tokens": usage["reasoning"]},
    }


def _head(exchange: Exchange) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": exchange.model,
    }


def _chunk(exchange: Exchange, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**_head(exchange), "choices": [choice]}


def _error(status: int) -> dict[str, Any]:
    return {"error": {"message": f"scripted failure {status}", "type": "scripted", "code": status}}


async def _event(reply: Reply, value: dict[str, Any]) -> None:
    await reply.write(b"data: " + json.dumps(value).encode() + b"\n\n")


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main(OpenAiEndpoint)
