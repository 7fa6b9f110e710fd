"""The campaign of many failures: a run in virtual time passes; senders and chance as its rivals have them do not."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.stream.failures import fault_campaign
from testbed.model.verdict import Check
from testbed.stream.endpoints import build_sender
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.study_rows import Rows, failed, spoilt

EXPECTED, GIVEN = "redundancy sent over the runs", "redundancy sent for the failures that came"


@pytest.fixture
def rows() -> Rows:
    """Eighty seconds at 0.1 failures a cable and second, in virtual time."""
    found: Rows = json.loads(Path(__file__).with_name("measured_rows.json").read_text())["fault_campaign"]
    return found


def check_of(rows: Rows, name: str) -> Check:
    return next(check for check in fault_campaign.judge(rows).checks if check.name.startswith(name))


def test_a_true_run_passes_and_is_drawn(rows: Rows) -> None:
    assert failed(fault_campaign.judge(rows)) == ""
    assert rows[0]["most_at_once"] > 2
    assert list(fault_campaign.figures(rows)) == ["redundancy"]


def test_answering_single_failures_alone_fails(rows: Rows) -> None:
    singles: Any = lambda row: {"redundancy": row["expected"]["singles_only"]}  # noqa: E731
    wrong = failed(fault_campaign.judge(spoilt(rows, None, singles)))
    assert EXPECTED in wrong and GIVEN in wrong


def test_failures_at_once_that_are_not_answered_fail(rows: Rows) -> None:
    alone = check_of(rows, GIVEN).rival
    assert alone is not None and 0 < alone < 0.7 * rows[0]["redundancy"]
    assert check_of(spoilt(rows, None, lambda _: {"redundancy": alone}), GIVEN).outcome == "fails"


def test_a_run_too_short_for_its_rate_cannot_tell(rows: Rows) -> None:
    short = spoilt(rows, None, lambda row: {"expected": row["expected"] | {"spread": 0.1}})
    assert check_of(short, EXPECTED).outcome == "cannot-tell"
    assert not fault_campaign.judge(short).passed


def test_equation_45_is_judged_where_overlaps_are_rare(rows: Rows) -> None:
    rare = spoilt(rows, None, lambda _: {"rate_per_s": 0.03})
    assert "equation 45" in check_of(rare, EXPECTED).name
    assert check_of(rare, EXPECTED).predicted == rare[0]["expected"]["equation_45"]


def test_a_sender_that_never_raises_n_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    point = {"rate_per_s": 0.1, "duration_s": 9.0, "seed": 1}
    true = fault_campaign.measure(point, fabric="simulator")
    assert true["redundancy"] == pytest.approx(true["redundancy_states"], abs=0.002) and true["failures"] > 4
    never = partial(build_sender, foreseen=lambda _: true["block_packets"])
    monkeypatch.setattr("testbed.stream.session.open_fabric", lambda _: SimulatedStreamFabric(never))
    assert GIVEN in failed(fault_campaign.judge([point | fault_campaign.measure(point)]))
