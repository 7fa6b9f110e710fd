"""Random placements of ``sfio_placements`` written on switches, by a liquid schedule and as they come (Gabrielyan 2007,
figure 21)."""

from __future__ import annotations

import statistics

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
from experiments.sfio.runs import REPEAT, accessed, judged
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

NODES, QUICK_NODES = (8, 16, 24, 31), (8, 24)
QUICK_PLACEMENTS = 2
DIRECTIONS = {"liquid": "liquid schedule", "none": "circuits as they come"}
ORDER_TOLERANCE, MIN_LIQUID, MAX_SHARE = 0.2, 0.85, 0.8


@options
class Options:
    """How many placements; the document measured ``PLACEMENTS``."""

    repetitions: int | None = option(
        default=None,
        kind=kinds.whole(1, 99),
        metavar="N",
        help=f"writes of each placement (the median counts; default: {REPEAT}; 1 with --quick)",
    )
    placements: int | None = option(
        default=None,
        kind=kinds.whole(1, PLACEMENTS),
        help=f"random placements of each number of nodes (default: {PLACEMENTS}; {QUICK_PLACEMENTS} with --quick)",
    )


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """One placement of all sizes after another, so that what is measured of a part is spread over the sizes."""
    options = options or Options()
    measured = options.placements or (QUICK_PLACEMENTS if quick else PLACEMENTS)
    several = options.repetitions or (1 if quick else REPEAT)
    more = {"repetitions": several} if several > 1 else {}
    return [
        {**placed_point(nodes, k, seed), "scheduling": scheduling, **more}
        for k in range(measured)
        for nodes in (QUICK_NODES if quick else NODES)
        for scheduling in DIRECTIONS
    ]


def measure(point: Row) -> Results:
    """One collective write of the placement."""
    network = f"swiss-t1:allocation={point['allocation']}"
    return accessed(
        network, {"repetitions": 1, **point}, **placed_options(point, point["scheduling"])
    )


def judge(rows: Rows) -> Verdict:
    """How measured placements agree with what was predicted of them, and what the medians over them say."""
    waiting, liquid = (where(rows, scheduling=way) for way in ("none", "liquid"))
    return judged(rows, [*_agreement(waiting, liquid), *_growth(waiting, liquid)])


def _agreement(waiting: Rows, liquid: Rows) -> list[Check]:
    """Measured beside predicted throughput, and next to the liquid one."""

    def ratios(rows: Rows, over: str, under: str) -> list[float]:
        return sorted(row[f"{over}_bps"] / row[f"{under}_bps"] for row in rows)

    own, unscheduled = (
        ratios(waiting, "throughput", "predicted"),
        ratios(waiting, "throughput", "liquid"),
    )
    lossless = statistics.median(ratios(waiting, "liquid", "predicted"))
    return [
        Claim("circuits as they come: measured over predicted throughput, median")
        .equal(1.0, statistics.median(own), ORDER_TOLERANCE)
        .against(lossless, "nothing lost by the order: liquid throughput")
        .noting(f"{len(own)} runs, {own[0]:.2f} to {own[-1]:.2f}"),
        Claim("liquid schedule: measured over liquid throughput, worst placement")
        .at_least(MIN_LIQUID, ratios(liquid, "throughput", "liquid")[0])
        .against(statistics.median(unscheduled), "circuits as they come, median"),
    ]


def _growth(waiting: Rows, liquid: Rows) -> list[Check]:
    """What more nodes bring to all together, and what each is left with."""
    unscheduled = {
        nodes: statistics.median(values)
        for nodes, values in spread(waiting, "throughput_bps").items()
    }
    checks = [scaling_check(unscheduled)]
    each = {
        nodes: statistics.median(values) / nodes
        for nodes, values in spread(liquid, "throughput_bps").items()
    }
    if {8, 24} <= each.keys():
        checks.append(
            Claim("liquid schedule: throughput of a node at 24 nodes over that at 8, medians")
            .at_most(MAX_SHARE, each[24] / each[8])
            .cites("a major bottleneck once half of the nodes are allocated, section 2.8.2")
            .against(1.0, "no bottleneck in the network")
        )
    if 31 in unscheduled:
        checks.append(links_check(unscheduled[31] / LINK_RATE_BPS))
    return checks


def figures(rows: Rows) -> Figures:
    """Figure 21: every placement a point, medians as lines."""
    title = "All to all on Swiss-T1, random placements of each number of nodes, 5 Mbit/s links"
    measured = {name: where(rows, scheduling=way) for way, name in DIRECTIONS.items()}
    predicted = [{**row, "invalid": None} for row in where(rows, scheduling="none")]
    return {"placed-writes": placement_figure(predicted, measured, title=title)}


STUDY = Study.of_module(
    __name__,
    name="sfio_placed_writes",
    title="Random placements on Swiss-T1 written on switches (Figure 21)",
    answers="Gabrielyan 2007, Figure 21 and section 2.10: all-to-all writes of nodes assigned at random",
    deviations=(
        "8, 16, 24 and 31 nodes instead of every number from 1 to 31, each placement written three times "
        "(--quick: 8 and 24 nodes, two placements, once)",
        "40 kB a pair of processes instead of 1 GB a subfile: 2.6 to 38 MB a file",
        "links of 5 Mbit/s instead of 50 to 86 MB/s; circuits of a user-space switch instead of wormholes; no disks",
        "the document's transfers were not scheduled: that is the series of circuits as they come",
    ),
    emulation=True,
)
