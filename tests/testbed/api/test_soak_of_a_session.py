"""Hours of work on one session, as benchmarks/scale/soak_session.py measured them: what grew, and that a leak would be
seen."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.module_files import module_of
from tests.helpers.paths import ROOT

SCALE = ROOT / "benchmarks" / "scale"


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    return module_of(SCALE / "soak_session.py")


@pytest.fixture(scope="module")
def samples() -> list[Any]:
    return [json.loads(row) for row in (SCALE / "soak.jsonl").read_text().splitlines()]


def says(judged: dict[str, Any]) -> dict[str, str]:
    return {name: row["say"] for name, row in judged.items()}


def test_soak_growth_matches_the_page(soak: ModuleType, samples: list[Any]) -> None:
    judged = says(soak.judge(samples))
    assert set(soak.COUNTS) < judged.keys()
    assert {name: say for name, say in judged.items() if say != "flat"} == {
        "MB of switch daemon": "grows", "MB of testbed": "undecided", "rules": "undecided",
    }  # fmt: skip
    assert samples[-1]["t_s"] > 1.9 * 3600


@pytest.mark.parametrize(
    ("leaked", "curve"), [({"descriptors": 1}, "descriptors"), ({"mb": 0.1}, "MB of caller")]
)
def test_a_leak_of_every_round_is_found(
    soak: ModuleType, samples: list[Any], leaked: Any, curve: str
) -> None:
    spoilt = [
        soak.with_leak(sample, **{"descriptors": 0, "mb": 0.0, **leaked}) for sample in samples
    ]
    before, after = says(soak.judge(samples)), says(soak.judge(spoilt))
    assert {name: say for name, say in after.items() if say != before[name]} == {curve: "grows"}


def test_samples_that_scatter_too_much_are_called_neither(
    soak: ModuleType, samples: list[Any]
) -> None:
    scattered = [
        {**sample, "threads": 126 + 40 * (number % 2)} for number, sample in enumerate(samples)
    ]
    assert says(soak.judge(scattered))["threads"] == "undecided"
