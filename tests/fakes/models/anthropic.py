"""A scripted Anthropic Messages API on loopback.

Owns the wire format of /v1/messages and /v1/messages/count_tokens and the names of Claude Code's own
tools. The script says what is answered (script.py), http.py how bytes travel. In a call's arguments
`{planfile}` stands for the plan file that the client has named.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from itertools import count, groupby
from typing import Any

from tests.fakes.models import script
from tests.fakes.models.endpoint import Exchange, Log, main
from tests.fakes.models.http import Reply, Request
from tests.fakes.models.script import Op, Plan, Turn, plan

Json = dict[str, Any]

_ERROR_TYPE = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_PROMPT_TOKENS = 100
_COUNTED_TOKENS = 42
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_PLAN_FILE = re.compile(r"/[^\s\"'`\\]+/plans/[^\s\"'`\\]+\.md")
_JSON_PIECE = 40
# A reset throws away what the client has not read yet; on loopback it has read it by then.
_READ_FIRST_S = 0.1
# Opaque to the client, which has to send it back.
_SIGNATURE = "c2ln"


class AnthropicEndpoint:
    """Answers the requests of Claude Code by script; usage is 100 in, one token out per text."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or Log()
        self._failed: dict[str, int] = {}
        self._ids = count(1)

    async def answer(self, request: Request, reply: Reply, exchange: Exchange) -> str:
        exchange.api_key_header = request.headers.get("x-api-key", "")
        if request.path.endswith("/count_tokens"):
            exchange.auxiliary = True
            await reply.send(200, {"input_tokens": _COUNTED_TOKENS})
            return "completed"
        if request.path != "/v1/messages":
            exchange.auxiliary = True
            await reply.send(404, _error(404))
            return "failed"
        body = request.json()
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
        message = self._message(ops, body, exchange)
        if body.get("stream"):
            return await _stream(ops, message, reply)
        await reply.send(200, message)
        return "completed"

    def _chosen(self, planned: Plan, turns: Sequence[Turn], exchange: Exchange) -> Sequence[Op]:
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
                return (script.Text("ok"),)
            case _:
                return ops

    def _message(self, ops: Sequence[Op], body: Json, exchange: Exchange) -> Json:
        """The whole answer; what streams it cuts it into pieces."""
        content: list[Json] = []
        for kind, group in groupby(_visible(ops), key=type):
            said = list(group)
            text = "".join(str(getattr(op, "text", "")) for op in said)
            if kind is script.Text:
                exchange.sent_text += text
                content.append({"type": "text", "text": text})
            elif kind is script.Thought:
                exchange.sent_thoughts += text
                block = {"type": "thinking", "thinking": text, "signature": _SIGNATURE}
                content.append(block)
            else:
                content += [self._call(op, body, exchange) for op in said]
        output = max(1, sum(isinstance(op, script.Text) for op in ops))
        exchange.usage = {"input_tokens": _PROMPT_TOKENS, "output_tokens": output}
        return {
            "id": f"msg_{next(self._ids):024x}",
            "type": "message",
            "role": "assistant",
            "model": exchange.model,
            "content": content,
            "stop_reason": _stop(ops, content),
            "stop_sequence": None,
            "usage": {
                **exchange.usage,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0,
            },
        }

    def _call(self, op: Any, body: Json, exchange: Exchange) -> Json:
        name, arguments = _named(op, exchange.tools)
        if "{planfile}" in json.dumps(arguments):
            found = _PLAN_FILE.findall(json.dumps(body))
            whole = json.dumps(arguments).replace("{planfile}", found[-1] if found else "/none.md")
            arguments = json.loads(whole)
        exchange.called.append(name)
        own = f"toolu_{next(self._ids):024x}"
        return {"type": "tool_use", "id": own, "name": name, "input": arguments}


def conversation(messages: Iterable[Json]) -> list[Turn]:
    """Anthropic's messages as turns. What the client says to the model for itself is left out."""
    turns: list[Turn] = []
    for message in messages:
        if message.get("role") == "assistant":
            turns.append(script.ModelTurn())
            continue
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        results = [block for block in blocks if block.get("type") == "tool_result"]
        turns.extend(script.ToolResult(_result_text(block)) for block in results)
        said = [block for block in blocks if block.get("type") != "tool_result"]
        texts = [_REMINDER.sub("", str(block.get("text", ""))).strip() for block in said]
        kinds = [
            {"document": "file"}.get(block["type"], block["type"])
            for block, text in zip(said, texts, strict=True)
            if text or block["type"] != "text"
        ]
        if kinds:
            turns.append(script.UserTurn("\n".join(filter(None, texts)), tuple(kinds)))
    return turns


def tool_names(body: Json) -> list[str]:
    """The names of all tools that a request declares."""
    tools: list[Json] = body.get("tools") or []
    return [str(tool.get("name", "")) for tool in tools]


def _result_text(block: Json) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    parts: list[Json] = content or []
    return "\n".join(str(part.get("text", "")) for part in parts)


def _named(op: Any, tools: Sequence[str]) -> tuple[str, Json]:
    match op:
        case script.RunCommand(command=command):
            return "Bash", {"command": command, "description": "scripted command"}
        case script.WriteFile(path=path, text=text):
            return "Write", {"file_path": path, "content": text}
        case script.EditFile(path=path, old=old, new=new):
            return "Edit", {"file_path": path, "old_string": old, "new_string": new}
        case script.ReadFile(path=path):
            return "Read", {"file_path": path}
        case script.WriteTodos(items=items) if "TodoWrite" in tools:
            todos = [{"content": t, "status": s, "activeForm": t} for t, s in items]
            return "TodoWrite", {"todos": todos}
        case script.WriteTodos(items=items):
            return "TaskCreate", {"subject": items[0][0], "description": items[0][0]}
        case script.CallMcp(tool=tool, text=text):
            served = (name for name in tools if name.startswith("mcp__") and name.endswith(tool))
            return next(served, tool), {"text": text}
        case _:
            return op.name, op.arguments


def _visible(ops: Iterable[Op]) -> list[Any]:
    """What of an answer is content."""
    hidden = (script.Pause, script.Fail, script.Cut, script.Hang, script.Finish, script.Empty)
    return [op for op in ops if not isinstance(op, hidden)]


def _stop(ops: Iterable[Op], content: Sequence[Json]) -> str:
    told = next((op.reason for op in ops if isinstance(op, script.Finish)), "")
    if told:
        return told.lower()
    return "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"


async def _stream(ops: Sequence[Op], message: Json, reply: Reply) -> str:
    await reply.start()
    usage = {**message["usage"], "output_tokens": 1}
    head: Json = {**message, "content": [], "stop_reason": None, "usage": usage}
    await _event(reply, "message_start", message=head)
    index = -1
    speaks: type[Any] | None = None
    calls = iter([block for block in message["content"] if block["type"] == "tool_use"])
    for op in ops:
        match op:
            case script.Text(text=text) | script.Thought(text=text):
                if type(op) is not speaks:
                    await _close(reply, index, speaks)
                    index, speaks = index + 1, type(op)
                    await _event(reply, "content_block_start", index=index, content_block=_bare(op))
                kind = "text" if isinstance(op, script.Text) else "thinking"
                delta = {"type": f"{kind}_delta", kind: text}
                await _event(reply, "content_block_delta", index=index, delta=delta)
            case script.Pause(ms=ms):
                await asyncio.sleep(ms / 1000)
            case script.Hang():
                await _for_ever()
            case script.Cut():
                await asyncio.sleep(_READ_FIRST_S)
                reply.cut()
                return "cut"
            case script.Finish() | script.Fail() | script.Empty():
                pass
            case _:
                await _close(reply, index, speaks)
                index, speaks = index + 1, None
                await _tool(reply, index, next(calls))
    await _close(reply, index, speaks)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    await _event(reply, "message_delta", delta=delta, usage=message["usage"])
    await _event(reply, "message_stop")
    await reply.end()
    return "completed"


def _bare(op: script.Text | script.Thought) -> Json:
    if isinstance(op, script.Text):
        return {"type": "text", "text": ""}
    return {"type": "thinking", "thinking": "", "signature": ""}


async def _close(reply: Reply, index: int, speaks: type[Any] | None) -> None:
    if speaks is None:
        return
    if speaks is script.Thought:
        delta = {"type": "signature_delta", "signature": _SIGNATURE}
        await _event(reply, "content_block_delta", index=index, delta=delta)
    await _event(reply, "content_block_stop", index=index)


async def _tool(reply: Reply, index: int, block: Json) -> None:
    await _event(reply, "content_block_start", index=index, content_block={**block, "input": {}})
    whole = json.dumps(block["input"])
    for at in range(0, len(whole), _JSON_PIECE):
        delta = {"type": "input_json_delta", "partial_json": whole[at : at + _JSON_PIECE]}
        await _event(reply, "content_block_delta", index=index, delta=delta)
    await _event(reply, "content_block_stop", index=index)


async def _event(reply: Reply, kind: str, **fields: Any) -> None:
    data = json.dumps({"type": kind, **fields})
    await reply.write(f"event: {kind}\ndata: {data}\n\n".encode())


def _error(status: int) -> Json:
    error = {"type": _ERROR_TYPE.get(status, "api_error"), "message": f"scripted failure {status}"}
    return {"type": "error", "error": error}


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main(AnthropicEndpoint)
