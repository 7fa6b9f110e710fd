"""A run on a machine that did not keep up is invalid, whatever it achieved; one that did is judged by what it
achieved."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from testbed.model.verdict import Verdict
from testbed.striping.emulated.fabric import worst_strain
from testbed.striping.facts import StripingFacts
from testbed.striping.judgement import (
    MAX_LATE_FRACTION,
    delay_by_late_threads_s,
    invalid_reason,
    judge_striping,
)
from testbed.striping.measurements import OperationRecord, StripingMeasurements
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import change_allowance_s, predict
from testbed.striping.workload import striping_plan
from tests.helpers.strains import CALM
from topologies import load_network


def plan(**options: Any) -> StripingPlan:
    network = load_network("swiss-t1:allocation=2-2-0-0-0-0-0-0")
    return striping_plan(network, 4, 4, **{"file_bytes": 1_600_000} | options)


def judged(chosen: StripingPlan, *operations: dict[str, Any]) -> tuple[int, str | None]:
    verdict = verdict_of(chosen, *operations)
    return verdict.exit_code, verdict.invalid


def verdict_of(
    chosen: StripingPlan, *operations: dict[str, Any], fabric: str = "emulation"
) -> Verdict:
    prediction = predict(chosen, 9000)
    assert prediction is not None
    pieces = sum(
        int(((one.offsets + one.sizes - 1) // 200 - one.offsets // 200 + 1).sum())
        for one in chosen.blocks
    )
    usual: dict[str, Any] = {
        "direction": "write", "attempt": 1, "under_faults": False, "seconds": prediction.seconds, "bytes": 1_600_000,
        "messages": 16, "fragments": pieces, "requests": 16, "disk_calls": 16, "verified": True,
        "machine_load": CALM,
    }  # fmt: skip
    records = tuple(OperationRecord(**(usual | fields)) for fields in operations)
    run = StripingMeasurements(fabric=fabric, operations=records, mtu_bytes=9000)
    return judge_striping(chosen, run).verdict


LIQUID: dict[str, Any] = {"scheduling": "liquid", "switching": "circuit"}


def test_slow_run_is_invalid_only_on_a_slow_machine() -> None:
    chosen = plan(**LIQUID)
    seconds = 2 * predict(chosen, 9000).seconds  # type: ignore[union-attr]
    allowed_s = change_allowance_s(chosen) * len(chosen.frames)
    assert judged(chosen, {"seconds": seconds})[0] == 1
    kept_up_s = allowed_s + 0.9 * MAX_LATE_FRACTION * seconds
    assert judged(chosen, {"seconds": seconds, "thread_delay_s": kept_up_s})[0] == 1
    code, why = judged(
        chosen,
        {"seconds": seconds, "thread_delay_s": allowed_s + 1.1 * MAX_LATE_FRACTION * seconds},
    )
    assert (
        code == 4
        and why is not None
        and "threads were late for 13%" in why
        and "--link-rate" in why
    )


def test_the_outcome_does_not_matter_to_whether_the_machine_kept_up() -> None:
    chosen = plan(**LIQUID)
    seconds = predict(chosen, 9000).seconds  # type: ignore[union-attr]
    assert judged(chosen, {})[0] == 0
    assert judged(chosen, {"thread_delay_s": seconds / 2})[0] == 4, "fast enough, and yet"


@pytest.mark.parametrize("options", [{}, LIQUID], ids=["packets", "liquid"])
def test_a_file_too_short_is_undecided_and_a_sufficient_size_is_named(
    options: dict[str, Any],
) -> None:
    late = {"bytes": 3200, "seconds": 0.05, "machine_load": replace(CALM, mean_lateness_s=0.004)}
    short = plan(file_bytes=3200, **options)
    assert verdict_of(short, late).exit_code == 5
    assert verdict_of(short, late | {"machine_load": None}, fabric="simulator").exit_code == 1, (
        "nothing has to wake there"
    )
    (sufficient,) = re.findall(r"--file-size (\d+)kB", str(verdict_of(short, late).to_json()))
    longer = plan(file_bytes=1000 * int(sufficient), **options)
    assert judged(longer, {"bytes": longer.file_bytes}) == (0, None)
    assert judged(longer, {"bytes": longer.file_bytes, "seconds": 9.0})[0] == 1


def test_one_late_operation_of_three_is_no_reason() -> None:
    assert judged(plan(**LIQUID, repetitions=3), {}, {"thread_delay_s": 3.0}, {})[0] == 0
    assert (
        judged(plan(**LIQUID, repetitions=3), {"thread_delay_s": 3.0}, {"thread_delay_s": 3.0}, {})[
            0
        ]
        == 4
    )


@pytest.mark.parametrize(
    ("strain", "named"),
    [
        ({"cpu_fraction": 0.97}, "processors were busy for 97%"),
        ({"busiest_task": "switch", "busiest_task_fraction": 0.96}, "its busiest task ran for 96%"),
        ({"mean_lateness_s": 2.0}, "a thread woke 2000.0 ms late on average"),
    ],
)
def test_transfers_all_at_once_need_processors_and_tasks_with_rest(
    strain: dict[str, Any], named: str
) -> None:
    code, why = judged(plan(), {"machine_load": replace(CALM, **strain)})
    assert code == 4 and why is not None and named in why
    assert judged(plan(**LIQUID), {"machine_load": replace(CALM, **strain)})[0] == 0, (
        "turns are judged by their lateness"
    )


def test_processors_that_went_to_other_machines_make_any_run_invalid() -> None:
    for chosen in (plan(), plan(**LIQUID)):
        code, why = judged(chosen, {"machine_load": replace(CALM, stolen_fraction=0.3)})
        assert code == 4 and why is not None and "other machines had 30% of its processors" in why
        assert judged(chosen, {"machine_load": replace(CALM, stolen_fraction=0.1)})[0] == 0


def test_content_check_needs_no_timely_machine_without_a_throughput_check() -> None:
    chosen = plan(optimise=False)
    assert predict(chosen, 9000) is None
    usual = {"direction": "write", "attempt": 1, "under_faults": False, "seconds": 1.0, "bytes": 1_600_000, "messages": 8000,
             "fragments": 8000, "requests": 8000, "disk_calls": 8000, "verified": True}  # fmt: skip
    busy = OperationRecord(**usual, machine_load=replace(CALM, cpu_fraction=1.0))  # type: ignore[arg-type]
    run = StripingMeasurements(fabric="emulation", operations=(busy,), mtu_bytes=9000)
    assert judge_striping(chosen, run).verdict.exit_code == 0
    assert invalid_reason(StripingFacts(chosen, run)) is not None, (
        "a study that compares such runs is told"
    )


def test_a_simulated_run_has_no_machine_to_keep_up() -> None:
    assert judged(plan(), {"machine_load": None})[0] == 0


def test_delay_of_a_time_frame_is_its_latest_transfers() -> None:
    scheduled = plan(**LIQUID)
    late_s = dict.fromkeys(range(len(scheduled.transfers)), 0.01) | {scheduled.frames[0][0]: 0.05}
    assert delay_by_late_threads_s(scheduled, late_s) == pytest.approx(
        0.01 * (len(scheduled.frames) - 1) + 0.05
    )
    as_they_come = plan(switching="circuit")
    first = as_they_come.transfers[0].source
    own = [i for i, t in enumerate(as_they_come.transfers) if t.source == first]
    assert delay_by_late_threads_s(
        as_they_come, dict.fromkeys(own, 0.01) | {i: 0.001 for i in range(16) if i not in own}
    ) == (pytest.approx(0.04))
    empty = StripingMeasurements(fabric="emulation", operations=(), mtu_bytes=9000)
    assert invalid_reason(StripingFacts(scheduled, empty)) is None


def test_every_operation_has_a_bar_of_its_own() -> None:
    from testbed.striping.figures import striping_figures

    records = [
        {"direction": direction, "attempt": attempt, "errors": [], "throughput_bps": 1e6 * number}
        for number, (direction, attempt) in enumerate(
            [("write", 1), ("write", 1), ("write", 2), ("read", 1)], 1
        )
    ]
    found = {
        "operations": records,
        "predicted": None,
        "compute_nodes": 1,
        "io_nodes": 2,
        "stripe_unit_bytes": 75,
    }
    found["file_bytes"] = 1_000_000
    (figure,) = striping_figures([found | {"switching": "packet", "schedule": "none"}]).values()
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [1, 2, 3, 4]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "write",
        "write 2",
        "write (again)",
        "read",
    ]


def test_slowest_of_several_machines_is_judged() -> None:
    full = replace(
        CALM,
        cpu_fraction=0.97,
        busiest_task="switch",
        busiest_task_fraction=0.9,
        worst_lateness_s=0.0,
    )
    found = worst_strain([CALM, full])
    assert found == replace(full, worst_lateness_s=CALM.worst_lateness_s)
    assert (
        judged(plan(), {"machine_load": found})[0] == 4
        and judged(plan(), {"machine_load": worst_strain([CALM, CALM])})[0] == 0
    )
    assert worst_strain([]) is None


def test_operations_that_are_missing_or_of_another_size_do_not_pass() -> None:
    both = plan(**LIQUID, operation="both")
    write, read = {"direction": "write"}, {"direction": "read"}
    assert judged(both, write, read)[0] == 0
    assert [judged(both, *some)[0] for some in ((), (write,), (write, write), (read, write))] == [
        5,
        5,
        5,
        5,
    ]
    seconds = predict(both, 9000).seconds  # type: ignore[union-attr]
    for part in (0.5, 8):
        half = {"bytes": int(1_600_000 * part), "seconds": seconds * part}
        assert judged(both, write | half, read | half)[0] == 1, (
            "as fast as predicted, and not the file"
        )
