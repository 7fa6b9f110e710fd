"""Load is told from failure: what the machine carries decides the default rate of links, and a run that it could not
carry is repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.errors import InvalidRunError, MachineDiedError
from testbed.model.machine.capacity import MachineCapacity, rate_for
from testbed.model.verdict import Claim, Verdict, repeated
from testbed.results.capacity_file import (
    chosen_rate,
    load_carried,
    load_file,
    save_carried,
    this_machine,
)

PASSED = Verdict(checks=(Claim("all").equal(1, 1),))
INVALID = replace(PASSED, invalid="the machine could not keep up")


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MachineCapacity:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    processors, kernel = this_machine()
    return MachineCapacity(
        link_bps=320e6,
        rate_bps=5e6,
        processors=processors,
        kernel=kernel,
        measured="today",
        limit_reached=True,
    )


def test_the_rate_follows_from_what_was_measured_here_and_says_so(carried: MachineCapacity) -> None:
    many, few = [("a",) * 4] * 32, [("a",) * 2]
    assert chosen_rate(None, many, 1, "emulation") == (
        20e6,
        chosen_rate(None, many, 1, "emulation")[1],
    )
    assert "never measured" in chosen_rate(None, many, 1, "emulation")[1]
    save_carried(carried)
    rate_bps, words = chosen_rate(None, many, 1, "emulation")
    assert rate_bps == 1e6 and "128 Mbit/s over all links at once, of 320" in words
    assert chosen_rate(None, few, 1, "emulation")[0] == 20e6
    assert chosen_rate(7e6, many, 1, "emulation") == (7e6, "links of 7 Mbit/s, as asked")
    assert chosen_rate(None, many, 1, "simulator")[0] == 20e6


def test_measurements_of_other_machines_are_ignored(carried: MachineCapacity) -> None:
    save_carried(replace(carried, processors=carried.processors + 1))
    assert load_carried() is None
    load_file().write_text('{"link_bps": -1}')
    assert load_carried() is None
    save_carried(carried)
    assert load_carried() == carried


@pytest.mark.parametrize("busy", [1, 3, 17, 64, 1000])
def test_no_rate_asks_for_more_than_was_carried_unless_it_is_the_least(
    busy: int, carried: MachineCapacity
) -> None:
    rate = rate_for(carried, busy)
    assert rate == 1e6 or rate * busy <= carried.link_bps
    assert rate <= 20e6


def test_only_an_invalid_run_is_repeated_and_no_more_often_than_asked() -> None:
    runs, said = iter([INVALID, PASSED, INVALID]), list[str]()
    assert repeated(lambda: next(runs), lambda verdict: verdict.invalid, 1, said.append) is PASSED
    assert said == ["the machine could not keep up; once more (1 left)"]
    assert repeated(lambda: next(runs), lambda verdict: verdict.invalid, 0) is INVALID
    failed = Verdict(checks=(Claim("all").equal(1, 2),))
    runs = iter([failed])
    assert repeated(lambda: next(runs), lambda verdict: verdict.invalid, 5) is failed


def test_a_calibration_that_fails_is_repeated_too() -> None:
    left = [InvalidRunError("slow"), InvalidRunError("slow")]

    def run() -> Verdict:
        if left:
            raise left.pop()
        return PASSED

    assert repeated(run, lambda verdict: verdict.invalid, 2) is PASSED
    left[:] = [InvalidRunError("slow"), InvalidRunError("slow")]
    with pytest.raises(InvalidRunError):
        repeated(run, lambda verdict: verdict.invalid, 1)


def test_a_run_in_which_a_machine_died_is_not_begun_anew() -> None:
    calls = []

    def run() -> Verdict:
        calls.append(1)
        raise MachineDiedError("machine-1 has died")

    with pytest.raises(MachineDiedError):
        repeated(run, lambda verdict: verdict.invalid, 3)
    assert len(calls) == 1
