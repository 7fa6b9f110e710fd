"""One multi-block write and single-block writes by block size (Gabrielyan 2007, Figure 14)."""

from experiments.sfio.comparison import LINK_RATE_BPS, ON_SWITCHES, Comparison, LineNames
from experiments.sfio.runs import measure_access, verdict_of_runs
from testbed.model.studies import Claim, Figures, Results, Row, Rows, Study, Verdict

STRIPE_UNIT = 1005
IO_NODES = 7

# Fragments of a file that is written block by block.
FRAGMENTS = 800

# Smallest accepted throughput of multi-block writes over the link rate.
MIN_OF_LINK = 0.8

# Smallest accepted throughput of multi-block over single-block writes, at the smallest block.
MIN_GAIN = 5.0

# Smallest accepted throughput of the slowest over the fastest single-block write of large blocks.
MIN_FLAT = 0.6


def _fragments_bytes(block: int, file_bytes: int) -> int:
    """Return the size of a file with ``FRAGMENTS`` fragments, but at most ``file_bytes``.

    A fragment is a block, or a stripe unit if blocks are larger. The file has at least one block.
    """
    fragment = min(block, STRIPE_UNIT)
    return max(block, min(file_bytes, FRAGMENTS * fragment))


COMPARED = Comparison(
    size_field="access_block_bytes",
    call_field="multi_block",
    size_label="block size, bytes",
    line_names=LineNames(
        "one multi-block call (mwriteb)", "single-block calls (mwrite)", "multi-block, 300 MB"
    ),
    sizes=(64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576),
    quick_sizes=(64, 512, 4096, 32_768, 262_144),
    file_bytes=30_000_000,
    quick_file_bytes=6_000_000,
    piecewise_bytes=_fragments_bytes,
    complete_bytes=300_000_000,
    complete_sizes=(1024, 262_144),
)


points = COMPARED.points


def measure(point: Row) -> Results:
    """Measure a write of all blocks, in one call or fragment by fragment."""
    return measure_access(
        "crossbar:8",
        point,
        link_rate_bps=LINK_RATE_BPS,
        compute_nodes=1,
        io_nodes=IO_NODES,
        stripe_unit=STRIPE_UNIT,
        access="random",
        optimise=point["multi_block"],
    )


def judge(rows: Rows) -> Verdict:
    """Check that multi-block writes fill the link, and that the stripe unit limits single blocks.

    The throughput of multi-block writes, and that of single blocks of several stripe units, must
    not depend on the block size.
    """
    multi, single, complete = COMPARED.speeds(rows)
    worst = min(multi, key=multi.__getitem__)
    smallest = min(multi)
    best_single_bps = max(single.values())
    large_blocks = [block for block in single if block >= 4 * STRIPE_UNIT]
    single_bps_of_large = [single[block] for block in large_blocks]
    checks = [
        Claim(f"multi-block write over link rate, slowest block size ({worst} bytes)")
        .at_least(MIN_OF_LINK, multi[worst] / LINK_RATE_BPS)
        .cites("Figure 14 (no value in the text)")
        .against(best_single_bps / LINK_RATE_BPS, "the fastest of the single-block writes"),
        Claim(f"multi-block over single-block write at {smallest} bytes")
        .at_least(MIN_GAIN, multi[smallest] / single[smallest])
        .cites("significant gain, section 2.6")
        .against(1.0, "no gain"),
        Claim("the slowest multi-block write over the fastest of all single-block writes")
        .at_least(1.5, multi[worst] / best_single_bps)
        .cites("single blocks stay behind at every block size, Figure 14")
        .against(1.0, "large single blocks are as fast"),
        Claim("single-block writes of large blocks: slowest over fastest")
        .at_least(MIN_FLAT, min(single_bps_of_large) / max(single_bps_of_large))
        .cites("bounded by the stripe unit, the same for all user block sizes, section 2.6")
        .against(min(large_blocks) / max(large_blocks), "throughput grows with the block"),
    ]
    for block, bps in complete.items():
        name = (
            f"a file of {COMPARED.complete_bytes // 10**6} MB in blocks of {block} bytes, "
            "multi-block, over link rate"
        )
        checks.append(
            Claim(name)
            .at_least(MIN_OF_LINK, bps / LINK_RATE_BPS)
            .cites("Figure 14 (no value in the text)")
            .against(best_single_bps / LINK_RATE_BPS, "the fastest of the single-block writes")
        )
    return verdict_of_runs(rows, checks)


def figures(rows: Rows) -> Figures:
    """Draw the throughput over the block size, as Figure 14."""
    title = (
        f"Writing blocks in random order from 1 compute node to {IO_NODES} I/O nodes "
        "over 100 Mbit/s links"
    )
    stripe_unit = (STRIPE_UNIT, f"stripe unit, {STRIPE_UNIT} bytes")
    figure = COMPARED.figure(title, rows, min_link_share=MIN_OF_LINK, upright=stripe_unit)
    return {"multi-block": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_multi_block",
    title="Many blocks in one call against one call a block (Figure 14)",
    answers="Gabrielyan 2007, Figure 14: "
    "single-block writes are bounded by the stripe unit, multi-block writes are not",
    deviations=(
        "300 MB in blocks of 1024 and 262,144 bytes, once; else 30 MB, three times (--quick: 6); "
        "no size is given",
        "single-block files have 800 fragments: each takes a round trip, however many there are",
        ON_SWITCHES,
    ),
    emulation=True,
)
