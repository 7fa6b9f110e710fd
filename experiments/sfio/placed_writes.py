"""Writes of a striped file by randomly placed nodes, on switches (Gabrielyan 2007, Figure 21).

The placements are those of the study ``sfio_placements``. Each file is written by a liquid
schedule, and by circuits that are set up in the order in which they are requested.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from experiments.sfio.placements import (
    LINK_RATE_BPS,
    PLACEMENTS,
    links_check,
    placed_options,
    placed_point,
    placement_figure,
    scaling_check,
    spread,
)
from experiments.sfio.runs import REPEAT, measure_access, verdict_of_runs
from testbed.model.options import kinds
from testbed.model.options.option import option, options
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
    where,
)

NODES = (8, 16, 24, 31)
QUICK_NODES = (8, 24)
QUICK_PLACEMENTS = 2
# The methods of scheduling, and their names in figures.
DIRECTIONS = {"liquid": "liquid schedule", "none": "circuits as they come"}

# Tolerance of measured over predicted throughput.
ORDER_TOLERANCE = 0.2
# Smallest accepted share of the liquid throughput with a liquid schedule.
MIN_LIQUID = 0.85
# Largest accepted throughput per node with 24 nodes, over that with 8 nodes.
MAX_SHARE = 0.8


@options
class Options:
    """Number of placements, and number of writes for each of them."""

    repetitions: int | None = option(
        default=None,
        kind=kinds.whole(1, 99),
        metavar="N",
        help="number of writes of each placement; the median counts "
        f"(default {REPEAT}; 1 with --quick)",
    )
    placements: int | None = option(
        default=None,
        kind=kinds.whole(1, PLACEMENTS),
        help="number of random placements for each number of nodes "
        f"(default {PLACEMENTS}; {QUICK_PLACEMENTS} with --quick)",
    )


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """Return the points: for each placement number, all numbers of nodes.

    Therefore a run that measures only the first points covers all numbers of nodes.
    """
    options = options or Options()
    placements = options.placements
    if placements is None:
        placements = QUICK_PLACEMENTS if quick else PLACEMENTS
    repetitions = options.repetitions
    if repetitions is None:
        repetitions = 1 if quick else REPEAT
    result = []
    for placement in range(placements):
        for nodes in QUICK_NODES if quick else NODES:
            for scheduling in DIRECTIONS:
                point = placed_point(nodes, placement, seed)
                point["scheduling"] = scheduling
                if repetitions > 1:
                    point["repetitions"] = repetitions
                result.append(point)
    return result


def measure(point: Row) -> Results:
    """Measure a collective write of the placement."""
    network = f"swiss-t1:allocation={point['allocation']}"
    options = placed_options(point, point["scheduling"])
    return measure_access(network, {"repetitions": 1, **point}, **options)


def judge(rows: Rows) -> Verdict:
    """Compare measured with predicted throughput, and check its medians over the placements."""
    unscheduled = where(rows, scheduling="none")
    scheduled = where(rows, scheduling="liquid")
    checks = [
        _prediction_check(unscheduled),
        _schedule_check(scheduled, unscheduled),
        *_growth_checks(scheduled, unscheduled),
    ]
    return verdict_of_runs(rows, checks)


def _ratios(rows: Rows, over: str, under: str) -> list[float]:
    """Return the sorted ratios of two throughputs, such as "liquid" and "predicted"."""
    return sorted(row[f"{over}_bps"] / row[f"{under}_bps"] for row in rows)


def _prediction_check(unscheduled: Rows) -> Check:
    measured = _ratios(unscheduled, "throughput", "predicted")
    liquid = statistics.median(_ratios(unscheduled, "liquid", "predicted"))
    return (
        Claim("circuits as they come: measured over predicted throughput, median")
        .equal(1.0, statistics.median(measured), ORDER_TOLERANCE)
        .against(liquid, "nothing lost by the order: liquid throughput")
        .noting(f"{len(measured)} runs, {measured[0]:.2f} to {measured[-1]:.2f}")
    )


def _schedule_check(scheduled: Rows, unscheduled: Rows) -> Check:
    worst = _ratios(scheduled, "throughput", "liquid")[0]
    rival = statistics.median(_ratios(unscheduled, "throughput", "liquid"))
    return (
        Claim("liquid schedule: measured over liquid throughput, worst placement")
        .at_least(MIN_LIQUID, worst)
        .against(rival, "circuits as they come, median")
    )


def _median_bps(rows: Rows) -> Mapping[int, float]:
    """Return the median throughput by the number of nodes."""
    bps_by_nodes = spread(rows, "throughput_bps")
    return {nodes: statistics.median(values) for nodes, values in bps_by_nodes.items()}


def _growth_checks(scheduled: Rows, unscheduled: Rows) -> list[Check]:
    """Check that more nodes have more total throughput, but less throughput per node."""
    unscheduled_bps = _median_bps(unscheduled)
    scheduled_bps = _median_bps(scheduled)
    checks = [scaling_check(unscheduled_bps)]
    if {8, 24} <= scheduled_bps.keys():
        at_8 = scheduled_bps[8] / 8
        at_24 = scheduled_bps[24] / 24
        checks.append(
            Claim("liquid schedule: throughput of a node at 24 nodes over that at 8, medians")
            .at_most(MAX_SHARE, at_24 / at_8)
            .cites("a major bottleneck once half of the nodes are allocated, section 2.8.2")
            .against(1.0, "no bottleneck in the network")
        )
    if 31 in unscheduled_bps:
        checks.append(links_check(unscheduled_bps[31] / LINK_RATE_BPS))
    return checks


def figures(rows: Rows) -> Figures:
    """Draw Figure 21, with every placement as a point and medians as lines."""
    title = "All to all on Swiss-T1, random placements of each number of nodes, 5 Mbit/s links"
    measured = {}
    for scheduling, name in DIRECTIONS.items():
        measured[name] = where(rows, scheduling=scheduling)
    # Predictions are valid even if the machine did not keep up.
    predicted = [{**row, "invalid": None} for row in where(rows, scheduling="none")]
    return {"placed-writes": placement_figure(predicted, measured, title=title)}


STUDY = Study.of_module(
    __name__,
    name="sfio_placed_writes",
    title="Random placements on Swiss-T1 written on switches (Figure 21)",
    answers="Gabrielyan 2007, Figure 21 and section 2.10: all-to-all writes of nodes assigned at "
    "random",
    deviations=(
        "8, 16, 24 and 31 nodes instead of every number from 1 to 31, each placement written three "
        "times (--quick: 8 and 24 nodes, two placements, once)",
        "40 kB a pair of processes instead of 1 GB a subfile: 2.6 to 38 MB a file",
        "links of 5 Mbit/s instead of 50 to 86 MB/s; circuits of a user-space switch instead of "
        "wormholes; no disks",
        "the document's transfers were not scheduled: that is the series of circuits as they come",
    ),
    emulation=True,
)
