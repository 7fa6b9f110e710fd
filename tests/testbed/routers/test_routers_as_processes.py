"""Software routers as processes with real frames: a ring that deadlocks, the same ring freed by NAC, and nothing left
behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def _run_ring() -> dict[str, Any]:
    from dataclasses import replace

    from testbed.routers.emulated.processes import run_routers
    from testbed.routers.measurements import find_cycle
    from testbed.routers.plan import ring_plan

    plan = replace(ring_plan(8, 3, messages=60, avoidance="none"), stuck_s=0.5)
    bare, freed = run_routers(plan), run_routers(replace(plan, avoidance="nac"))
    return {
        "stuck_for_s": bare.stuck_for_s,
        "held": bare.in_use,
        "missing": bare.made - bare.delivered,
        "circle": len(find_cycle(plan, bare.snapshots)),
        "freed": [freed.made, freed.delivered, freed.in_use],
        "hops": sorted({arrival[3] for arrival in freed.log}),
        "moves": freed.nac["moves"],
    }


def test_a_ring_of_processes_deadlocks_for_real_and_nac_frees_it(
    sandboxed: Callable[..., Any],
) -> None:
    run = sandboxed(_run_ring)
    assert (
        run["circle"] == 8
        and run["held"] == 8 * 4
        and run["missing"] > 0
        and run["stuck_for_s"] >= 0.5
    )
    assert run["freed"] == [480, 480, 0] and run["hops"] == [3] and run["moves"] > 0
