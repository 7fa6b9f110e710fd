"""Swiss-T1 with switches filled two by two: half of the nodes send to the other half (Gabrielyan 2007, figure 19), and
all write a striped file to all.

Throughput follows the topology: it stays where it is while nodes fill the switches in use, and rises when switches are
added. That allocation is fitted to the document's figure; nodes taken at random do not have the steps, measured here
and computed by sfio_placements.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from math import prod

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.placements import STEPS, filled_in_pairs
from experiments.sfio.runs import accessed, judged, transferred
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
    grid,
    grouped,
    where,
)
from testbed.report.drawing.charts import BLUE, GREEN, Figure, draw_dots, draw_lines
from topologies.swiss_t1 import NODES_PER_SWITCH, SWITCHES

NODES, QUICK_NODES = (
    (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32),
    (8, 10, 16, 18, 24, 26),
)
FREE_NODES = (8, 10, 16, 18, 24, 26, 32)
"""Numbers of nodes that are measured without a schedule as well."""
DRAWS = 5
"""Of nodes at random, of each of ``QUICK_NODES``."""
LINK_RATE_BPS = 5e6
PAIR_BYTES, MESSAGE_BYTES = 40_000, 60_000
STRIPE_UNIT = 200
MIN_STEP, MAX_BETWEEN, MIN_RATIO, MAX_RANDOM = 1.3, 1.25, 0.85, 0.5
HALVES = {
    "halves": "fitted allocation, liquid schedule (Figure 19)",
    "halves-free": "fitted allocation, nobody waits",
    "halves-random": f"nodes at random, liquid schedule, median of {DRAWS}",
}
STRIPED = {
    "striped-liquid": "striped file, liquid schedule",
    "striped": "striped file, circuits as they come",
}


def allocation(nodes: int) -> str:
    """Nodes of each switch: evenly over two switches up to 8 nodes, over four up to 16, over six, over eight.

    >>> allocation(10)
    '3-3-2-2-0-0-0-0'
    """
    switches = [node // NODES_PER_SWITCH for node in filled_in_pairs(nodes)]
    return "-".join(str(switches.count(k)) for k in range(SWITCHES))


def points(quick: bool, seed: int) -> Points:
    """Two ways with a schedule at every number of nodes, some without and some of nodes at random; steps first."""
    every = (
        QUICK_NODES if quick else sorted(NODES, key=lambda nodes: (nodes not in QUICK_NODES, nodes))
    )
    found = [(nodes, series) for series in ("halves", "striped-liquid") for nodes in every]
    if not quick:
        found += [
            (nodes, series)
            for series in ("halves-free", "striped")
            for nodes in every
            if nodes in FREE_NODES
        ]
    sizes = dict.fromkeys(HALVES, MESSAGE_BYTES) | dict.fromkeys(STRIPED, PAIR_BYTES)
    fitted = [
        {
            "nodes": nodes,
            "allocation": allocation(nodes),
            "series": series,
            "bytes": sizes[series],
            "seed": seed,
        }
        for nodes, series in found
    ]
    every_node = {"allocation": allocation(32), "series": "halves-random", "bytes": MESSAGE_BYTES}
    return fitted + (
        [] if quick else grid(nodes=QUICK_NODES, **every_node, seed=seed, draw=range(DRAWS))
    )


def taken_nodes(point: Row) -> list[int]:
    """The nodes (0 to 31) of a point: those of the fitted allocation, or of one draw of any, in the order drawn."""
    if "draw" not in point:
        return filled_in_pairs(point["nodes"])
    return random.Random(f"{point['seed']}/{point['nodes']}/{point['draw']}").sample(
        range(32), point["nodes"]
    )


def halves(taken: Sequence[int]) -> list[tuple[str, str]]:
    """The first half of the nodes sends, the other half receives: a pair of processors each."""
    half = len(taken) // 2
    return [(f"t{a}", f"r{b}") for a in taken[:half] for b in taken[half:]]


def measure(point: Row) -> Results:
    """One exchange of the allocated nodes."""
    network = f"swiss-t1:allocation={point['allocation']}"
    if point["series"] in HALVES:
        return transferred(
            network,
            message_bytes=point["bytes"],
            link_rate_bps=LINK_RATE_BPS,
            seed=point["seed"],
            free=point["series"] == "halves-free",
            pairs=halves(taken_nodes(point)),
        )
    file = {"stripe_unit": STRIPE_UNIT, "file_bytes": point["nodes"] ** 2 * point["bytes"]}
    order: Results = {
        "scheduling": "liquid" if point["series"] == "striped-liquid" else "none",
        "switching": "circuit",
    }
    return accessed(
        network, point, nodes=point["nodes"], link_rate_bps=LINK_RATE_BPS, **file, **order
    )


def judge(rows: Rows) -> Verdict:
    """The three steps, nothing like them in between, and the liquid throughput reached."""
    checks: list[Check] = []
    slowest = [
        r["throughput_bps"] / r["liquid_bps"]
        for r in rows
        if r["series"] in ("halves-free", "striped")
    ]
    words = (
        "without a schedule, worst"
        if slowest
        else "without a schedule, as sfio_placements computes"
    )
    for series, name in (
        ("halves", "half sends to half"),
        ("striped-liquid", "striped file, all to all"),
    ):
        found = {row["nodes"]: row for row in where(rows, series=series)}
        checks += _step_checks(name, found)
        short = min(found.values(), key=lambda row: row["throughput_bps"] / row["liquid_bps"])
        checks.append(
            Claim(
                f"{name}, liquid schedule: over liquid throughput, worst number of nodes ({short['nodes']})"
            )
            .at_least(MIN_RATIO, short["throughput_bps"] / short["liquid_bps"])
            .against(min(slowest, default=0.6), words)
        )
    return judged(rows, [*checks, *_random_checks(rows)])


def _random_checks(rows: Rows) -> list[Check]:
    """Of nodes at random, where they were measured: no such steps, though the schedule is as good."""
    drawn, fitted = where(rows, series="halves-random"), where(rows, series="halves")
    if not drawn:
        return []
    medians = [
        {
            nodes: statistics.median(values)
            for nodes, values in grouped(own, "nodes", "throughput_bps").items()
        }
        for own in (drawn, fitted)
    ]
    at_random, chosen = (
        prod(found[after] / found[before] for before, after in STEPS) for found in medians
    )
    return [
        Claim(
            "half sends to half, nodes at random: product of the three steps over that of the fitted allocation"
        )
        .at_most(MAX_RANDOM, at_random / chosen)
        .cites("a significant increase, section 2.8.2, which does not say which nodes were taken")
        .against(1.0, "the same steps, whichever nodes are taken"),
        Claim(
            "half sends to half, nodes at random, liquid schedule: over liquid throughput, worst draw"
        )
        .at_least(MIN_RATIO, min(row["throughput_bps"] / row["liquid_bps"] for row in drawn))
        .against(0.6, "without a schedule, as sfio_placements computes"),
    ]


def _step_checks(name: str, found: Mapping[int, Row]) -> list[Check]:
    """Of one series with a schedule, by nodes."""

    def growth(step: tuple[int, int], key: str = "throughput_bps") -> float:
        return float(found[step[1]][key] / found[step[0]][key])

    checks = [
        Claim(f"{name}: throughput at {step[1]} over {step[0]} nodes")
        .at_least(MIN_STEP, growth(step))
        .cites("a significant increase, section 2.8.2")
        .against(1.0, "no step")
        .noting(f"liquid throughput: {growth(step, 'liquid_links'):.2f}")
        for step in STEPS
    ]
    between = [
        (a, a + 2)
        for a in sorted(found)
        if a >= STEPS[0][0] and a + 2 in found and (a, a + 2) not in STEPS
    ]
    if between:
        most = max(between, key=growth)
        checks.append(
            Claim(f"{name}: greatest growth elsewhere from 8 nodes on, at {most[1]} over {most[0]}")
            .at_most(MAX_BETWEEN, growth(most))
            .cites("no significant increase elsewhere, section 2.8.2")
            .against(min(map(growth, STEPS)), "the smallest of the three steps")
        )
    return checks


def figures(rows: Rows) -> Figures:
    """Throughput over the number of nodes: Figure 19, and of a striped file; the steps marked."""
    sent, stored = (
        "nodes, the first half of which send to the other half",
        "nodes, each of which computes and keeps a subfile",
    )
    striped = f"All to all on Swiss-T1, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes"
    return {
        "halves": _step_figure(
            rows, HALVES, sent, "Half of Swiss-T1's nodes send to the other half, 5 Mbit/s links"
        ),
        "striped": _step_figure(rows, STRIPED, stored, striped),
    }


def _step_figure(rows: Rows, series: Mapping[str, str], x: str, title: str) -> Figure:
    own = [row for row in rows if row["series"] in series]
    chosen, drawn = (
        [row for row in own if ("draw" in row) is any_nodes] for any_nodes in (False, True)
    )
    liquid = {("liquid throughput", row["nodes"]): (row["liquid_bps"] / 1e6, 0.0) for row in chosen}
    samples = throughputs(chosen, "nodes", lambda row: series[row["series"]]) | liquid
    at_random = {
        nodes: [v / 1e6 for v in values]
        for nodes, values in grouped(drawn, "nodes", "throughput_bps").items()
    }
    samples |= {
        (HALVES["halves-random"], nodes): (statistics.median(v), 0.0)
        for nodes, v in at_random.items()
    }
    figure = draw_lines(title, samples, x=x, y=TOGETHER)
    for nodes, values in at_random.items():
        draw_dots(figure.axes[0], nodes, values, GREEN)
    for before, after in STEPS:  # where two more switches come into use
        figure.axes[0].axvspan(before, after, color=BLUE, alpha=0.12, linewidth=0)
    return finish(figure, own, "nodes")


STUDY = Study.of_module(
    __name__,
    name="sfio_swiss_t1",
    title="Steps of Swiss-T1's throughput where two more switches come into use (Figure 19)",
    answers="Gabrielyan 2007, Figure 19 and section 2.8.2: throughput rises from 8 to 10, 16 to 18 and 24 to 26 nodes",
    deviations=(
        "the document does not say which nodes were taken: the allocation is fitted to its figure (switches filled two "
        "by two, the first half sends); nodes at random, five draws of six numbers, do not have the three steps",
        "messages of 60 kB, and 40 kB a pair of the striped file, instead of large ones whose size is not given",
        "links of 5 Mbit/s instead of 50 to 86 MB/s; circuits of a user-space switch instead of wormholes",
        "the document's messages were not scheduled; both are measured, without at seven numbers, once or thrice each",
    ),
    emulation=True,
)
