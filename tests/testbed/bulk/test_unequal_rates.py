"""Bulk transfers over links of different rates: times by hand, notes, and a verdict that tells rates apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.api.session import Session
from testbed.bulk.calibration import (
    CalibrationJob,
    concurrent_goodput,
    machine_lag,
    message_counts,
)
from testbed.bulk.emulated.run import circuit_share, pacing_of, require_room_for_acknowledgements
from testbed.bulk.judgement import judge_bulk
from testbed.bulk.link_rates import at_rate
from testbed.bulk.measurements import Goodput
from testbed.bulk.options import BulkOptions
from testbed.bulk.plan import BulkPlan
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import BULK, bulk_plan
from testbed.errors import InputError
from testbed.model.machine.capacity import MachineCapacity
from testbed.model.naming.names import known_network
from testbed.results import capacity_file
from tests.helpers.commands import in_process

# Two hosts of 100 Gbit/s on each of two switches, which 200 Gbit/s join.
TWO_SPEEDS = [
    ("a1", "l", 100e9),
    ("a2", "l", 100e9),
    ("l", "r", 200e9),
    ("r", "b1", 100e9),
    ("r", "b2", 100e9),
]
ACROSS = (("a1", "b1"), ("a2", "b2"))
SCALED = (
    "the network's own link rates (100 Gbit/s and 200 Gbit/s) are run as 10 Mbit/s and 20 Mbit/s,"
    " scaled by 1/10,000"
)


def network_of(
    links: Sequence[tuple[str, str, float]], *, directed: bool = False
) -> dict[str, Any]:
    """A network whose switches are the nodes called l and r."""
    nodes = sorted({node for a, b, _ in links for node in (a, b)})
    return {
        "directed": directed,
        "nodes": [{"id": n, "kind": "switch" if n in ("l", "r") else "host"} for n in nodes],
        "links": [{"source": a, "target": b, "capacity_bps": rate} for a, b, rate in links],
    }


def plan_of(links: Any = TWO_SPEEDS, pattern: Any = ACROSS, **options: Any) -> BulkPlan:
    return bulk_plan(network_of(links), pattern=pattern, message_bytes=1_000_000, **options)


def test_circuit_has_rate_of_its_slowest_link() -> None:
    """Both circuits need the cable of 20 Mbit/s, one after the other, and send at 10 Mbit/s."""
    plan = plan_of()
    run = SimulatedBulkFabric().run(plan)
    assert plan.transfer_s == pytest.approx((0.8, 0.8))
    assert run.seconds == pytest.approx(1.6)
    row = judge_bulk(plan, run)
    assert row.verdict.passed and row.verdict.notes[0] == SCALED
    # Without circuits the hosts' links would need 0.8 s, and the cable for both messages as well.
    assert row.document["liquid_throughput_bps"] == pytest.approx(16e6 / 0.8)
    assert row.document["ratio"] == row.document["predicted_ratio"] == pytest.approx(0.5)
    assert row.document["link_rate_bps"] == 20e6


def test_packets_share_the_fast_link() -> None:
    plan = plan_of(switching="packet", barrier=False)
    assert SimulatedBulkFabric().run(plan).seconds == pytest.approx(0.8)


def test_time_frame_lasts_as_long_as_its_longest_transfer() -> None:
    """One frame: 8 Mbit over 8 and over 2 Mbit/s; a second frame over 2 Mbit/s alone."""
    links = [("a", "l", 8e6), ("b", "l", 8e6), ("c", "l", 2e6)]
    pairs = (("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"))
    plan = plan_of(links, pairs)
    run = SimulatedBulkFabric().run(plan)
    assert [end - begin for begin, end in run.frame_times_s] == pytest.approx([4.0, 4.0])
    assert sorted(record.done_s - record.started_s for record in run.transfers) == pytest.approx(  # type: ignore[operator]
        [1.0, 4.0, 4.0, 4.0]
    )
    assert plan.bottlenecks == (("l", "c", 0),), "two messages over 2 Mbit/s take longest"
    assert plan.liquid_links * 8_000_000 == 4_000_000, "four messages in 8 s"
    assert judge_bulk(plan, run).verdict.passed


@pytest.mark.parametrize("alike_bps", [10e6, 20e6])
def test_run_over_equal_links_fails_the_check(alike_bps: float) -> None:
    links = [("a", "l", 20e6), ("b", "l", 20e6), ("c", "l", 5e6)]
    plan = plan_of(links, "all-to-all")
    alike = replace(plan, network=at_rate(plan.network, alike_bps))
    run = SimulatedBulkFabric().run(alike)
    failed = {check.key for check in judge_bulk(plan, run).verdict.checks if not check.passed}
    assert "throughput" in failed
    right = SimulatedBulkFabric().run(plan)
    assert judge_bulk(plan, right).verdict.passed
    assert not judge_bulk(alike, right).verdict.passed


def test_schedule_must_reach_its_own_prediction_not_the_bound() -> None:
    plan = plan_of()
    run = SimulatedBulkFabric().run(plan)

    def passes(seconds: float) -> bool:
        records = tuple(
            replace(one, done_s=one.done_s + seconds - run.seconds)
            if one.done_s == run.seconds
            else one
            for one in run.transfers
        )
        return judge_bulk(plan, replace(run, seconds=seconds, transfers=records)).verdict.passed

    assert passes(1.6 / 0.951) and not passes(1.6 / 0.949)


def test_own_rates_are_used_if_the_machine_carries_them() -> None:
    plan = plan_of([("a", "l", 8e6), ("b", "l", 2e6)], "all-to-all")
    assert set(plan.rates_bps.values()) == {8e6, 2e6}
    assert plan.rates is not None
    assert plan.rates.note == "the network's own link rates (2 Mbit/s and 8 Mbit/s) are used"
    assert plan.rates.limit_note("links of 20 Mbit/s") == ""


def test_fastest_link_that_carries_data_decides_the_factor() -> None:
    plan = plan_of([*TWO_SPEEDS, ("l", "z", 1e12)])
    assert plan.link_rate_bps == 20e6 and plan.rates_bps["l", "z", 0] == 100e6


def test_machine_that_carries_less_scales_all_links() -> None:
    plan = plan_of()
    assert plan.rates is not None
    slower = replace(plan.rates, limit_bps=5e6)
    assert {link.capacity_bps for link in slower.network.links} == {2.5e6, 5e6}
    assert "2.5 Mbit/s and 5 Mbit/s, scaled by 1/40,000" in slower.note
    assert slower.limit_note("links of 5 Mbit/s") == "fastest links of 5 Mbit/s"


def test_command_fits_the_fastest_link_to_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two circuits of three links in two frames, each as long as two messages over the fastest link: 1.5 busy links."""
    machine = MachineCapacity(
        link_bps=8e6, rate_bps=5e6, processors=2, kernel="", measured="today", limit_reached=True
    )
    monkeypatch.setattr(capacity_file, "load_carried", lambda: machine)
    plan = plan_of()
    fitted: Any = BULK.fitted
    slower, note = fitted(BulkOptions(network=network_of(TWO_SPEEDS)), plan, "emulation")
    assert slower.link_rate_bps == 2e6 and set(slower.rates_bps.values()) == {1e6, 2e6}
    assert note.startswith("fastest links of 2 Mbit/s: that asks for 3 Mbit/s over all links")


def test_session_runs_at_the_rates_of_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[BulkPlan] = []
    monkeypatch.setattr(Session, "_run", lambda _self, _name, plan, *_: plans.append(plan))
    session = Session.__new__(Session)
    session.network = known_network(network_of(TWO_SPEEDS))
    session.bulk(pattern=ACROSS)
    (plan,) = plans
    assert plan.network == session.network and plan.link_rate_bps == 200e9
    with pytest.raises(
        InputError, match=r"links of 1e\+11 to 2e\+11 bit/s here; all must have 1e\+07"
    ):
        session.bulk(pattern=ACROSS, link_rate_bps=1e7)


def test_requested_rate_is_every_links() -> None:
    plan = plan_of(link_rate_bps=5e6)
    assert set(plan.rates_bps.values()) == {5e6}
    assert plan.rates is not None and plan.rates.note == (
        "the network's own link rates (100 Gbit/s and 200 Gbit/s) are not used: --link-rate gives every link 5 Mbit/s"
    )


def test_catalogue_networks_have_the_usual_rate_and_no_note() -> None:
    for name in ("crossbar:3", "swiss-t1"):
        plan = bulk_plan(name, pattern=(("t0", "r1"),))
        assert plan.rates is not None and plan.rates.note == "" and plan.link_rate_bps == 20e6
    machines = bulk_plan("gpu-machines:2,2")
    assert min(machines.rates_bps.values()) == machines.link_rate_bps / 10


def test_refuses_rates_too_far_apart() -> None:
    with pytest.raises(
        InputError, match=r"b->l would have 2 kbit/s.*scaled by 1/10,000.*--link-rate"
    ):
        plan_of([("a", "l", 200e9), ("b", "l", 20e6)], "all-to-all")


def test_clock_is_fine_enough_for_the_fastest_link() -> None:
    """Messages over a fast link end although a slow one has brought the clock far ahead."""
    links = [("a", "l", 1e15), ("b", "l", 1e15), ("c", "l", 1e3)]
    plan = plan_of(links, "all-to-all", link_rate_bps=1e6)
    run = SimulatedBulkFabric().run(replace(plan, network=known_network(network_of(links))))
    assert run.failure is None and run.seconds == pytest.approx(16_000)


def test_faster_paths_are_calibrated_with_more_messages() -> None:
    links = [("a", "l", 20e6), ("b", "l", 20e6), ("c", "r", 5e6), ("d", "r", 5e6), ("l", "r", 5e6)]
    plan = plan_of(links, (("a", "b"), ("c", "d")))
    job = concurrent_goodput(plan)
    assert job == CalibrationJob(transfers=(0, 1), count=2)
    assert message_counts(plan, job) == {0: 8, 1: 2}


def test_lag_is_told_in_shares_of_unequal_rates() -> None:
    slow = Goodput(single_path_bps=19e6, concurrent_bps=18e6, concurrent_paths=2)
    reason = str(machine_lag(plan_of(), slow))
    assert "2 disjoint paths at once reached 0.900 of their rates, one alone 0.950" in reason
    assert "testbed doctor --calibrate" in reason and "--link-rate" not in reason


def test_sender_paces_at_the_rate_of_its_circuit() -> None:
    links = [("a", "l", 20e6), ("a", "r", 4e6), ("l", "b", 8e6), ("r", "b", 8e6)]
    plan = plan_of(links, (("a", "b"),))
    pacing = pacing_of(plan, 9000)["a", "b", 0]
    path = plan.transfers[0].path
    assert pacing.first_bps == plan.path_rate_bps(path) * circuit_share(9000)
    assert pacing.again_bps == 4e6 * circuit_share(9000)


@pytest.mark.parametrize(("back_bps", "refused"), [(1e6, True), (2e6, False)])
def test_refuses_a_way_back_too_slow_for_acknowledgements(back_bps: float, refused: bool) -> None:
    """At 20 Mbit/s with packets of 590 bytes, acknowledgements need 20 x 33 / 590 = 1.12 Mbit/s."""
    links = [("a", "l", 20e6), ("l", "a", 20e6), ("l", "b", 20e6), ("b", "l", back_bps)]
    network = network_of(links, directed=True)
    plan = bulk_plan(network, pattern=(("a", "b"),))
    require_room_for_acknowledgements(plan, 9000)
    if not refused:
        require_room_for_acknowledgements(plan, 576)
        return
    with pytest.raises(
        InputError, match=r"b->l is too slow for the acknowledgements of l->b.*20 times as fast"
    ):
        require_room_for_acknowledgements(plan, 576)


def test_library_and_command_give_the_same_note(tmp_path: Path) -> None:
    file = tmp_path / "two_speeds.json"
    file.write_text(json.dumps(network_of(TWO_SPEEDS)))
    options = ["--pattern", "a1:b1,a2:b2", "--fabric", "simulator", "--results", str(tmp_path)]
    done = in_process("bulk", str(file), *options, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    plan = testbed.bulk_plan(str(file), pattern="a1:b1,a2:b2")
    result = testbed.run(plan, fabric="simulator")
    assert SCALED in document["verdict"]["notes"] and SCALED in result.verdict.notes
    assert (
        document["seconds"] == pytest.approx(1.6)
        and document["other_switching"]["packet"]["seconds"] > 0
    )
    assert document["verdict"]["notes"][0] == "fastest links of 20 Mbit/s, the usual rate"


def carried(links: Any) -> dict[str, Any]:
    """Inside a sandbox: the judged run of all pairs over both switchings' network."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    plan = bulk_plan(network_of(links), message_bytes=500_000, inject_packets=0)
    with EmulatedBulkFabric() as fabric:
        judged = judge_bulk(plan, fabric.run(plan))
    verdict = judged.verdict
    return {
        "passed": verdict.passed,
        "invalid": verdict.invalid,
        "checks": [check.to_json() for check in verdict.checks],
        "ratio": judged.document["ratio"],
        "predicted": judged.document["predicted_ratio"],
    }


@pytest.mark.emulation
def test_emulated_run_over_unequal_links_passes(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    """Four time frames of 0.4 s at the rate of the hosts, which is half of the cable's."""

    def run() -> str | None:
        links = [("a1", "l", 10e6), ("a2", "l", 10e6), ("l", "r", 20e6), ("r", "b1", 10e6)]
        row = sandboxed(carried, links)
        if row["invalid"] is not None:
            return str(row["invalid"])
        assert row["passed"], row["checks"]
        assert row["ratio"] == pytest.approx(row["predicted"], rel=0.05)
        return None

    timely(run)
