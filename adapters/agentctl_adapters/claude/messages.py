"""Owns the text and the thoughts of the model: stream events and whole frames as one text. Pure.

A model's answer has one id; each of its blocks streams as deltas, and then comes whole in a frame of
its own. What the deltas brought is not told again. Blocks without deltas come whole: subagents, an
answer that did not stream, output of local commands.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentctl.core.adapter import AnyDraft, Draft
from agentctl.core.events import Message, MessageChunk, Reasoning
from agentctl.core.parts import ContentBlock
from agentctl.core.words import ContentType
from agentctl_adapters.claude.view import View
from agentctl_adapters.common.shapes import Json, as_object, as_text, number

# Answers of several subagents interleave; an older one gets no more words.
ANSWERS_KEPT = 64

TEXT, THINKING = "text", "thinking"


@dataclass(slots=True)
class Block:
    """One content block. `told` holds its pieces until the whole frame came."""

    shown: str
    kind: str
    told: list[str] = field(default_factory=list[str])
    any: bool = False
    done: bool = False


class Messages:
    """The blocks of the answers that are being written."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._answers: OrderedDict[str, dict[int, Block]] = OrderedDict()
        self._streaming = ""

    def start(self, answer: str) -> None:
        """message_start: an answer of the main conversation begins."""
        self._streaming = answer
        self._answer(answer)

    def delta(self, msg: Json, event: Json) -> Sequence[AnyDraft]:
        """content_block_delta, the short way for most of what is ever said."""
        delta = event["delta"]
        kind = delta.get("type")
        if kind == "text_delta":
            text, kind = delta["text"], TEXT
        elif kind == "thinking_delta":
            text, kind = delta["thinking"], THINKING
        else:
            return ()
        block = self._block(msg.get("api_message_id") or self._streaming, event["index"], kind)
        return self._say(block, text, None, msg)

    def open(self, msg: Json, event: Json) -> Sequence[AnyDraft]:
        """content_block_start; some hold their first words already."""
        content = as_object(event.get("content_block"))
        kind = as_text(content.get("type"))
        index = number(event.get("index")) or 0
        block = self._block(as_text(msg.get("api_message_id")) or self._streaming, index, kind)
        return self._say(block, as_text(content.get(kind)), None, msg)

    def stop(self, msg: Json) -> Sequence[AnyDraft]:
        """message_stop: what an abandoned attempt had shown never was."""
        abandoned = as_object(msg.get("abandoned_blocks"))
        if not abandoned:
            return ()
        answer = as_text(abandoned.get("api_message_id")) or self._streaming
        first = number(abandoned.get("from_block_index")) or 0
        blocks = self._answers.get(answer, {})
        drafts: list[AnyDraft] = []
        for index in sorted(i for i in blocks if i >= first):
            block = blocks.pop(index)
            if block.any and block.kind == TEXT:
                drafts.append(self._draft(Message(block.shown, retracted=True), None, msg))
            elif block.any:
                drafts.append(self._draft(Reasoning(block.shown, retracted=True), None, msg))
        return drafts

    def whole(self, answer: str, content: Json, parent: str | None, msg: Json) -> list[AnyDraft]:
        """One block of an `assistant` frame: only what its deltas did not bring."""
        kind = as_text(content.get("type"))
        text = as_text(content.get(kind))
        blocks = self._answer(answer)
        index = next((i for i, b in sorted(blocks.items()) if b.kind == kind and not b.done), None)
        if index is None:
            index = max(blocks, default=-1) + 1
        block = self._block(answer, index, kind)
        before = "".join(block.told)
        block.done = True
        block.told.clear()
        if text == before:
            return []
        if text.startswith(before):
            return [*self._say(block, text[len(before) :], parent, msg)]
        if kind == THINKING:
            return [self._draft(Reasoning(block.shown, text, whole=True), parent, msg)]
        message = Message(block.shown, content=[ContentBlock(ContentType.TEXT, text=text)])
        return [self._draft(message, parent, msg)]

    def pass_over(self, answer: str, kind: str) -> None:
        """A block that is no text came whole: it has its number all the same."""
        blocks = self._answer(answer)
        for block in blocks.values():
            if block.kind == kind and not block.done:
                block.done = True
                return
        self._block(answer, max(blocks, default=-1) + 1, kind).done = True

    def _answer(self, answer: str) -> dict[int, Block]:
        blocks = self._answers.get(answer)
        if blocks is None:
            blocks = self._answers[answer] = {}
            if len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        return blocks

    def _block(self, answer: str, index: int, kind: str) -> Block:
        blocks = self._answer(answer)
        block = blocks.get(index)
        if block is None:
            shown = f"{answer}/{index}" if index else answer
            block = blocks[index] = Block(shown, kind)
        return block

    def _say(self, block: Block, text: str, parent: str | None, raw: Any) -> Sequence[AnyDraft]:
        if not text:
            return ()
        block.any = True
        if not block.done:
            block.told.append(text)
        payload = (
            MessageChunk(block.shown, text=text)
            if block.kind == TEXT
            else Reasoning(block.shown, text)
        )
        return (self._draft(payload, parent, raw),)

    def _draft(
        self, payload: MessageChunk | Message | Reasoning, parent: str | None, raw: Any
    ) -> Draft:
        view = self._view
        return Draft(payload, view.session, view.turn_of(parent), None, parent, raw)
