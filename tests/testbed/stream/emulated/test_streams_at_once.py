"""Two streams at once on one network of real switches, and TCP on the same links: each stream has its own verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def two_streams() -> dict[str, Any]:
    """Swiss-T1, two pairs, two links failing; values of both verdicts in JSON-ready form."""
    from testbed.errors import InvalidRunError
    from testbed.stream.emulated.fabric import EmulatedStreamFabric
    from testbed.stream.judgement.streams import judge_stream
    from testbed.stream.options import EachLink, StreamOptions
    from testbed.stream.planning import build_together

    requests = [
        StreamOptions(
            "swiss-t1",
            a,
            b,
            rate_pps=250,
            playback_s=1.0,
            hold_s=0.5,
            faults=EachLink(most=2, precision=0.03),
        )
        for a, b in (
            ("s1", "s6"),
            ("s4", "s7"),
        )  # each of the two links costs one a quarter, the other a twelfth
    ]
    plans = build_together(requests)
    runs = EmulatedStreamFabric(background_bps=5e5).run_concurrently(plans)
    sessions = [judge_stream(plan, run) for plan, run in zip(plans, runs, strict=True)]
    assert [s.run.counters["corrupted"] for s in sessions] == [0, 0]
    if invalid := [s.verdict.invalid for s in sessions if s.verdict.invalid is not None]:
        raise InvalidRunError(invalid[0])
    return {
        "failed": [[c.name for c in s.verdict.checks if not c.passed] for s in sessions],
        "losses": [
            [(f.predicted_loss, f.measured_loss) for f in s.analysis.faults] for s in sessions
        ],
        "delivered": [s.run.counters["delivered"] for s in sessions],
        "carried": sessions[0].run.counters["background_carried_bytes"],
        "seconds": sessions[0].plan.duration_s,
    }


@pytest.mark.long
def test_two_streams_and_tcp_share_the_links_and_each_stream_is_judged(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(two_streams)
    assert found["failed"] == [[], []]
    assert found["losses"][0] != found["losses"][1]
    for predicted, measured in (pair for losses in found["losses"] for pair in losses):
        assert abs(predicted - measured) < 0.03
    assert min(found["delivered"]) > 200 * (found["seconds"] - 2)
    assert found["carried"] > 0.3 * 5e5 / 8 * found["seconds"]
