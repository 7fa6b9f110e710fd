"""How often random failures overlap, by formula and by simulated Poisson processes (Figure 67 and equations 35 to 44)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.capillary.panels import panels
from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict
from testbed.routing.redundancy.failure_rates import (
    failure_weights,
    failure_weights_of_two,
    most_links,
    overlap_probability,
)

Row = Mapping[str, Any]
LINKS, BETWEEN_S = 50, 3600.0
DURATIONS_S = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 45.0, 60.0)


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """A simulated stretch of failures for each duration of one failure."""
    return [{"failure_s": s, "failures": 5_000 if quick else 50_000, "seed": seed} for s in DURATIONS_S]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """Measured: consecutive failures that overlap; of the time with any link down, the share with exactly one."""
    generator = random.Random(f"overlaps/{point['seed']}/{point['failure_s']}")
    links = [(generator.expovariate(1 / BETWEEN_S), link) for link in range(LINKS)]
    changes: list[tuple[float, int]] = []
    last, overlaps = None, 0
    for _ in range(point["failures"]):
        at, link = min(links)
        links[link] = (at + generator.expovariate(1 / BETWEEN_S), link)
        overlaps += last is not None and at - last < point["failure_s"]
        last = at
        changes += [(at, 1), (at + point["failure_s"], -1)]
    spent: dict[int, float] = {}
    down, before = 0, 0.0
    for at, change in sorted(changes):
        spent[down] = spent.get(down, 0.0) + at - before
        down, before = down + change, at
    busy = sum(seconds for count, seconds in spent.items() if count > 0)
    question = (LINKS, point["failure_s"], BETWEEN_S)
    return {
        "overlaps": overlaps / (point["failures"] - 1),
        "predicted_overlaps": overlap_probability(*question),
        "one": spent.get(1, 0.0) / busy,
        "predicted_one": failure_weights(*question).one,
        "one_of_two": failure_weights_of_two(*question).one,
    }


def judge(rows: Sequence[Row]) -> Verdict:
    """The formulas hold in simulation; the thesis' example value belongs to two seconds; equation 43's number of links."""
    worst = max(abs(row["overlaps"] - row["predicted_overlaps"]) for row in rows)
    share = max(abs(row["one"] - row["predicted_one"]) for row in rows)
    margin = 4 * (0.25 / rows[0]["failures"]) ** 0.5
    at = {s: overlap_probability(LINKS, s, BETWEEN_S) for s in (1, 2)}
    checks = (
        _close("overlap probability (equation 39) against simulation, worst over the durations", 0.0, worst, margin),
        _close("k1, the share of time with one link down, against simulation, worst", 0.0, share, margin),
        _close("overlap probability at 2 s: the 2.74 % that the thesis prints for 1 s", 0.0274, at[2], 5e-5),
        _close("overlap probability at 1 s", 0.0138, at[1], 5e-5),
        _close(
            "links up to an overlap probability of 5 %, 5 s once a day: nearly 900",
            886,
            int(most_links(0.05, 5, 86400)),
            0,
        ),
    )
    return Verdict(checks=checks)


def _close(name: str, predicted: float, measured: float, tolerance: float) -> Check:
    return Check.equal(name, predicted, measured, tolerance=tolerance)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Overlap probability against the duration of a failure, and k1 beside it; dots are simulated."""
    figure, (left, right) = panels(10, 4.6, columns=2)
    fine = [0.25 * k for k in range(1, 241)]
    times = [row["failure_s"] for row in rows]
    left.plot(
        fine, [100 * overlap_probability(LINKS, s, BETWEEN_S) for s in fine], color="#0072b2", label="equation 39"
    )
    left.plot(times, [100 * row["overlaps"] for row in rows], "o", color="#d55e00", label="simulated")
    left.axhline(2.74, color="#555555", linestyle=":", linewidth=1)
    left.annotate("2.74 %: reached at 2 s, printed for 1 s", (14, 2.74), (0, 4), textcoords="offset points", fontsize=8)
    left.set_ylabel("probability that two consecutive failures overlap (%)")
    right.plot(
        fine, [failure_weights(LINKS, s, BETWEEN_S).one for s in fine], color="#0072b2", label="k1, all overlaps"
    )
    right.plot(
        fine,
        [failure_weights_of_two(LINKS, s, BETWEEN_S).one for s in fine],
        "--",
        color="#009e73",
        label="k1, two at most",
    )
    right.plot(times, [row["one"] for row in rows], "o", color="#d55e00", label="simulated")
    right.set_ylabel("k1: share of the time with a link down in which one is")
    for axes in (left, right):
        axes.set_xlabel("duration of one failure (s)")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=9)
    figure.suptitle(f"Overlapping failures: {LINKS} links, each failing once an hour on average")
    return {"figure-67": figure}


STUDY = Study.of_module(
    __name__,
    name="failure_overlaps",
    does="overlap probability and k1 of Poisson failures, by formula and simulated, against the duration of a failure",
    answers="Gabrielyan 2007, Figure 67 and equations 35 to 44, with the misprinted example corrected",
)
