"""Data fragmented in memory, in the file, in both or in neither, in one call and in a call a piece (Gabrielyan 2007,
figure 22)."""

import statistics

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import ATTEMPTS, judged
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Check, Claim, Verdict, repeated
from testbed.report.drawing.charts import draw_lines, ticks

NODES, STRIPE_UNIT, LINK_RATE_BPS, REPEAT = 4, 200, 5e6, 3
PIECES, QUICK_PIECES, SMALL = (50, 200, 1000), (200,), 200
"""Bytes of a piece; calls for each piece are made of SMALL ones."""
BYTES_EACH, QUICK_BYTES_EACH, CALLS, QUICK_CALLS = 2_000_000, 250_000, 400, 100
SCENARIOS = {
    "neither": (False, False, "contiguous in memory and in the file"),
    "memory": (True, False, "fragmented in memory"),
    "file": (False, True, "fragmented in the file"),
    "both": (True, True, "fragmented in both"),
}
STORED = 0.8
"""Of the contiguous throughput, what a fragmented access must keep; the document puts no number to it."""


def points(quick: bool, seed: int) -> Points:
    """Every scenario written and read in one call; fragmented ones in a call a piece as well."""
    pieces, size, calls = (
        (QUICK_PIECES, QUICK_BYTES_EACH, QUICK_CALLS) if quick else (PIECES, BYTES_EACH, CALLS)
    )
    both = {"operation": ("write", "read"), "seed": seed}
    whole = grid(**both, piece_bytes=pieces, scenario=SCENARIOS, at_once=True, bytes_each=size)
    alone = grid(
        **both,
        piece_bytes=SMALL,
        scenario=list(SCENARIOS)[1:],
        at_once=False,
        bytes_each=calls * SMALL,
    )
    return [
        point for point in whole if point["scenario"] != "neither" or point["piece_bytes"] == SMALL
    ] + alone


def measure(point: Row) -> Results:
    """One operation of four processes. Where every piece is a call, round trips and processors set the pace, and are
    what is measured: such a point is judged by its content alone."""
    from testbed.striping.emulated.fragmented_access import FragmentedAccess, run_fragmented

    in_memory, in_file, _ = SCENARIOS[point["scenario"]]
    own = {
        name: point[name] for name in ("bytes_each", "piece_bytes", "at_once", "operation", "seed")
    }
    access = FragmentedAccess(
        **own, in_memory=in_memory, in_file=in_file, stripe_unit=STRIPE_UNIT, repeat=REPEAT
    )
    found = repeated(
        lambda: run_fragmented(f"crossbar:{NODES}", NODES, LINK_RATE_BPS, access),
        lambda found: found["invalid"] if point["at_once"] else None,
        ATTEMPTS - 1,
    )
    return {
        "throughput_bps": NODES * access.bytes_each * 8 / statistics.median(found["seconds"]),
        "verified": found["verified"],
        "invalid": found["invalid"] if point["at_once"] else None,
    }


def judge(rows: Rows) -> Verdict:
    """What a fragmented access keeps of the contiguous one's throughput, and what one call is worth."""
    speed = {
        (r["operation"], r["scenario"], r["piece_bytes"], r["at_once"]): r["throughput_bps"]
        for r in rows
    }
    checks: list[Check] = []
    for operation in ("write", "read"):
        whole = speed[operation, "neither", SMALL, True]
        for name, (_, _, words) in list(SCENARIOS.items())[1:]:
            alone = speed[operation, name, SMALL, False]
            checks.append(
                Claim(
                    f"{operation}, {words}, pieces of {SMALL} bytes in one call, over contiguous in both"
                )
                .at_least(STORED, speed[operation, name, SMALL, True] / whole)
                .cites("efficient for all four scenarios, section 2.9, Figure 22 (no value)")
                .against(alone / whole, "a call for each piece")
            )
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput of each scenario and size of piece, written and read."""
    drawn, claim = {}, (NODES * LINK_RATE_BPS / 1e6, "all links together")
    for operation in ("write", "read"):
        own, title = (
            where(rows, operation=operation),
            f"{operation}: {NODES} processes, as many I/O nodes",
        )
        samples = throughputs(own, "piece_bytes", _name)
        figure = draw_lines(title, samples, x="bytes of a piece", y=TOGETHER, claim=claim)
        drawn[operation] = finish(figure, own, "piece_bytes")
        ticks(figure.axes[0], (row["piece_bytes"] for row in own))
    return drawn


def _name(row: Row) -> str:
    return SCENARIOS[row["scenario"]][2] + ("" if row["at_once"] else ", a call a piece")


STUDY = Study.of_module(
    __name__,
    name="sfio_fragmentation",
    title="Data fragmented in memory, in the file, in both or in neither (Figure 22)",
    answers="Gabrielyan 2007, section 2.9, Figures 22 and 23: four fragmentation scenarios; "
    "multi-block access makes all of them efficient",
    deviations=(
        "the document draws the scenarios, measuring none: what each keeps of contiguous throughput is our measure",
        "four processes with 2 MB each (250 kB with --quick) in pieces of 50, 200 and 1000 bytes, "
        "80 kB each (20 kB) where every piece is a call of its own; medians of three",
        "our own MPI-I/O in Python over emulated hosts instead of one in C below MPICH; links of 5 Mbit/s; no disks",
    ),
    emulation=True,
)
