"""Owns tokens and cost: the five places where ACP agents put them, and what they mean there. Pure.

Result `usage` is of the turn, but Copilot's is of the whole session and OpenCode's of the last model
request only. Gemini and codex-acp put `_meta.quota` into the result, qwen `_meta.usage` into an empty
chunk per model request. `usage_update` is the context window, with the cost of the session so far.
"""

from dataclasses import fields

from agentctl.core.events import ContextWindow
from agentctl.core.parts import Usage
from agentctl_adapters.acp.view import SessionView
from agentctl_adapters.common.shapes import Json, as_object

_NAMES = {
    "input": ("inputTokens", "input_tokens"),
    "output": ("outputTokens", "output_tokens"),
    "cache_read": ("cachedReadTokens", "cachedInputTokens", "cached_read_tokens"),
    "cache_write": ("cachedWriteTokens", "cacheWriteInputTokens", "cached_write_tokens"),
    "reasoning": ("thoughtTokens", "reasoningOutputTokens", "thought_tokens"),
    "total": ("totalTokens", "total_tokens"),
}
_FIELDS = tuple(f.name for f in fields(Usage))


def number(value: object) -> int | None:
    """A whole number, never a truth value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def tokens(told: object) -> Usage | None:
    """Token counts under any of their names; None when there are none."""
    source = as_object(told)
    if not source:
        return None
    usage = Usage()
    for name, keys in _NAMES.items():
        count = next((n for key in keys if (n := number(source.get(key))) is not None), None)
        setattr(usage, name, count)
    return None if usage == Usage() else usage


def of_result(result: Json) -> Usage | None:
    """What a prompt's answer tells of tokens."""
    quota = as_object(as_object(result.get("_meta")).get("quota"))
    return tokens(result.get("usage")) or tokens(quota.get("token_count"))


def plus(a: Usage | None, b: Usage | None) -> Usage | None:
    if a is None or b is None:
        return a or b
    return Usage(*(_add(getattr(a, name), getattr(b, name), 1) for name in _FIELDS))


def minus(a: Usage, b: Usage | None) -> Usage:
    """a - b; what would be negative started anew."""
    if b is None:
        return a
    less = Usage(*(_add(getattr(a, name), getattr(b, name), -1) for name in _FIELDS))
    return a if any((getattr(less, name) or 0) < 0 for name in _FIELDS) else less


def _add(a: int | None, b: int | None, sign: int) -> int | None:
    if a is None:
        return None if sign < 0 else b
    return a if b is None else a + sign * b


def window_of(view: SessionView, update: Json) -> ContextWindow | None:
    """A usage_update; None when it says nothing new.

    The size is the largest seen for this model: some agents fall back to a default between requests.
    0 used is what agents say when they do not know.
    """
    used = number(update.get("used")) or None
    size = number(update.get("size")) or None
    if size is not None:
        size = view.window_size = max(size, view.window_size or 0)
    cost = as_object(update.get("cost"))
    amount = cost.get("amount")
    usd = None
    if isinstance(amount, int | float) and cost.get("currency") in (None, "USD"):
        usd = view.cost = float(amount)
    told = (used, size, usd)
    if told == view.window or told == (None, None, None):
        return None
    view.window = told
    remaining = None if used is None or size is None else max(0, size - used)
    return ContextWindow(used, size, remaining, cost_usd=usd)


def cost_of_turn(view: SessionView, before: float | None) -> float | None:
    """What this turn added to the session's cost; None when either end is not known."""
    if view.cost is None or before is None or view.cost < before:
        return None
    return round(view.cost - before, 10)
