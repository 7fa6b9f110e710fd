"""No study's verdict passes where nothing was measured: no points at all, or points whose every result is nought."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import nan
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
def test_verdict_without_points(name: str) -> None:
    verdict = STUDIES[name].judged([])
    assert (verdict.outcome, verdict.exit_code, verdict.notes) == (
        "cannot-tell",
        5,
        ("no point was measured",),
    )


@pytest.mark.parametrize("name", STUDIES)
def test_verdict_of_zeros(name: str) -> None:
    """Parameters stay, results are nought."""
    study = STUDIES[name]
    parameters = set().union(
        *(json_ready(point) for quick in (True, False) for point in study.points(quick, 1))
    )
    rows = [
        {key: value if key in parameters else nought(value) for key, value in row.items()}
        for row in published(name)
    ]
    assert study.judged(rows).outcome != "holds"


def numbers(
    found: Any, name: str, holder: Any = None, at: Any = None
) -> Iterator[tuple[str, Any, Any]]:
    """Of a value each number above 0: its field's name, and where it stands."""
    if isinstance(found, dict | list):
        for key, inner in found.items() if isinstance(found, dict) else enumerate(found):
            yield from numbers(inner, key if isinstance(found, dict) else name, found, key)
    elif type(found) in (int, float) and found > 0:
        yield name, holder, at


@pytest.mark.parametrize("name", STUDIES)
def test_verdict_of_impossible_figures(name: str) -> None:
    """One rule for all studies, whatever their checks look at, and for figures within figures; nothing raises."""
    study, rows = STUDIES[name], published(name)
    draw = random.Random(name)
    few = draw.sample(rows, min(8, len(rows)))
    found = [one for row in few for one in numbers(row, "") if one[0] not in study.signed]
    own = {id(row) for row in few}
    deep = [one for one in found if id(one[1]) not in own]
    parts = [one for one in found if one[0].endswith(("_fraction", "_share"))]
    wrong = draw.choice([-1.0, nan])
    for places, spoilt in ((found, wrong), (deep, wrong), (parts, 2.0)):
        for key, holder, at in draw.sample(places, min(1, len(places))):
            right, holder[at] = holder[at], spoilt
            verdict = study.judged(rows)
            assert not verdict.passed and (
                not verdict.checks or f"{key} is" in str(verdict.invalid)
            ), (key, right)
            holder[at] = right


def test_options_without_points_cannot_tell() -> None:
    """What a judge raises is one line of the verdict, also where it looks for the first of a kind and there is none."""
    study, rows = STUDIES["interconnect_balance"], published("interconnect_balance")
    assert study.judged(rows).checks
    changes: tuple[dict[str, Any], ...] = ({"options": {"always": 7}}, {"options": None})
    for wrong in changes:
        verdict = study.judged([row | wrong if "options" in row else row for row in rows])
        assert not verdict.passed and verdict.notes, wrong


@pytest.mark.parametrize("name", STUDIES)
def test_its_own_checks_of_no_points(name: str) -> None:
    """Called by themselves with no points, they may refuse to, but none holds."""
    try:
        checks = STUDIES[name].judge([]).checks
    except (ArithmeticError, LookupError, ValueError, RuntimeError, StopIteration):
        return
    assert [check.name for check in checks if check.passed] == []
