"""The 362 traffic patterns of Swiss-T1: liquid throughput (Figures 40, 41), skeletons (33) and congestion graphs
(63); and the documents' worked examples: two switches, a traffic without a liquid schedule, two lightpaths over one
fibre.
"""

from collections.abc import Sequence

from experiments.liquid import worked_examples
from experiments.liquid.swiss_t1_traffic import SIZE, draw_patterns, pattern_points, traffic_of
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, parted
from testbed.report.drawing.charts import INK, ORANGE, Figure, chart

THROUGHPUT = "liquid throughput (links)"
FULL_MACHINE_LOAD = 48
FULL_MACHINE_EDGES = 48_704
PATTERNS = 362
MEAN_SKELETON = 0.315


def points(quick: bool, seed: int) -> Points:
    """One a pattern, and one a worked example."""
    return pattern_points(quick) + worked_examples.points(seed)


def measure(point: Row) -> Results:
    """What follows from the traffic alone; schedules of a worked example."""
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
    """The whole machine's figures exactly; the skeletons' mean where all patterns were taken; the worked examples'
    numbers."""
    examples, rows = parted(rows, "network")
    whole = rows[-1]
    mean = sum(row["skeleton"] / row["transfers"] for row in rows) / len(rows)
    different = len({(row["nodes"], row["bottleneck_load"]) for row in rows})
    everything = len(rows) == PATTERNS
    checks = [
        Claim("patterns of different nodes or liquid throughput").count(
            PATTERNS if everything else len(rows), different
        ),
        Claim("bottleneck load of all 32 nodes").count(FULL_MACHINE_LOAD, whole["bottleneck_load"]),
        Claim("edges of the congestion graph of all 32 nodes").count(
            FULL_MACHINE_EDGES, whole["edges"]
        ),
    ]
    if everything:
        checks.append(
            Claim("mean share of transfers in the skeleton")
            .equal(MEAN_SKELETON, mean, 0.02)
            .cites("31.5 %, Figure 33")
            .against(1.0, "no skeleton smaller than its traffic")
            .noting(
                "which of the allocations with the same nodes and throughput stands for them moves it"
            )
        )
    return Verdict.of(checks + worked_examples.example_checks(examples))


def figures(rows: Rows) -> Figures:
    """Figures 33, 40, 41, 62 and 63 of the thesis."""
    examples, rows = parted(rows, "network")
    nodes, transfers, throughput, skeletons, edges = (
        [row[name] for row in rows]
        for name in ("nodes", "transfers", "liquid_throughput", "skeleton", "edges")
    )
    shares = [100 * part / whole for part, whole in zip(skeletons, transfers, strict=True)]
    mean = (sum(shares) / len(shares), "mean"), (100 * MEAN_SKELETON, "mean in the thesis: 31.5 %")
    skeleton, order = (
        "Skeletons of the traffic patterns (Figure 33)",
        "The traffic patterns along one axis (Figure 41)",
    )
    graphs = "Congestion graphs of the traffic patterns (Figure 63); none is drawn as one half"
    drawn = {
        "congestion graph": [max(count, 0.5) for count in edges],
        "complete graph": [max(count * (count - 1) / 2, 0.5) for count in transfers],
    }
    whole = FULL_MACHINE_EDGES, "all 32 nodes: 48,704 edges"
    return {
        "skeletons": draw_patterns(
            rows, skeleton, {"one pattern": shares}, *mean, ylabel="transfers in the skeleton (%)"
        ),
        "throughput-by-nodes": _by_nodes(nodes, throughput),
        "throughput-in-order": draw_patterns(
            rows, order, {"liquid throughput": throughput, "nodes": nodes}, ylabel=THROUGHPUT
        ),
        "congestion-graphs": draw_patterns(
            rows, graphs, drawn, whole, ylabel="edges", yscale="log"
        ),
        **worked_examples.figures(examples),
    }


def _by_nodes(nodes: Sequence[int], throughput: Sequence[float]) -> Figure:
    title = "Liquid throughput of every allocation of Swiss-T1 (Figure 40)"
    figure, axes = chart(
        title, size=SIZE, xlabel="nodes taking part", ylabel=THROUGHPUT, xlim=(0, 33), ylim=(0, 33)
    )
    axes.plot(
        [0, 32],
        [0, 32],
        "--",
        color=INK,
        linewidth=0.8,
        label="as many links as nodes: no congestion",
    )
    axes.plot(nodes, throughput, "o", markersize=3, label="one pattern")
    axes.axhline(
        1024 / 48, color=ORANGE, linewidth=0.8, linestyle=":", label="all 32 nodes: 21.33 links"
    )
    axes.legend()
    return figure


STUDY = Study.of_module(
    __name__,
    name="liquid_patterns",
    title="The traffic patterns of Swiss-T1 and the worked examples: throughput, skeletons, congestion graphs",
    answers="Gabrielyan 2007, Figures 33, 40, 41 and 63: 362 patterns, skeletons of 31.5 %, 48,704 edges; "
    "Figures 27 to 30, 36, 37 and 62; Gabrielyan and Hersch 2002, section 1: 416.67 and 357.14 MB/s",
    deviations=(
        "of Figure 27 only what the text says is built: A to B and C to D meet on one fibre",
    ),
)
