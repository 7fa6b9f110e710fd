"""Every sender that is wrong on purpose fails the verdict by what it sent, not by the table of block sizes alone; the
right one passes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from testbed.faults.fault import PoissonFaults
from testbed.stream.endpoints import build_sender
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from tests.helpers.wrong_senders import WRONG_SENDERS
from topologies import load_network

# Overlapping faults try these in `make soak`: each resembles another sender of the table.
SIMILAR = {
    "N - 1 always",
    "N - 1, no late parity",
    "N - 2, no late parity",
    "never raises N, no late parity",
    "mirrored order",
}
CAMPAIGN, SINGLE = PoissonFaults(rate_per_s=0.1, lasts_s=1.0), EachLink(most=2, precision=0.05)


@cache
def plan_with(faults: PoissonFaults | EachLink) -> StreamPlan:
    duration_s = 7.0 if faults is CAMPAIGN else None
    stream = StreamParameters(symbol_bytes=16, hold_s=0.3, rate_pps=500.0)
    return planned(
        load_network("swiss-t1"),
        "s1",
        "s6",
        stream=stream,
        faults=faults,
        seed=5,
        duration_s=duration_s,
    )


def failed_keys(faults: PoissonFaults | EachLink, sender: str | None) -> set[str]:
    plan = plan_with(faults)
    run = SimulatedStreamFabric(WRONG_SENDERS[sender] if sender else build_sender).run(plan)
    verdict = judge(Analysis(plan, run))
    assert verdict.invalid is None
    return {check.key for check in verdict.checks if check.outcome == "fails"}


@pytest.mark.parametrize("faults", [CAMPAIGN, SINGLE], ids=["overlapping", "one-by-one"])
def test_the_right_sender_passes(faults: PoissonFaults | EachLink) -> None:
    assert failed_keys(faults, None) == set()


def _cases() -> Iterator[Any]:
    """Yield each wrong sender with single faults and with overlapping ones."""
    for sender in WRONG_SENDERS:
        yield pytest.param(SINGLE, sender, id=f"one-by-one-{sender}")
        marks = [pytest.mark.long] if sender in SIMILAR else []
        yield pytest.param(CAMPAIGN, sender, id=f"overlapping-{sender}", marks=marks)


@pytest.mark.parametrize(("faults", "sender"), list(_cases()))
def test_a_wrong_sender_fails_by_what_it_sent(
    faults: PoissonFaults | EachLink, sender: str
) -> None:
    if sender == "golden-ratio order" and faults is CAMPAIGN:
        pytest.skip("the right order where failures overlap")
    assert failed_keys(faults, sender) - {"block-size"}
