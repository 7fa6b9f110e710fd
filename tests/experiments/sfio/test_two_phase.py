"""The study of two-phase access: its verdict on rows that were measured on switches, and on the same spoilt as a rival would have them."""

from __future__ import annotations

from typing import Any

from experiments.sfio import two_phase

Rows = list[dict[str, Any]]


def rows() -> Rows:
    """Of `testbed experiment run sfio_two_phase --quick` on 2 cores, 2026-11-22; what the machine lacked set aside."""
    found = {
        ("write", "two phases"): (27769334, 1.7908),
        ("write", "direct"): (51213421, 1.1000),
        ("write", "liquid"): (61839469, None),
        ("read", "two phases"): (34911061, 1.7821),
        ("read", "direct"): (48334055, 1.0199),
        ("read", "liquid"): (64582562, None),
    }
    return [
        {
            "nodes": 4,
            "operation": operation,
            "way": way,
            "side": 720,
            "seed": 1,
            "throughput_bps": throughput,
            "verified": True,
            "invalid": None,
        }
        | ({} if crossed is None else {"crossed_per_byte": crossed})
        for (operation, way), (throughput, crossed) in found.items()
    ]


def spoilt(operation: str, **change: Any) -> Rows:
    return [row | change if (row["operation"], row["way"]) == (operation, "two phases") else row for row in rows()]


def test_the_measured_rows_hold() -> None:
    verdict = two_phase.judge(rows())
    assert verdict.passed and len(verdict.checks) == 5


def test_a_run_that_sends_nothing_twice_fails() -> None:
    for operation in ("write", "read"):
        failed = [c for c in two_phase.judge(spoilt(operation, crossed_per_byte=1.05)).checks if not c.passed]
        assert [c.outcome for c in failed] == ["fails"] and operation in failed[0].name and "links" in failed[0].name


def test_a_run_that_loses_nothing_by_it_fails() -> None:
    for operation in ("write", "read"):
        failed = [c for c in two_phase.judge(spoilt(operation, throughput_bps=60e6)).checks if not c.passed]
        assert (
            [c.outcome for c in failed] == ["fails"] and operation in failed[0].name and "throughput" in failed[0].name
        )


def test_a_direct_way_that_sends_as_much_cannot_tell() -> None:
    changed = [row | {"crossed_per_byte": 1.7} if row["way"] == "direct" else row for row in rows()]
    assert {check.outcome for check in two_phase.judge(changed).checks} == {"holds", "cannot-tell"}


def test_content_that_is_wrong_or_a_machine_that_did_not_keep_up_is_no_pass() -> None:
    assert not two_phase.judge(spoilt("read", verified=False)).passed
    assert two_phase.judge(spoilt("read", invalid="busy")).exit_code == 4


def test_every_way_is_a_point_and_the_figure_is_drawn() -> None:
    assert {point["way"] for point in two_phase.points(quick=True, seed=1)} == set(two_phase.WAYS)
    assert set(two_phase.figures(rows())) == {"two_phase"}
