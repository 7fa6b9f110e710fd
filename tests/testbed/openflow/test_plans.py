"""Label prefixes cover an interval exactly."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.model.label_split import LABELS
from testbed.openflow.rules import label_prefixes


@settings(deadline=None)
@given(st.integers(0, LABELS - 1), st.integers(1, LABELS))
def test_prefixes_cover_an_interval_exactly_with_the_fewest(start: int, stop: int) -> None:
    start, stop = min(start, stop - 1), max(start + 1, stop)
    prefixes = label_prefixes(start, stop)
    at = start
    for value, mask in prefixes:
        size = LABELS - mask
        assert (value, size & (size - 1), value % size) == (at, 0, 0)
        at += size
    assert at == stop
    assert len(prefixes) == fewest_prefixes(start, stop, 0, LABELS)


def fewest_prefixes(start: int, stop: int, low: int, high: int) -> int:
    """Blocks of the binary tree over [low, high) that make up [start, stop)."""
    if stop <= low or high <= start:
        return 0
    if start <= low and high <= stop:
        return 1
    middle = (low + high) // 2
    return fewest_prefixes(start, stop, low, middle) + fewest_prefixes(start, stop, middle, high)
