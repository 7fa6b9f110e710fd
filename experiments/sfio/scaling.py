"""More I/O nodes for the same compute nodes, and more compute nodes on the same I/O nodes (Gabrielyan 2007, sections
2.3 and 2.8)."""

from math import log

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import accessed, judged
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
    where,
)
from testbed.report.drawing.charts import Figure, draw_lines

LINK_RATE_BPS = 10e6
IO_NODES, QUICK_IO_NODES, COMPUTE = (1, 2, 4, 8, 16), (1, 2, 4), 16
COMPUTE_NODES, QUICK_COMPUTE_NODES, IO = (2, 4, 8, 16), (2, 4, 8), 2
STRIPE_UNIT = 200
BYTES_A_LINK, QUICK_BYTES_A_LINK = 2_000_000, 800_000
"""Of the file, for each link that it is to fill."""
DIRECTIONS = {"liquid": "in turns over circuits", "none": "all at once"}
MIN_EXPONENT, MIN_RETAINED = 0.8, 0.8


def points(quick: bool, seed: int) -> Points:
    """I/O nodes alone are varied, then compute nodes alone."""
    size = QUICK_BYTES_A_LINK if quick else BYTES_A_LINK
    compute = max(QUICK_IO_NODES) if quick else COMPUTE
    io_nodes, compute_nodes = (
        (QUICK_IO_NODES, QUICK_COMPUTE_NODES) if quick else (IO_NODES, COMPUTE_NODES)
    )
    varied = grid(
        varied="io", compute_nodes=compute, io_nodes=io_nodes, scheduling=DIRECTIONS, seed=seed
    )
    varied += grid(
        varied="compute", compute_nodes=compute_nodes, io_nodes=IO, scheduling=DIRECTIONS, seed=seed
    )
    return [point | {"file_bytes": point["io_nodes"] * size} for point in varied]


def measure(point: Row) -> Results:
    """One write of all compute nodes to all I/O nodes."""
    network = max(point["compute_nodes"], point["io_nodes"])
    switching = "packet" if point["scheduling"] == "none" else "circuit"
    options: Results = {
        "stripe_unit": STRIPE_UNIT,
        "switching": switching,
        "link_rate_bps": LINK_RATE_BPS,
    }
    return accessed(f"crossbar:{network}", point, **options)


def judge(rows: Rows) -> Verdict:
    """Throughput grows with the I/O nodes, and more compute nodes do not slow them."""
    checks: list[Check] = []
    for way, name in DIRECTIONS.items():
        io, compute = _found(rows, way, "io"), _found(rows, way, "compute")
        (few, many), (less, more) = ((min(found), max(found)) for found in (io, compute))
        checks += [
            Claim(f"{name}: exponent of throughput over I/O nodes, {few} to {many}")
            .at_least(MIN_EXPONENT, log(io[many] / io[few]) / log(many / few))
            .cites("scales linearly with I/O nodes, sections 2.3 and 2.8 (exponent 1)")
            .against(0.0, "no scaling"),
            Claim(
                f"{name}: throughput of {IO} I/O nodes for {more} compute nodes over that for {less}"
            )
            .at_least(MIN_RETAINED, compute[more] / compute[less])
            .cites(
                "simultaneous concurrent accesses do not slow the I/O layer, section 2.8 and Conclusions"
            )
            .against(less / more, "slower in proportion to the compute nodes"),
        ]
    return judged(rows, checks)


def _found(rows: Rows, way: str, varied: str) -> dict[int, float]:
    """Varied number of nodes -> bit/s."""
    chosen = where(rows, scheduling=way, varied=varied)
    return {row[f"{varied}_nodes"]: row["throughput_bps"] for row in chosen}


def figures(rows: Rows) -> Figures:
    """Throughput over the number that is varied, a figure each."""
    return {
        varied: _figure(where(rows, varied=varied), f"{varied}_nodes")
        for varied in ("io", "compute")
    }


def _figure(rows: Rows, key: str) -> Figure:
    links = {
        ("links of the I/O nodes together", row[key]): (row["io_nodes"] * LINK_RATE_BPS / 1e6, 0.0)
        for row in rows
    }
    x, fixed = "I/O nodes", f"{rows[0]['compute_nodes']} compute nodes"
    if key == "compute_nodes":
        x, fixed = "compute nodes", f"{IO} I/O nodes"
    title = f"{fixed}, 10 Mbit/s links, crossbar"
    samples = throughputs(rows, key, lambda row: DIRECTIONS[row["scheduling"]]) | links
    return finish(draw_lines(title, samples, x=x, y=TOGETHER), rows, key)


STUDY = Study.of_module(
    __name__,
    name="sfio_scaling",
    title="More I/O nodes alone, and more compute nodes alone",
    answers="Gabrielyan 2007, sections 2.3 and 2.8, Conclusions: throughput scales with the I/O nodes; "
    "concurrent compute nodes do not slow them",
    deviations=(
        "the document varies both numbers together (Figures 18 and 21); its claims are of each alone",
        "what scales are the I/O nodes' links of 10 Mbit/s: subfiles lie in the page cache, no disk is slower",
        "2 MB for every I/O node (0.8 MB with --quick), medians of three",
    ),
    emulation=True,
)
