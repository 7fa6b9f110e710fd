"""Striped-file plans: who runs where, what is accessed, what that puts on the links, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.fault import Fault, FaultTimes, KilledProcess
from testbed.striping.access import ACCESSES, access_blocks, bytes_per_subfile
from testbed.striping.emulated.machine_ends import patience_s
from testbed.striping.judgement import judge_striping
from testbed.striping.measurements import ClientError, OperationRecord, StripingMeasurements
from testbed.striping.oracle import data_of, expected_subfiles, file_content
from testbed.striping.placement import place
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import predict
from testbed.striping.workload import run_striping, striping_plan
from topologies import load_network


def plan(network: str = "crossbar:4", **options: object) -> StripingPlan:
    chosen = {"compute_nodes": 2, "io_nodes": 2, "file_bytes": 4000} | options
    return striping_plan(network, **chosen)  # type: ignore[arg-type]


MEGABYTE = {"bytes": 1_000_000, "messages": 2, "requests": 2, "fragments": 5000, "disk_calls": 2}
"""What one process counts that writes as much to two I/O nodes in stripe units of 200 bytes."""


def record(**fields: object) -> OperationRecord:
    known = {
        "direction": "write",
        "attempt": 1,
        "under_faults": False,
        "seconds": 1.0,
        "bytes": 4000,
        "messages": 1,
        "fragments": 1,
        "requests": 1,
        "disk_calls": 1,
        "verified": True,
    }
    return OperationRecord(**(known | fields))  # type: ignore[arg-type]


def test_a_connection_may_be_silent_as_long_as_a_large_file_takes() -> None:
    large = plan(
        "crossbar:2",
        file_bytes=1_000_000_000,
        link_rate_bps=5e6,
        scheduling="liquid",
        switching="circuit",
    )
    assert large.liquid_s == pytest.approx(2 * 250e6 * 8 / 5e6)
    assert patience_s(large) > 2 * large.liquid_s
    assert patience_s(plan(scheduling="liquid", switching="circuit")) == 120.0
    at_once = plan("crossbar:2", file_bytes=1_000_000_000, link_rate_bps=5e6)
    assert patience_s(at_once) == patience_s(large) == 4 * large.liquid_s
    assert patience_s(plan()) == 12.0 > patience_s(plan(faults="s1->t0@1-2")) == 2.0


def test_compute_nodes_send_and_io_nodes_receive_on_swiss_t1() -> None:
    placed = place(load_network("swiss-t1"), 3, 2)
    assert placed.compute == ("t0", "t1", "t2") and placed.io == ("r0", "r1")
    assert placed.aliases == {"p1": "r0", "p2": "r1"}
    assert placed.file_name("a.dat") == "r0/a.dat;r1/a.dat;"


def test_hosts_without_roles_compute_from_the_front_and_store_at_the_end() -> None:
    placed = place(load_network("ring:4"), 3, 2)
    assert placed.compute == ("h0", "h1", "h2") and placed.io == ("h3", "h2")
    assert placed.paths["h2", "h2"] == () and ("h2", "h2") not in placed.remote


def test_random_placement_takes_different_hosts_by_the_seed() -> None:
    network = load_network("swiss-t1")
    drawn = {place(network, 4, 4, order="random", seed=seed).compute for seed in range(5)}
    assert len(drawn) == 5
    assert place(network, 4, 4, order="random", seed=2) == place(
        network, 4, 4, order="random", seed=2
    )


@pytest.mark.parametrize("access", ACCESSES)
def test_blocks_of_all_processes_cover_the_file_once(access: str) -> None:
    blocks = access_blocks(access, 8 * 30 * 30, 7, block_bytes=45, seed=3)  # type: ignore[arg-type]
    seen = np.zeros(8 * 30 * 30, dtype=int)
    for own in blocks:
        for offset, size in zip(own.offsets, own.sizes, strict=True):
            seen[offset : offset + size] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("unit", [1, 7, 200, 100_000])
def test_shares_are_what_the_subfiles_hold_of_the_blocks(access: str, unit: int) -> None:
    size = 8 * 20 * 20
    blocks = access_blocks(access, size, 3, block_bytes=33, seed=1)  # type: ignore[arg-type]
    for own in blocks:
        marked = np.zeros(size, dtype=np.uint8)
        for offset, length in zip(own.offsets, own.sizes, strict=True):
            marked[offset : offset + length] = 1
        counted = [int(part.sum()) for part in expected_subfiles(marked, unit, 4)]
        assert bytes_per_subfile(own, unit, 4).tolist() == counted


def test_the_oracle_lays_the_thesis_text_out_as_figure_11_does() -> None:
    text = np.frombuffer(b"Good*morning!Bonjour!Buona*mattina!", dtype=np.uint8)
    assert [part.tobytes() for part in expected_subfiles(text, 5, 2)] == [
        b"Good*ng!Bo!Buontina!",
        b"morninjoura*mat",
    ]


def test_data_are_the_bytes_of_the_blocks_in_their_order() -> None:
    content = file_content(1000, 7)
    (only,) = access_blocks("random", 1000, 1, block_bytes=100, seed=2)
    data = data_of(content, only)
    for number, offset in enumerate(only.offsets.tolist()):
        assert (data[number * 100 : (number + 1) * 100] == content[offset : offset + 100]).all()


def test_liquid_throughput_is_the_file_over_its_busiest_link() -> None:
    assert plan(compute_nodes=1, io_nodes=3, file_bytes=6000).liquid_links == pytest.approx(1.0)
    assert plan(compute_nodes=2, io_nodes=2, file_bytes=8000).liquid_links == pytest.approx(2.0)
    skewed = plan(
        compute_nodes=2, io_nodes=2, access="strided", access_block_bytes=200, file_bytes=8000
    )
    assert set(skewed.volumes) == {("t0", "r0"), ("t1", "r1")}, (
        "a block is a stripe unit: nothing crosses over"
    )
    assert skewed.liquid_links == pytest.approx(2.0)


def test_liquid_schedule_has_a_frame_per_transfer_of_the_bottleneck() -> None:
    network = "swiss-t1:allocation=2-2-2-2-0-0-0-0"
    scheduled = plan(
        network,
        compute_nodes=8,
        io_nodes=8,
        file_bytes=640_000,
        scheduling="liquid",
        switching="circuit",
    )
    assert len(scheduled.transfers) == 64
    assert len(scheduled.frames) == scheduled.bulk_plan().bottleneck_load
    unscheduled = plan(
        network, compute_nodes=8, io_nodes=8, file_bytes=640_000, switching="circuit"
    )
    assert predict(scheduled, 9000).throughput_bps > 1.2 * predict(unscheduled, 9000).throughput_bps  # type: ignore[union-attr]


def test_without_schedule_and_circuits_nobody_waits_for_a_turn() -> None:
    assert not plan().coordinated
    assert plan(switching="circuit").coordinated and plan(scheduling="liquid").coordinated


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stripe_unit": 0}, "stripe_unit 0"),
        ({"stripe_unit": -5}, "stripe_unit -5"),
        ({"file_bytes": 0}, "file_bytes 0"),
        ({"compute_nodes": 5}, "--compute-nodes 5"),
        ({"io_nodes": 0}, "io_nodes 0"),
        ({"access": "zigzag"}, "zigzag"),
        ({"access": "random", "access_block_bytes": 0}, "access_block_bytes 0"),
        ({"access": "matrix-columns", "file_bytes": 7}, "matrix"),
        ({"optimise": False, "scheduling": "liquid"}, "--no-optimise"),
        ({"disable": ("sorting",)}, "did you mean sort"),
        ({"disable": ("sort",), "optimise": False}, "--disable needs packet switching"),
        ({"disable": ("sort",), "switching": "circuit"}, "--disable needs packet switching"),
        ({"link_rate_bps": 0.0}, "link_rate_bps 0"),
    ],
)
def test_impossible_plans_are_refused_by_name(options: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named.replace("-", "\\-")):
        plan(**options)


def test_links_without_a_way_back_are_refused() -> None:
    with pytest.raises(InputError, match="has no reverse link"):
        plan("two-switch")


def test_a_verdict_fails_where_content_is_wrong_or_throughput_is_short() -> None:
    one = plan(compute_nodes=1, io_nodes=2, file_bytes=1_000_000)
    prediction = predict(one, 9000)
    assert prediction is not None

    def judged(**fields: object) -> object:
        whole = MEGABYTE | {"seconds": prediction.seconds} | fields
        run = StripingMeasurements(
            fabric="emulation", operations=(record(**whole),), mtu_bytes=9000
        )
        return judge_striping(one, run).verdict

    assert judged().passed  # type: ignore[attr-defined]
    assert not judged(verified=False).passed  # type: ignore[attr-defined]
    slow = judged(seconds=prediction.seconds * 1.2)
    assert not slow.passed and slow.exit_code == 1  # type: ignore[attr-defined]
    assert not judged(seconds=prediction.seconds / 1.5).passed, "faster than the links let through"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("file_bytes", "faster", "passed"), [
    (300_000, 1.06, True),  # as measured on switches, of links of 2 Mbit/s: two packets of 9,000 bytes go at once
    (300_000, 1.12, False),
    (3_000_000, 1.02, True),
    (3_000_000, 1.06, False),
])  # fmt: skip
def test_a_short_file_may_be_faster_by_what_rested_links_pass_at_once(
    file_bytes: int, faster: float, passed: bool
) -> None:
    one = plan(compute_nodes=1, io_nodes=1, file_bytes=file_bytes, link_rate_bps=2e6)
    prediction = predict(one, 9000)
    assert prediction is not None
    whole = record(bytes=file_bytes, seconds=prediction.seconds / faster)
    run = StripingMeasurements(fabric="emulation", operations=(whole,), mtu_bytes=9000)
    assert judge_striping(one, run).verdict.passed is passed


def test_fault_errors_must_be_timely_and_the_second_attempt_must_succeed() -> None:
    one = plan(compute_nodes=1, io_nodes=2, file_bytes=1_000_000)
    one = replace(one, killed=(KilledProcess(node=one.placement.io[0], at_s=0.1),))
    prediction = predict(one, 9000)
    assert prediction is not None

    def judged(since_fault_s: float, *later: OperationRecord) -> bool:
        error = ClientError(
            rank=0, node="t0", text="r0: gone", after_s=since_fault_s, since_fault_s=since_fault_s
        )
        broken = record(under_faults=True, errors=(error,), verified=False)
        run = StripingMeasurements(fabric="emulation", operations=(broken, *later), mtu_bytes=9000)
        return judge_striping(one, run).verdict.passed

    again = record(attempt=2, **MEGABYTE, seconds=prediction.seconds)
    assert judged(1.6, again)
    assert not judged(9.0, again)
    assert not judged(-0.1, again), "before the fault"
    error = ClientError(rank=0, node="t0", text="r0: gone", after_s=1.0, since_fault_s=1.0)
    assert not judged(1.6, record(attempt=2, errors=(error,)))


def test_a_write_under_faults_that_never_came_cannot_tell() -> None:
    fault = Fault(link=("s1", "t0", 0), start_s=0.1, stop_s=0.6)
    one = plan(compute_nodes=1, io_nodes=2, file_bytes=1_000_000)
    prediction, cut = predict(one, 9000), replace(one, faults=(fault,))
    killed = replace(one, killed=(KilledProcess(node=one.placement.io[0], at_s=0.1),))
    assert prediction is not None
    whole = record(under_faults=True, **MEGABYTE, seconds=prediction.seconds)

    def exit_code(of: StripingPlan, first: OperationRecord, *came: FaultTimes) -> int:
        again = record(attempt=2, **MEGABYTE, seconds=prediction.seconds)
        run = StripingMeasurements(
            fabric="emulation", operations=(first, again), mtu_bytes=9000, faults=came
        )
        return judge_striping(of, run).verdict.exit_code

    came = FaultTimes(fault=fault, start_s=0.101, stop_s=0.603)
    assert exit_code(cut, whole, came) == 0
    assert (
        exit_code(cut, whole)
        == exit_code(cut, replace(whole, under_faults=False))
        == exit_code(killed, whole)
        == 5
    )
    assert exit_code(cut, whole, replace(came, start_s=3.1, stop_s=3.6)) == 5
    assert exit_code(one, replace(whole, under_faults=True)) == 5, "no fault was planned"
    for count in ("messages", "fragments", "requests", "disk_calls"):
        nothing: dict[str, Any] = {count: 0}
        assert exit_code(cut, replace(whole, **nothing), came) == 1, (
            f"the file came without {count}"
        )


def test_errors_are_due_half_a_second_after_a_silent_listener_is_given_up() -> None:
    one = plan(compute_nodes=1, io_nodes=2, file_bytes=1_000_000)
    for first_s, last_s, passed in (
        (0.0, 2.5, True),
        (0.0, 2.51, False),
        (-0.01, 1.0, False),
        (2.6, 0.1, False),
    ):
        errors = tuple(
            ClientError(rank=k, node=f"t{k}", text=f"text {k}", after_s=1.0, since_fault_s=since_s)
            for k, since_s in enumerate((first_s, last_s))
        )
        run = StripingMeasurements(
            fabric="emulation",
            operations=(record(under_faults=True, errors=errors, verified=False),),
            mtu_bytes=9000,
        )
        check = next(c for c in judge_striping(one, run).verdict.checks if c.key == "failures-told")
        assert (check.passed, check.measured) == (passed, max(first_s, last_s))
        assert check.detail == f"2 failed; t{int(last_s > first_s)}: text {int(last_s > first_s)}"


def test_packets_carry_data_without_their_headers() -> None:
    assert plan(link_rate_bps=9014e3).goodput_bps(9000) == pytest.approx(8948e3)
    assert plan(link_rate_bps=1514e3).goodput_bps(1500) == pytest.approx(1448e3)


@pytest.mark.parametrize(("switching", "change_s"), [("circuit", 0.008), ("packet", 0.004)])
def test_liquid_schedule_takes_a_change_and_the_longest_transfer_per_frame(
    switching: str, change_s: float
) -> None:
    chosen = plan(
        "crossbar:4", file_bytes=400_000, scheduling="liquid", switching=switching, stripe_unit=1000
    )
    prediction = predict(chosen, 9000)
    assert prediction is not None and len(chosen.frames) == 2
    assert prediction.seconds == pytest.approx(
        2 * (100_000 * 8 / chosen.goodput_bps(9000) + change_s)
    )
    assert prediction.throughput_bps == pytest.approx(400_000 * 8 / prediction.seconds)
    assert prediction.liquid_throughput_bps == pytest.approx(2 * chosen.goodput_bps(9000))
    most = (
        1.02 / (1 - 18_000 / 100_000) * prediction.liquid_throughput_bps / prediction.throughput_bps
    )
    assert (prediction.least_ratio, prediction.most_ratio) == (0.9, pytest.approx(min(10.0, most)))
    tiny = predict(
        plan(
            "crossbar:4", file_bytes=4000, scheduling="liquid", switching=switching, stripe_unit=100
        ),
        9000,
    )
    assert tiny is not None
    most = 1.02 * 2 * tiny.liquid_throughput_bps / tiny.throughput_bps
    assert tiny.most_ratio == pytest.approx(min(10.0, most)), (
        "twice as fast, where all of it goes at once"
    )


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"compute_nodes": 1}, 0.9),
        ({"compute_nodes": 1, "access": "random", "access_block_bytes": 100}, 0.3),
        ({"scheduling": "liquid"}, 0.9),
        ({"scheduling": "liquid", "access": "random", "access_block_bytes": 100}, 0.5),
        ({"switching": "circuit"}, 0.8),
        ({}, 0.3),
        (
            {
                "file_bytes": 1_000_200,
                "stripe_unit": 300_000,
                "scheduling": "liquid",
                "switching": "circuit",
            },
            0.3,
        ),
    ],
)
def test_required_share_of_a_prediction_depends_on_the_access(
    options: dict[str, object], least: float
) -> None:
    found = predict(plan(**({"file_bytes": 1_000_000} | options)), 9000)
    assert found is not None and found.least_ratio == least


def test_sums_count_only_operations_that_ended() -> None:
    one = plan(compute_nodes=1, io_nodes=2, file_bytes=4000, operation="both")
    error = ClientError(rank=0, node="t0", text="gone", after_s=1.0, since_fault_s=1.0)
    operations = (
        record(seconds=2.0, messages=3, fragments=5, disk_calls=7, queue_drops=2),
        record(
            direction="read", seconds=0.5, messages=10, fragments=20, disk_calls=30, queue_drops=1
        ),
        record(under_faults=True, errors=(error,), verified=False, seconds=9.0),
    )
    run = StripingMeasurements(fabric="emulation", operations=operations, mtu_bytes=9000)
    judged = judge_striping(one, run)
    document = judged.document
    assert [document[name] for name in ("bytes", "seconds", "messages", "fragments", "disk_calls")] == [
        8000, 2.5, 13, 25, 37,
    ]  # fmt: skip
    assert (document["throughput_bps"], document["verified"]) == (8000 * 8 / 2.5, True)
    assert document["typical_throughput_bps"] == {"write": 16_000.0, "read": 64_000.0}
    assert judged.verdict.notes == ("3 packets were dropped at full queues and sent again",)
    shared = plan("ring:4", compute_nodes=3, io_nodes=2)
    calm = StripingMeasurements(fabric="emulation", operations=(record(),), mtu_bytes=9000)
    assert judge_striping(shared, calm).verdict.notes == (
        "some processes share a host with an I/O node: their bytes cross no link",
    )
    failed = record(
        failure="it hung", errors=tuple(replace(error, text=f"text {k}") for k in range(3))
    )
    run = StripingMeasurements(fabric="emulation", operations=(failed,), mtu_bytes=9000)
    check = next(c for c in judge_striping(one, run).verdict.checks if c.key == "no-process-failed")
    assert (check.passed, check.measured, check.detail) == (False, 3, "it hung")
    named = replace(run, operations=(replace(failed, failure=None),))
    check = next(
        c for c in judge_striping(one, named).verdict.checks if c.key == "no-process-failed"
    )
    assert check.detail == "t0: text 0; t0: text 1"


@pytest.mark.parametrize("options", [
    {}, {"stripe_unit": 10}, {"access": "strided", "access_block_bytes": 50}, {"access": "random"},
    {"access": "matrix-columns"}, {"compute_nodes": 1, "operation": "read"}, {"stripe_unit": 3000},
])  # fmt: skip
def test_counts_of_a_real_file_that_its_plan_cannot_have_do_not_pass(
    options: dict[str, Any], tmp_path: Path
) -> None:
    one = plan(
        "swiss-t1:allocation=2-2-0-0-0-0-0-0",
        **({"file_bytes": 80_000, "operation": "both"} | options),
    )
    run = run_striping(one, tmp_path, fabric="simulator")
    assert judge_striping(one, run).verdict.passed
    for count, factor in product(
        ("bytes", "messages", "fragments", "requests", "disk_calls"), (1000, 0.5)
    ):
        for number, record in enumerate(run.operations):
            if (
                factor < 1
                and record.disk_calls > record.messages
                and count in ("requests", "disk_calls")
            ):
                continue  # messages of several runs, of which the disk may take many at once
            spoilt = replace(record, **{count: int(factor * getattr(record, count))})
            operations = (*run.operations[:number], spoilt, *run.operations[number + 1 :])
            verdict = judge_striping(one, replace(run, operations=operations)).verdict
            assert "content" in [
                check.key for check in verdict.checks if check.outcome == "fails"
            ], (count, spoilt)


def test_impossible_counts_make_the_run_invalid(tmp_path: Path) -> None:
    one = plan("crossbar:4", file_bytes=80_000)
    run = run_striping(one, tmp_path, fabric="simulator")
    (record,) = run.operations
    counts: tuple[dict[str, Any], ...] = (
        {"thread_delay_s": 0.1},
        {"deadlocks": 1},
        {"rule_changes": 1},
    )
    wrong = [replace(run, operations=(replace(record, **changes),)) for changes in counts]
    for spoilt in (*wrong, replace(run, mtu_bytes=4500)):
        assert judge_striping(one, spoilt).verdict.exit_code == 4, spoilt
    circuits = plan("crossbar:4", file_bytes=80_000, scheduling="liquid", switching="circuit")
    changed = replace(run, fabric="emulation", operations=(replace(record, rule_changes=10),))
    assert judge_striping(circuits, changed).verdict.invalid is None
    assert judge_striping(one, changed).verdict.exit_code == 4, "packets need none"
