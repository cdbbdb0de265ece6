"""Owns one run as OpenCode shows it: the user's message, the answers, their parts. Pure: events in, events out.

It is fed with the run's AgentEvents as JSON, in journal order, and answers with the events that a client
of OpenCode is to see. The same events give the same ids again, so that a history read back later names
everything as it was named live. Text and tools are collected until `flush`, once for each batch.
"""

from collections.abc import Iterator
from typing import Any, cast

from agentctl.gateway.opencode import ids, words
from agentctl.gateway.opencode.message import NO_MODEL, Facts, Message, Said
from agentctl.gateway.opencode.parts import File, Part, Pieces, StepFinish, Text, Tool, file_of
from agentctl.gateway.opencode.words import Json

AGENT_TURN = "The agent began this turn by itself."


class Turn:
    """One run. `user_id`: the message id that its client named, else one made of the run's id."""

    def __init__(self, run_id: str, facts: Facts, user_id: str = "", model: str = "") -> None:
        self.run_id = run_id
        self.user_id = user_id or ids.user_message(run_id)
        self.messages: list[Message] = []
        self.diffs: dict[str, Json] = {}
        self.patches: list[str] = []
        self.natives: list[str] = []
        self.done = False
        self._facts = facts
        self._model = model
        self._dirty: dict[str, Part] = {}
        self._written: dict[str, Text] = {}
        self._dirty_infos: dict[str, Message] = {}
        self._diffs_dirty = False
        self._told_window = False

    def message(self, message_id: str) -> Message | None:
        return next((each for each in self.messages if each.id == message_id), None)

    @property
    def answered(self) -> Message | None:
        """The last message of the agent."""
        return next((m for m in reversed(self.messages) if m.role == "assistant"), None)

    def place_of(self, call: str) -> Json | None:
        """Where a tool call is, for a request that belongs to it."""
        for message in reversed(self.messages):
            if f"tool:{call}" in message.parts:
                return {"messageID": message.id, "callID": call}
        return None

    def feed(self, event: Json) -> list[Said]:
        data: Json = event["data"]
        ts = int(event["ts"])
        child = str(event.get("parent_tool_call_id") or "")
        match event["type"]:
            case "run_status":
                return self._status(data, ts)
            case "message_chunk" | "message" if not child:
                return self._message(event["type"], data, ts)
            case "reasoning" if not child:
                return self._reasoning(data, ts)
            case "tool_call" | "tool_update":
                return self._tool(data, ts, child)
            case "file_change":
                return self._change(data)
            case "context_window" if not child:
                self._window(data, ts)
            case "artifact" if data.get("kind") == "patch":
                self.patches.append(str(data.get("artifact_id") or ""))
            case "complete":
                return self._complete(data, ts)
            case _:
                pass
        return []

    def flush(self) -> list[Said]:
        """Tells what was collected."""
        out = [self._info(message) for message in [*self._dirty_infos.values()]]
        for part in self._dirty.values():
            out += self._grown(part)
        if self._diffs_dirty:
            out.append(self._session_diff())
        self._dirty.clear()
        self._dirty_infos.clear()
        self._diffs_dirty = False
        return out

    def state(self) -> Iterator[Said]:
        """Everything again, for a client that comes late: what it has already stays as it is."""
        for message in self.messages:
            yield self._info(message)
            for part in message.parts.values():
                yield self._whole(part)

    # Messages

    def _status(self, data: Json, ts: int) -> list[Said]:
        if data.get("status") == "created":
            return self._prompt(data, ts)
        if data.get("status") == "started":
            return self._open(ts)[1]
        return []

    def _prompt(self, data: Json, ts: int) -> list[Said]:
        if self.messages:
            return []
        message = self._new("user", self.user_id, ts)
        out = [self._info(message)]
        if data.get("origin") == "agent":
            told = self._add_text(message, "text", AGENT_TURN, ts)
            told.synthetic = True
            return [*out, self._whole(told)]
        blocks = cast("list[Json]", data.get("prompt") or [])
        return out + [self._whole(self._add_block(message, block, ts)) for block in blocks]

    def _new(self, role: str, own: str, ts: int) -> Message:
        message = Message(own, role, ts, model=self._model or NO_MODEL, mode=self._facts.mode)
        if role == "assistant":
            message.model = self._model or self._facts.model
            message.parent = next(
                (m.id for m in reversed(self.messages) if m.role == "user"), self.user_id
            )
        self.messages.append(message)
        return message

    def _open(self, ts: int) -> tuple[Message, list[Said]]:
        """The answer that is being written."""
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "assistant":
            return last, []
        number = max(1, len(self.messages))
        message = self._new("assistant", ids.answer(self.user_id, number), ts)
        return message, [self._info(message)]

    def _steered(self, content: list[Json], ts: int) -> list[Said]:
        """Words that the user added to a running turn: a message of their own, and a new answer."""
        out = self._end_parts(ts)
        if (answer := self.answered) is not None and answer.completed is None:
            answer.completed = ts
            out.append(self._info(answer))
        message = self._new("user", ids.answer(self.user_id, max(1, len(self.messages))), ts)
        out.append(self._info(message))
        return out + [self._whole(self._add_block(message, block, ts)) for block in content]

    def _message(self, kind: str, data: Json, ts: int) -> list[Said]:
        role = data.get("role") or "assistant"
        blocks: list[Json] = data.get("content") or []
        if kind == "message_chunk":
            blocks = [data["content"]] if data.get("content") else []
        if role == "user":
            return self._steered(blocks, ts) if kind == "message" and not self.done else []
        if role != "assistant":
            return []
        own = str(data["message_id"])
        if own not in self.natives:
            self.natives.append(own)
        if data.get("retracted"):
            return self._retract(f"text:{own}")
        message, out = self._open(ts)
        if kind == "message_chunk" and data.get("text"):
            return out + self._grow(message, "text", own, str(data["text"]), ts)
        texts = [str(b.get("text") or "") for b in blocks if b.get("type") == "text"]
        if texts:
            out += self._replace(message, "text", own, "".join(texts), ts, final=kind == "message")
        for number, block in enumerate(b for b in blocks if b.get("type") != "text"):
            key = f"file:{own}:{number if kind == 'message' else len(message.parts)}"
            out += self._end_parts(ts)
            out.append(self._whole(self._add_file(message, block, ts, key)))
        return out

    def _reasoning(self, data: Json, ts: int) -> list[Said]:
        own = str(data["message_id"])
        if data.get("retracted"):
            return self._retract(f"reasoning:{own}")
        message, out = self._open(ts)
        text = str(data.get("text") or "")
        if data.get("whole"):
            return out + self._replace(message, "reasoning", own, text, ts, final=True)
        return out + self._grow(message, "reasoning", own, text, ts) if text else out

    def _grow(self, message: Message, kind: str, own: str, text: str, ts: int) -> list[Said]:
        part = message.parts.get(f"{kind}:{own}")
        out: list[Said] = []
        if not isinstance(part, Text):
            out = self._end_parts(ts)
            part = Text(self._part_id(message), message.id, self._facts.id, ts, kind=kind)
            message.parts[f"{kind}:{own}"] = self._written[part.id] = part
        elif part.id not in self._dirty:
            out = self.flush()
        part.text.add(text)
        part.unsent.append(text)
        self._dirty[part.id] = part
        return out

    def _replace(
        self, message: Message, kind: str, own: str, text: str, ts: int, *, final: bool
    ) -> list[Said]:
        out: list[Said] = []
        part = message.parts.get(f"{kind}:{own}")
        if not isinstance(part, Text):
            out = self._grow(message, kind, own, "", ts)
            part = cast(Text, message.parts[f"{kind}:{own}"])
        if final:
            part.text, part.ended = Pieces(text), ts
            self._written.pop(part.id, None)
        else:
            part.text.add(text)
        part.unsent.clear()
        self._dirty.pop(part.id, None)
        return [*out, *self.flush(), self._whole(part)]

    def _retract(self, key: str) -> list[Said]:
        for message in self.messages:
            part = message.parts.pop(key, None)
            if part is not None:
                self._dirty.pop(part.id, None)
                self._written.pop(part.id, None)
                where = {"sessionID": self._facts.id, "messageID": message.id, "partID": part.id}
                return [*self.flush(), Said("message.part.removed", where)]
        return []

    # Tools and what they change

    def _tool(self, data: Json, ts: int, parent: str) -> list[Said]:
        call = str(data["tool_call_id"])
        for message in self.messages:
            part = message.parts.get(f"tool:{call}")
            if isinstance(part, Tool):
                part.update(data, ts)
                self._dirty[part.id] = part
                return []
        message, out = self._open(ts)
        out += self._end_parts(ts)
        part = Tool(self._part_id(message), message.id, self._facts.id, ts, call=call)
        part.parent = parent
        part.update(data, ts)
        message.parts[f"tool:{call}"] = part
        self._dirty[part.id] = part
        return out

    def _change(self, data: Json) -> list[Said]:
        path = str(data.get("path") or "")
        status = {"create": "added", "delete": "deleted"}.get(str(data.get("change")), "modified")
        patch = str(data.get("diff") or "")
        known = self.diffs.get(path)
        diff: Json = {
            "file": path,
            "patch": patch,
            "additions": int(data.get("additions") or 0),
            "deletions": int(data.get("deletions") or 0),
            "status": status,
        }
        if known is not None:
            diff["patch"] = "\n".join(each for each in (known["patch"], patch) if each)
            diff["additions"] += known["additions"]
            diff["deletions"] += known["deletions"]
            diff["status"] = known["status"] if status == "modified" else status
        self.diffs[path] = diff
        self._diffs_dirty = True
        call = str(data.get("tool_call_id") or "")
        for message in self.messages:
            part = message.parts.get(f"tool:{call}")
            if isinstance(part, Tool) and patch:
                part.diffs.append(patch)
                self._dirty[part.id] = part
        return [Said("file.edited", {"file": path})]

    def _session_diff(self) -> Said:
        told = {"sessionID": self._facts.id, "diff": [*self.diffs.values()]}
        return Said("session.diff", told)

    # The end

    def _window(self, data: Json, ts: int) -> None:
        answer = self.answered
        if answer is None:
            return
        if data.get("usage") or data.get("used") is not None:
            answer.tokens = words.tokens(data.get("usage"), data.get("used"))
            self._told_window = True
            self._dirty_infos[answer.id] = answer

    def _complete(self, data: Json, ts: int) -> list[Said]:
        self.done = True
        provider = self._facts.entry_id
        error = words.run_error(str(data["outcome"]), data.get("error") or {}, provider)
        if data.get("folded_into") and self.answered is None:
            return []
        answer, out = self._open(ts)
        out += self._end_parts(ts)
        answer.error = error
        answer.finish = "" if error else words.finish(str(data.get("stop_reason") or ""))
        answer.cost = float(data.get("cost_usd") or 0)
        usage: Any = data.get("usage")
        if usage:
            answer.tokens = answer.tokens if self._told_window else words.tokens(usage)
            finish = StepFinish(self._part_id(answer), answer.id, self._facts.id, ts)
            finish.tokens, finish.cost = words.tokens(usage), answer.cost
            finish.reason = answer.finish or "error"
            answer.parts["finish"] = finish
            out.append(self._whole(finish))
        answer.completed = int(data.get("ended_at") or ts)
        if self.diffs:
            user = self.messages[0]
            user.diffs = [*self.diffs.values()]
            out.append(self._info(user))
        if error is not None:
            told = {"sessionID": self._facts.id, "error": error}
            out.append(Said("session.error", told))
        return [*out, self._info(answer)]

    def _end_parts(self, ts: int) -> list[Said]:
        """What is being written ends, because something else begins."""
        out = self.flush()
        for part in self._written.values():
            part.ended = ts
            out.append(self._whole(part))
        self._written.clear()
        return out

    # Parts

    def _part_id(self, message: Message) -> str:
        message.made += 1
        return ids.part(message.id, message.made)

    def _add_text(self, message: Message, key: str, text: str, ts: int) -> Text:
        own = self._part_id(message)
        part = Text(own, message.id, self._facts.id, ts, text=Pieces(text), timed=False)
        message.parts[f"{key}:{own}"] = part
        return part

    def _add_block(self, message: Message, block: Json, ts: int) -> Part:
        if block.get("type") == "text":
            return self._add_text(message, "text", str(block.get("text") or ""), ts)
        return self._add_file(message, block, ts, f"file:{len(message.parts)}")

    def _add_file(self, message: Message, block: Json, ts: int, key: str) -> File:
        mime, url, name = file_of(block)
        own = self._part_id(message)
        part = File(own, message.id, self._facts.id, ts, mime=mime, url=url, name=name)
        message.parts[key] = part
        return part

    # Telling

    def _info(self, message: Message) -> Said:
        self._dirty_infos.pop(message.id, None)
        told = {"sessionID": self._facts.id, "info": message.info(self._facts)}
        return Said("message.updated", told)

    def _whole(self, part: Part) -> Said:
        if isinstance(part, Text):
            part.told = part.text.size
            part.unsent.clear()
        view = part.view()
        time = part.ended or part.started
        told: Json = {"sessionID": self._facts.id, "part": view, "time": time}
        return Said("message.part.updated", told)

    def _grown(self, part: Part) -> list[Said]:
        if not isinstance(part, Text) or part.told is None or part.text.size >= 2 * part.told:
            return [self._whole(part)]
        delta, part.unsent = "".join(part.unsent), []
        told: Json = {"sessionID": self._facts.id, "messageID": part.message_id}
        told |= {"partID": part.id, "field": "text", "delta": delta}
        return [Said("message.part.delta", told)]
