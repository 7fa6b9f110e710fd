"""Figure 34: how far blank and idle categories and the skeleton reduce the search for all full teams.

The 23 patterns: the all-to-all exchanges of 3 to 8 nodes of Swiss-T1 with different liquid throughput. There are just
23, they are the largest whose full teams can all be listed (8 nodes have up to 33,600), and they give the thesis'
reductions.
"""

import statistics
import time
from itertools import pairwise

from experiments.liquid.swiss_t1_traffic import traffic_of
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    sum_of,
)
from testbed.report.drawing.charts import draw_bars
from testbed.scheduling.exact.full_simultaneities import BLANK, IDLE, NAIVE, SKELETON, search_space
from testbed.scheduling.traffic.allocation import distinct_allocations

SEARCHES = {"naive": NAIVE, "blank": BLANK, "idle": IDLE, "skeleton": SKELETON}
LABELS = {
    "naive": "all categories",
    "blank": "without blank ones",
    "idle": "and without idle ones",
    "skeleton": "and the skeleton first",
}
THESIS = {"naive": 100.0, "blank": 28.0, "idle": 20.0, "skeleton": 10.6}
TOLERANCE = 5.0
FASTER, FASTER_TOLERANCE = 9.43, 3.0
REPEATS = 3


def points(quick: bool, seed: int) -> Points:
    """Patterns of 3 to 8 nodes, to 7 for a quick look."""
    most = 7 if quick else 8
    return [
        {"allocation": a.name, "nodes": a.nodes}
        for a in distinct_allocations()
        if 3 <= a.nodes <= most
    ]


def measure(point: Row) -> Results:
    """Categories traversed by each search until all full teams are known, and its processor time, the least of
    three."""
    paths = traffic_of(point["allocation"]).paths()
    found, times = {}, {}
    for name, search in SEARCHES.items():
        began = [time.process_time()]
        for _ in range(REPEATS):
            found[name] = search_space(paths, search)
            began.append(time.process_time())
        times[f"{name}_s"] = min(after - before for before, after in pairwise(began))
    return {
        **{name: categories for name, (categories, _) in found.items()},
        **times,
        "teams": found["naive"][1],
        "same_teams": len({teams for _, teams in found.values()}) == 1,
    }


def judge(rows: Rows) -> Verdict:
    """Mean share of the naive search space next to the thesis'; the rival of each step is that it saves nothing."""
    same = sum_of(rows, "same_teams")
    checks = [
        Claim("patterns on which all four searches find as many full teams").count(len(rows), same),
        *(
            Claim(f"search space {LABELS[name]}, % of all categories")
            .equal(THESIS[name], _mean(rows, name), TOLERANCE)
            .cites(f"{THESIS[name]:g} %, Figure 34")
            .against(_mean(rows, before), "the step before it, nothing saved")
            for before, name in pairwise(SEARCHES)
        ),
        _faster_check(rows, "categories", ""),
        _faster_check(rows, "processor time", "_s"),
    ]
    return Verdict.of(checks)


def _faster_check(rows: Rows, words: str, suffix: str) -> Check:
    """The document's 9.43 is one over its mean share of 10.6 %: so is ours."""
    share = statistics.mean(row[f"skeleton{suffix}"] / row[f"naive{suffix}"] for row in rows)
    return (
        Claim(f"full teams by the three optimisations, times faster than without, in {words}")
        .equal(FASTER, 1 / share, FASTER_TOLERANCE)
        .cites("9.43 times, section 3.6.3 (one over 10.6 %)")
        .against(1.0, "nothing saved")
    )


def _mean(rows: Rows, name: str) -> float:
    return float(sum(100.0 * row[name] / row["naive"] for row in rows) / len(rows))


def figures(rows: Rows) -> Figures:
    """Mean reductions, with the interval over the patterns, next to the thesis'."""
    ours = {
        ("ours", words): [100.0 * row[name] / row["naive"] for row in rows]
        for name, words in LABELS.items()
    }
    theirs = {("thesis", LABELS[name]): (share, 0.0) for name, share in THESIS.items()}
    title = f"Search space of all full teams, {len(rows)} patterns of 3 to {rows[-1]['nodes']} nodes (Figure 34)"
    return {
        "search-space": draw_bars(
            title, {**ours, **theirs}, y="categories traversed (% of the naive search)"
        )
    }


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_search_space",
    title="How far the search for full teams shrinks",
    deviations=(
        "the document does not name its 23 patterns; these are the 23 of 3 to 8 nodes that differ in liquid throughput",
    ),
    answers="Gabrielyan 2007, Figure 34: 100, 28, 20 and 10.6 % of the search space on 23 patterns",
)
