"""Which messages calibrate a run: some over one path alone, then some over many disjoint paths at once.

The first gives the goodput that predictions are made of; the second tells whether the machine can carry a whole time frame.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from testbed.bulk.plan import BulkPlan
from topologies.network import LinkId

MESSAGES_ALONE, MESSAGES_TOGETHER = 3, 2
MIN_S, MAX_MESSAGES = 0.6, 16
"""Small messages are more in number: a few milliseconds that one comes late are no measure of a machine."""
MIN_TOGETHER = 0.965
"""Disjoint paths at once that are slower than this fraction of one alone: the machine, not the schedule, sets the pace."""
ATTEMPTS = 3
"""Before a run: another program's burst of work is no reason to give up."""


@dataclass(frozen=True, kw_only=True)
class CalibrationJob:
    """``count`` messages back to back over the path of each of these transfers, all at once."""

    transfers: tuple[int, ...]
    count: int


def alone(plan: BulkPlan) -> CalibrationJob:
    """The transfer with the longest path (of equals the first)."""
    longest = max(range(len(plan.transfers)), key=lambda i: (len(plan.transfers[i].path), -i))
    return CalibrationJob(transfers=(longest,), count=_count(plan, MESSAGES_ALONE))


def _count(plan: BulkPlan, least: int) -> int:
    message_s = plan.message_bytes * 8 / plan.link_rate_bps
    return max(least, min(MAX_MESSAGES, math.ceil(MIN_S / message_s)))


def together(plan: BulkPlan) -> CalibrationJob:
    """As many transfers as share no link in either direction of use, found greedily, but no more than the liquid throughput
    lets a time frame hold on average; those over bottlenecks first."""
    hard = set(plan.bottlenecks)
    order = sorted(range(len(plan.transfers)), key=lambda i: (-sum(x in hard for x in plan.transfers[i].path), i))
    used: set[LinkId] = set()
    chosen: list[int] = []
    for index in order:
        path = plan.transfers[index].path
        if used.isdisjoint(path) and len(chosen) < max(1, round(float(plan.liquid_links))):
            used.update(path)
            chosen.append(index)
    return CalibrationJob(transfers=tuple(sorted(chosen)), count=_count(plan, MESSAGES_TOGETHER))
