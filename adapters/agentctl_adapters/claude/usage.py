"""Owns tokens and cost: of a turn, of the model's last request, and how full its context is. Pure.

`modelUsage` and `total_cost_usd` are running totals of the conversation, subagents included, and
survive a resume; `model_usage_since_last_result` is of the turn. Only the last stream event of a model
request has its real counts; the context's size comes with the first result.
"""

from collections.abc import Mapping

from agentctl.core.events import ContextWindow
from agentctl.core.parts import Usage
from agentctl_adapters.common.shapes import Json, amount, as_object, as_text, number

_REQUEST = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
_MODEL = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
    "reasoning": "thinkingTokens",
}


def _counts(source: Json, names: Mapping[str, str]) -> Usage | None:
    usage = Usage()
    for name, key in names.items():
        setattr(usage, name, number(source.get(key)))
    return None if usage == Usage() else usage


def _sum(told: list[Usage]) -> Usage | None:
    if not told:
        return None
    total = Usage()
    for name in _MODEL:
        counts = [n for usage in told if (n := getattr(usage, name)) is not None]
        setattr(total, name, sum(counts) if counts else None)
    return total


class Meter:
    """Counts of one process."""

    def __init__(self) -> None:
        self._model = ""
        self._sizes: dict[str, int] = {}
        self._request: Usage | None = None
        self._cost: float | None = None
        self._last: ContextWindow | None = None

    def request(self, event: Json) -> None:
        """message_start: which model is asked, and what goes in."""
        message = as_object(event.get("message"))
        self._model = as_text(message.get("model")) or self._model
        self._request = _counts(as_object(message.get("usage")), _REQUEST)

    def answered(self, event: Json) -> ContextWindow | None:
        """message_delta: the counts of the request that is over."""
        told = _counts(as_object(event.get("usage")), _REQUEST)
        if told is None:
            return None
        # An answer that was cut repeats zeros for what it did not count.
        if not told.input and self._request is not None and self._request.input:
            return None
        self._request = told
        return self._window()

    def result(self, msg: Json) -> tuple[Usage | None, float | None, ContextWindow | None]:
        """Usage and cost (USD) of the turn; the window, when its size is news."""
        for name, told in as_object(msg.get("modelUsage")).items():
            model = as_object(told)
            size = number(model.get("contextWindow"))
            for each in {name, as_text(model.get("canonicalModel"))} if size else ():
                self._sizes[each] = max(size or 0, self._sizes.get(each, 0))
        turn = [as_object(m) for m in as_object(msg.get("model_usage_since_last_result")).values()]
        usage = _sum([u for m in turn if (u := _counts(m, _MODEL)) is not None])
        usage = usage or _counts(as_object(msg.get("usage")), _REQUEST)
        cost = self._turn_cost(turn, amount(msg.get("total_cost_usd")))
        if usage is not None and not any((usage.input, usage.output, usage.cache_read)):
            usage = None
        return usage, cost, self._window()

    def reset(self) -> None:
        """The context was shortened or emptied: what was counted is no longer in it."""
        self._request = None

    def _turn_cost(self, turn: list[Json], total: float | None) -> float | None:
        before, self._cost = self._cost, total if total is not None else self._cost
        costs = [c for m in turn if (c := amount(m.get("costUSD"))) is not None]
        if costs:
            return round(sum(costs), 10)
        if total is None or before is None or total < before:
            return None
        return round(total - before, 10)

    def _window(self) -> ContextWindow | None:
        told = self._request
        if told is None:
            return None
        counts = (told.input, told.cache_read, told.cache_write, told.output)
        used = sum(count or 0 for count in counts)
        size = self._sizes.get(self._model)
        remaining = None if size is None else max(0, size - used)
        window = ContextWindow(used, size, remaining, told, self._cost)
        if window == self._last:
            return None
        self._last = window
        return window
