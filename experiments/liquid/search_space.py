"""Figure 34: blank and idle categories and the skeleton reduce the search for all full teams.

The 23 patterns of the thesis are taken to be the all-to-all exchanges of 3 to 8 nodes of Swiss-T1
with different liquid throughput. There are exactly 23 of them. They are the largest ones whose full
teams can all be listed (8 nodes have up to 33,600), and they give the reductions of the thesis.
"""

import statistics
import time

from experiments.liquid.rows import ratios
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

# The mean search spaces of the thesis, in per cent of the naive search.
THESIS = {"naive": 100.0, "blank": 28.0, "idle": 20.0, "skeleton": 10.6}
TOLERANCE = 5.0

# Factor by which all optimisations together are faster in the thesis.
FASTER = 9.43
FASTER_TOLERANCE = 3.0

# Number of runs of a search. The shortest time counts.
REPEATS = 3


def points(quick: bool, seed: int) -> Points:
    """Return one point per pattern of 3 to 8 nodes, or of 3 to 7 nodes for a quick run."""
    max_nodes = 7 if quick else 8
    return [
        {"allocation": allocation.name, "nodes": allocation.nodes}
        for allocation in distinct_allocations()
        if 3 <= allocation.nodes <= max_nodes
    ]


def measure(point: Row) -> Results:
    """Return the categories that each search visits, and its processor time.

    A search ends when it has found all full teams.
    """
    paths = traffic_of(point["allocation"]).paths()
    categories: Results = {}
    times_s: Results = {}
    team_counts = []
    for name, search in SEARCHES.items():
        repeat_times_s = []
        for _ in range(REPEATS):
            start_s = time.process_time()
            categories[name], team_count = search_space(paths, search)
            repeat_times_s.append(time.process_time() - start_s)
        times_s[f"{name}_s"] = min(repeat_times_s)
        team_counts.append(team_count)
    return {
        **categories,
        **times_s,
        "teams": team_counts[0],
        "same_teams": len(set(team_counts)) == 1,
    }


def judge(rows: Rows) -> Verdict:
    """Compare the mean search spaces with those of the thesis.

    The rival of each optimisation is that it saves nothing.
    """
    checks = [
        Claim("patterns on which all four searches find as many full teams").count(
            len(rows), sum_of(rows, "same_teams")
        ),
        _search_space_check(rows, "naive", "blank"),
        _search_space_check(rows, "blank", "idle"),
        _search_space_check(rows, "idle", "skeleton"),
        _faster_check(rows, "categories", ""),
        _faster_check(rows, "processor time", "_s"),
    ]
    return Verdict.of(checks)


def _search_space_check(rows: Rows, before: str, name: str) -> Check:
    """Check the search space of a search; ``before`` is the search with one optimisation less."""
    return (
        Claim(f"search space {LABELS[name]}, % of all categories")
        .equal(THESIS[name], _mean_percentage(rows, name), TOLERANCE)
        .cites(f"{THESIS[name]:g} %, Figure 34")
        .against(_mean_percentage(rows, before), "the step before it, nothing saved")
    )


def _faster_check(rows: Rows, quantity: str, suffix: str) -> Check:
    """Check the factor by which the skeleton search is faster than the naive one.

    The factor of the document, 9.43, is the inverse of its mean share of 10.6 %. Therefore ours is
    the inverse of a mean share too.

    Args:
        rows: The rows.
        quantity: Name of the quantity that is compared.
        suffix: Suffix of its fields.
    """
    mean_share = statistics.mean(ratios(rows, f"skeleton{suffix}", f"naive{suffix}"))
    name = f"full teams by the three optimisations, times faster than without, in {quantity}"
    return (
        Claim(name)
        .equal(FASTER, 1 / mean_share, FASTER_TOLERANCE)
        .cites("9.43 times, section 3.6.3 (one over 10.6 %)")
        .against(1.0, "nothing saved")
    )


def _mean_percentage(rows: Rows, name: str) -> float:
    return sum(_percentages(rows, name)) / len(rows)


def _percentages(rows: Rows, name: str) -> list[float]:
    """Return the search space of each pattern, in per cent of the naive search."""
    return [100.0 * row[name] / row["naive"] for row in rows]


def figures(rows: Rows) -> Figures:
    """Draw the mean search spaces with confidence intervals, beside those of the thesis."""
    samples: dict[tuple[str, str], list[float] | tuple[float, float]] = {}
    for name, label in LABELS.items():
        samples["ours", label] = _percentages(rows, name)
    for name, percentage in THESIS.items():
        samples["thesis", LABELS[name]] = (percentage, 0.0)
    title = (
        f"Search space of all full teams, {len(rows)} patterns of 3 to {rows[-1]['nodes']} nodes "
        "(Figure 34)"
    )
    figure = draw_bars(title, samples, y="categories traversed (% of the naive search)")
    return {"search-space": figure}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_search_space",
    title="How far the search for full teams shrinks",
    deviations=(
        "the document does not name its 23 patterns; these are the 23 of 3 to 8 nodes that differ "
        "in liquid throughput",
    ),
    answers="Gabrielyan 2007, Figure 34: 100, 28, 20 and 10.6 % of the search space on 23 patterns",
)
