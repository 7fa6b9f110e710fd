"""No study's verdict passes where nothing was measured: no points at all, or points whose every result is nought."""

from __future__ import annotations

import random
from typing import Any

import pytest

from testbed.commands.studies.experiment import find_experiments
from testbed.model.json_values import json_ready
from testbed.model.studies.study import Study
from tests.helpers.study_rows import published

STUDIES = {name: study for name, study in find_experiments().items() if isinstance(study, Study)}


def nought(value: Any) -> Any:
    """The same with each number in it 0."""
    if isinstance(value, dict):
        return {key: nought(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [nought(inner) for inner in value]
    return 0 if isinstance(value, (int, float)) and not isinstance(value, bool) else value


@pytest.mark.parametrize("name", STUDIES)
def test_of_no_points(name: str) -> None:
    verdict = STUDIES[name].judged([])
    assert (verdict.outcome, verdict.exit_code, verdict.notes) == ("cannot-tell", 5, ("no point was measured",))


@pytest.mark.parametrize("name", STUDIES)
def test_of_nought(name: str) -> None:
    """Parameters stay, results are nought."""
    study = STUDIES[name]
    parameters = set().union(*(json_ready(point) for quick in (True, False) for point in study.points(quick, 1)))
    rows = [
        {key: value if key in parameters else nought(value) for key, value in row.items()} for row in published(name)
    ]
    assert study.judged(rows).outcome != "holds"


@pytest.mark.parametrize("name", STUDIES)
def test_of_a_figure_below_nought(name: str) -> None:
    """One rule for all studies, whatever their checks look at."""
    study, rows = STUDIES[name], published(name)
    assert "below 0" not in str(study.judged(rows).invalid)
    figures = [(key, at) for at, row in enumerate(rows) for key, one in row.items()
               if type(one) in (int, float) and one > 0 and key not in study.signed]  # fmt: skip
    key, at = random.Random(name).choice(figures)
    rows[at] = rows[at] | {key: -rows[at][key]}
    assert not study.judged(rows).passed, (key, at)


@pytest.mark.parametrize("name", STUDIES)
def test_its_own_checks_of_no_points(name: str) -> None:
    """Called by themselves with no points, they may refuse to, but none holds."""
    try:
        checks = STUDIES[name].judge([]).checks
    except (ArithmeticError, LookupError, ValueError, RuntimeError, StopIteration):
        return
    assert [check.name for check in checks if check.passed] == []
