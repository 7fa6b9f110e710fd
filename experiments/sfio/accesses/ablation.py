"""A write of many blocks with all optimisations, with each of them left out, and with none.

Source: Gabrielyan 2007, section 2.6.
"""

from collections.abc import Mapping

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
from testbed.report.drawing.charts import Figure, draw_bars

# The optimisations that are disabled, by name of the case.
ALL = "all"
NONE = "none"
WITHOUT: dict[str, tuple[str, ...]] = {
    ALL: (),
    "no sort": ("sort",),
    "no merge": ("merge",),
    "no combine": ("combine",),
    "no pipeline": ("pipeline",),
    NONE: ("sort", "merge", "combine", "pipeline"),
}

LINK_RATE_BPS = 100e6
BLOCK_BYTES = 1000
STRIPE_UNIT = 200
IO_NODES = 3
PROCESSES = 2
FILE_BYTES = 4_000_000
QUICK_FILE_BYTES = 1_000_000

# Fields that are drawn: label, unit and scale of their axis.
SHOWN = {
    "throughput_bps": ("throughput, Mbit/s", 1e6, "linear"),
    "messages": ("messages", 1, "log"),
    "disk_calls": ("disk accesses", 1, "log"),
}

# An optimisation counts as valuable if it raises the throughput by at least a tenth.
WORTH = 1.1


def points(quick: bool, seed: int) -> Points:
    """Return each case, written and read."""
    size = QUICK_FILE_BYTES if quick else FILE_BYTES
    return grid(operation=("write", "read"), way=WITHOUT, file_bytes=size, seed=seed)


def measure(point: Row) -> Results:
    """Measure one operation.

    Each of two processes accesses every other block of the file, in random order.
    """
    return measure_access(
        f"crossbar:{IO_NODES + PROCESSES}",
        point,
        disable=WITHOUT[point["way"]],
        compute_nodes=PROCESSES,
        io_nodes=IO_NODES,
        link_rate_bps=LINK_RATE_BPS,
        stripe_unit=STRIPE_UNIT,
        access="random",
        access_block_bytes=BLOCK_BYTES,
    )


def judge(rows: Rows) -> Verdict:
    """Check that optimisations save messages or disk accesses, and raise the throughput.

    Pipelining allows several messages in transit. It gains nothing while files are in the page
    cache. Therefore the study sfio_overlap judges it on a slow disk.
    """
    checks: list[Check] = []
    for operation in ("write", "read"):
        rows_by_case = {row["way"]: row for row in where(rows, operation=operation)}
        checks += _count_checks(operation, rows_by_case)
        for case in WITHOUT:
            if case not in (ALL, "no pipeline"):
                checks.append(_throughput_check(operation, rows_by_case, case))
    return verdict_of_runs(rows, checks)


def _throughput_check(operation: str, rows_by_case: Mapping[str, Row], case: str) -> Check:
    gain = rows_by_case[ALL]["throughput_bps"] / rows_by_case[case]["throughput_bps"]
    return (
        Claim(f"{operation}: throughput with all optimisations over that with {case}")
        .at_least(WORTH, gain)
        .cites("optimisations of network and disk accesses, section 2.6 (no value for each)")
        .against(1.0, "worth nothing")
    )


def _count_checks(operation: str, rows_by_case: Mapping[str, Row]) -> list[Check]:
    """Check the number of messages and disk accesses that the optimisations save.

    Args:
        operation: "write" or "read".
        rows_by_case: The row of each case.
    """

    def saving_check(case: str, field: str, min_factor: float, counted: str) -> Check:
        factor = rows_by_case[case][field] / rows_by_case[ALL][field]
        return (
            Claim(f"{operation}: {counted} with {case} over those with all optimisations")
            .at_least(min_factor, factor)
            .cites(
                "requests are sorted and combined, one transmission to each I/O node, section 2.6"
            )
            .against(1.0, "it saves none")
        )

    return [
        saving_check("no sort", "disk_calls", 1.5, "disk accesses"),
        saving_check("no merge", "disk_calls", 1.5, "disk accesses"),
        saving_check("no combine", "messages", 10, "messages"),
        saving_check(NONE, "messages", 10, "messages"),
    ]


def figures(rows: Rows) -> Figures:
    """Draw the throughput, the messages and the disk accesses of each case."""
    drawn: Results = {}
    for field, (label, _, _) in SHOWN.items():
        quantity, _, _ = label.partition(",")
        drawn[f"ablation-{quantity.replace(' ', '-')}"] = _figure(rows, field)
    return drawn


def _figure(rows: Rows, field: str) -> Figure:
    label, unit, scale = SHOWN[field]
    samples = {}
    for row in rows:
        samples[row["operation"], row["way"]] = (row[field] / unit, 0.0)
    title = (
        f"Blocks of {BLOCK_BYTES} bytes in random order, {PROCESSES} processes, "
        f"{IO_NODES} I/O nodes, 100 Mbit/s links"
    )
    figure = draw_bars(title, samples, y=label)
    figure.axes[0].set(xlabel="optimisations", yscale=scale)
    # The axis no longer begins at 0 if it is logarithmic.
    figure.axes[0].autoscale(axis="y")
    return figure


STUDY = Study.of_module(
    __name__,
    name="sfio_ablation",
    title="What each optimisation of a striped write or read is worth",
    answers="Gabrielyan 2007, sections 2.1 and 2.6, Figure 12: sorting, merging and combining of "
    "requests; disk and network at the same time",
    deviations=(
        "the document gives no value for any optimisation alone: what is judged is that each saves "
        "what it is for",
        "4 MB (--quick: 1 MB) in blocks of 1000 bytes, stripe unit 200 bytes, medians of three; "
        "subfiles lie in the page cache: what sorting and merging save on a disk is counted, not "
        "timed; what the window of messages is worth on a disk as slow as the network is judged by "
        "sfio_overlap",
    ),
    emulation=True,
)
