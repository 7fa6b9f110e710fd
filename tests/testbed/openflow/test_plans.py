"""A plan comes once and goes whole; its rules survive the way to the controller; label prefixes cover an interval
exactly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.label_split import LABELS
from testbed.openflow.installed_plans import InstalledPlans, SwitchBatch
from testbed.openflow.rules import FlowRule, label_prefixes


def test_plan_is_installed_once_under_an_id_of_its_own_and_goes_whole() -> None:
    book = InstalledPlans()
    rules = [FlowRule(dpid=dpid, priority=9, match=(), out_port=port) for dpid, port in ((4, 1), (2, 1), (4, 2))]
    adding = book.install(1, rules)
    assert adding == (
        SwitchBatch(dpid=2, action="add", cookie=1 << 32, rules=(rules[1],)),
        SwitchBatch(dpid=4, action="add", cookie=1 << 32, rules=(rules[0], rules[2])),
    )
    with pytest.raises(InputError, match="plan 1 is installed"):
        book.install(1, rules)
    for wrong in (0, -3, 1 << 31):
        with pytest.raises(InputError, match="plan id"):
            book.install(wrong, rules)
    assert book.install(2, rules[:1])[0].cookie == 2 << 32
    assert [(s.dpid, s.action, s.cookie) for s in book.remove(1)] == [(2, "delete", 1 << 32), (4, "delete", 1 << 32)]
    assert book.remove(1) == ()
    assert book.install(1, rules) == adding  # the id is free again


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
