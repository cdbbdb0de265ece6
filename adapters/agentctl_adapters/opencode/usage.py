"""Owns tokens, cost and the context window of OpenCode. Pure.

The truth is the step: `step-finish` tells tokens and cost of one model request, and the message that
holds it repeats them. `input` leaves cached tokens out and `output` reasoning; their sum is what the
context held after that request. A message without steps (other servers) speaks for itself.
"""

from dataclasses import fields

from agentctl.core.events import ContextWindow
from agentctl.core.parts import Usage
from agentctl_adapters.opencode.shapes import Json, amount, as_object, number
from agentctl_adapters.opencode.view import Book, Message, Turn

_FIELDS = tuple(f.name for f in fields(Usage))


def tokens(told: object) -> Usage | None:
    """Token counts; None when there are none or all of them are 0 (not told yet)."""
    source = as_object(told)
    cache = as_object(source.get("cache"))
    usage = Usage(
        number(source.get("input")),
        number(source.get("output")),
        number(cache.get("read")),
        number(cache.get("write")),
        number(source.get("reasoning")),
        number(source.get("total")),
    )
    return usage if any(getattr(usage, name) for name in _FIELDS) else None


def plus(a: Usage | None, b: Usage | None) -> Usage | None:
    if a is None or b is None:
        return a or b
    return Usage(*(_add(getattr(a, name), getattr(b, name)) for name in _FIELDS))


def _add(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def used(usage: Usage) -> int:
    """What the context holds after this request."""
    if usage.total is not None:
        return usage.total
    return sum(
        getattr(usage, name) or 0
        for name in ("input", "output", "cache_read", "cache_write", "reasoning")
    )


def of_step(book: Book, message: Message, part_id: str, part: Json) -> ContextWindow | None:
    """A finished model request; None when it says nothing new."""
    usage, cost = tokens(part.get("tokens")), amount(part.get("cost"))
    if message.turn is not None:
        message.turn.steps[part_id] = (message.id, usage, cost)
    return _window(book, message, usage, cost)


def of_message(book: Book, message: Message, info: Json) -> ContextWindow | None:
    """The totals of an answer, which count where no step was told."""
    usage, cost = tokens(info.get("tokens")), amount(info.get("cost"))
    if usage is None and not cost:
        return None
    if message.turn is not None:
        message.turn.totals[message.id] = (usage, cost)
    return _window(book, message, usage, cost)


def of_turn(turn: Turn) -> tuple[Usage | None, float | None]:
    """Usage and cost of the whole run: its steps, those of its subagents too."""
    stepped = {message for message, _, _ in turn.steps.values()}
    told = [(usage, cost) for _, usage, cost in turn.steps.values()]
    told += [both for message, both in turn.totals.items() if message not in stepped]
    usage: Usage | None = None
    costs: list[float] = []
    for one, cost in told:
        usage = plus(usage, one)
        if cost is not None:
            costs.append(cost)
    return usage, round(sum(costs), 10) if costs else None


def _window(
    book: Book, message: Message, usage: Usage | None, cost: float | None
) -> ContextWindow | None:
    if usage is None:
        return None
    if message.window == (usage, cost):
        return None
    message.window = (usage, cost)
    window = ContextWindow(usage=usage, cost_usd=cost)
    if message.summary:
        return window
    window.used = used(usage)
    window.size = book.windows.get(message.model)
    if window.size is not None:
        window.remaining = max(0, window.size - window.used)
    return window
