"""A bulk exchange over two machines: every message whole, its seconds with what the clocks leave open, and runs that
were spoilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox

OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [pytest.mark.emulation, pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))]
NETWORK = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
PLACE = {"machines": [["s1", "s4", "s5", "s6"], ["s2", "s3", "s7", "s8"]]}


def exchanged(how: str, message_bytes: int) -> dict[str, Any]:
    """All to all over both machines; ``how``: "whole", or what the network between them does from the middle on: "loss"
    (5 %), "delay" (30 ms)."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.workload import bulk_plan
    from testbed.errors import InvalidRunError
    from testbed.machines.machines_request import MachinesRequest
    from tests.helpers.poor_underlay import delay, lose_towards

    programs = []

    def in_the_middle(progress: Any) -> None:
        if (
            how != "whole"
            and progress.reading is not None
            and progress.done_s >= progress.total_s / 2
            and not programs
        ):
            programs.append(delay(1, 0.03) if how == "delay" else lose_towards(1, 0.05))

    plan = bulk_plan(NETWORK, message_bytes=message_bytes, link_rate_bps=10e6)
    with EmulatedBulkFabric(
        machines=MachinesRequest(count=2, place=PLACE), calibrate=how == "whole"
    ) as fabric:
        try:
            judged = judge_bulk(plan, fabric.run(plan, in_the_middle))
        except InvalidRunError as error:
            if how == "whole":
                raise
            return {"reason": str(error), "spoilt": len(programs)}
        finally:
            for program in programs:
                if program is not None:
                    program.kill()
                    program.communicate()
    if judged.verdict.invalid is not None:
        raise InvalidRunError(judged.verdict.invalid)
    failed = [check.name for check in judged.verdict.checks if not check.passed]
    return {"code": judged.verdict.exit_code, "failed": failed, "row": judged.rows[0], "reason": ""}


def test_messages_over_two_machines_are_whole_and_timed_within_the_clocks(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(exchanged, "whole", 1_000_000)
    assert found["code"] == 0 and found["failed"] == [], found["failed"]
    row = found["row"]
    assert row["messages_verified"] == row["transfers"] == 16
    spread = row["machines"]
    assert spread["crossing_sent"] > 8 * 1_000_000 / 9000 and spread["messages_undecided"] == 0
    assert 0 < spread["seconds_uncertainty_s"] < 0.01 * row["seconds"]
    for number, clock in enumerate(spread["machines"]):
        assert abs(clock["offset_s"] - 4321.0 * (number + 1)) <= clock["uncertainty_s"]


@pytest.mark.soak
@pytest.mark.parametrize(("how", "words"), [("delay", "slower"), ("loss", "lost")])
def test_a_poor_network_from_the_middle_on_makes_a_bulk_run_invalid(
    how: str, words: str, sandboxed: Callable[..., Any]
) -> None:
    found = sandboxed(exchanged, how, 1_000_000)
    assert found.get("spoilt") == 1 and words in found["reason"], found
