"""The figures of the bench: medians, percentiles and ratios are what their names say."""

import pytest

from bench.stats import Spread, percentile, ratios


def test_a_spread_shows_the_median_between_the_smallest_and_the_largest() -> None:
    assert Spread.of([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)
    assert Spread.of([4.0, 2.0]).middle == 3.0


def test_nothing_measured_is_said_and_not_shown_as_zero() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        Spread.of([])
    with pytest.raises(ValueError, match="percentile"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (0.991, 100.0), (1.0, 100.0)]
)
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([float(n) for n in range(100, 0, -1)], share) == value


def test_each_measurement_is_compared_with_its_own_neighbour_in_time() -> None:
    assert ratios([50.0, 10.0], [100.0, 20.0]) == [0.5, 0.5]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])
