"""Formulas of how often random failures overlap, and simulated Poisson processes.

The formulas are those of Figure 67 and equations 35 to 44. The points are part of the study
``overlaps_by_layer``.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows
from testbed.report.drawing.charts import Figure, Mark, draw_lines
from testbed.routing.redundancy.failures import (
    most_links,
    overlap_probability,
    single_share,
    single_share_of_two,
)

# The kind of these points.
KIND = "chance"

# Number of links, and the mean time between failures of a link.
LINKS = 50
BETWEEN_S = 3600.0
DURATIONS_S = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 45.0, 60.0)

# Largest accepted difference in standard deviations. There are eleven durations, any of which may
# be the one with the largest difference.
MAX_DEVIATIONS = 4.0

Z95 = 1.96


def points(quick: bool, seed: int) -> Points:
    """Return a simulated series of failures for each duration of one failure."""
    failures = 5_000 if quick else 50_000
    result: Points = []
    for failure_s in DURATIONS_S:
        result.append({"kind": KIND, "failure_s": failure_s, "failures": failures, "seed": seed})
    return result


def measure(point: Row) -> Results:
    """Simulate failures, and compare how often they overlap with the formulas.

    Returns:
        ``overlaps``: the fraction of consecutive failures that overlap. ``one``: of the time with
        any link down, the fraction with exactly one. Both with their predictions and standard
        deviations; ``one_of_two`` is the prediction if at most two links are down.
    """
    failure_s = point["failure_s"]
    starts_s = _failure_starts(point)
    count = point["failures"] - 1
    overlaps = 0
    for start_s, next_start_s in pairwise(starts_s):
        if next_start_s - start_s < failure_s:
            overlaps += 1
    predicted = overlap_probability(LINKS, failure_s, BETWEEN_S)
    share_of_one, deviation = _share_of_one(starts_s, failure_s)
    return {
        "overlaps": overlaps / count,
        "predicted_overlaps": predicted,
        "overlaps_deviation": math.sqrt(predicted * (1 - predicted) / count),
        "one": share_of_one,
        "one_deviation": deviation,
        "predicted_one": single_share(LINKS, failure_s, BETWEEN_S),
        "one_of_two": single_share_of_two(LINKS, failure_s, BETWEEN_S),
    }


def _failure_starts(point: Row) -> list[float]:
    """Return when each failure of any link begins, in seconds."""
    rng = random.Random(f"overlaps/{point['seed']}/{point['failure_s']}")
    # The next failure of each link, and the link.
    next_failures = [(rng.expovariate(1 / BETWEEN_S), link) for link in range(LINKS)]
    starts_s = []
    for _ in range(point["failures"]):
        start_s, link = min(next_failures)
        next_failures[link] = (start_s + rng.expovariate(1 / BETWEEN_S), link)
        starts_s.append(start_s)
    return starts_s


def _share_of_one(starts_s: Sequence[float], failure_s: float) -> tuple[float, float]:
    """Return how much of the time with any link down exactly one is down.

    The fraction is a ratio of sums over spells. A spell ends when all links are up, so that spells
    are independent of each other.

    Args:
        starts_s: When each failure begins.
        failure_s: The duration of a failure.

    Returns:
        The fraction, and its standard deviation.
    """
    event_s = np.concatenate([starts_s, np.add(starts_s, failure_s)])
    change = np.repeat([1, -1], len(starts_s))
    order = np.lexsort((change, event_s))
    down = np.cumsum(change[order])[:-1]
    durations_s = np.diff(event_s[order])
    spell = np.cumsum(down == 0)
    one_down_s = np.bincount(spell, durations_s * (down == 1))
    any_down_s = np.bincount(spell, durations_s * (down > 0))
    share = one_down_s.sum() / any_down_s.sum()
    deviation = np.linalg.norm(one_down_s - share * any_down_s) / any_down_s.sum()
    return float(share), float(deviation)


def overlap_checks(rows: Rows) -> list[Check]:
    """Return the checks of the formulas.

    They must hold in simulation at every duration. The example value of the thesis belongs to a
    failure of two seconds. Equation 43 gives the number of links.
    """
    at_1_s = overlap_probability(LINKS, 1, BETWEEN_S)
    at_2_s = overlap_probability(LINKS, 2, BETWEEN_S)
    return [
        _check_overlaps(rows),
        _check_single(rows),
        Claim("overlap probability at 2 s")
        .equal(at_2_s, 0.0274, 5e-5)
        .cites("2.74 % for 1 s (appendix G.1)")
        .against(at_1_s, "that of 1 s, for which it is printed"),
        Claim("overlap probability at 1 s")
        .equal(0.0138, at_1_s, 5e-5)
        .against(at_2_s, "that of 2 s"),
        Claim("links up to an overlap probability of 5 %, 5 s once a day")
        .equal(886, int(most_links(0.05, 5, 86400)))
        .cites("nearly 900 (appendix G.1)")
        .against(int(0.05 * 86400 / 5), "N t / d itself for the probability"),
    ]


def _check_overlaps(rows: Rows) -> Check:
    """Check equation 39. The rival confuses the probabilities of 1 s and 2 s."""
    return (
        Claim(
            "overlap probability (equation 39) "
            "against simulation, in standard deviations of chance, worst over the durations"
        )
        .at_most(MAX_DEVIATIONS, max(_deviations(rows, "overlaps")))
        .against(
            min(_deviations_if_doubled(rows)),
            "the example of Figure 67, in which 1 s has the probability of 2 s, "
            "at the duration that shows it least",
        )
    )


def _check_single(rows: Rows) -> Check:
    """Check the fraction of the time with exactly one link down."""
    rivals = [_deviation(row, "one", 1.0) for row in rows]
    return (
        Claim(
            "k1, the share of time with one link down, "
            "against simulation, in standard deviations of chance, worst"
        )
        .at_most(MAX_DEVIATIONS, max(_deviations(rows, "one")))
        .against(
            min(rivals),
            "single failures only (k1 = 1), at the duration that shows it least",
        )
    )


def _deviation(row: Row, key: str, value: float) -> float:
    """Return the difference of a value from its prediction, in standard deviations."""
    return float(abs(value - row[f"predicted_{key}"]) / row[f"{key}_deviation"])


def _deviations(rows: Rows, key: str) -> Iterator[float]:
    for row in rows:
        yield _deviation(row, key, row[key])


def _deviations_if_doubled(rows: Rows) -> Iterator[float]:
    """Yield the difference of each duration if it had the probability of twice the duration."""
    for row in rows:
        doubled = overlap_probability(LINKS, 2 * row["failure_s"], BETWEEN_S)
        yield _deviation(row, "overlaps", doubled)


def figures(rows: Rows) -> Figures:
    """Draw the overlap probability and k1 by the duration of a failure."""
    return {
        "figure-67": _draw(
            rows,
            {"predicted_overlaps": "equation 39", "overlaps": "simulated, 95 % of chance"},
            y="probability that two consecutive failures overlap",
            claim=(0.0274, "2.74 %: reached at 2 s, printed for 1 s"),
        ),
        "k1": _draw(
            rows,
            {
                "predicted_one": "all overlaps",
                "one_of_two": "two at most",
                "one": "simulated, 95 % of chance",
            },
            y="k1: share of the time with a link down in which one is",
        ),
    }


def _draw(rows: Rows, labels: Mapping[str, str], y: str, claim: Mark | None = None) -> Figure:
    """Draw fields by the duration of a failure, a line for each.

    Args:
        rows: The rows.
        labels: The label of each field.
        y: Label of the axis.
        claim: A value of the document, and its label.
    """
    samples = {}
    for key, label in labels.items():
        for row in rows:
            half_width = Z95 * row.get(f"{key}_deviation", 0.0)
            samples[label, row["failure_s"]] = (row[key], half_width)
    title = f"{LINKS} links, each failing once an hour on average"
    return draw_lines(title, samples, x="duration of one failure (s)", y=y, claim=claim)
