"""Owns token counts of a thread as usage of a request and of a run. Pure.

Codex tells the sums of the whole thread and those of the last request, some of them several times, and
invented ones after a compaction and when the window was exceeded. `inputTokens` holds what came from the
cache; ours does not, so that the parts add up to the total.
"""

from dataclasses import fields

from agentctl.core.events import ContextWindow
from agentctl.core.parts import Usage
from agentctl_adapters.codex.view import Thread, Turn
from agentctl_adapters.common.shapes import Json, as_object, number


def usage_of(source: Json) -> Usage:
    cached = number(source.get("cachedInputTokens"))
    written = number(source.get("cacheWriteInputTokens"))
    entered = number(source.get("inputTokens"))
    if entered is not None:
        entered = max(0, entered - (cached or 0) - (written or 0))
    return Usage(
        input=entered,
        output=number(source.get("outputTokens")),
        cache_read=cached,
        cache_write=written,
        reasoning=number(source.get("reasoningOutputTokens")),
        total=number(source.get("totalTokens")),
    )


def window_of(thread: Thread, turn: Turn | None, told: Json) -> ContextWindow | None:
    """Counts what is new into the turn; None when nothing is."""
    usage = as_object(told.get("tokenUsage"))
    total, last = usage_of(as_object(usage.get("total"))), usage_of(as_object(usage.get("last")))
    before, thread.total = thread.total, total
    known, thread.last = thread.last, last
    if before == total and known == last:
        return None
    if turn is None or turn.ended:
        return None
    grown = last if before is None else _minus(total, before)
    if _counts(last) and grown is not None and _counts(grown):
        turn.usage = plus(turn.usage, grown)
    size = number(usage.get("modelContextWindow"))
    used = last.total
    if not used and size is not None and total.total == size:
        used = size
    window = ContextWindow(used=used, size=size, usage=last if _counts(last) else None)
    if used is not None and size is not None:
        window.remaining = max(0, size - used)
    return window


def plus(a: Usage | None, b: Usage) -> Usage:
    if a is None:
        return b
    return Usage(*[_sum(getattr(a, f.name), getattr(b, f.name)) for f in fields(Usage)])


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


def _minus(a: Usage, b: Usage) -> Usage | None:
    """None when a sum went down: it is none."""
    grown = Usage()
    for each in fields(Usage):
        new, old = getattr(a, each.name), getattr(b, each.name)
        if new is None:
            continue
        if new < (old or 0):
            return None
        setattr(grown, each.name, new - (old or 0))
    return grown


def _counts(usage: Usage) -> bool:
    return bool(usage.input or usage.output or usage.cache_read)
