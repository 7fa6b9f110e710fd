"""Two cables of a torus that are down at once, which once handed packets to each other: FT-DRB's escapes on real
switches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def _two_cuts() -> dict[str, Any]:
    """What the verdict's checks found, by name; the source is told by headers alone, so escapes carry packets for
    longer."""
    from testbed.errors import InvalidRunError
    from testbed.faults.fault import Fault
    from testbed.metapath.analysis import MetapathFacts
    from testbed.metapath.emulated.fabric import run_metapath_stream
    from testbed.metapath.judgement import judge_metapaths
    from testbed.metapath.options import MetapathOptions
    from testbed.metapath.plan import MetapathPlan
    from topologies import load_network

    plan = MetapathPlan(
        network=load_network("torus:4x4"),
        source="s0_0",
        sink="s2_1",
        faults=(
            Fault(link=("s2_0", "s2_1", 0), kind="down", start_s=0.6, stop_s=1.6),
            Fault(link=("s3_0", "s3_1", 0), kind="down", start_s=0.6, stop_s=1.3),
        ),
        duration_s=2.2,
        options=MetapathOptions(notify="header"),
    )
    run = run_metapath_stream(plan)
    analysis = MetapathFacts(plan, run)
    verdict = judge_metapaths(plan, run).verdict
    if verdict.invalid is not None:
        raise InvalidRunError(verdict.invalid)
    return {
        "escaped": int((run.received.dead_link >= 0).sum()),
        "lost_outside": analysis.lost_outside,
        "broken": [f"{c.name}: {c.measured}" for c in verdict.checks if not c.passed],
    }


def test_two_cuts_at_once_are_escaped_and_the_stream_returns(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        found = sandboxed(_two_cuts)
        assert found["escaped"] >= 5 and found["lost_outside"] == 0
        return "; ".join(found["broken"]) or None

    timely(run)
