"""One multi-block write against single-block writes of the same blocks, by block size (Gabrielyan 2007, figure 14)."""

from __future__ import annotations

from experiments.sfio.figures import lines_by_size, plot_throughput
from experiments.sfio.runs import accessed, judged
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import BELOW, GREY, INK

BLOCKS, QUICK_BLOCKS = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576), (64, 512, 4096, 32_768, 262_144)
REPEAT = 3
LINK_RATE_BPS = 100e6
STRIPE_UNIT, IO_NODES = 1005, 7
MULTI_BYTES, QUICK_MULTI_BYTES = 30_000_000, 6_000_000
WHOLE_BYTES, WHOLE_BLOCKS = 300_000_000, (1024, 262_144)
"""A file of hundreds of megabytes, written once in blocks of each of these sizes."""
FRAGMENTS = 800
MIN_OF_LINK, MIN_GAIN, MIN_FLAT = 0.8, 5.0, 0.6


def points(quick: bool, seed: int) -> Points:
    """Both ways at every block size; single-block files are so small that they take a second or so. Then the whole file."""
    size = QUICK_MULTI_BYTES if quick else MULTI_BYTES
    found = [
        {
            "block_bytes": block,
            "multi_block": multi,
            "file_bytes": size if multi else max(block, min(size, FRAGMENTS * min(block, STRIPE_UNIT))),
            "repeat": REPEAT,
            "seed": seed,
        }
        for block in (QUICK_BLOCKS if quick else BLOCKS)
        for multi in (True, False)
    ]
    return found + [
        {"block_bytes": block, "multi_block": True, "file_bytes": WHOLE_BYTES, "repeat": 1, "seed": seed}
        for block in (() if quick else WHOLE_BLOCKS)
    ]


def measure(point: Row) -> Results:
    """One write of all blocks: in one call, or each fragment of each block by itself."""
    return accessed(
        "crossbar:8",
        compute_nodes=1,
        io_nodes=IO_NODES,
        stripe_unit=STRIPE_UNIT,
        file_bytes=point["file_bytes"],
        access="random",
        access_block_bytes=point["block_bytes"],
        optimise=point["multi_block"],
        link_rate_bps=LINK_RATE_BPS,
        repetitions=point["repeat"],
        seed=point["seed"],
    )


def reduced(rows: Rows) -> list[Row]:
    """The rows that are not of the whole file."""
    return [row for row in rows if row["file_bytes"] != WHOLE_BYTES]


def judge(rows: Rows) -> Verdict:
    """The multi-block write fills the link whatever the block size; single blocks are bounded by the stripe unit."""
    multi = {row["block_bytes"]: row["throughput_bps"] for row in reduced(rows) if row["multi_block"]}
    single = {row["block_bytes"]: row["throughput_bps"] for row in rows if not row["multi_block"]}
    whole = {row["block_bytes"]: row["throughput_bps"] for row in where(rows, file_bytes=WHOLE_BYTES)}
    worst, smallest, best = min(multi, key=lambda b: multi[b]), min(multi), max(single.values())
    large = [b for b in single if b >= 4 * STRIPE_UNIT]
    checks = [
        Claim(f"multi-block write over link rate, slowest block size ({worst} bytes)")
        .at_least(MIN_OF_LINK, multi[worst] / LINK_RATE_BPS)
        .cites("Figure 14 (no value in the text)")
        .against(best / LINK_RATE_BPS, "the fastest of the single-block writes"),
        Claim(f"multi-block over single-block write at {smallest} bytes")
        .at_least(MIN_GAIN, multi[smallest] / single[smallest])
        .cites("significant gain, section 2.6")
        .against(1.0, "no gain"),
        Claim("the slowest multi-block write over the fastest of all single-block writes")
        .at_least(1.5, multi[worst] / best)
        .cites("single blocks stay behind at every block size, Figure 14")
        .against(1.0, "large single blocks are as fast"),
        Claim("single-block writes of large blocks: slowest over fastest")
        .at_least(MIN_FLAT, min(single[b] for b in large) / max(single[b] for b in large))
        .cites("bounded by the stripe unit, the same for all user block sizes, section 2.6")
        .against(min(large) / max(large), "throughput grows with the block"),
    ]
    checks += [
        Claim(f"a file of {WHOLE_BYTES // 10**6} MB in blocks of {block} bytes, multi-block, over link rate")
        .at_least(MIN_OF_LINK, speed / LINK_RATE_BPS)
        .cites("Figure 14 (no value in the text)")
        .against(best / LINK_RATE_BPS, "the fastest of the single-block writes")
        for block, speed in whole.items()
    ]
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput over the block size, as Figure 14; stars: the whole file."""
    names = ("one multi-block call (mwriteb)", "single-block calls (mwrite)")
    x, title = (
        "block size, bytes",
        f"Writing blocks in random order from 1 compute node to {IO_NODES} I/O nodes over 100 Mbit/s links",
    )
    figure, axes = lines_by_size(
        reduced(rows), "block_bytes", "multi_block", names, MIN_OF_LINK, LINK_RATE_BPS, title=title, xlabel=x
    )
    whole, style = where(rows, file_bytes=WHOLE_BYTES), {"marker": "*", "markersize": 11, "linestyle": "", "zorder": 5}
    plot_throughput(axes, whole, "block_bytes", "multi-block, 300 MB", INK, **style)
    axes.axvline(STRIPE_UNIT, color=GREY, linewidth=1, linestyle="--", label=f"stripe unit, {STRIPE_UNIT} bytes")
    axes.set_ylim(0, None)
    axes.legend(**BELOW)
    return {"multi-block": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_multi_block",
    title="Many blocks in one call against one call a block (Figure 14)",
    does="writes blocks of a striped file in one multi-block call and one by one",
    answers="Gabrielyan 2007, Figure 14: single-block writes are bounded by the stripe unit, multi-block writes are not",
    deviations=(
        "300 MB in blocks of 1024 and 262,144 bytes, once each; 30 MB, three times, in all others (6 MB with --quick): the document does not give the size of its file",
        "single-block files have 800 fragments: each takes a round trip, however many there are",
        "links of 100 Mbit/s as Fast Ethernet has, on a user-space switch; subfiles lie in the page cache instead of on disks",
    ),
    emulation=True,
)
