"""The number of I/O nodes and the number of compute nodes, varied one at a time.

Source: Gabrielyan 2007, sections 2.3 and 2.8.
"""

from math import log
from typing import NamedTuple

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import measure_access, verdict_of_runs
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
STRIPE_UNIT = 200

# The number of I/O nodes while that of compute nodes is varied.
CONSTANT_IO_NODES = 2


class Size(NamedTuple):
    """The size of a study.

    Attributes:
        io_nodes: Numbers of I/O nodes.
        constant_compute_nodes: Number of compute nodes while that of I/O nodes is varied.
        compute_nodes: Numbers of compute nodes.
        link_bytes: Bytes of the file for each I/O node, that is, for each link that it fills.
    """

    io_nodes: tuple[int, ...]
    constant_compute_nodes: int
    compute_nodes: tuple[int, ...]
    link_bytes: int


FULL = Size(
    io_nodes=(1, 2, 4, 8, 16),
    constant_compute_nodes=16,
    compute_nodes=(2, 4, 8, 16),
    link_bytes=2_000_000,
)
QUICK = Size(
    io_nodes=(1, 2, 4),
    constant_compute_nodes=4,
    compute_nodes=(2, 4, 8),
    link_bytes=800_000,
)

# The methods of scheduling, and their names in figures and checks.
DIRECTIONS = {"liquid": "in turns over circuits", "none": "all at once"}

# Smallest accepted exponent of throughput over I/O nodes, and share of the throughput that remains
# with more compute nodes.
MIN_EXPONENT = 0.8
MIN_RETAINED = 0.8


def points(quick: bool, seed: int) -> Points:
    """Return the points with a varied number of I/O nodes, and then of compute nodes."""
    size = QUICK if quick else FULL
    result = grid(
        varied="io",
        compute_nodes=size.constant_compute_nodes,
        io_nodes=size.io_nodes,
        scheduling=DIRECTIONS,
        seed=seed,
    )
    result += grid(
        varied="compute",
        compute_nodes=size.compute_nodes,
        io_nodes=CONSTANT_IO_NODES,
        scheduling=DIRECTIONS,
        seed=seed,
    )
    for point in result:
        point["file_bytes"] = point["io_nodes"] * size.link_bytes
    return result


def measure(point: Row) -> Results:
    """Measure a write of all compute nodes to all I/O nodes."""
    hosts = max(point["compute_nodes"], point["io_nodes"])
    return measure_access(
        f"crossbar:{hosts}",
        point,
        stripe_unit=STRIPE_UNIT,
        switching="packet" if point["scheduling"] == "none" else "circuit",
        link_rate_bps=LINK_RATE_BPS,
    )


def judge(rows: Rows) -> Verdict:
    """Check that throughput grows with I/O nodes, and that more compute nodes do not reduce it."""
    checks: list[Check] = []
    for scheduling in DIRECTIONS:
        checks.append(_io_check(rows, scheduling))
        checks.append(_compute_check(rows, scheduling))
    return verdict_of_runs(rows, checks)


def _io_check(rows: Rows, scheduling: str) -> Check:
    bps = _throughput(rows, scheduling, "io")
    few = min(bps)
    many = max(bps)
    name = f"{DIRECTIONS[scheduling]}: exponent of throughput over I/O nodes, {few} to {many}"
    return (
        Claim(name)
        .at_least(MIN_EXPONENT, log(bps[many] / bps[few]) / log(many / few))
        .cites("scales linearly with I/O nodes, sections 2.3 and 2.8 (exponent 1)")
        .against(0.0, "no scaling")
    )


def _compute_check(rows: Rows, scheduling: str) -> Check:
    bps = _throughput(rows, scheduling, "compute")
    few = min(bps)
    many = max(bps)
    name = (
        f"{DIRECTIONS[scheduling]}: throughput of {CONSTANT_IO_NODES} I/O nodes "
        f"for {many} compute nodes over that for {few}"
    )
    return (
        Claim(name)
        .at_least(MIN_RETAINED, bps[many] / bps[few])
        .cites(
            "simultaneous concurrent accesses do not slow the I/O layer, "
            "section 2.8 and Conclusions"
        )
        .against(few / many, "slower in proportion to the compute nodes")
    )


def _throughput(rows: Rows, scheduling: str, varied: str) -> dict[int, float]:
    """Return the throughput in bit/s by the number of nodes that is varied: "io" or "compute"."""
    selected = where(rows, scheduling=scheduling, varied=varied)
    return {row[f"{varied}_nodes"]: row["throughput_bps"] for row in selected}


def figures(rows: Rows) -> Figures:
    """Draw the throughput over each number of nodes that is varied."""
    io_rows = where(rows, varied="io")
    compute_rows = where(rows, varied="compute")
    compute_nodes = io_rows[0]["compute_nodes"]
    return {
        "io": _figure(io_rows, "io_nodes", "I/O nodes", f"{compute_nodes} compute nodes"),
        "compute": _figure(
            compute_rows, "compute_nodes", "compute nodes", f"{CONSTANT_IO_NODES} I/O nodes"
        ),
    }


def _figure(rows: Rows, field: str, x_label: str, constant: str) -> Figure:
    """Draw the throughput beside the rate of the links of all I/O nodes.

    Args:
        rows: The rows.
        field: Field with the number of nodes that is varied.
        x_label: Label of the x axis.
        constant: Description of the other number of nodes.
    """
    samples = throughputs(rows, field, lambda row: DIRECTIONS[row["scheduling"]])
    for row in rows:
        links_mbps = row["io_nodes"] * LINK_RATE_BPS / 1e6
        samples["links of the I/O nodes together", row[field]] = (links_mbps, 0.0)
    title = f"{constant}, 10 Mbit/s links, crossbar"
    return finish(draw_lines(title, samples, x=x_label, y=TOGETHER), rows, field)


STUDY = Study.of_module(
    __name__,
    name="sfio_scaling",
    title="More I/O nodes alone, and more compute nodes alone",
    answers="Gabrielyan 2007, sections 2.3 and 2.8, Conclusions: throughput scales with the I/O "
    "nodes; concurrent compute nodes do not slow them",
    deviations=(
        "the document varies both numbers together (Figures 18 and 21); its claims are of each "
        "alone",
        "what scales are the I/O nodes' links of 10 Mbit/s: subfiles lie in the page cache, no "
        "disk is slower",
        "2 MB for every I/O node (0.8 MB with --quick), medians of three",
    ),
    emulation=True,
)
