"""Swiss-T1 with switches filled in pairs: halves of the nodes, and a striped file.

Half of the nodes send to the other half (Gabrielyan 2007, Figure 19), and all nodes write a striped
file to all. Throughput follows the topology: it is constant while nodes fill the switches that are
in use, and rises when switches are added.

The allocation in pairs is fitted to the figure of the document. Nodes that are taken at random do
not have the steps. This study measures it, and sfio_placements computes it.
"""

import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.placements import STEPS, SWITCH_OF_NODE, allocation_text, filled_in_pairs
from experiments.sfio.runs import measure_access, measure_exchange, verdict_of_runs
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
    parted,
    where,
)
from testbed.report.drawing.charts import BLUE, GREEN, Figure, draw_dots, draw_lines

ALL_NODES = 32
NODES = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32)
# The numbers of nodes before and after each step. They are measured first.
QUICK_NODES = (8, 10, 16, 18, 24, 26)
# Numbers of nodes that are also measured without a schedule.
FREE_NODES = (8, 10, 16, 18, 24, 26, 32)
# Random draws of the nodes, for each number in ``QUICK_NODES``.
DRAWS = 5

LINK_RATE_BPS = 5e6
# Bytes of the striped file for each pair of nodes.
PAIR_BYTES = 40_000
MESSAGE_BYTES = 60_000
STRIPE_UNIT = 200

# Smallest accepted factor by which the throughput grows at a step.
MIN_STEP = 1.3

# Largest accepted factor between any other two neighbouring numbers of nodes.
MAX_BETWEEN = 1.25

# Smallest accepted share of the liquid throughput.
MIN_RATIO = 0.85
# Largest accepted product of the steps of random nodes, over that of the fitted allocation.
MAX_RANDOM = 0.5
# Share of the liquid throughput without a schedule, as sfio_placements computes it.
COMPUTED_FREE_RATIO = 0.6

# Names of the series in figures.
HALVES = {
    "halves": "fitted allocation, liquid schedule (Figure 19)",
    "halves-free": "fitted allocation, nobody waits",
    "halves-random": f"nodes at random, liquid schedule, median of {DRAWS}",
}
STRIPED = {
    "striped-liquid": "striped file, liquid schedule",
    "striped": "striped file, circuits as they come",
}

# Series with a liquid schedule: name in checks.
SCHEDULED = {"halves": "half sends to half", "striped-liquid": "striped file, all to all"}
# Series without a schedule.
UNSCHEDULED = ("halves-free", "striped")


def allocation(nodes: int) -> str:
    """Return the number of nodes of each switch, if switches are filled in pairs.

    >>> allocation(10)
    '3-3-2-2-0-0-0-0'
    """
    return allocation_text([SWITCH_OF_NODE[node] for node in filled_in_pairs(nodes)])


def points(quick: bool, seed: int) -> Points:
    """Return the points with a schedule, then some without one, and some with random nodes.

    Numbers of nodes at steps come first. A quick run has only points with a schedule.
    """
    node_counts: Sequence[int] = QUICK_NODES
    if not quick:
        other_counts = [nodes for nodes in NODES if nodes not in QUICK_NODES]
        node_counts = [*QUICK_NODES, *other_counts]
    result = []
    for series in SCHEDULED:
        result += _fitted_points(series, node_counts, seed)
    if not quick:
        free_counts = [nodes for nodes in node_counts if nodes in FREE_NODES]
        for series in UNSCHEDULED:
            result += _fitted_points(series, free_counts, seed)
        result += grid(
            nodes=QUICK_NODES,
            allocation=allocation(ALL_NODES),
            series="halves-random",
            bytes=MESSAGE_BYTES,
            seed=seed,
            draw=range(DRAWS),
        )
    return result


def _fitted_points(series: str, node_counts: Iterable[int], seed: int) -> Points:
    """Return the points of a series with the fitted allocation."""
    size = MESSAGE_BYTES if series in HALVES else PAIR_BYTES
    result: Points = []
    for nodes in node_counts:
        result.append(
            {
                "nodes": nodes,
                "allocation": allocation(nodes),
                "series": series,
                "bytes": size,
                "seed": seed,
            }
        )
    return result


def taken_nodes(point: Row) -> list[int]:
    """Return the nodes (0 to 31) of a point.

    They are those of the fitted allocation, or of a random draw in the order in which they were
    drawn.
    """
    if "draw" not in point:
        return filled_in_pairs(point["nodes"])
    rng = random.Random(f"{point['seed']}/{point['nodes']}/{point['draw']}")
    return rng.sample(range(ALL_NODES), point["nodes"])


def halves(taken: Sequence[int]) -> list[tuple[str, str]]:
    """Return the pairs of processors if the first half of the nodes sends to the other half."""
    half = len(taken) // 2
    pairs = []
    for sender in taken[:half]:
        for receiver in taken[half:]:
            pairs.append((f"t{sender}", f"r{receiver}"))
    return pairs


def measure(point: Row) -> Results:
    """Measure an exchange of the allocated nodes."""
    network = f"swiss-t1:allocation={point['allocation']}"
    series = point["series"]
    if series in HALVES:
        return measure_exchange(
            network,
            message_bytes=point["bytes"],
            link_rate_bps=LINK_RATE_BPS,
            seed=point["seed"],
            free=series == "halves-free",
            pairs=halves(taken_nodes(point)),
        )
    return measure_access(
        network,
        point,
        nodes=point["nodes"],
        link_rate_bps=LINK_RATE_BPS,
        stripe_unit=STRIPE_UNIT,
        file_bytes=point["nodes"] ** 2 * point["bytes"],
        scheduling="liquid" if series == "striped-liquid" else "none",
        switching="circuit",
    )


def _liquid_share(row: Row) -> float:
    """Return the throughput over the liquid throughput."""
    return float(row["throughput_bps"] / row["liquid_bps"])


def judge(rows: Rows) -> Verdict:
    """Check that throughput rises at the three steps only, and is near the liquid throughput.

    Random nodes, if they were measured, must not have these steps.
    """
    unscheduled = [row for row in rows if row["series"] in UNSCHEDULED]
    unscheduled_share = COMPUTED_FREE_RATIO
    rival_note = "without a schedule, as sfio_placements computes"
    if unscheduled:
        unscheduled_share = min(map(_liquid_share, unscheduled))
        rival_note = "without a schedule, worst"
    checks: list[Check] = []
    for series, name in SCHEDULED.items():
        rows_by_nodes = {row["nodes"]: row for row in where(rows, series=series)}
        checks += _step_checks(name, rows_by_nodes)
        worst = min(rows_by_nodes.values(), key=_liquid_share)
        share_name = (
            f"{name}, liquid schedule: over liquid throughput, "
            f"worst number of nodes ({worst['nodes']})"
        )
        checks.append(
            Claim(share_name)
            .at_least(MIN_RATIO, _liquid_share(worst))
            .against(unscheduled_share, rival_note)
        )
    checks += _random_checks(rows)
    return verdict_of_runs(rows, checks)


def _product_of_steps(rows: Rows) -> float:
    """Return the product of the growth of median throughput at the three steps."""
    bps_by_nodes = grouped(rows, "nodes", "throughput_bps")
    medians = {nodes: statistics.median(values) for nodes, values in bps_by_nodes.items()}
    return float(prod(medians[after] / medians[before] for before, after in STEPS))


def _random_checks(rows: Rows) -> list[Check]:
    """Check that random nodes do not have the steps, although they reach the liquid throughput."""
    drawn = where(rows, series="halves-random")
    if not drawn:
        return []
    fitted = where(rows, series="halves")
    steps_name = (
        "half sends to half, nodes at random: product of the three steps over that of the fitted "
        "allocation"
    )
    share_name = (
        "half sends to half, nodes at random, liquid schedule: over liquid throughput, worst draw"
    )
    return [
        Claim(steps_name)
        .at_most(MAX_RANDOM, _product_of_steps(drawn) / _product_of_steps(fitted))
        .cites("a significant increase, section 2.8.2, which does not say which nodes were taken")
        .against(1.0, "the same steps, whichever nodes are taken"),
        Claim(share_name)
        .at_least(MIN_RATIO, min(map(_liquid_share, drawn)))
        .against(COMPUTED_FREE_RATIO, "without a schedule, as sfio_placements computes"),
    ]


def _step_checks(name: str, rows_by_nodes: Mapping[int, Row]) -> list[Check]:
    """Check the growth of throughput at the three steps, and elsewhere from 8 nodes on.

    Args:
        name: Name of the series, which has a schedule.
        rows_by_nodes: The row of each number of nodes.
    """

    def growth(step: tuple[int, int], field: str = "throughput_bps") -> float:
        before, after = step
        return float(rows_by_nodes[after][field] / rows_by_nodes[before][field])

    checks = []
    for step in STEPS:
        before, after = step
        checks.append(
            Claim(f"{name}: throughput at {after} over {before} nodes")
            .at_least(MIN_STEP, growth(step))
            .cites("a significant increase, section 2.8.2")
            .against(1.0, "no step")
            .noting(f"liquid throughput: {growth(step, 'liquid_links'):.2f}")
        )
    first_node_count = STEPS[0][0]
    between = []
    for nodes in sorted(rows_by_nodes):
        pair = (nodes, nodes + 2)
        if nodes >= first_node_count and nodes + 2 in rows_by_nodes and pair not in STEPS:
            between.append(pair)
    if between:
        largest = max(between, key=growth)
        before, after = largest
        checks.append(
            Claim(f"{name}: greatest growth elsewhere from 8 nodes on, at {after} over {before}")
            .at_most(MAX_BETWEEN, growth(largest))
            .cites("no significant increase elsewhere, section 2.8.2")
            .against(min(map(growth, STEPS)), "the smallest of the three steps")
        )
    return checks


def figures(rows: Rows) -> Figures:
    """Draw the throughput over the number of nodes, as Figure 19, and that of a striped file.

    The steps are marked.
    """
    return {
        "halves": _step_figure(
            rows,
            HALVES,
            "nodes, the first half of which send to the other half",
            "Half of Swiss-T1's nodes send to the other half, 5 Mbit/s links",
        ),
        "striped": _step_figure(
            rows,
            STRIPED,
            "nodes, each of which computes and keeps a subfile",
            f"All to all on Swiss-T1, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes",
        ),
    }


def _step_figure(rows: Rows, names: Mapping[str, str], x_label: str, title: str) -> Figure:
    """Draw some series, and mark the steps, at which two more switches come into use.

    Args:
        rows: The rows of all series.
        names: Names of the series that are drawn.
        x_label: Label of the x axis.
        title: Title of the figure.
    """
    shown = [row for row in rows if row["series"] in names]
    drawn, fitted = parted(shown, "draw")
    samples = throughputs(fitted, "nodes", lambda row: names[row["series"]])
    for row in fitted:
        samples["liquid throughput", row["nodes"]] = (row["liquid_bps"] / 1e6, 0.0)
    mbps_by_nodes = grouped(drawn, "nodes", lambda row: row["throughput_bps"] / 1e6)
    for nodes, values in mbps_by_nodes.items():
        samples[HALVES["halves-random"], nodes] = (statistics.median(values), 0.0)
    figure = draw_lines(title, samples, x=x_label, y=TOGETHER)
    for nodes, values in mbps_by_nodes.items():
        draw_dots(figure.axes[0], nodes, values, GREEN)
    for before, after in STEPS:
        figure.axes[0].axvspan(before, after, color=BLUE, alpha=0.12, linewidth=0)
    return finish(figure, shown, "nodes")


STUDY = Study.of_module(
    __name__,
    name="sfio_swiss_t1",
    title="Steps of Swiss-T1's throughput where two more switches come into use (Figure 19)",
    answers="Gabrielyan 2007, Figure 19 and section 2.8.2: throughput rises from 8 to 10, 16 to 18 "
    "and 24 to 26 nodes",
    deviations=(
        "the document does not say which nodes were taken: the allocation is fitted to its figure "
        "(switches filled two by two, the first half sends); nodes at random, five draws of six "
        "numbers, do not have the three steps",
        "messages of 60 kB, and 40 kB a pair of the striped file, instead of large ones whose size "
        "is not given",
        "links of 5 Mbit/s instead of 50 to 86 MB/s; circuits of a user-space switch instead of "
        "wormholes",
        "the document's messages were not scheduled; both are measured, without at seven numbers, "
        "once or thrice each",
    ),
    emulation=True,
)
