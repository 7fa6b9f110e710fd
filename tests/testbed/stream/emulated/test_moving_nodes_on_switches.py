"""Nodes that move and failures that overlap on real switches: predicted packet by packet, the same as in virtual
time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def streamed(handover: str, rate: float) -> dict[str, Any]:
    """One short valid run of a small mobile network on switches; what the verdict says, in JSON-ready values."""
    from testbed.errors import InvalidRunError
    from testbed.faults.fault import PoissonFaults
    from testbed.stream.emulated.fabric import EmulatedStreamFabric
    from testbed.stream.judgement.streams import judge_stream
    from testbed.stream.workload import mobility_plan

    plan = mobility_plan(
        "manet:nodes=16,step=0.03,seed=1",
        "n0",
        "n15",
        count=4,
        frame_s=1.6,
        handover=handover,  # type: ignore[arg-type]
        rate_pps=250,
        playback_s=1.2,
        hold_s=1.0,
        late_pps=2000,
        faults=PoissonFaults(rate_per_s=rate, lasts_s=0.7) if rate else (),
    )
    session = judge_stream(plan, EmulatedStreamFabric().run(plan))
    campaign = session.analysis.epochs_result
    assert campaign is not None
    assert session.run.counters["corrupted"] == 0
    if session.verdict.invalid is not None:
        raise InvalidRunError(session.verdict.invalid)
    return {
        "checks": [(c.name, c.passed, c.detail) for c in session.verdict.checks],
        "campaign": asdict(campaign),
        "faults": len(plan.faults),
        "vanished": sum(len(change.vanished) for change in plan.changes),
    }


def test_moving_nodes_and_overlapping_failures_lose_what_the_labels_say(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(streamed, "after", 0.15)
    assert all(passed for _, passed, _ in found["checks"]), found["checks"]
    campaign = found["campaign"]
    assert found["vanished"] > 0 and found["faults"] >= 5 and campaign["most_at_once"] >= 2
    assert (
        campaign["certain"] > 1000 and campaign["wrongly_lost"] + campaign["wrongly_arrived"] <= 2
    )
    assert campaign["longest_change_s"] < 1.0


@pytest.mark.long
def test_plan_replaced_before_links_vanish_loses_nothing_at_all(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(streamed, "before", 0.0)
    campaign = found["campaign"]
    assert found["vanished"] > 0
    assert campaign["undecodable"] == 0 and campaign["wrongly_lost"] == 0
    assert all(frame["measured_loss"] == 0 for frame in campaign["frames"])
