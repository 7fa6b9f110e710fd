"""The study of two-phase access: its verdict on rows that were measured on switches, and on the same spoilt as a rival
would have them."""

from __future__ import annotations

from typing import Any

from experiments.sfio import two_phase

Rows = list[dict[str, Any]]


def rows() -> Rows:
    """Those of 4 nodes of `testbed experiment run sfio_two_phase` on 2 cores, 2026-11-23."""
    found = {
        ("write", "two phases"): (9289223, (1.8070, 1.75653)),
        ("write", "direct"): (12894698, (1.0653, 1.03341)),
        ("write", "liquid"): (19223889, None),
        ("read", "two phases"): (8952864, (1.7907, 1.75640)),
        ("read", "direct"): (14346743, (1.0212, 1.00842)),
        ("read", "liquid"): (19691914, None),
    }
    return [
        {
            "nodes": 4,
            "operation": operation,
            "way": way,
            "side": 960,
            "seed": 1,
            "throughput_bps": throughput,
            "verified": True,
            "invalid": None,
        }
        | ({} if sent is None else dict(zip(("crossed_per_byte", "payload_per_byte"), sent, strict=True)))
        for (operation, way), (throughput, sent) in found.items()
    ]


def spoilt(operation: str, **change: Any) -> Rows:
    return [row | change if (row["operation"], row["way"]) == (operation, "two phases") else row for row in rows()]


def test_the_measured_rows_hold() -> None:
    verdict = two_phase.judge(rows())
    assert verdict.passed and len(verdict.checks) == 5


def test_a_run_that_sends_nothing_twice_fails() -> None:
    for operation in ("write", "read"):
        failed = [c for c in two_phase.judge(spoilt(operation, payload_per_byte=1.05)).checks if not c.passed]
        assert (
            [c.outcome for c in failed] == ["fails"]
            and operation in failed[0].name
            and "counted once" in failed[0].name
        )


def test_lists_of_blocks_that_were_forgotten_are_too_little_to_be_seen_at_4_nodes_and_seen_at_8() -> None:
    def at(nodes: int, payload: float) -> list[str]:
        changed = [row | {"nodes": nodes} for row in rows()]
        changed = [row | {"payload_per_byte": payload} if row["way"] == "two phases" else row for row in changed]
        return [check.outcome for check in two_phase.judge(changed).checks if "counted once" in check.name]

    assert at(4, 1.75) == ["holds"] * 2
    assert at(8, 1.889) == ["holds"] * 2 and at(8, 1.86) == ["fails"] * 2


def test_a_run_that_loses_nothing_by_it_fails() -> None:
    for operation in ("write", "read"):
        failed = [c for c in two_phase.judge(spoilt(operation, throughput_bps=60e6)).checks if not c.passed]
        assert (
            [c.outcome for c in failed] == ["fails"] and operation in failed[0].name and "throughput" in failed[0].name
        )


def test_a_direct_way_that_sends_as_much_cannot_tell() -> None:
    changed = [row | {"payload_per_byte": 1.76} if row["way"] == "direct" else row for row in rows()]
    assert {check.outcome for check in two_phase.judge(changed).checks} == {"holds", "cannot-tell"}


def test_content_that_is_wrong_or_a_machine_that_did_not_keep_up_is_no_pass() -> None:
    assert not two_phase.judge(spoilt("read", verified=False)).passed
    assert two_phase.judge(spoilt("read", invalid="busy")).exit_code == 4


def test_every_way_is_a_point_and_the_figure_is_drawn() -> None:
    assert {point["way"] for point in two_phase.points(quick=True, seed=1)} == set(two_phase.DIRECTIONS)
    assert set(two_phase.figures(rows())) == {"two_phase"}
