"""What is published is what today's studies say of the rows that are stored: no stored outcome, rival or bar is one
that its study would not give any more."""

from __future__ import annotations

import pytest

from testbed.commands.studies.experiment import find_experiments, known_experiment
from testbed.model.verdict import Verdict
from testbed.results.study_store import STORED, is_study, load_study, stored_runs
from tests.helpers.paths import ROOT

NAMES = sorted({path.name for path in (ROOT / STORED).iterdir()} & find_experiments().keys())


def said(verdict: Verdict) -> dict[str, list[object]]:
    return {c.name: [c.outcome, c.relation, c.rival_note, c.rival] for c in verdict.checks}


@pytest.mark.parametrize("name", NAMES)
def test_stored_verdicts_are_those_of_today(name: str) -> None:
    for run in stored_runs(ROOT / STORED, name):
        if is_study(run.directory) and run.verdict is not None:
            _, _, rows, verdict = load_study(run.directory)
            today = said(known_experiment(name).judge(rows))
            for found in today.values():  # sums of floats differ in the last digit between Pythons
                found[-1] = found[-1] and pytest.approx(found[-1], rel=1e-9)
            assert verdict is not None and said(verdict) == today, run.directory.name


def test_nearly_all_stored_runs_are_of_studies() -> None:
    assert len(NAMES) > 60
