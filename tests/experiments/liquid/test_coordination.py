"""What coordination of the edge nodes costs (Gabrielyan 2007, section 3.9: "synchronization and coordination of edge
nodes is required"): from which size of message on a liquid schedule pays, in virtual time and by arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.bulk.plan import BulkPlan
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import bulk_plan
from testbed.scheduling.wormhole import run_wormhole

CHANGE_S = 0.008
"""Of a change from one time frame to the next (docs/workloads/striping.md)."""
NETWORK = "swiss-t1:allocation=2-2-2-2-0-0-0-0"


def rounds_of_messages(plan: BulkPlan) -> float:
    """How many messages long an uncoordinated round robin takes, its senders going on as links come free."""
    paths = [
        [plan.network.link_index[link] for link in transfer.path] for transfer in plan.transfers
    ]
    return run_wormhole(paths, plan.frames, barrier=False).duration


def plans(message_bytes: int) -> tuple[BulkPlan, BulkPlan]:
    liquid = bulk_plan(NETWORK, message_bytes=message_bytes)
    free = bulk_plan(
        NETWORK, message_bytes=message_bytes, scheduling="round-robin", switching="packet"
    )
    return liquid, free


def times_s(message_bytes: int) -> tuple[float, float]:
    """Of the schedule, each change of frames paid for, and of round robin, which coordinates nothing."""
    liquid, free = plans(message_bytes)
    scheduled = SimulatedBulkFabric(setup_s=CHANGE_S).run(replace(liquid, injected=0)).seconds
    return scheduled, rounds_of_messages(free) * free.message_s


def test_schedule_pays_from_the_size_that_earns_its_changes() -> None:
    liquid, free = plans(1_000)
    gained = rounds_of_messages(free) - len(liquid.frames)
    even = CHANGE_S * len(liquid.frames) / (gained * liquid.message_s / liquid.message_bytes)
    assert gained > 0.5 and 1_000 < even < 500_000, even
    for size, pays in ((0.5 * even, False), (2.0 * even, True)):
        scheduled, robin = times_s(round(size))
        assert (scheduled < robin) is pays, size
    scheduled, robin = times_s(round(even))
    assert scheduled == pytest.approx(robin, rel=0.08)
