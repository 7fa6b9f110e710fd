"""How often random failures overlap, by formula and by simulated Poisson processes (Figure 67 and equations 35 to
44)."""

import math
import random
from collections.abc import Mapping, Sequence
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

KIND = "chance"
LINKS, BETWEEN_S = 50, 3600.0
DURATIONS_S = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 45.0, 60.0)
DEVIATIONS = 4.0
"""Standard deviations of chance that any of the durations may be off."""


def points(quick: bool, seed: int) -> Points:
    """A simulated stretch of failures for each duration of one failure."""
    return [
        {"kind": KIND, "failure_s": s, "failures": 5_000 if quick else 50_000, "seed": seed}
        for s in DURATIONS_S
    ]


def measure(point: Row) -> Results:
    """Measured: consecutive failures that overlap; of the time with any link down, the share with exactly one; and the
    standard deviation of either by chance."""
    generator = random.Random(f"overlaps/{point['seed']}/{point['failure_s']}")
    links = [(generator.expovariate(1 / BETWEEN_S), link) for link in range(LINKS)]
    begins: list[float] = []
    for _ in range(point["failures"]):
        at, link = min(links)
        links[link] = (at + generator.expovariate(1 / BETWEEN_S), link)
        begins.append(at)
    count, question = point["failures"] - 1, (LINKS, point["failure_s"], BETWEEN_S)
    overlaps = sum(later - at < point["failure_s"] for at, later in pairwise(begins)) / count
    predicted = overlap_probability(*question)
    one, deviation = _share_of_one(begins, point["failure_s"])
    return {
        "overlaps": overlaps,
        "predicted_overlaps": predicted,
        "overlaps_deviation": math.sqrt(predicted * (1 - predicted) / count),
        "one": one,
        "one_deviation": deviation,
        "predicted_one": single_share(*question),
        "one_of_two": single_share_of_two(*question),
    }


def _share_of_one(begins: Sequence[float], failure_s: float) -> tuple[float, float]:
    """Of the time with any link down, the share with exactly one, and its standard deviation: a ratio of sums over the
    spells without a moment at which all links are up, which are independent of each other."""
    at_s = np.concatenate([begins, np.add(begins, failure_s)])
    change = np.repeat([1, -1], len(begins))
    order = np.lexsort((change, at_s))
    down, lasts_s = np.cumsum(change[order])[:-1], np.diff(at_s[order])
    spell = np.cumsum(down == 0)
    alone, busy = (np.bincount(spell, lasts_s * chosen) for chosen in (down == 1, down > 0))
    share = alone.sum() / busy.sum()
    return float(share), float(np.linalg.norm(alone - share * busy) / busy.sum())


def overlap_checks(rows: Rows) -> list[Check]:
    """The formulas hold in simulation at every duration; the thesis' example value belongs to two seconds; equation
    43's number of links."""

    def off(row: Row, what: str, value: float) -> float:
        return float(abs(value - row[f"predicted_{what}"]) / row[f"{what}_deviation"])

    at = {s: overlap_probability(LINKS, s, BETWEEN_S) for s in (1, 2)}
    doubled = min(
        off(row, "overlaps", overlap_probability(LINKS, 2 * row["failure_s"], BETWEEN_S))
        for row in rows
    )
    chance, least = (
        "against simulation, in standard deviations of chance, worst",
        "at the duration that shows it least",
    )
    return [
        Claim(f"overlap probability (equation 39) {chance} over the durations")
        .at_most(DEVIATIONS, max(off(row, "overlaps", row["overlaps"]) for row in rows))
        .against(
            doubled, f"the example of Figure 67, in which 1 s has the probability of 2 s, {least}"
        ),
        Claim(f"k1, the share of time with one link down, {chance}")
        .at_most(DEVIATIONS, max(off(row, "one", row["one"]) for row in rows))
        .against(
            min(off(row, "one", 1.0) for row in rows), f"single failures only (k1 = 1), {least}"
        ),
        Claim("overlap probability at 2 s")
        .equal(at[2], 0.0274, 5e-5)
        .cites("2.74 % for 1 s (appendix G.1)")
        .against(at[1], "that of 1 s, for which it is printed"),
        Claim("overlap probability at 1 s")
        .equal(0.0138, at[1], 5e-5)
        .against(at[2], "that of 2 s"),
        Claim("links up to an overlap probability of 5 %, 5 s once a day")
        .equal(886, int(most_links(0.05, 5, 86400)))
        .cites("nearly 900 (appendix G.1)")
        .against(int(0.05 * 86400 / 5), "N t / d itself for the probability"),
    ]


def figures(rows: Rows) -> Figures:
    """Overlap probability against the duration of a failure, and k1: by the formulas, and simulated."""

    def drawn(y: str, names: Mapping[str, str], claim: Mark | None = None) -> Figure:
        samples = {
            (words, row["failure_s"]): (row[field], 1.96 * row.get(f"{field}_deviation", 0.0))
            for field, words in names.items()
            for row in rows
        }
        title = f"{LINKS} links, each failing once an hour on average"
        return draw_lines(title, samples, x="duration of one failure (s)", y=y, claim=claim)

    simulated, printed = (
        "simulated, 95 % of chance",
        (0.0274, "2.74 %: reached at 2 s, printed for 1 s"),
    )
    k1 = {"predicted_one": "all overlaps", "one_of_two": "two at most", "one": simulated}
    overlaps = {"predicted_overlaps": "equation 39", "overlaps": simulated}
    return {
        "figure-67": drawn("probability that two consecutive failures overlap", overlaps, printed),
        "k1": drawn("k1: share of the time with a link down in which one is", k1),
    }
