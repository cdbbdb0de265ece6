"""A scripted Responses API (OpenAI's, v1) on loopback.

Owns the wire format of /responses and /responses/compact and the names of Codex's own tools, also where
Codex offers them as functions of a script that it runs ("code mode"). The script says what is answered
(script.py), http.py how bytes travel. `MCP server/tool text` calls a tool of an MCP server.
"""

import asyncio
import json
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, cast

from tests.fakes.models import script
from tests.fakes.models.endpoint import Exchange, Log, main
from tests.fakes.models.http import Reply, Request
from tests.fakes.models.script import Op, Plan, Turn, plan

Json = dict[str, Any]

_PROMPT_TOKENS = 100
_CACHED_TOKENS = 20
_SUMMARY = "SUMMARY of what was said"
# How Codex asks for a summary of its own, where it makes one without the compact route.
_SUMMARY_WANTED = ("CONTEXT CHECKPOINT", "handoff summary")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_CODES = {400: "invalid_request", 401: "invalid_api_key", 404: "model_not_found"}
_YIELD_MS = 10_000


class ResponsesEndpoint:
    """Answers the requests of Codex by script; usage is 100 in (20 cached), one token out per text."""

    def __init__(self, log: Log | None = None) -> None:
        self.log = log or Log()
        self._failed: dict[str, int] = {}
        self._ids = count(1)

    async def answer(self, request: Request, reply: Reply, exchange: Exchange) -> str:
        exchange.api_key_header = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.path.endswith("/responses/compact"):
            exchange.auxiliary = True
            item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "ZmFrZQ=="}
            await reply.send(200, {"id": "r", "object": "response.compaction", "output": [item]})
            return "completed"
        if not request.path.endswith("/responses"):
            exchange.auxiliary = True
            await reply.send(404, _error(404))
            return "failed"
        body = request.json()
        tools = _offered(body)
        exchange.model, exchange.tools = str(body.get("model")), sorted(tools)
        turns = conversation(body.get("input") or [])
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
        return await _Answer(reply, exchange, tools, f"{next(self._ids):024x}").send(ops)

    def _chosen(self, planned: Plan, turns: Sequence[Turn], exchange: Exchange) -> Sequence[Op]:
        said = [turn.text for turn in turns if isinstance(turn, script.UserTurn)]
        if said and any(words in said[-1] for words in _SUMMARY_WANTED):
            exchange.auxiliary = True
            return (script.Text(_SUMMARY),)
        match planned.ops[0]:
            case script.Fail(times=int(times)):
                key = repr(turns)
                self._failed[key] = self._failed.get(key, 0) + 1
                recovered = (script.Text("recovered"),)
                return planned.ops if self._failed[key] <= times else recovered
            case _:
                return planned.ops


class _Answer:
    """One streamed answer."""

    def __init__(
        self, reply: Reply, exchange: Exchange, tools: dict[str, tuple[str, str]], own: str
    ) -> None:
        self._reply = reply
        self._exchange = exchange
        self._tools = tools
        self._own = own
        self._index = -1
        self._open: Json | None = None
        self._text = ""

    async def send(self, ops: Sequence[Op]) -> str:
        await self._reply.start()
        await self._event("response.created", response=self._response("in_progress"))
        for op in ops:
            match op:
                case script.Text(text=text):
                    await self._say(text)
                case script.Thought(text=text):
                    await self._think(text)
                case script.Pause(ms=ms):
                    await asyncio.sleep(ms / 1000)
                case script.Hang():
                    await _for_ever()
                case script.Cut():
                    self._reply.cut()
                    return "cut"
                case script.Finish() | script.Fail() | script.Empty():
                    pass
                case _:
                    await self._close()
                    await self._call(op)
        await self._close()
        output = max(1, sum(isinstance(op, script.Text) for op in ops))
        self._exchange.usage = {"input_tokens": _PROMPT_TOKENS, "output_tokens": output}
        reason = next((op.reason for op in ops if isinstance(op, script.Finish)), "")
        done = self._response("incomplete" if reason else "completed")
        if reason:
            done["incomplete_details"] = {"reason": reason.lower()}
        done["usage"] = {
            **self._exchange.usage,
            "input_tokens_details": {"cached_tokens": _CACHED_TOKENS},
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": _PROMPT_TOKENS + output,
        }
        await self._event(f"response.{done['status']}", response=done)
        await self._reply.end()
        return "completed"

    def _response(self, status: str) -> Json:
        head: Json = {"id": f"resp_{self._own}", "object": "response", "output": []}
        return {**head, "model": self._exchange.model, "status": status}

    async def _say(self, text: str) -> None:
        if self._open is None:
            self._index += 1
            self._open = {
                "type": "message",
                "id": f"msg_{self._own}{self._index}",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            self._text = ""
            await self._item("added", self._open)
        self._text += text
        self._exchange.sent_text += text
        await self._event(
            "response.output_text.delta",
            item_id=self._open["id"],
            output_index=self._index,
            content_index=0,
            delta=text,
        )

    async def _close(self) -> None:
        if self._open is None:
            return
        part: Json = {"type": "output_text", "text": self._text, "annotations": []}
        await self._item("done", {**self._open, "status": "completed", "content": [part]})
        self._open = None

    async def _think(self, text: str) -> None:
        await self._close()
        self._index += 1
        self._exchange.sent_thoughts += text
        item: Json = {"type": "reasoning", "id": f"rs_{self._own}{self._index}", "summary": []}
        part = {"type": "summary_text", "text": text}
        where = {"item_id": item["id"], "output_index": self._index, "summary_index": 0}
        await self._item("added", item)
        empty = {**part, "text": ""}
        await self._event("response.reasoning_summary_part.added", **where, part=empty)
        await self._event("response.reasoning_summary_text.delta", **where, delta=text)
        await self._event("response.reasoning_summary_text.done", **where, text=text)
        await self._event("response.reasoning_summary_part.done", **where, part=part)
        await self._item("done", {**item, "summary": [part], "encrypted_content": "ZmFrZQ=="})

    async def _call(self, op: Any) -> None:
        self._index += 1
        name, what = _named(op, self._tools)
        self._exchange.called.append(name)
        kind, namespace = self._tools.get(name, ("function", ""))
        if name not in self._tools and self._tools.get("exec", ("",))[0] == "custom":
            name, kind, what = "exec", "custom", _scripted(name, what)
        elif name.startswith("mcp__"):
            namespace, _, name = name.rpartition("__")
        call: Json = {"call_id": f"call_{self._own}{self._index}", "name": name}
        if namespace:
            call["namespace"] = namespace
        own = f"{self._own}{self._index}"
        if kind == "custom":
            call |= {"type": "custom_tool_call", "id": f"ctc_{own}", "input": what}
        else:
            arguments = json.dumps(what)
            call |= {"type": "function_call", "id": f"fc_{own}", "arguments": arguments}
        await self._item("added", call)
        await self._item("done", {**call, "status": "completed"})

    async def _item(self, what: str, item: Json) -> None:
        await self._event(f"response.output_item.{what}", output_index=self._index, item=item)

    async def _event(self, kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, **fields})
        await self._reply.write(f"event: {kind}\ndata: {data}\n\n".encode())


def conversation(items: Iterable[Json]) -> list[Turn]:
    """The input as turns; what Codex says to the model for itself is left out."""
    turns: list[Turn] = []
    for item in items:
        kind = item.get("type", "message")
        if kind in _RESULTS:
            turns.append(script.ToolResult(_text_of(item.get("output"))))
        elif kind != "message" or item.get("role") == "assistant":
            turns.append(script.ModelTurn())
        elif item.get("role") == "user":
            parts: list[Json] = item.get("content") or []
            text = "\n".join(str(part.get("text", "")) for part in parts)
            if not text.lstrip().startswith("<"):
                kinds = [str(p.get("type", "")).removeprefix("input_") for p in parts]
                turns.append(script.UserTurn(text, tuple(kinds)))
    return turns


def _offered(body: Json) -> dict[str, tuple[str, str]]:
    """Tools by name: their type, and the namespace that a call has to name."""
    given = _objects(body.get("tools"))
    for item in _objects(body.get("input")):
        if item.get("type") == "additional_tools":
            given += _objects(item.get("tools"))
    found: dict[str, tuple[str, str]] = {}
    for tool in given:
        inner = _objects(tool.get("tools"))
        space = str(tool.get("name", "")) if tool.get("type") == "namespace" else ""
        for each in inner if space else [tool]:
            name = str(each.get("name") or each.get("type"))
            named = "" if space == "functions" else space
            found[name] = (str(each.get("type", "function")), named)
    return found


def _named(op: Any, tools: dict[str, tuple[str, str]]) -> tuple[str, Any]:
    match op:
        case script.RunCommand(command=command):
            return "exec_command", {"cmd": command, "yield_time_ms": _YIELD_MS}
        case script.ReadFile(path=path):
            return "exec_command", {"cmd": f"cat {path}", "yield_time_ms": _YIELD_MS}
        case script.WriteFile(path=path, text=text):
            lines = "".join(f"+{line}\n" for line in text.splitlines())
            return "apply_patch", _patch(f"*** Add File: {path}\n{lines}")
        case script.EditFile(path=path, old=old, new=new):
            return "apply_patch", _patch(f"*** Update File: {path}\n@@\n-{old}\n+{new}\n")
        case script.WriteTodos(items=items):
            plan_ = [{"step": text, "status": status} for text, status in items]
            return "update_plan", {"plan": plan_}
        case script.CallMcp(tool=tool, text=text):
            # Codex lists them only when they are searched for; a call names server and tool.
            return f"mcp__{tool.replace('/', '__')}", {"text": text}
        case _:
            return op.name, op.arguments


def _patch(hunks: str) -> str:
    return f"*** Begin Patch\n{hunks}*** End Patch"


def _scripted(name: str, what: Any) -> str:
    """The call as a line of the script that code mode runs."""
    call = f"const r = await tools.{name}({json.dumps(what)});"
    return f"{call}\ntext(typeof r === 'string' ? r : JSON.stringify(r));"


def _text_of(output: Any) -> str:
    if isinstance(output, str):
        return output
    texts = [str(part.get("text", "")) for part in _objects(output)]
    return "\n".join(texts) or json.dumps(output)


def _objects(value: Any) -> list[Json]:
    return [*cast("list[Json]", value)] if isinstance(value, list) else []


def _error(status: int) -> Json:
    code = _CODES.get(status, "server_error")
    return {"error": {"message": f"scripted failure {status}", "type": code, "code": code}}


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    main(ResponsesEndpoint)
