"""The verdict of a bulk run: what TCP repeats is set aside, and a machine that stood still makes the run invalid, not
failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from testbed.bulk.facts import expected_bytes
from testbed.bulk.judgement import judge_bulk
from testbed.bulk.measurements import BulkMeasurements, Goodput, LinkCount, TcpRetransmissions
from testbed.bulk.plan import BulkPlan, KilledProcess
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import bulk_plan
from testbed.faults.fault import Fault
from testbed.model.machine.load import MachineLoad
from testbed.model.verdict import Verdict
from tests.helpers.strains import CALM
from tests.helpers.virtual_times import at_seconds
from topologies import load_network, reverse_of


def plan_of(message_bytes: int) -> BulkPlan:
    return bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=message_bytes)


def judged(plan: BulkPlan, more_bytes: int = 0, slower: float = 1.0, **changes: Any) -> Verdict:
    """The verdict on a run as virtual time has it, on switches: ``more_bytes`` on every link, so much slower."""
    run = SimulatedBulkFabric().run(plan)
    links = {
        link: LinkCount(packets=0, bytes=round(octets) + more_bytes, queue_drops=0)
        for link, octets in expected_bytes(plan, run.packet_payload_bytes).items()
    }
    fields: dict[str, Any] = {"fabric": "emulation", "links": links, "strain": CALM}
    fields |= at_seconds(run, changes.pop("seconds", run.seconds * slower))
    injection: dict[str, Any] = {"injected": plan.injected, "dropped": {"s1": plan.injected}}
    measured: BulkMeasurements = replace(run, **{**fields, **injection, **changes})
    return judge_bulk(plan, measured).verdict


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_a_run_as_predicted_on_a_calm_machine_passes() -> None:
    verdict = judged(plan_of(1_000_000))
    assert verdict.passed and verdict.exit_code == 0


def test_bytes_beyond_the_schedule_fail_unless_tcp_sent_them_again() -> None:
    plan = plan_of(1_000_000)
    more = 100_000
    assert failed(judged(plan, more)) == ["relative error of the bytes that links carried"]
    again = dict.fromkeys(range(len(plan.transfers)), TcpRetransmissions(more, 12))
    assert judged(plan, more, retransmitted=again).passed
    assert not judged(plan, -more, retransmitted=again).passed, (
        "what never crossed a link was not sent again either"
    )


@pytest.mark.parametrize(
    "late", [replace(CALM, worst_lateness_s=0.05), replace(CALM, mean_lateness_s=0.003)]
)
def test_stalled_machine_makes_the_run_invalid(
    late: MachineLoad,
) -> None:
    plan = plan_of(1_000_000)
    assert (
        judged(plan, strain=late).exit_code == judged(plan, slower=1.2, strain=late).exit_code == 4
    )
    assert judged(plan, slower=1.2).exit_code == 1, "slow on a machine that kept up"


def test_lateness_does_not_matter_where_no_throughput_is_claimed() -> None:
    plan = replace(plan_of(1_000_000), switching="packet", injected=0)
    assert judged(plan, strain=replace(CALM, worst_lateness_s=0.5)).exit_code == 0


def test_two_strays_of_a_small_message_are_no_failure_and_three_are() -> None:
    plan = plan_of(100_000)
    count = len(plan.transfers)
    assert judged(plan, dropped={"s1": plan.injected + 2 * count}).passed
    assert not judged(plan, dropped={"s1": plan.injected + 3 * count}).passed


def one_repeats(**counts: int) -> dict[int, TcpRetransmissions]:
    return {0: TcpRetransmissions(**counts)}


@pytest.mark.parametrize("slower", [1.08, 3.5])  # without and with a time-out of TCP in it
def test_run_too_short_for_its_circuit_changes_is_invalid(
    slower: float,
) -> None:
    plan = plan_of(100_000)  # 0.12 s at 20 Mbit/s
    verdict = judged(plan, slower=slower, rule_changes=4, circuit_change_s=0.0073)
    assert verdict.exit_code == 4 and "larger --message-size" in str(verdict.invalid)
    late = judged(
        plan, rule_changes=4, circuit_change_s=0.0073, strain=replace(CALM, worst_lateness_s=0.02)
    )
    assert "larger --message-size" in str(late.invalid), (
        "whatever else was late, a longer run is what mends it"
    )
    assert judged(plan, slower=slower).exit_code == 1, "without changes the machine is not to blame"


def test_circuit_changes_count_once_per_message_if_no_frame_waits() -> None:
    """Round robin, 200 kB over 20 Mbit/s: some 80 ms a message."""
    network = load_network("swiss-t1:allocation=2-2-2-2-0-0-0-0")
    free, phases = (
        bulk_plan(
            network,
            message_bytes=200_000,
            link_rate_bps=2e7,
            scheduling="round-robin",
            barrier=barrier,
        )
        for barrier in (False, True)
    )
    changes = {
        "rule_changes": len(free.transfers),
        "circuit_change_s": 0.0024 * len(free.transfers),
    }
    assert judged(free, **changes).exit_code == 0
    slow = {"rule_changes": len(free.transfers), "circuit_change_s": 0.006 * len(free.transfers)}
    for plan, spoilt in ((free, slow), (phases, changes)):
        assert "changes of circuits took" in str(judged(plan, **spoilt).invalid)


def test_usual_stalls_of_the_machine_count_if_the_run_tolerates_less() -> None:
    late = replace(CALM, worst_lateness_s=0.008)
    assert judged(plan_of(100_000), strain=late).exit_code == 4, "0.008 of 0.12 s are more than 5 %"
    assert judged(plan_of(1_000_000), strain=late).exit_code == 0
    assert judged(plan_of(1_000_000), slower=1.2, strain=late).exit_code == 1


def test_a_run_in_which_tcp_waited_for_longer_than_it_may_lose_is_invalid() -> None:
    plan = plan_of(1_000_000)  # 1.2 s
    once = one_repeats(bytes=8948, packets=1, timeouts=1)
    late, in_time = judged(plan, slower=1.2, retransmitted=once), judged(plan, retransmitted=once)
    assert late.exit_code == in_time.exit_code == 4 and "1 after a time-out of 200 ms" in str(
        late.invalid
    )
    assert (
        judged(plan, slower=1.2, retransmitted=one_repeats(bytes=8948, packets=1)).exit_code == 1
    ), "4 ms explain nothing"
    assert judged(plan, retransmitted=one_repeats(bytes=8948, packets=1)).exit_code == 0


def test_repeats_that_switches_cannot_explain_leave_a_slow_run_failed() -> None:
    plan = plan_of(1_000_000)
    many = dict.fromkeys(
        range(len(plan.transfers)), TcpRetransmissions(bytes=8 * 8948, packets=8, timeouts=1)
    )
    assert judged(plan, slower=1.5, retransmitted=many).exit_code == 1
    links = dict.fromkeys(plan.loads, LinkCount(packets=0, bytes=3_000_000, queue_drops=1))
    once = one_repeats(bytes=8948, packets=1, timeouts=1)
    assert judged(plan, slower=1.2, retransmitted=once, links=links).exit_code == 1, (
        "queues overflowed"
    )


def test_measured_run_of_twelve_packets_per_message_is_invalid() -> None:
    """100 kB over links of 1 Mbit/s, four machines' nodes, 23 November 2026: 0.946 of the liquid throughput."""
    network = load_network("swiss-t1:allocation=1-1-1-1-0-0-0-0")
    plan = bulk_plan(network, message_bytes=100_000, link_rate_bps=1e6)
    sizes = [364, 17896, 8948, 364, 364, 17896, 17896, 8948, 8948, 364, 17896, 8948, 8948]
    again = {
        number: TcpRetransmissions(bytes=size, packets=max(1, size // 8948))
        for number, size in enumerate(sizes)
    }
    goodput = Goodput(single_path_bps=1.0e6, concurrent_bps=0.99e6, concurrent_paths=4)
    measured = {
        "seconds": 3.3954,
        "goodput": goodput,
        "rule_changes": 5,
        "circuit_change_s": 0.0117,
        "retransmitted": again,
    }
    verdict = judged(plan, **measured)
    assert verdict.exit_code == 4 and "TCP sent 17 packets again" in str(verdict.invalid)
    assert judged(plan, **(measured | {"retransmitted": {}})).exit_code == 1


def test_records_that_are_not_of_this_run_do_not_pass() -> None:
    """Another plan's, a message twice for one that is missing, times in another unit, links that others held, bytes
    where nothing goes."""
    plan = plan_of(1_000_000)
    records = SimulatedBulkFabric().run(plan).transfers
    unused = next(
        link.id for link in plan.network.links if link.id not in expected_bytes(plan, 1448)
    )
    links = {
        link: LinkCount(packets=0, bytes=round(b), queue_drops=0)
        for link, b in expected_bytes(plan, 8948).items()
    }
    for wrong in (
        {"transfers": (records[1], *records[1:])},
        {"transfers": tuple(replace(r, path=records[k - 1].path) for k, r in enumerate(records))},
        {"transfers": tuple(replace(r, started_s=0.0, done_s=1.2) for r in records)},
        {"transfers": tuple(replace(r, started_s=r.done_s, done_s=r.started_s) for r in records)},
        {"slower": 1 / 8},
        {"goodput": Goodput(single_path_bps=2.5e6, concurrent_bps=2.5e6, concurrent_paths=4)},
        {"injected": 1, "dropped": {"s1": 1}},
        {"injected": 1000 * plan.injected},
        {"links": {**links, unused: LinkCount(packets=0, bytes=1_000_000, queue_drops=0)}},
        {"links": {}},
    ):
        assert judged(plan, **wrong).exit_code == 1, wrong


def test_a_fault_that_no_switch_saw_cannot_tell() -> None:
    plan = plan_of(1_000_000)
    cut = replace(plan, faults=(Fault(link=plan.transfers[0].path[0], start_s=0.1, stop_s=0.3),))
    killed = replace(plan, killed=(KilledProcess(node=plan.transfers[0].sink, at_s=0.2),))
    calm = replace(SimulatedBulkFabric().run(plan), fabric="emulation", strain=CALM)
    assert (
        judge_bulk(cut, calm).verdict.exit_code == judge_bulk(killed, calm).verdict.exit_code == 5
    )
    seen = replace(calm, lost_links=(reverse_of(cut.faults[0].link),))
    assert judge_bulk(cut, seen).verdict.passed


def test_a_link_that_was_cut_in_no_planned_fault_says_nothing() -> None:
    plan = plan_of(1_000_000)
    link, other = plan.transfers[0].path[0], plan.transfers[-1].path[-1]
    assert "failed in no planned fault" in str(judged(plan, lost_links=(link,)).invalid)
    cut = replace(plan, faults=(Fault(link=link, start_s=0.1, stop_s=0.3),))
    run = replace(SimulatedBulkFabric().run(plan), fabric="emulation", strain=CALM)
    astray = judge_bulk(cut, replace(run, lost_links=(link, other))).verdict
    assert other not in (link, reverse_of(link)) and astray.exit_code == 4


@pytest.mark.parametrize("switching", ["circuit", "packet"])
def test_messages_that_went_in_no_time_of_the_run_do_not_pass(
    switching: Literal["circuit", "packet"],
) -> None:
    """Under faults and without circuits too: times in another unit, before the run, ended before they began."""
    plan = replace(plan_of(1_000_000), switching=switching, injected=0)
    run = replace(SimulatedBulkFabric().run(plan), fabric="emulation", strain=CALM)
    cut = replace(plan, faults=(Fault(link=plan.transfers[0].path[0], start_s=0.1, stop_s=0.3),))
    seen = replace(run, lost_links=(cut.faults[0].link,))
    assert judge_bulk(cut, seen).verdict.passed
    first = run.transfers[0]
    assert first.started_s is not None and first.done_s is not None
    for wrong in (
        {"done_s": 1000 * first.done_s},
        {"started_s": first.started_s - 1},
        {"started_s": first.done_s, "done_s": first.started_s},
    ):
        spoilt = replace(seen, transfers=(replace(first, **wrong), *run.transfers[1:]))
        assert judge_bulk(cut, spoilt).verdict.exit_code == 1, wrong
    assert judge_bulk(cut, replace(seen, seconds=0.2)).verdict.exit_code == 1


@pytest.mark.parametrize(("kind", "options"), [
    ("circuit", {}), ("packet", {"switching": "packet"}), ("random", {"scheduling": "random"}),
])  # fmt: skip
def test_a_run_in_virtual_time_that_was_spoilt_does_not_pass(
    kind: str, options: dict[str, Any]
) -> None:
    plan = bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=1_000_000, **options)
    run = SimulatedBulkFabric().run(plan)
    assert judge_bulk(plan, run).verdict.passed
    first, *others = run.transfers
    for factor in (0.5, 2, 1000):
        assert not judge_bulk(plan, replace(run, seconds=factor * run.seconds)).verdict.passed, (
            kind,
            factor,
        )
        busiest = max(run.links, key=lambda link: run.links[link].bytes)
        count = replace(run.links[busiest], bytes=int(factor * run.links[busiest].bytes))
        assert "link-bytes" in keys_failed(
            judge_bulk(plan, replace(run, links={**run.links, busiest: count})).verdict
        )
        late = replace(first, done_s=factor * (first.done_s or 0.0))
        if factor != 2 or kind != "packet":  # so long another one may have taken
            assert "verified" in keys_failed(
                judge_bulk(plan, replace(run, transfers=(late, *others))).verdict
            ), factor


def test_packets_that_share_links_cross_each_of_them_once_at_least() -> None:
    """On switches: acknowledgements of packets out of order, and what TCP sent again, are more; half is none."""
    plan = replace(plan_of(1_000_000), switching="packet", injected=0)
    again = dict.fromkeys(range(len(plan.transfers)), TcpRetransmissions(500_000, 60))
    assert judged(plan, 400_000, retransmitted=again).passed
    for more in (1_000_000, -500_000):
        assert keys_failed(judged(plan, more)) == ["link-bytes"], more


def keys_failed(verdict: Verdict) -> list[str]:
    return [check.key for check in verdict.checks if check.outcome == "fails"]
