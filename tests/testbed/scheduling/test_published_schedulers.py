"""Schedulers of other authors need as many frames as they were measured to, and the checker has no objection."""

from __future__ import annotations

import pytest

from testbed.scheduling.checker import check_frames
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network


@pytest.mark.parametrize(
    ("network", "method", "frames"),
    [
        ("fat-tree:4,2", "flow-frames", 19),
        ("fat-tree:4,2", "two-level", 16),
        ("swiss-t1", "two-level", 132),
        ("torus:4x4", "two-level", 29),
    ],
)
def test_frames_of_an_all_to_all_exchange(network: str, method: str, frames: int) -> None:
    traffic = all_to_all(load_network(network))
    schedule = schedule_by_name(traffic, method)
    check_frames(traffic, schedule.frames)
    assert schedule.length == frames and schedule.method == method
