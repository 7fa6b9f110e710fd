"""One multi-block write against single-block writes of the same blocks, by block size (Gabrielyan 2007, figure 14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sfio.figures import GREY, finish, lines_by_size
from experiments.sfio.runs import accessed, at_least, judged
from testbed.commands.studies.study import Study
from testbed.model.verdict import Verdict

Row = Mapping[str, Any]
BLOCKS, QUICK_BLOCKS = (64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576), (64, 512, 4096, 32_768, 262_144)
REPEAT = 3
LINK_RATE_BPS = 20e6
STRIPE_UNIT, IO_NODES = 1005, 7
MULTI_BYTES, QUICK_MULTI_BYTES = 10_000_000, 3_000_000
FRAGMENTS = 800
MIN_OF_LINK, MIN_GAIN = 0.8, 5.0


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Both ways at every block size; single-block files are so small that they take a second or so."""
    whole = QUICK_MULTI_BYTES if quick else MULTI_BYTES
    return [
        {
            "block_bytes": block,
            "multi_block": multi,
            "file_bytes": whole if multi else max(block, min(whole, FRAGMENTS * min(block, STRIPE_UNIT))),
            "seed": seed,
        }
        for block in (QUICK_BLOCKS if quick else BLOCKS)
        for multi in (True, False)
    ]


def measure(point: Row) -> dict[str, Any]:
    """One write of all blocks: in one call, or each fragment of each block by itself."""
    return accessed(
        "crossbar:8",
        compute_nodes=1,
        io_nodes=IO_NODES,
        stripe_unit=STRIPE_UNIT,
        file_bytes=point["file_bytes"],
        access="random",
        block_bytes=point["block_bytes"],
        optimise=point["multi_block"],
        link_rate_bps=LINK_RATE_BPS,
        repeat=REPEAT,
        seed=point["seed"],
    )


def judge(rows: Sequence[Row]) -> Verdict:
    """The multi-block write fills the link whatever the block size; single blocks are bounded by the stripe unit."""
    multi = {row["block_bytes"]: row["throughput_bps"] for row in rows if row["multi_block"]}
    single = {row["block_bytes"]: row["throughput_bps"] for row in rows if not row["multi_block"]}
    worst, smallest = min(multi, key=lambda b: multi[b]), min(multi)
    large = [b for b in single if b >= 4 * STRIPE_UNIT]
    flat = max(single[b] for b in large) / min(single[b] for b in large)
    checks = (
        at_least(
            "multi-block write over link rate, slowest block size",
            multi[worst] / LINK_RATE_BPS,
            MIN_OF_LINK,
            f"{worst} bytes; at least {MIN_OF_LINK}",
        ),
        at_least(
            f"multi-block over single-block write at {smallest} bytes", multi[smallest] / single[smallest], MIN_GAIN
        ),
        at_least(
            "multi-block over the best of single-block writes",
            min(multi.values()) / max(single.values()),
            1.0,
            "at every block size",
        ),
        at_least(
            "single-block writes of large blocks: slowest over fastest", 1 / flat, 0.6, "bounded by the stripe unit"
        ),
    )
    return judged(rows, checks)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Throughput over the block size, as Figure 14."""
    names = ("one multi-block call (mwriteb)", "single-block calls (mwrite)")
    figure, axes = lines_by_size(rows, "block_bytes", "multi_block", names, MIN_OF_LINK, LINK_RATE_BPS)
    axes.axvline(STRIPE_UNIT, color=GREY, linewidth=1, linestyle="--", label=f"stripe unit, {STRIPE_UNIT} bytes")
    finish(
        axes,
        x="block size, bytes",
        y="throughput of the file, Mbit/s",
        title=f"Writing blocks in random order from 1 compute node to {IO_NODES} I/O nodes over 20 Mbit/s links",
    )
    return {"multi-block": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_multi_block",
    does="writes blocks of a striped file in one multi-block call and one by one",
    answers="Gabrielyan 2007, Figure 14: a multi-block write is not bounded by the stripe unit",
    emulation=True,
)
