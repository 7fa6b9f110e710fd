"""A stream under faults needs a playback buffer in which a block's parity comes too; one that has none is refused, not
failed."""

from __future__ import annotations

from typing import Any

import pytest

import testbed
from testbed.errors import InputError
from testbed.faults.fault import Fault


def planned(playback_s: float, *, faulty: bool = True) -> Any:
    faults = [Fault(link=("s0", "s1", 0), start_s=3.0, stop_s=5.0)] if faulty else []
    plan = testbed.stream_plan
    return plan(
        "ring:4", "s0", "s2", faults=faults, playback_s=playback_s, rate_pps=100, source_packets=10, duration_s=8
    )


@pytest.mark.parametrize("playback_s", [0.1, 0.12, 0.19])
def test_too_short_for_parity(playback_s: float) -> None:
    with pytest.raises(InputError, match=r"s0->s1 fails under .* takes 0\.1 s, .* give a buffer of 0\.2 s or more"):
        planned(playback_s)


def test_long_enough() -> None:
    assert testbed.run(planned(0.2), fabric="simulator").verdict.passed


def test_without_faults_a_block_s_time_is_enough() -> None:
    assert testbed.run(planned(0.1, faulty=False), fabric="simulator").verdict.passed
