"""A stream over two machines with clocks thousands of seconds apart: the fates that are predicted, and exit code 4
where it says nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.processes import descendants, machine_worker

OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [pytest.mark.emulation, pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))]
PLACE = {"machines": [[f"s{x}_{y}" for x in some for y in range(3)] for some in ((0, 1), (2,))]}
CUT, SWALLOWED = ("s0_0", "s2_0", 0), ("s1_1", "s2_1", 0)
"""Cables of the 3x3 torus between the two machines, of which a stream from s0_0 to s2_1 uses both."""


def planned(long_s: float | None = None) -> Any:
    from testbed.faults.fault import Fault
    from testbed.stream.workload import stream_plan

    faults = (
        Fault(link=CUT, kind="down", start_s=1.2, stop_s=1.9),
        Fault(link=SWALLOWED, kind="blackhole", start_s=3.2, stop_s=3.9),
    )
    return stream_plan(
        "torus:3x3",
        "s0_0",
        "s2_1",
        faults=() if long_s else faults,
        duration_s=long_s or 4.6,
        rate_pps=500,
        playback_s=0.8,
        hold_s=1.0,
    )


def fabric(on_start: Callable[[Any], None] = lambda _: None) -> Any:
    from testbed.machines.machines_request import MachinesRequest
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    found = EmulatedStreamFabric(machines=MachinesRequest(count=2, place=PLACE))
    found.on_start = on_start
    return found


def streamed() -> dict[str, Any]:
    """A run with a crossing cable cut and another blackholed, judged; and the same run spoilt as rivals would have
    it."""
    from dataclasses import replace

    from testbed.errors import InvalidRunError
    from testbed.stream.judgement.streams import judge_stream

    plan = planned()
    run = fabric().run(plan)
    session = judge_stream(plan, run)
    if session.verdict.invalid is not None:
        raise InvalidRunError(session.verdict.invalid)
    late = replace(
        run,
        faults=tuple(
            replace(f, start_s=f.start_s - 0.2, stop_s=f.stop_s - 0.2) for f in run.faults
        ),
    )
    return {
        "failed": [c.name for c in session.verdict.checks if not c.passed],
        "per_fault": [f.to_json() for f in session.analysis.faults],
        "machines": run.counters["machines"],
        "crossing": (run.counters["crossing_sent"], run.counters["crossing_lost_on_the_way"]),
        "gaps_s": run.counters["crossing_cut_gaps_s"],
        "told_of_the_cut_s": [f.port_status_s for f in run.faults],
        "with_clocks_0.2_s_off": judge_stream(plan, late).verdict.exit_code,
    }


@pytest.mark.long
def test_crossing_cables_fail_as_they_do_on_one_machine(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(streamed)
    assert found["failed"] == []
    for fault in found["per_fault"]:
        assert fault["predicted_loss"] > 0.05
        assert fault["measured_block_size"] == fault["predicted_block_size"]
        assert (
            0 < fault["reaction_uncertainty_s"] < 0.01
        )  # what the clocks leave open stands beside what they timed
        assert fault["undecided_packets"] <= 4 * fault["reaction_uncertainty_s"] * 2000 + 2
    assert found["told_of_the_cut_s"][0] is not None and found["told_of_the_cut_s"][1] is None
    for number, clock in enumerate(found["machines"]):
        truth_s = 4321.0 * (number + 1)
        assert abs(clock["offset_s"] - truth_s) <= clock["uncertainty_s"] < 0.005
    sent, lost = found["crossing"]
    assert sent > 500 and len(found["gaps_s"]) == 2  # cut and mended
    assert lost <= 2 + sum(1000 * (gap_s + 0.002) for gap_s in found["gaps_s"])
    assert found["with_clocks_0.2_s_off"] != 0  # the rival: clocks that nobody compared so well


def halted() -> dict[str, Any]:
    """What a run says whose first machine's switches stand still for 1.5 s in its middle: frames wait for them, and
    then no longer find room."""
    from testbed.stream.judgement.streams import judge_stream

    def halt() -> None:
        worker = machine_worker(descendants(os.getpid()), "machine-0")
        (daemon,) = [pid for pid, words in descendants(worker).items() if "ovs-vswitchd " in words]
        os.kill(daemon, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(daemon, signal.SIGCONT)

    plan = planned(4.0)
    middle = threading.Timer(1.0, halt)
    try:
        run = fabric(lambda _: middle.start()).run(plan)
    finally:
        middle.join()
    return {
        "drops": run.counters["switch_drops"],
        "unplanned": run.health.unplanned_drops,
        "code": judge_stream(plan, run).verdict.exit_code,
    }


@pytest.mark.long
def test_drops_of_switches_are_counted_by_machine(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(halted)
    assert found["drops"]["machine-0"] > 100 > found["drops"]["machine-1"]
    assert found["unplanned"] >= sum(found["drops"].values())
    assert found["code"] == 4


def starved(how: str) -> dict[str, Any]:
    """Why runs are invalid in which the network between the machines loses 5 % of the packets, or takes 30 ms longer,
    from the middle on."""
    from testbed.errors import InvalidRunError
    from tests.helpers.poor_underlay import delay, lose_towards

    programs = []

    def spoil() -> None:
        if how == "loss":
            lose_towards(1, 0.05)
        else:
            programs.append(delay(1, 0.03))

    plan = planned(4.0)
    middle = threading.Timer(2.0, spoil)
    try:
        fabric(lambda _: middle.start()).run(plan)
    except InvalidRunError as error:
        return {"reason": str(error)}
    finally:
        middle.join()
        for program in programs:
            program.kill()
            program.communicate()
    return {"reason": None}


@pytest.mark.parametrize(
    ("how", "words"), [("loss", "lost"), pytest.param("delay", "slower", marks=pytest.mark.soak)]
)
def test_a_poor_network_between_machines_makes_a_run_invalid(
    how: str, words: str, sandboxed: Callable[..., Any]
) -> None:
    reason = sandboxed(starved, how)["reason"]
    assert reason is not None and words in reason, reason
