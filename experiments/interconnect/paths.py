"""Measures whether the number of alternative paths matters to FT-DRB (Zarza 2011, 5.6.6).

Ten links of a 16x16 torus fail at the start, with one to five paths and six patterns (Figure
5.39). Two patterns are also run at a load at which packets queue.
"""

from collections.abc import Mapping, Sequence

from experiments.interconnect.figures import LATENCY
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_least, delivery_check, mean
from experiments.interconnect.study_points import (
    LINK_PACKETS_PER_S,
    SYNTHETIC,
    drb_points,
    seeds_of,
)
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Rows,
    Study,
    Verdict,
)
from testbed.report.drawing.charts import Figure, draw_lines

NETWORK = "torus:16x16"

# The patterns whose latency decreases as the number of paths grows, in Figure 5.39.
FALLING = ("bit-reversal", "butterfly")

# Smallest decrease of latency that is visible in a figure, in percent.
VISIBLE_PERCENT = 1.0

# Messages per second and node at which packets queue: a tenth of a link. The document's 400
# packets/s are 0.08 % of a link.
LOADED_RATE = 0.1 * LINK_PACKETS_PER_S
# Simulated time of runs at this rate.
LOADED_S = 0.004

# Simulated time of a full run of uniform traffic. It is shorter than in other studies, because
# sources learn of ten failed links sooner than of a tenth of all links.
UNIFORM_S = 3.0

# Latency of each run (us), by pattern and number of paths.
Latencies = dict[str, dict[int, list[float]]]


def points(quick: bool, seed: int) -> Points:
    """Return the points of the study.

    Each pattern is run without failures, and with ten failed links and one to five paths. The
    patterns of ``FALLING`` are also run with failures at a tenth of a link.
    """
    seeds = seeds_of(seed, quick)
    patterns = ("uniform", "bit-reversal") if quick else SYNTHETIC
    path_counts = (1, 4) if quick else (1, 2, 3, 4, 5)
    result = []
    for pattern in patterns:
        full_s = UNIFORM_S if pattern == "uniform" else None
        for paths in path_counts:
            failed: Results = {"faults": 10, "fault_kind": "start", "paths": paths}
            result += drb_points(NETWORK, pattern, seeds, quick=quick, full_s=full_s, **failed)
            if pattern in FALLING:
                loaded = {**failed, "rate": LOADED_RATE, "seconds": LOADED_S}
                result += drb_points(NETWORK, pattern, seeds, quick=quick, **loaded)
        result += drb_points(NETWORK, pattern, seeds, quick=quick, full_s=full_s)
    return result


def judge(rows: Rows) -> Verdict:
    """Check that all packets arrive and how latency depends on the number of paths.

    It should not change, or fall for bit reversal and butterfly.
    """
    checks = [delivery_check(rows), *_flat_checks(_latencies(rows, loaded=False))]
    for loaded in (False, True):
        latencies = _latencies(rows, loaded=loaded)
        for pattern in FALLING:
            if pattern in latencies:
                checks.append(_fall_check(pattern, latencies[pattern], loaded=loaded))
    return Verdict.of(checks)


def _flat_checks(latencies: Latencies) -> list[Check]:
    """Check that latency is the same with all numbers of paths, for each pattern."""
    with_fewest_paths = [mean(line[min(line)]) for line in latencies.values()]
    difference_of_patterns = _difference_percent(with_fewest_paths)
    checks = []
    for pattern, line in latencies.items():
        means = [mean(values) for values in line.values()]
        name = (
            f"{pattern}: latency between the least and the most of all numbers of paths (% apart)"
        )
        check = Claim(name).equal(0.0, _difference_percent(means), 2.0)
        check = check.cites("no significant changes (5.6.6)")
        checks.append(check.against(difference_of_patterns, "as far apart as the patterns are"))
    return checks


def _difference_percent(values: Sequence[float]) -> float:
    """Return the difference of the largest and the smallest value, in percent of the latter."""
    return 100.0 * (max(values) - min(values)) / min(values)


def _fall_check(pattern: str, line: Mapping[int, Sequence[float]], *, loaded: bool) -> Check:
    """Check that latency falls from the smallest number of paths to the largest.

    Runs of the same seed, in which the same links fail, are compared.

    Args:
        pattern: The pattern.
        line: Latency of each run, by number of paths.
        loaded: Whether each node offers a tenth of a link.
    """
    fewest_paths = min(line)
    most_paths = max(line)
    falls_percent = []
    for before, after in zip(line[fewest_paths], line[most_paths], strict=True):
        falls_percent.append(100.0 * (before - after) / before)
    if loaded:
        load = "a tenth of a link a node"
        detail = ""
    else:
        load = "400 packets/s a node"
        detail = "nothing queues: a metapath that is never too slow keeps one path"
    name = f"{pattern}, {load}: latency falls from 1 path to {most_paths} (%)"
    check = at_least(name, VISIBLE_PERCENT, falls_percent, detail)
    return check.cites("a downward trend (5.6.6)").against(0.0, "no fall")


def figures(rows: Rows) -> Figures:
    """Draw latency over the number of alternative paths (Figure 5.39)."""
    stated = f"{NETWORK}, ten failed links: latency by number of alternative paths"
    loaded = f"{NETWORK}, ten failed links, each node offers a tenth of a link"
    return {
        "5.39": _draw(stated, _latencies(rows, loaded=False)),
        "5.39-loaded": _draw(loaded, _latencies(rows, loaded=True)),
    }


def _draw(title: str, latencies: Latencies) -> Figure:
    samples = {}
    for pattern, line in latencies.items():
        for paths, values in line.items():
            samples[pattern, paths] = values
    return draw_lines(title, samples, x="alternative paths", y=LATENCY)


def _latencies(rows: Rows, *, loaded: bool) -> Latencies:
    """Return the latencies with failed links.

    Args:
        rows: All rows.
        loaded: Whether each node offers a tenth of a link, or 400 packets/s.
    """
    result: Latencies = {}
    for row in rows:
        if row["faults"] and (row["rate"] == LOADED_RATE) == loaded:
            by_paths = result.setdefault(row["pattern"], {})
            by_paths.setdefault(row["paths"], []).append(1e6 * row["latency_s"])
    return result


STUDY = Study.of_module(
    __name__,
    name="interconnect_paths",
    title="One to five alternative paths with ten failed links",
    deviations=(
        "1.5 s per run (uniform 3 s, with --quick 0.15 s), messages at random (Poisson), payloads "
        "of 512 bytes only.",
        "Two patterns also run at a tenth of a link for 4 ms. At the stated rate nothing queues, "
        "so that no second path opens.",
    ),
    answers="Zarza 2011, Figure 5.39: latency is flat; with bit reversal and butterfly it falls",
    measure=measure_run,
)
