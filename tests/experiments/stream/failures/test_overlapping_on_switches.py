"""The campaign of many failures: runs in virtual time and on switches pass; senders and chance as its rivals have them
do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.failures import overlapping_on_switches
from testbed.model.verdict import Check
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.other_packets import OtherPackets
from tests.helpers.study_rows import Rows, failed, published, spoilt
from tests.helpers.wrong_senders import sender_of_one_size

EXPECTED, GIVEN = "redundancy sent over the runs", "redundancy sent for the failures that came"


def in_virtual_time() -> Rows:
    """Eighty seconds at 0.1 failures a cable and second."""
    found: Rows = json.loads(Path(__file__).with_name("measured_rows.json").read_text())[
        "fault_campaign"
    ]
    return found


@pytest.fixture
def rows() -> Rows:
    return in_virtual_time()


def on_switches() -> Rows:
    """Nine minutes at four rates, as published."""
    return published("fault_campaign")


def check_of(rows: Rows, name: str) -> Check:
    return next(
        check for check in overlapping_on_switches.judge(rows).checks if check.name.startswith(name)
    )


@pytest.mark.parametrize("rows", [in_virtual_time(), on_switches()])
def test_a_true_run_passes_and_is_drawn(rows: Rows) -> None:
    checks = overlapping_on_switches.judge(rows).checks
    crossing = [c.name for c in checks if c.outcome == "cannot-tell"]
    assert all(c.passed or c.name in crossing for c in checks) and len(crossing) <= 2
    assert all(name.startswith(EXPECTED) for name in crossing)
    assert rows[0]["most_at_once"] > 2
    assert list(overlapping_on_switches.figures(rows)) == ["redundancy"]


@pytest.mark.parametrize("rows", [in_virtual_time(), on_switches()])
def test_answering_single_failures_alone_fails(rows: Rows) -> None:
    singles: Any = lambda row: {"redundancy": row["expected"]["singles_only"]}  # noqa: E731
    wrong = failed(overlapping_on_switches.judge(spoilt(rows, None, singles)))
    assert EXPECTED in wrong and GIVEN in wrong


def test_failures_at_once_that_are_not_answered_fail(rows: Rows) -> None:
    alone = check_of(rows, GIVEN).rival
    assert alone is not None and 0 < alone < 0.7 * rows[0]["redundancy"]
    assert check_of(spoilt(rows, None, lambda _: {"redundancy": alone}), GIVEN).outcome == "fails"


def test_on_switches_overlaps_that_are_not_answered_fail_at_every_rate() -> None:
    rows = on_switches()
    for rate, own in overlapping_on_switches.by_rate(rows).items():
        alone = check_of(own, GIVEN).rival
        wrong = failed(
            overlapping_on_switches.judge(
                spoilt(own, None, lambda _, alone=alone: {"redundancy": alone})
            )
        )
        assert f"{GIVEN}, {rate:g} failures" in wrong


@pytest.mark.parametrize(
    ("by", "share", "fails"), [(0, 1.0, False), (1, 1.0, True), (1, 0.1, True)]
)
def test_packets_that_fare_otherwise_than_their_labels_say_fail(
    by: int, share: float, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = {"rate_per_s": 0.1, "duration_s": 9.0, "seed": 1}
    monkeypatch.setattr("testbed.stream.fabric.open_fabric", lambda _: OtherPackets(by, share))
    row = overlapping_on_switches.measure(point)
    found = next(
        c
        for c in overlapping_on_switches.judge([point | row]).checks
        if c.name.startswith("every prediction")
    )
    assert found.passed is not fails
    assert ("packets that fared otherwise" in found.detail.partition("failed:")[2]) is fails
    assert (row["wrong_packets"] > 0) is fails


def test_a_run_too_short_for_its_rate_cannot_tell(rows: Rows) -> None:
    short = spoilt(rows, None, lambda row: {"expected": row["expected"] | {"spread": 0.1}})
    assert check_of(short, EXPECTED).outcome == "cannot-tell"
    assert not overlapping_on_switches.judge(short).passed


def test_equation_45_is_judged_where_overlaps_are_rare(rows: Rows) -> None:
    rare = spoilt(rows, None, lambda _: {"rate_per_s": 0.03})
    assert "equation 45" in check_of(rare, EXPECTED).name
    assert check_of(rare, EXPECTED).predicted == rare[0]["expected"]["equation_45"]


def test_a_sender_that_never_raises_n_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    point = {"rate_per_s": 0.1, "duration_s": 9.0, "seed": 1}
    true = overlapping_on_switches.measure(point, fabric="simulator")
    assert (
        true["redundancy"] == pytest.approx(true["redundancy_states"], abs=0.002)
        and true["failures"] > 4
    )
    never = sender_of_one_size(true["block_packets"])
    monkeypatch.setattr("testbed.stream.fabric.open_fabric", lambda _: SimulatedStreamFabric(never))
    assert GIVEN in failed(
        overlapping_on_switches.judge([point | overlapping_on_switches.measure(point)])
    )
