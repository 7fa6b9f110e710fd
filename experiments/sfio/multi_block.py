"""One multi-block write against single-block writes of the same blocks, by block size (Gabrielyan 2007, figure 14)."""

from experiments.sfio.comparison import LINK_RATE_BPS, ON_SWITCHES, Comparison
from experiments.sfio.runs import accessed, judged
from testbed.model.studies import Claim, Figures, Results, Row, Rows, Study, Verdict

STRIPE_UNIT, IO_NODES = 1005, 7
FRAGMENTS = 800
MIN_OF_LINK, MIN_GAIN, MIN_FLAT = 0.8, 5.0, 0.6


COMPARED = Comparison(
    size="access_block_bytes",
    way="multi_block",
    sizes=(64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576),
    quick_sizes=(64, 512, 4096, 32_768, 262_144),
    file_bytes=30_000_000,
    quick_file_bytes=6_000_000,
    least_bytes=lambda block, size: max(block, min(size, FRAGMENTS * min(block, STRIPE_UNIT))),
    whole_bytes=300_000_000,
    whole_sizes=(1024, 262_144),
)


points = COMPARED.points


def measure(point: Row) -> Results:
    """One write of all blocks: in one call, or each fragment of each block by itself."""
    nodes: Results = {"compute_nodes": 1, "io_nodes": IO_NODES, "stripe_unit": STRIPE_UNIT}
    how: Results = {"access": "random", "optimise": point["multi_block"]}
    return accessed("crossbar:8", point, link_rate_bps=LINK_RATE_BPS, **nodes, **how)


def judge(rows: Rows) -> Verdict:
    """The multi-block write fills the link whatever the block size; single blocks are bounded by the stripe unit."""
    multi, single, whole = COMPARED.speeds(rows)
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
        Claim(
            f"a file of {COMPARED.whole_bytes // 10**6} MB in blocks of {block} bytes, multi-block, over link rate"
        )
        .at_least(MIN_OF_LINK, speed / LINK_RATE_BPS)
        .cites("Figure 14 (no value in the text)")
        .against(best / LINK_RATE_BPS, "the fastest of the single-block writes")
        for block, speed in whole.items()
    ]
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput over the block size, as Figure 14; stars: the whole file."""
    names = ("one multi-block call (mwriteb)", "single-block calls (mwrite)", "multi-block, 300 MB")
    title = f"Writing blocks in random order from 1 compute node to {IO_NODES} I/O nodes over 100 Mbit/s links"
    unit = STRIPE_UNIT, f"stripe unit, {STRIPE_UNIT} bytes"
    return {
        "multi-block": COMPARED.figure(title, rows, names, MIN_OF_LINK, "block size, bytes", unit)
    }


STUDY = Study.of_module(
    __name__,
    name="sfio_multi_block",
    title="Many blocks in one call against one call a block (Figure 14)",
    answers="Gabrielyan 2007, Figure 14: "
    "single-block writes are bounded by the stripe unit, multi-block writes are not",
    deviations=(
        "300 MB in blocks of 1024 and 262,144 bytes, once; else 30 MB, three times (--quick: 6); no size is given",
        "single-block files have 800 fragments: each takes a round trip, however many there are",
        ON_SWITCHES,
    ),
    emulation=True,
)
