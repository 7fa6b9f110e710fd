"""What a run over machines says of its clocks: times near a moment are counted as undecided, clocks that are too bad
make it invalid."""

from __future__ import annotations

import pytest

from testbed.errors import InvalidRunError
from testbed.machines.machines_report import ClockReport, MachinesReport


def report(*uncertainties_s: float) -> MachinesReport:
    clocks = [
        ClockReport(
            machine=f"machine-{k}",
            offset_s=4321.0 * (k + 1),
            uncertainty_s=one,
            drift=(-1e-6, 1e-6),
            asked=100,
            replies_received=100,
            quickest_s=1e-4,
            slowest_s=1e-3,
        )
        for k, one in enumerate(uncertainties_s)
    ]
    return MachinesReport(
        clocks=tuple(clocks), crossing_links=4, sent=1000, lost=1, cut_gaps_s=(0.0012345678,)
    )


def test_times_within_both_clocks_uncertainty_of_a_moment_are_undecided() -> None:
    found = report(0.0001, 0.002)
    assert found.uncertainty_s == 0.002
    assert found.undecided([0.990, 0.997, 1.003, 1.005, 2.0], [1.0, 7.0]) == 2
    assert report(0.0).undecided([1.0, 1.1], [1.0]) == 1


def test_clock_too_bad_for_the_run_length_makes_it_invalid() -> None:
    report(0.0001, 0.002).require_for(0.3)
    with pytest.raises(InvalidRunError, match="machine-1 is known to within 2 ms only"):
        report(0.0001, 0.002).require_for(0.19)


def test_figures_carry_every_clock_and_what_was_lost() -> None:
    said = report(0.0001, 0.002).to_json()
    assert said["clock_uncertainty_s"] == 0.002 and len(said["machines"]) == 2
    assert (said["crossing_sent"], said["crossing_lost_on_the_way"]) == (1000, 1)
    assert said["crossing_cut_gaps_s"] == [0.001235]
