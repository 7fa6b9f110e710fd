"""Optimised against non-optimised writes of one compute node to three I/O nodes, by stripe unit (Gabrielyan 2007, figure 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sfio.figures import finish, lines_by_size
from experiments.sfio.runs import accessed, at_least, judged
from testbed.commands.studies.study import Study
from testbed.model.verdict import Verdict

Row = Mapping[str, Any]
UNITS, QUICK_UNITS = (5, 25, 75, 200, 1005, 5000, 20_000, 65_536), (25, 75, 200, 1005, 5000, 65_536)
REPEAT = 3
LINK_RATE_BPS = 20e6
OPTIMISED_BYTES, QUICK_OPTIMISED_BYTES = 20_000_000, 4_000_000
FRAGMENTS = 600
"""Of a non-optimised run, which sends every one of them by itself."""
MIN_OF_LINK, MIN_GAIN = 0.9, 10.0


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Both ways of writing at every stripe unit; non-optimised files have as many fragments each."""
    whole = QUICK_OPTIMISED_BYTES if quick else OPTIMISED_BYTES
    units = QUICK_UNITS if quick else UNITS
    return [
        {
            "stripe_unit": unit,
            "optimised": optimised,
            "file_bytes": whole if optimised else min(whole, unit * FRAGMENTS),
            "seed": seed,
        }
        for unit in units
        for optimised in (True, False)
    ]


def measure(point: Row) -> dict[str, Any]:
    """One write."""
    return accessed(
        "crossbar:4",
        compute_nodes=1,
        io_nodes=3,
        stripe_unit=point["stripe_unit"],
        file_bytes=point["file_bytes"],
        optimise=point["optimised"],
        link_rate_bps=LINK_RATE_BPS,
        repeat=REPEAT,
        seed=point["seed"],
    )


def judge(rows: Sequence[Row]) -> Verdict:
    """The optimised write does not depend on the stripe unit; the other does."""
    fast = {row["stripe_unit"]: row["throughput_bps"] for row in rows if row["optimised"]}
    slow = {row["stripe_unit"]: row["throughput_bps"] for row in rows if not row["optimised"]}
    fine = [unit for unit in fast if unit >= 75]
    worst = min(fine, key=lambda unit: fast[unit])
    grows = all(slow[a] <= 1.1 * slow[b] for a, b in zip(sorted(slow), sorted(slow)[1:], strict=False))
    checks = (
        at_least(
            "optimised write over link rate, slowest stripe unit from 75 bytes",
            fast[worst] / LINK_RATE_BPS,
            MIN_OF_LINK,
            f"{worst} bytes; at least {MIN_OF_LINK}",
        ),
        at_least("optimised over non-optimised write at 75 bytes", fast[75] / slow[75], MIN_GAIN),
        at_least(
            "non-optimised writes become faster with the stripe unit", float(grows), 1.0, "none slower by a tenth"
        ),
    )
    return judged(rows, checks)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Throughput over the stripe unit, as Figure 13."""
    names = ("optimised (mwritec)", "non-optimised (mwrite)")
    figure, axes = lines_by_size(rows, "stripe_unit", "optimised", names, MIN_OF_LINK, LINK_RATE_BPS)
    finish(
        axes,
        x="stripe unit, bytes",
        y="throughput of the file, Mbit/s",
        title="Writing from 1 compute node to 3 I/O nodes over 20 Mbit/s links",
    )
    return {"granularity": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_granularity",
    does="writes a striped file in stripe units of a few bytes to 64 kB, optimised and not",
    answers="Gabrielyan 2007, Figure 13: optimised writes are as fast at 75 bytes as at 64 kB",
    emulation=True,
)
