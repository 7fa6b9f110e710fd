"""The 362 traffic patterns of Swiss-T1, and the worked examples of the documents.

For the patterns: liquid throughput (Figures 40, 41), skeletons (Figure 33) and congestion graphs
(Figure 63). For the worked examples, see ``worked_examples``.
"""

from collections.abc import Sequence

from experiments.liquid import worked_examples
from experiments.liquid.rows import column
from experiments.liquid.swiss_t1_traffic import SIZE, draw_patterns, pattern_points, traffic_of
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, parted
from testbed.report.drawing.charts import INK, ORANGE, Figure, chart

THROUGHPUT = "liquid throughput (links)"
PATTERNS = 362

# Bottleneck load and edges of the congestion graph if all 32 nodes exchange messages.
FULL_MACHINE_LOAD = 48
FULL_MACHINE_EDGES = 48_704

# Mean share of the transfers in the skeleton, over all patterns.
MEAN_SKELETON = 0.315


def points(quick: bool, seed: int) -> Points:
    """Return one point per pattern, and one per worked example."""
    return pattern_points(quick) + worked_examples.points(seed)


def measure(point: Row) -> Results:
    """Return the properties of a pattern's traffic, or the results of a worked example."""
    if "network" in point:
        return worked_examples.measure(point)
    traffic = traffic_of(point["allocation"])
    return {
        "transfers": len(traffic),
        "bottleneck_load": traffic.bottleneck_load,
        "liquid_throughput": traffic.liquid_throughput,
        "skeleton": len(traffic.skeleton),
        "edges": len(traffic.congestion_graph()),
    }


def judge(rows: Rows) -> Verdict:
    """Check the counts for all 32 nodes, the mean skeleton, and the worked examples.

    The mean skeleton is only checked if all patterns were measured.
    """
    examples, patterns = parted(rows, "network")
    all_nodes = patterns[-1]
    skeleton_shares = [row["skeleton"] / row["transfers"] for row in patterns]
    mean_skeleton = sum(skeleton_shares) / len(patterns)
    different = {(row["nodes"], row["bottleneck_load"]) for row in patterns}
    complete = len(patterns) == PATTERNS
    expected_patterns = PATTERNS if complete else len(patterns)
    checks = [
        Claim("patterns of different nodes or liquid throughput").count(
            expected_patterns, len(different)
        ),
        Claim("bottleneck load of all 32 nodes").count(
            FULL_MACHINE_LOAD, all_nodes["bottleneck_load"]
        ),
        Claim("edges of the congestion graph of all 32 nodes").count(
            FULL_MACHINE_EDGES, all_nodes["edges"]
        ),
    ]
    if complete:
        checks.append(
            Claim("mean share of transfers in the skeleton")
            .equal(MEAN_SKELETON, mean_skeleton, 0.02)
            .cites("31.5 %, Figure 33")
            .against(1.0, "no skeleton smaller than its traffic")
            .noting(
                "which of the allocations with the same nodes and throughput stands for them "
                "moves it"
            )
        )
    return Verdict.of(checks + worked_examples.example_checks(examples))


def figures(rows: Rows) -> Figures:
    """Draw Figures 33, 40, 41, 62 and 63 of the thesis."""
    examples, patterns = parted(rows, "network")
    nodes = column(patterns, "nodes")
    throughput = column(patterns, "liquid_throughput")
    in_order = draw_patterns(
        patterns,
        "The traffic patterns along one axis (Figure 41)",
        {"liquid throughput": throughput, "nodes": nodes},
        ylabel=THROUGHPUT,
    )
    return {
        "skeletons": _skeleton_figure(patterns),
        "throughput-by-nodes": _figure_by_nodes(nodes, throughput),
        "throughput-in-order": in_order,
        "congestion-graphs": _graph_figure(patterns),
        **worked_examples.figures(examples),
    }


def _skeleton_figure(patterns: Rows) -> Figure:
    percentages = [100 * row["skeleton"] / row["transfers"] for row in patterns]
    return draw_patterns(
        patterns,
        "Skeletons of the traffic patterns (Figure 33)",
        {"one pattern": percentages},
        (sum(percentages) / len(percentages), "mean"),
        (100 * MEAN_SKELETON, "mean in the thesis: 31.5 %"),
        ylabel="transfers in the skeleton (%)",
    )


def _graph_figure(patterns: Rows) -> Figure:
    """Draw the numbers of edges of the congestion graphs.

    The axis is logarithmic, so that 0 edges are drawn as 0.5.
    """
    edges = []
    complete_graph_edges = []
    for row in patterns:
        transfers = row["transfers"]
        edges.append(max(row["edges"], 0.5))
        complete_graph_edges.append(max(transfers * (transfers - 1) / 2, 0.5))
    return draw_patterns(
        patterns,
        "Congestion graphs of the traffic patterns (Figure 63); none is drawn as one half",
        {"congestion graph": edges, "complete graph": complete_graph_edges},
        (FULL_MACHINE_EDGES, "all 32 nodes: 48,704 edges"),
        ylabel="edges",
        yscale="log",
    )


def _figure_by_nodes(nodes: Sequence[float], throughput: Sequence[float]) -> Figure:
    figure, axes = chart(
        "Liquid throughput of every allocation of Swiss-T1 (Figure 40)",
        size=SIZE,
        xlabel="nodes taking part",
        ylabel=THROUGHPUT,
        xlim=(0, 33),
        ylim=(0, 33),
    )
    label = "as many links as nodes: no congestion"
    axes.plot([0, 32], [0, 32], "--", color=INK, linewidth=0.8, label=label)
    axes.plot(nodes, throughput, "o", markersize=3, label="one pattern")
    label = "all 32 nodes: 21.33 links"
    axes.axhline(1024 / 48, color=ORANGE, linewidth=0.8, linestyle=":", label=label)
    axes.legend()
    return figure


STUDY = Study.of_module(
    __name__,
    name="liquid_patterns",
    title="The traffic patterns of Swiss-T1 and the worked examples: throughput, skeletons, "
    "congestion graphs",
    answers="Gabrielyan 2007, Figures 33, 40, 41 and 63: 362 patterns, skeletons of 31.5 %, "
    "48,704 edges; Figures 27 to 30, 36, 37 and 62; Gabrielyan and Hersch 2002, section 1: "
    "416.67 and 357.14 MB/s",
    deviations=(
        "of Figure 27 only what the text says is built: A to B and C to D meet on one fibre",
    ),
)
