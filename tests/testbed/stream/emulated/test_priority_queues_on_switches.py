"""A telephone stream on a full last mile: with queues of priority on real switches it comes in time, and TCP has the
rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def stream_beside_tcp() -> dict[str, Any]:
    """Three seconds beside four greedy connections; in one queue with them nearly all packets come later than 150
    ms."""
    from dataclasses import replace

    from experiments.stream.real_time.last_mile_priority import (
        GREEDY_BPS,
        lag_reason,
        last_mile_plan,
        last_mile_row,
    )
    from testbed.errors import InvalidRunError
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    plan = replace(last_mile_plan({"case": "priority", "seed": 1}), duration_s=3.0)
    fabric = EmulatedStreamFabric(
        queues="priority", background_bps=GREEDY_BPS, background_connections=4
    )
    run = fabric.run(plan)
    if (reason := lag_reason(plan, run)) is not None:
        raise InvalidRunError(reason)
    return last_mile_row(plan, run)


def test_a_stream_with_priority_is_in_time_beside_greedy_tcp(sandboxed: Callable[..., Any]) -> None:
    row = sandboxed(stream_beside_tcp)
    assert row["not_in_time"] < 0.03
    assert row["median_s"] < 0.05, "a full queue takes five times as long"
    assert row["tcp_bps"] > 0.6e6
