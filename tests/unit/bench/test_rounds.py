"""Medians, spread and ratios of rounds."""

import pytest

from kraftquorum_bench.rounds import Spread, quantile, ratios, spread


def test_spread_is_the_median_between_its_limits():
    assert spread([3.0, 1.0, 2.0]) == Spread(median=2.0, lowest=1.0, highest=3.0)
    assert spread([1.0, 2.0]).median == 1.5


def test_no_round_has_no_median():
    with pytest.raises(ValueError, match="no round"):
        spread([])


def test_ratios_are_of_the_rounds_in_order():
    assert ratios([10.0, 20.0], [5.0, 40.0]) == [2.0, 0.5]
    with pytest.raises(ValueError, match="do not pair up"):
        ratios([1.0, 2.0], [1.0])


def test_a_peer_that_did_nothing_gives_no_ratio():
    with pytest.raises(ValueError, match="did nothing"):
        ratios([1.0], [0.0])


@pytest.mark.parametrize(("share", "value"), [(0.5, 51), (0.99, 100), (0, 1), (1, 100)])
def test_quantile_of_a_hundred_values(share, value):
    assert quantile(range(1, 101), share) == value


def test_no_value_has_no_quantile():
    with pytest.raises(ValueError, match="no operation was answered"):
        quantile([], 0.5)
