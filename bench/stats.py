"""Owns the few numbers of statistics the bench needs; knows nothing of what is measured."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of repeated measurements, with the smallest and the largest beside it."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Raises ValueError when there is no value."""
        if not values:
            raise ValueError("nothing was measured")
        return cls(statistics.median(values), min(values), max(values))

    def as_json(self) -> dict[str, float]:
        return {"median": self.middle, "min": self.low, "max": self.high}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed.

    Raises:
        ValueError: there is no value, or `share` is out of range.
    """
    if not values or not 0 <= share <= 1:
        raise ValueError("a percentile needs values and a share between 0 and 1")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratios(ours: Sequence[float], base: Sequence[float]) -> list[float]:
    """Each of ours to its neighbour in time, so that a busy moment of the machine weighs on both."""
    return [mine / other for mine, other in zip(ours, base, strict=True)]
