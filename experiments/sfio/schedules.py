"""Collective writes and reads of a striped file on Swiss-T1, with a liquid schedule and without (Gabrielyan 2007,
section 2.8)."""

from experiments.sfio.figures import TOGETHER, finish, plot_throughput
from experiments.sfio.runs import accessed, judged
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid, where
from testbed.report.drawing.charts import AMBER, BLUE, INK, chart

ALLOCATIONS = {
    8: "4-4-0-0-0-0-0-0",
    12: "3-3-2-2-1-1-0-0",
    16: "2-2-2-2-2-2-2-2",
    24: "3-3-3-3-3-3-3-3",
    32: "4-4-4-4-4-4-4-4",
}
FULL_NODES, QUICK_NODES = (8, 12, 16, 24, 32), (8, 16)
LINK_RATE_BPS = 5e6
PAIR_BYTES = 40_000
"""So that an unscheduled read of 32 nodes takes nine seconds."""
STRIPE_UNIT = 200
MIN_GAIN, GAIN_FROM, MIN_RATIO = 1.3, 16, 0.85
DIRECTIONS = {"liquid": ("liquid schedule", BLUE), "none": ("circuits asked for as they come", AMBER)}


def points(quick: bool, seed: int) -> Points:
    """Both orders, written and read."""
    nodes = QUICK_NODES if quick else FULL_NODES
    every = grid(nodes=nodes, operation=("write", "read"), schedule=DIRECTIONS, pair_bytes=PAIR_BYTES, seed=seed)
    return [point | {"allocation": ALLOCATIONS[point["nodes"]]} for point in every]


def measure(point: Row) -> Results:
    """One collective operation over circuits."""
    network, size = f"swiss-t1:allocation={point['allocation']}", point["nodes"] ** 2 * point["pair_bytes"]
    file = {"stripe_unit": STRIPE_UNIT, "file_bytes": size}
    return accessed(network, point, nodes=point["nodes"], switching="circuit", link_rate_bps=LINK_RATE_BPS, **file)


def gains(rows: Rows) -> dict[tuple[str, int], float]:
    """(operation, nodes) -> scheduled over unscheduled throughput."""
    liquid, free = (
        {(row["operation"], row["nodes"]): row["throughput_bps"] for row in where(rows, schedule=how)}
        for how in DIRECTIONS
    )
    return {case: liquid[case] / free[case] for case in liquid}


def judge(rows: Rows) -> Verdict:
    """The gain from 16 nodes on, for writes and reads apart."""
    found = gains(rows)
    checks = []
    for operation in ("write", "read"):
        large = {nodes: gain for (kind, nodes), gain in found.items() if kind == operation and nodes >= GAIN_FROM}
        worst = min(large, key=lambda nodes: large[nodes])
        least, rival = (
            min(r["throughput_bps"] / r["liquid_bps"] for r in where(rows, operation=operation, schedule=how))
            for how in DIRECTIONS
        )
        checks += [
            Claim(f"{operation}: scheduled over unscheduled throughput, worst from {GAIN_FROM} nodes on ({worst})")
            .at_least(MIN_GAIN, large[worst])
            .cites("a major bottleneck if not properly coordinated and scheduled, section 2.8.2 (no value)")
            .against(1.0, "no gain"),
            Claim(f"{operation}: scheduled throughput over liquid throughput, worst number of nodes")
            .at_least(MIN_RATIO, least)
            .against(rival, "without a schedule, worst"),
        ]
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput of both orders over the number of nodes."""
    title = f"Collective access on Swiss-T1, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes"
    x = "nodes, each of which computes and keeps a subfile"
    figure, axes = chart(title, size=(7.4, 4.6), xlabel=x, ylabel=TOGETHER)
    liquid = sorted({(row["nodes"], row["liquid_bps"] / 1e6) for row in rows})
    axes.plot(*zip(*liquid, strict=True), color=INK, linewidth=1, marker=".", label="liquid throughput")
    for operation, line in (("write", "-"), ("read", "--")):
        for schedule, (name, colour) in DIRECTIONS.items():
            chosen = where(rows, operation=operation, schedule=schedule)
            plot_throughput(axes, chosen, "nodes", f"{operation}, {name}", colour, linestyle=line)
    finish(axes, rows, "nodes")
    return {"schedules": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_schedules",
    title="A collective access in a liquid schedule, and without one",
    answers="Gabrielyan 2007, end of section 2.8.2 and 3.1: "
    "network transfers of collective access, coordinated and scheduled",
    deviations=(
        "the document argues for coordinated transfers of parallel I/O without building them: it has no figure",
        "40 kB a pair, links of 5 Mbit/s, five numbers of nodes (--quick: "
        "two) with a liquid schedule; medians of three",
    ),
    emulation=True,
)
