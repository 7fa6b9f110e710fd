"""What the verdict of a bulk run counts and where its limits are, by hand: bytes of links, time that links were busy,
time that TCP took, how late a machine may be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from testbed.bulk.calibration import concurrent_goodput, machine_lag, single_path_goodput
from testbed.bulk.facts import BulkFacts, expected_bytes
from testbed.bulk.judgement import judge_bulk
from testbed.bulk.measurements import BulkMeasurements, Goodput, LinkCount, TcpRetransmissions
from testbed.bulk.messages import OVERHEAD_BYTES
from testbed.bulk.plan import BulkPlan
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import bulk_plan
from testbed.model.verdict import Check
from tests.helpers.strains import CALM
from topologies import reverse_of

LATE = "stood still"


def plan_of(message_bytes: int) -> BulkPlan:
    """Three time frames at 20 Mbit/s: of 1 MB 0.4 s each."""
    return bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=message_bytes)


def on_switches(plan: BulkPlan, **changes: Any) -> BulkMeasurements:
    """A run as virtual time has it, whose links carried what the schedule puts on them."""
    run = SimulatedBulkFabric().run(plan)
    links = {
        link: LinkCount(packets=0, bytes=round(octets), queue_drops=0)
        for link, octets in expected_bytes(plan, run.packet_payload_bytes).items()
    }
    injection: dict[str, Any] = {"injected": plan.injected, "dropped": {"s1": plan.injected}}
    fields: dict[str, Any] = {"fabric": "emulation", "links": links, "strain": CALM, **injection}
    return replace(run, **{**fields, **changes})


def invalid(plan: BulkPlan, **changes: Any) -> str:
    return str(judge_bulk(plan, on_switches(plan, **changes)).verdict.invalid or "")


def check_of(plan: BulkPlan, key: str, **changes: Any) -> Check:
    return next(
        one
        for one in judge_bulk(plan, on_switches(plan, **changes)).verdict.checks
        if one.key == key
    )


@pytest.mark.parametrize("packets", [1, 3])
@pytest.mark.parametrize("more", [0, 1])
def test_links_carry_headers_and_half_as_many_acknowledgements(packets: int, more: int) -> None:
    plan = plan_of(packets * 1448 - OVERHEAD_BYTES + more)
    forward, back = packets * 1448 + more + 66 * (packets + more), 66 * (packets + more) / 2
    links = set(plan.loads) | {reverse_of(link) for link in plan.loads}
    assert expected_bytes(plan, 1448) == {
        link: plan.loads.get(link, 0) * forward + plan.loads.get(reverse_of(link), 0) * back
        for link in links
    }


def test_tcp_retransmissions_count_on_each_link_of_their_path() -> None:
    plan = plan_of(1_000_000)
    again = {0: TcpRetransmissions(1000, 2), 1: TcpRetransmissions(500, 1, 3)}
    found = BulkFacts(plan, on_switches(plan, retransmitted=again)).retransmitted_bytes
    for link in plan.loads:
        paths = [plan.transfers[number].path for number in (0, 1)]
        assert found.get(link, 0) == (link in paths[0]) * 1132 + (link in paths[1]) * 566


def test_the_worst_link_is_the_one_that_differs_most_in_its_own_bytes() -> None:
    plan = plan_of(1_000_000)
    run = on_switches(plan)
    error, _ = BulkFacts(plan, run).counter_error
    assert error < 1e-6
    link = plan.transfers[0].path[1]
    expected = expected_bytes(plan, 1448)[link]
    for factor in (0.9, 1.1):
        changed = {**run.links, link: replace(run.links[link], bytes=round(factor * expected))}
        error, worst = BulkFacts(plan, replace(run, links=changed)).counter_error
        assert (error, worst) == (pytest.approx(0.1, rel=1e-3), link)
    unused = next(one.id for one in plan.network.links if one.id not in expected_bytes(plan, 1448))
    astray = replace(
        run, links={**run.links, unused: LinkCount(packets=9, bytes=500_000, queue_drops=0)}
    )
    assert BulkFacts(plan, astray).counter_error == (0.5, unused), "in parts of a message"
    missing = replace(run, links={one: count for one, count in run.links.items() if one != link})
    assert BulkFacts(plan, missing).counter_error == (1.0, link)
    virtual = SimulatedBulkFabric().run(plan)
    assert BulkFacts(plan, virtual).counter_error[0] == 0, "no headers in virtual time"


def test_a_link_is_busy_while_a_transfer_of_that_frame_sends_over_it() -> None:
    plan = plan_of(1_000_000)
    run = SimulatedBulkFabric().run(plan)
    frames = ((1.0, 3.0), (3.0, 3.0), (4.0, 5.0))

    def busy(start_s: float | None, done_s: float | None, frame: int = 0) -> float:
        number = plan.frames[frame][0]
        record = replace(run.transfers[number], transfer=number, started_s=start_s, done_s=done_s)
        one = replace(run, transfers=(record,), frame_times_s=frames)
        link = record.path[0]
        ((found, shares),) = BulkFacts(plan, one).busy_fractions([link]).items()
        assert (
            found == link
            and len(shares) == 3
            and all(share == 0 for k, share in enumerate(shares) if k != frame)
        )
        return shares[frame]

    assert busy(1.5, 2.0) == 0.25
    assert busy(0.0, 2.0) == 0.5 and busy(2.5, 9.0) == 0.25, (
        "what lies outside its frame is left out"
    )
    assert busy(0.0, 9.0) == 1.0 and busy(0.0, 0.5) == 0.0
    assert busy(None, 2.0) == busy(1.5, None) == 0.0
    assert busy(3.0, 3.5, frame=1) == 0.0, "a frame of no time"
    assert busy(4.5, 5.0, frame=2) == 0.5
    both = [replace(run.transfers[n], started_s=1.0, done_s=3.0) for n in plan.frames[0]]
    first = both[0].path[0]
    doubled = replace(run, transfers=(both[0], both[0]), frame_times_s=frames[:1])
    assert BulkFacts(plan, doubled).busy_fractions([first]) == {first: (1.0,)}


def test_tcp_occupies_each_frame_as_long_as_its_longest_repetition() -> None:
    plan = plan_of(1_000_000)
    (first, second), third = plan.frames[0][:2], plan.frames[1][0]

    def took_s(again: dict[int, TcpRetransmissions]) -> float:
        return BulkFacts(plan, on_switches(plan, retransmitted=again)).retransmission_s

    one, two = TcpRetransmissions(9934, 1), TcpRetransmissions(19868, 2)
    assert took_s({}) == 0
    assert took_s({first: one}) == pytest.approx(0.004)
    assert (
        took_s({first: one, second: two})
        == took_s({first: two, second: one})
        == pytest.approx(0.008)
    )
    assert took_s({first: one, third: two}) == pytest.approx(0.012)
    assert took_s({first: TcpRetransmissions(9934, 1, 2)}) == pytest.approx(0.404), (
        "each time-out is 0.2 s"
    )


def test_the_throughput_of_a_schedule_lies_between_its_limits() -> None:
    for message_bytes, most in ((1_000_000, 1.05 / (1 - 0.018)), (20_000, 1.05 / 0.5)):
        plan = plan_of(message_bytes)
        seconds = len(plan.frames) * plan.message_s
        for ratio, passed in (
            (0.951, True),
            (0.949, False),
            (0.999 * most, True),
            (1.001 * most, False),
        ):
            check = check_of(plan, "throughput", seconds=seconds / ratio)
            assert check.passed == passed and check.measured == pytest.approx(ratio)
            assert ("at most" in check.detail) == (ratio > most)


def test_another_order_lies_within_a_tenth_of_its_run_in_virtual_time() -> None:
    plan = bulk_plan(
        "swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=1_000_000, scheduling="round-robin"
    )
    run = SimulatedBulkFabric().run(plan)
    predicted = check_of(plan, "throughput").predicted
    assert predicted is not None
    for off, passed in ((-0.099, True), (-0.101, False), (0.099, True), (0.101, False)):
        check = check_of(plan, "throughput", seconds=run.seconds * predicted / (predicted + off))
        assert check.passed == passed, off


@pytest.mark.parametrize(
    ("message_bytes", "limit_s"), [(1_000_000, 0.024), (300_000, 0.01), (100_000, 0.006)]
)
def test_a_machine_may_stand_still_for_part_of_what_the_run_may_lose(
    message_bytes: int, limit_s: float
) -> None:
    """Of 5 % of the predicted time 40 %; in shorter runs 10 ms, but never more than all of it."""
    plan = plan_of(message_bytes)
    for factor, says in ((0.98, False), (1.02, True)):
        late = replace(CALM, worst_lateness_s=factor * limit_s)
        assert (LATE in invalid(plan, strain=late)) == says


def test_a_thread_may_wake_so_late_on_average() -> None:
    for late_s, says in ((0.00149, False), (0.00151, True)):
        assert (
            "late on average"
            in invalid(plan_of(1_000_000), strain=replace(CALM, mean_lateness_s=late_s))
        ) == says
    assert not invalid(plan_of(1_000_000), strain=None), "nobody measured it"


def test_changes_of_circuits_may_take_as_long_as_a_machine_may_stand_still() -> None:
    plan = plan_of(1_000_000)
    assert not invalid(plan, rule_changes=3, circuit_change_s=0.0235)
    words = invalid(plan, rule_changes=3, circuit_change_s=0.0246)
    assert (
        "3 changes of circuits took 8.2 ms each, 2.1% of the predicted time (limit 2.0%)" in words
    )
    assert "longer time frames" in words


def test_tcp_retransmissions_and_circuit_changes_count_together() -> None:
    plan = plan_of(1_000_000)  # it may lose 0.06 s
    first = plan.frames[0][0]
    for packets, says in ((10, False), (11, True)):  # 3.6 ms a packet, and 0.0239 s of changes
        again = {first: TcpRetransmissions(packets * 8948, packets)}
        words = invalid(plan, retransmitted=again, rule_changes=3, circuit_change_s=0.0239)
        assert (f"TCP sent {packets} packets again, 0 after" in words) == says, words


def test_strays_are_counted_in_packets_of_the_largest_size() -> None:
    plan = plan_of(1_000_000)
    own = len(plan.transfers) * 1_000_000 // 8948
    for strays, passed in ((int(0.03 * own), True), (int(0.03 * own) + 1, False)):
        check = check_of(plan, "own-dropped", dropped={"s1": plan.injected, "s2": strays})
        assert check.passed == passed and check.measured == pytest.approx(strays / own)


def test_injected_packets_are_dropped_all_of_them() -> None:
    plan = plan_of(1_000_000)
    assert plan.injected > 2
    for dropped, passed in (
        (plan.injected, True),
        (plan.injected - 1, False),
        (plan.injected + 1, True),
    ):
        assert check_of(plan, "injected-dropped", dropped={"s1": dropped}).passed == passed
    none = replace(plan, injected=0)
    assert "injected-dropped" not in {
        c.key for c in judge_bulk(none, on_switches(none)).verdict.checks
    }


def test_notes_name_five_deadlocks_and_count_the_others() -> None:
    plan = plan_of(1_000_000)

    def notes(count: int) -> list[str]:
        run = on_switches(plan, deadlocks=tuple(f"number {k}" for k in range(count)))
        return [note for note in judge_bulk(plan, run).verdict.notes if "deadlock" in note]

    assert notes(5) == [f"deadlock broken: number {k}" for k in range(5)]
    assert notes(7) == [*notes(5), "and 2 more deadlocks"]
    assert notes(6)[5:] == ["and 1 more deadlocks"]


def test_the_row_counts_messages_once_and_sums_what_links_and_switches_say() -> None:
    plan = plan_of(1_000_000)
    run = on_switches(plan)
    links = {link: replace(count, queue_drops=2) for link, count in run.links.items()}
    records = tuple(
        replace(r, deliveries=2, attempts=2) if k == 0 else r for k, r in enumerate(run.transfers)
    )
    records = (*records[:-1], replace(records[-1], done_s=None, deliveries=0))
    row = judge_bulk(
        plan, replace(run, transfers=records, links=links, dropped={"s1": 4, "s2": 3})
    ).document
    count = len(plan.transfers)
    assert (row["messages_verified"], row["verified"]) == (count - 2, False)
    assert row["bytes"] == (count - 1) * 1_000_000
    assert row["throughput_bps"] == pytest.approx(row["bytes"] * 8 / row["seconds"])
    assert row["ratio"] == pytest.approx(row["throughput_bps"] / row["liquid_throughput_bps"])
    assert row["liquid_throughput_bps"] == pytest.approx(20e6 * count / plan.bottleneck_load)
    assert row["retried_transfers"] == [plan.transfers[0].name]
    assert (row["dropped_packets"], row["queue_drops"]) == (7, 2 * len(links))
    assert (row["rounds"], row["frames"], row["predicted_ratio"]) == (
        None,
        len(plan.frames),
        pytest.approx(1.0),
    )
    assert [load for _, load, _ in row["link_loads"]] == list(plan.loads.values())
    assert [octets for _, _, octets in row["link_loads"]] == [
        run.links[link].bytes for link in plan.loads
    ]
    assert judge_bulk(plan, on_switches(plan, seconds=0.0)).document["throughput_bps"] == 0.0


def test_messages_are_calibrated_for_six_tenths_of_a_second() -> None:
    def counts(message_bytes: int) -> tuple[int, int]:
        plan = plan_of(message_bytes)
        return single_path_goodput(plan).count, concurrent_goodput(plan).count

    assert counts(2_000_000) == (3, 2)
    assert counts(600_000) == (3, 3)  # 0.24 s each
    assert counts(400_000) == (4, 4)
    assert counts(90_000) == (16, 16)


def test_longest_path_is_calibrated_and_disjoint_bottlenecks_first() -> None:
    plan = bulk_plan("swiss-t1:allocation=2-2-1-0-1-0-0-0", message_bytes=1_000_000)
    (alone,) = single_path_goodput(plan).transfers
    hops = [len(transfer.path) for transfer in plan.transfers]
    assert alone == hops.index(max(hops)), "of equals the first"
    together = concurrent_goodput(plan).transfers
    paths = [set(plan.transfers[number].path) for number in together]
    assert list(together) == sorted(together) and sum(map(len, paths)) == len(set().union(*paths))
    assert len(together) <= round(float(plan.liquid_links))
    if len(together) < round(float(plan.liquid_links)):
        used = set().union(*paths)
        assert all(used & set(t.path) for k, t in enumerate(plan.transfers) if k not in together), (
            "no room is left"
        )
    hard = [len(set(transfer.path) & set(plan.bottlenecks)) for transfer in plan.transfers]
    assert hard.index(max(hard)) in together


def test_messages_are_too_short_if_two_packets_exceed_half_the_tolerance() -> None:
    slow = Goodput(single_path_bps=10e6, concurrent_bps=9e6, concurrent_paths=4)
    edge = 18_000 / ((1 - 0.965) / 2) / 16
    for message_bytes, hint in (
        (math.floor(edge), "a larger --message-size"),
        (math.ceil(edge) + 1, "lower --link-rate"),
    ):
        assert hint in str(machine_lag(plan_of(message_bytes), slow))
    assert machine_lag(plan_of(1000), replace(slow, concurrent_bps=9.65e6)) is None
    assert machine_lag(plan_of(1000), replace(slow, concurrent_bps=9.649e6)) is not None


def test_messages_in_packets_share_links_and_messages_over_circuits_do_not() -> None:
    for switching, right in (("packet", True), ("circuit", False)):
        plan = replace(plan_of(1_000_000), switching=switching, injected=0)  # type: ignore[arg-type]
        records = SimulatedBulkFabric().run(plan).transfers
        at_once = tuple(replace(one, started_s=0.0, done_s=1.2) for one in records)
        assert check_of(plan, "verified", transfers=at_once, seconds=1.2).passed == right
