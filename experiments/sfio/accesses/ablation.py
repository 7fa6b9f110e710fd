"""A write of many blocks with all optimisations, with each of them left out, and with none (Gabrielyan 2007, section
2.6)."""

from collections.abc import Mapping

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
from testbed.report.drawing.charts import draw_bars

ALL, NONE = "all", "none"
WITHOUT: dict[str, tuple[str, ...]] = {
    ALL: (),
    "no sort": ("sort",),
    "no merge": ("merge",),
    "no combine": ("combine",),
    "no pipeline": ("pipeline",),
    NONE: ("sort", "merge", "combine", "pipeline"),
}
LINK_RATE_BPS = 100e6
BLOCK_BYTES, STRIPE_UNIT, IO_NODES, PROCESSES = 1000, 200, 3, 2
FILE_BYTES, QUICK_FILE_BYTES = 4_000_000, 1_000_000
SHOWN = {
    "throughput_bps": ("throughput, Mbit/s", 1e6, "linear"),
    "messages": ("messages", 1, "log"),
    "disk_calls": ("disk accesses", 1, "log"),
}
WORTH = 1.1
"""What an optimisation must be worth in throughput to be called valuable: a tenth."""


def points(quick: bool, seed: int) -> Points:
    """Written and read."""
    size = QUICK_FILE_BYTES if quick else FILE_BYTES
    return grid(operation=("write", "read"), way=WITHOUT, file_bytes=size, seed=seed)


def measure(point: Row) -> Results:
    """One operation: each of two processes has every other block of the file, in random order."""
    nodes: Results = {
        "compute_nodes": PROCESSES,
        "io_nodes": IO_NODES,
        "link_rate_bps": LINK_RATE_BPS,
    }
    blocks: Results = {
        "stripe_unit": STRIPE_UNIT,
        "access": "random",
        "access_block_bytes": BLOCK_BYTES,
    }
    return accessed(
        f"crossbar:{IO_NODES + PROCESSES}", point, disable=WITHOUT[point["way"]], **nodes, **blocks
    )


def judge(rows: Rows) -> Verdict:
    """What each optimisation saves, in the count that it is for, and in time; the window of messages, which is worth
    nothing where the disk is the page cache, is judged by sfio_overlap on a slow one."""
    checks: list[Check] = []
    for operation in ("write", "read"):
        found = {row["way"]: row for row in where(rows, operation=operation)}
        checks += _counts(operation, found)
        checks += [
            Claim(f"{operation}: throughput with all optimisations over that with {way}")
            .at_least(WORTH, found[ALL]["throughput_bps"] / found[way]["throughput_bps"])
            .cites("optimisations of network and disk accesses, section 2.6 (no value for each)")
            .against(1.0, "worth nothing")
            for way in WITHOUT
            if way not in (ALL, "no pipeline")
        ]
    return judged(rows, checks)


def _counts(operation: str, found: Mapping[str, Row]) -> list[Check]:
    def saved(way: str, key: str, least: float, what: str) -> Check:
        return (
            Claim(f"{operation}: {what} with {way} over those with all optimisations")
            .at_least(least, found[way][key] / found[ALL][key])
            .cites(
                "requests are sorted and combined, one transmission to each I/O node, section 2.6"
            )
            .against(1.0, "it saves none")
        )

    return [
        saved("no sort", "disk_calls", 1.5, "disk accesses"),
        saved("no merge", "disk_calls", 1.5, "disk accesses"),
        saved("no combine", "messages", 10, "messages"),
        saved(NONE, "messages", 10, "messages"),
    ]


def figures(rows: Rows) -> Figures:
    """Throughput, messages and disk accesses of each way, a figure each."""
    drawn = {}
    nodes = f"{PROCESSES} processes, {IO_NODES} I/O nodes, 100 Mbit/s links"
    title = f"Blocks of {BLOCK_BYTES} bytes in random order, {nodes}"
    for key, (label, unit, scale) in SHOWN.items():
        samples = {(row["operation"], row["way"]): (row[key] / unit, 0.0) for row in rows}
        drawn[f"ablation-{label.partition(',')[0].replace(' ', '-')}"] = figure = draw_bars(
            title, samples, y=label
        )
        figure.axes[0].set(xlabel="optimisations", yscale=scale)
        figure.axes[0].autoscale(axis="y")
    return drawn


STUDY = Study.of_module(
    __name__,
    name="sfio_ablation",
    title="What each optimisation of a striped write or read is worth",
    answers="Gabrielyan 2007, sections 2.1 and 2.6, Figure 12: sorting, merging and combining of requests; "
    "disk and network at the same time",
    deviations=(
        "the document gives no value for any optimisation alone: what is judged is that each saves what it is for",
        "4 MB (--quick: 1 MB) in blocks of 1000 bytes, stripe unit 200 bytes, medians of three; subfiles lie in the "
        "page cache: what sorting and merging save on a disk is counted, not timed; what the window of messages is "
        "worth on a disk as slow as the network is judged by sfio_overlap",
    ),
    emulation=True,
)
