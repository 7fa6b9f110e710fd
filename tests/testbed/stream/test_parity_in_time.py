"""A stream under faults needs a playback buffer in which a block's parity comes too; one that has none is refused, not
failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import testbed
from testbed.errors import InputError
from testbed.faults.fault import Fault


def planned(playback_s: float, *, faulty: bool = True) -> Any:
    faults = [Fault(link=("s0", "s1", 0), start_s=3.0, stop_s=5.0)] if faulty else []
    plan = testbed.stream_plan
    return plan(
        "ring:4",
        "s0",
        "s2",
        faults=faults,
        playback_s=playback_s,
        rate_pps=100,
        source_packets=10,
        duration_s=8,
    )


@pytest.mark.parametrize("playback_s", [0.1, 0.12, 0.19])
def test_too_short_for_parity(playback_s: float) -> None:
    with pytest.raises(
        InputError, match=r"s0->s1 fails under .* takes 0\.1 s, .* give a buffer of 0\.2 s or more"
    ):
        planned(playback_s)


def test_too_short_for_parity_on_a_lossy_link_and_while_nodes_move() -> None:
    ring = testbed.network("ring:4")
    links = [replace(link, impairments="loss:0.02") for link in ring.links]
    words = (
        r"a block of 20 packets at 50 packets/s takes 0\.4 s, .* give a buffer of 0\.8 s or more"
    )
    with pytest.raises(InputError, match=r"s0->s1 loses packets under .* 0\.5 s; " + words):
        testbed.stream_plan(
            replace(ring, links=tuple(links)),
            "s0",
            "s2",
            faults="none",
            rate_pps=50,
            playback_s=0.5,
        )
    with pytest.raises(InputError, match="vanishes under .* 0.5 s; " + words):
        testbed.mobility_plan("manet:nodes=12,seed=3", "n0", "n7", count=4, playback_s=0.5)
    assert testbed.mobility_plan("manet:nodes=12,seed=3", "n0", "n7", count=4, playback_s=0.8)


def test_long_enough() -> None:
    assert testbed.run(planned(0.2), fabric="simulator").verdict.passed


def test_without_faults_a_block_s_time_is_enough() -> None:
    assert testbed.run(planned(0.1, faulty=False), fabric="simulator").verdict.passed
