"""A collective access in two phases beside SFIO's own way, direct or by a liquid schedule, on switches: what sending
twice costs."""

import statistics
from operator import itemgetter

from experiments.sfio.figures import TOGETHER, finish, plot_throughput
from experiments.sfio.runs import ATTEMPTS, REPEAT, accessed, judged
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Claim, Verdict, repeated
from testbed.report.drawing.charts import AMBER, BLUE, GREEN, chart

SIDE, QUICK_SIDE = 960, 720
STRIPE_UNIT = 200
LINK_RATE_BPS = 5e6
NODES, QUICK_NODES = (2, 4, 8), (4,)
DIRECTIONS = {
    "two phases": ("two phases (views, collective_buffering)", AMBER),
    "direct": ("every process to every I/O node (views)", BLUE),
    "liquid": ("by a liquid schedule over circuits", GREEN),
}
LISTED_BYTES = 16
"""Offset and length of a block, 8 bytes each, for the process that gathers it."""
PAYLOAD_TOLERANCE = 0.02
"""Heads, answers and agreements of some hundred bytes for megabytes of data."""


def points(quick: bool, seed: int) -> Points:
    """Every way, written and read; as many processes as I/O nodes."""
    nodes, side = (QUICK_NODES, QUICK_SIDE) if quick else (NODES, SIDE)
    return grid(nodes=nodes, operation=("write", "read"), way=DIRECTIONS, side=side, seed=seed)


def measure(point: Row) -> Results:
    """The columns of a matrix on a crossbar: throughput, and bytes over the compute nodes' links for a byte of the
    file."""
    from testbed.bulk.planning import at_rate
    from testbed.striping.emulated.collective_run import CollectiveAccess, run_collective
    from testbed.striping.placement import place
    from topologies import load_network

    nodes, size = point["nodes"], point["side"] ** 2 * 8
    if point["way"] == "liquid":
        file = {"stripe_unit": STRIPE_UNIT, "file_bytes": size, "access": "matrix-columns"}
        order: Results = {"scheduling": "liquid", "switching": "circuit", "link_rate_bps": LINK_RATE_BPS}
        row = accessed(f"crossbar:{nodes}", point, nodes=nodes, **file, **order)
        return {name: row[name] for name in ("throughput_bps", "verified", "invalid")}
    access = CollectiveAccess(
        side=point["side"],
        stripe_unit=STRIPE_UNIT,
        operation=point["operation"],
        hints={"collective_buffering": "true" if point["way"] == "two phases" else "false"},
        repeat=REPEAT,
        seed=point["seed"],
    )
    placement = place(at_rate(load_network(f"crossbar:{nodes}"), LINK_RATE_BPS), nodes, nodes)
    found = repeated(lambda: run_collective(placement, access), itemgetter("invalid"), ATTEMPTS - 1)
    return {
        "throughput_bps": size * 8 / statistics.median(found["seconds"]),
        **{f"{what}_per_byte": found[what] / size for what in ("crossed", "payload")},
        **{name: found[name] for name in ("cpu_fraction", "verified", "invalid")},
    }


def judge(rows: Rows) -> Verdict:
    """What two phases send next to the file itself, and what they lose by it."""
    found = {(row["operation"], row["nodes"], row["way"]): row for row in rows}
    checks = []
    for (operation, nodes, way), row in found.items():
        if way != "two phases":
            continue
        direct = found[operation, nodes, "direct"]
        again = (nodes - 1) / nodes  # of what is accessed another process gathers so much
        lists = again * LISTED_BYTES * nodes / (row["side"] * 8)  # a row of the matrix is one block of each process
        bytes_sent = "bytes to and from the compute nodes for a byte of the file, each counted once"
        ratio = row["throughput_bps"] / found[operation, nodes, "liquid"]["throughput_bps"]
        most = f"1/(1 + {nodes - 1}/{nodes}) of it at most"
        checks += [
            Claim(f"{operation}, {nodes} nodes: {bytes_sent}, in two phases")
            .equal(1 + again + lists, row["payload_per_byte"], PAYLOAD_TOLERANCE)
            .cites("every byte but the own share goes to the process that gathers it first, with a list of blocks")
            .against(direct["payload_per_byte"], "what the direct way sends")
            .noting(f"with headers and what TCP sent again {row['crossed_per_byte']:.3f} crossed the links"),
            Claim(f"{operation}, {nodes} nodes: throughput in two phases over that of a liquid schedule")
            .at_most(1 / (1 + again) * 1.15, ratio)
            .against(1.0, "sending twice costs nothing")
            .noting(f"{most}, 15 % for a schedule that loses what buffering does not"),
        ]
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput of the three ways over the number of nodes."""
    title = f"Columns of a matrix on a crossbar, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes"
    figure, axes = chart(title, size=(7.4, 4.6), xlabel="compute nodes, and I/O nodes", ylabel=TOGETHER)
    for way, (name, colour) in DIRECTIONS.items():
        for operation, line, marker in (("write", "-", "o"), ("read", "--", "s")):
            chosen = where(rows, way=way, operation=operation)
            plot_throughput(axes, chosen, "nodes", f"{operation}, {name}", colour, marker=marker, linestyle=line)
    finish(axes, rows, "nodes")
    return {"two_phase": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_two_phase",
    title="What two-phase collective buffering costs beside direct and scheduled access",
    deviations=(
        "The document compares with no collective buffering: two phases are ROMIO's, on SFIO's own listeners.",
        "The liquid schedule's processes are threads of one program, the other ways' are processes.",
        "Until 23 November 2026 all bytes on the links were held to 1 + (n - 1)/n within 0.12, "
        "which failed at 8 nodes (2.02): that"
        " left out the lists of blocks, "
        "and what TCP sends again where 8 nodes send to one is no part of the claim. Since then the"
        " bytes that connections carry are counted, each once, and held to the claim with its lists within 0.02.",
    ),
    answers="Gabrielyan 2007, section 2.8, against collective buffering as ROMIO does it",
    emulation=True,
)
