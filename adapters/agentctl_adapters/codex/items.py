"""Owns what the model says as drafts: messages, thoughts, plans. Pure; knows no tool.

Deltas and completed items tell the same text: the deltas go out, the completed item only repairs. An item
that was streaming when its request broke is started anew under another id, so the first is retracted.
"""

from typing import Any

from agentctl.core.adapter import AnyDraft
from agentctl.core.events import Message, MessageChunk, Plan, Reasoning
from agentctl.core.parts import ContentBlock, PlanEntry
from agentctl.core.words import ContentType, PlanStatus
from agentctl_adapters.codex.view import Item, Thread, Turn
from agentctl_adapters.common.shapes import Json, as_objects, as_text, as_words, number

Drafts = list[AnyDraft]

MESSAGE, REASONING, PLAN = "agentMessage", "reasoning", "plan"
SPOKEN = frozenset({MESSAGE, REASONING, PLAN})
_WHOLE = ""
_STEPS = {
    "pending": PlanStatus.PENDING,
    "inProgress": PlanStatus.IN_PROGRESS,
    "in_progress": PlanStatus.IN_PROGRESS,
    "completed": PlanStatus.COMPLETED,
}


def opened(thread: Thread, kind: str, item_id: str, turn: Turn | None) -> Item:
    """The open item; made now when its first delta overtook its start."""
    item = thread.items.get(item_id)
    if item is None:
        item = thread.items[item_id] = Item(item_id, kind, turn)
    return item


def message_delta(thread: Thread, params: Json, msg: Any) -> Drafts:
    """A piece of the answer. Called for every token: no more than look-ups."""
    item_id, text = params["itemId"], params["delta"]
    if type(item_id) is not str or type(text) is not str:
        raise TypeError("a delta is text of an item")
    item = thread.items.get(item_id)
    if item is None:
        item = opened(thread, MESSAGE, item_id, thread.turn(params.get("turnId")))
    if not text:
        return []
    item.blocks.setdefault(_WHOLE, []).append(text)
    return [thread.draft(MessageChunk(item_id, text=text), item.turn, msg)]


def plan_delta(thread: Thread, params: Json) -> Drafts:
    item = opened(thread, PLAN, as_text(params.get("itemId")), thread.turn(params.get("turnId")))
    item.blocks.setdefault(_WHOLE, []).append(as_text(params.get("delta")))
    return []


def thought_delta(thread: Thread, params: Json, msg: Any) -> Drafts:
    """A piece of a summary, or of raw thinking."""
    turn = thread.turn(params.get("turnId"))
    item = opened(thread, REASONING, as_text(params.get("itemId")), turn)
    summary = number(params.get("summaryIndex"))
    block = f"{summary}" if summary is not None else f"r{number(params.get('contentIndex')) or 0}"
    text = as_text(params.get("delta"))
    if not text:
        return []
    item.blocks.setdefault(block, []).append(text)
    return [thread.draft(Reasoning(f"{item.id}/{block}", text), item.turn, msg)]


def completed(thread: Thread, item: Item, source: Json, msg: Any) -> Drafts:
    """The whole item: what the deltas did not tell, or told otherwise."""
    match item.kind:
        case "agentMessage":
            return _message(thread, item, as_text(source.get("text")), msg)
        case "reasoning":
            parts = {f"{n}": text for n, text in enumerate(as_words(source.get("summary")))}
            raw = enumerate(as_words(source.get("content")))
            parts |= {f"r{n}": text for n, text in raw}
            return [
                draft
                for block, text in parts.items()
                for draft in _thought(thread, item, block, text, msg)
            ]
        case _:
            plan = Plan(document=as_text(source.get("text")))
            return [thread.draft(plan, item.turn, msg)]


def abandoned(thread: Thread, item: Item) -> Drafts:
    """The request broke under it and is made again: what it showed never was."""
    if item.kind == MESSAGE and item.blocks:
        return [thread.draft(Message(item.id, retracted=True), item.turn)]
    if item.kind == REASONING:
        return [
            thread.draft(Reasoning(f"{item.id}/{block}", retracted=True), item.turn)
            for block in item.blocks
        ]
    return []


def left_open(thread: Thread, item: Item) -> Drafts:
    """Its turn ended and nothing more comes: a message stays as it is, a plan is told now."""
    text = "".join(item.blocks.get(_WHOLE, ()))
    if item.kind == PLAN and text:
        return [thread.draft(Plan(document=text), item.turn)]
    return []


def plan_of(params: Json) -> Plan:
    """turn/plan/updated: the whole list each time."""
    plan = Plan()
    for step in as_objects(params.get("plan")):
        status = _STEPS.get(as_text(step.get("status")), PlanStatus.PENDING)
        plan.entries.append(PlanEntry(as_text(step.get("step")), status))
    return plan


def _message(thread: Thread, item: Item, text: str, msg: Any) -> Drafts:
    said = item.blocks.get(_WHOLE)
    if said is None:
        return [thread.draft(MessageChunk(item.id, text=text), item.turn, msg)] if text else []
    if "".join(said) == text:
        return []
    block = ContentBlock(ContentType.TEXT, text=text)
    return [thread.draft(Message(item.id, content=[block]), item.turn, msg)]


def _thought(thread: Thread, item: Item, block: str, text: str, msg: Any) -> Drafts:
    said = item.blocks.get(block)
    if (said is not None and "".join(said) == text) or not text:
        return []
    whole = True if said is not None else None
    return [thread.draft(Reasoning(f"{item.id}/{block}", text, whole), item.turn, msg)]
