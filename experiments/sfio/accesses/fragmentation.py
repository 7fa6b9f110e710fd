"""Data fragmented in memory, in the file, in both or in neither (Gabrielyan 2007, Figure 22).

The data is accessed in one call, or in one call per piece.
"""

import statistics
from typing import NamedTuple

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import ATTEMPTS, verdict_of_runs
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Check, Claim, Verdict, repeated
from testbed.report.drawing.charts import Figure, draw_lines, ticks

# Compute nodes, and as many I/O nodes.
NODES = 4
STRIPE_UNIT = 200
LINK_RATE_BPS = 5e6

# Number of times that an operation is carried out. The median counts.
REPEAT = 3

# Bytes of a piece if each piece is accessed in a call of its own.
SMALL_PIECE = 200


class Size(NamedTuple):
    """The size of a study.

    Attributes:
        piece_bytes: Sizes of a piece if all pieces are accessed in one call.
        bytes_each: Bytes of each process in one call.
        calls: Number of calls if each piece is accessed in a call of its own.
    """

    piece_bytes: tuple[int, ...]
    bytes_each: int
    calls: int


FULL = Size(piece_bytes=(50, 200, 1000), bytes_each=2_000_000, calls=400)
QUICK = Size(piece_bytes=(200,), bytes_each=250_000, calls=100)


class Scenario(NamedTuple):
    """Fragmentation of the data in memory and in the file.

    Attributes:
        in_memory: Whether the data is fragmented in memory.
        in_file: Whether the data is fragmented in the file.
        label: Name in figures and checks.
    """

    in_memory: bool
    in_file: bool
    label: str


CONTIGUOUS = "neither"
SCENARIOS = {
    CONTIGUOUS: Scenario(False, False, "contiguous in memory and in the file"),
    "memory": Scenario(True, False, "fragmented in memory"),
    "file": Scenario(False, True, "fragmented in the file"),
    "both": Scenario(True, True, "fragmented in both"),
}
FRAGMENTED = ("memory", "file", "both")

# A fragmented access must reach this share of the contiguous throughput. The document states no
# number.
MIN_SHARE = 0.8


def points(quick: bool, seed: int) -> Points:
    """Return every scenario in one call, and fragmented data also in one call per piece.

    Contiguous data has no pieces, and therefore only one point per operation.
    """
    size = QUICK if quick else FULL
    operations = ("write", "read")
    in_one_call = grid(
        operation=operations,
        seed=seed,
        piece_bytes=size.piece_bytes,
        scenario=SCENARIOS,
        at_once=True,
        bytes_each=size.bytes_each,
    )
    in_single_calls = grid(
        operation=operations,
        seed=seed,
        piece_bytes=SMALL_PIECE,
        scenario=FRAGMENTED,
        at_once=False,
        bytes_each=size.calls * SMALL_PIECE,
    )
    different = [
        point
        for point in in_one_call
        if point["scenario"] != CONTIGUOUS or point["piece_bytes"] == SMALL_PIECE
    ]
    return different + in_single_calls


def measure(point: Row) -> Results:
    """Measure one operation of four processes.

    If every piece is a call, the round trips and the processor limit the throughput. This is what
    is measured, so such a point is never invalid; only its content is checked.
    """
    from testbed.striping.emulated.fragmented_access import FragmentedAccess, run_fragmented

    scenario = SCENARIOS[point["scenario"]]
    access = FragmentedAccess(
        bytes_each=point["bytes_each"],
        piece_bytes=point["piece_bytes"],
        at_once=point["at_once"],
        operation=point["operation"],
        seed=point["seed"],
        in_memory=scenario.in_memory,
        in_file=scenario.in_file,
        stripe_unit=STRIPE_UNIT,
        repeat=REPEAT,
    )

    def run() -> Results:
        return run_fragmented(f"crossbar:{NODES}", NODES, LINK_RATE_BPS, access)

    def invalid_reason(result: Results) -> str | None:
        return result["invalid"] if point["at_once"] else None

    result = repeated(run, invalid_reason, ATTEMPTS - 1)
    total_bits = NODES * access.bytes_each * 8
    return {
        "throughput_bps": total_bits / statistics.median(result["seconds"]),
        "verified": result["verified"],
        "invalid": invalid_reason(result),
    }


def judge(rows: Rows) -> Verdict:
    """Compare fragmented with contiguous data, and one call with one call per piece."""
    throughput = {}
    for row in rows:
        case = (row["operation"], row["scenario"], row["piece_bytes"], row["at_once"])
        throughput[case] = row["throughput_bps"]
    checks: list[Check] = []
    for operation in ("write", "read"):
        contiguous = throughput[operation, CONTIGUOUS, SMALL_PIECE, True]
        for scenario in FRAGMENTED:
            in_one_call = throughput[operation, scenario, SMALL_PIECE, True]
            in_single_calls = throughput[operation, scenario, SMALL_PIECE, False]
            name = (
                f"{operation}, {SCENARIOS[scenario].label}, pieces of {SMALL_PIECE} bytes "
                "in one call, over contiguous in both"
            )
            checks.append(
                Claim(name)
                .at_least(MIN_SHARE, in_one_call / contiguous)
                .cites("efficient for all four scenarios, section 2.9, Figure 22 (no value)")
                .against(in_single_calls / contiguous, "a call for each piece")
            )
    return verdict_of_runs(rows, checks)


def figures(rows: Rows) -> Figures:
    """Draw the throughput of each scenario over the size of a piece, written and read."""
    drawn = {}
    for operation in ("write", "read"):
        drawn[operation] = _figure(operation, where(rows, operation=operation))
    return drawn


def _figure(operation: str, rows: Rows) -> Figure:
    figure = draw_lines(
        f"{operation}: {NODES} processes, as many I/O nodes",
        throughputs(rows, "piece_bytes", _label),
        x="bytes of a piece",
        y=TOGETHER,
        claim=(NODES * LINK_RATE_BPS / 1e6, "all links together"),
    )
    finish(figure, rows, "piece_bytes")
    ticks(figure.axes[0], (row["piece_bytes"] for row in rows))
    return figure


def _label(row: Row) -> str:
    label = SCENARIOS[row["scenario"]].label
    return label if row["at_once"] else f"{label}, a call a piece"


STUDY = Study.of_module(
    __name__,
    name="sfio_fragmentation",
    title="Data fragmented in memory, in the file, in both or in neither (Figure 22)",
    answers="Gabrielyan 2007, section 2.9, Figures 22 and 23: four fragmentation scenarios; "
    "multi-block access makes all of them efficient",
    deviations=(
        "the document draws the scenarios, measuring none: what each keeps of contiguous "
        "throughput is our measure",
        "four processes with 2 MB each (250 kB with --quick) in pieces of 50, 200 and 1000 bytes, "
        "80 kB each (20 kB) where every piece is a call of its own; medians of three",
        "our own MPI-I/O in Python over emulated hosts instead of one in C below MPICH; links of "
        "5 Mbit/s; no disks",
    ),
    emulation=True,
)
