"""Optimised against non-optimised writes of one compute node to three I/O nodes, by stripe unit (Gabrielyan 2007, figure 13)."""

from __future__ import annotations

from itertools import pairwise

from experiments.sfio.figures import lines_by_size, plot_throughput
from experiments.sfio.runs import accessed, judged
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import BELOW, INK

UNITS, QUICK_UNITS = (5, 25, 75, 200, 1005, 5000, 20_000, 65_536), (25, 75, 200, 1005, 5000, 65_536)
REPEAT = 3
LINK_RATE_BPS = 100e6
OPTIMISED_BYTES, QUICK_OPTIMISED_BYTES = 60_000_000, 10_000_000
WHOLE_BYTES, WHOLE_UNITS = 660_000_000, (75, 65_536)
"""The file of Figure 13, written once in each of these stripe units."""
FRAGMENTS = 600
"""Of a non-optimised run, which sends every one of them by itself."""
FINE, COARSE = 75, 65_536
NEGLIGIBLE = 0.97
"""A loss of 3 % is the most that we call negligible; the document puts no number to it."""


def points(quick: bool, seed: int) -> Points:
    """Both ways of writing at every stripe unit; non-optimised files have as many fragments each. Then the whole file."""
    size = QUICK_OPTIMISED_BYTES if quick else OPTIMISED_BYTES
    found = [
        {
            "stripe_unit": unit,
            "optimised": optimised,
            "file_bytes": size if optimised else min(size, unit * FRAGMENTS),
            "repeat": REPEAT,
            "seed": seed,
        }
        for unit in (QUICK_UNITS if quick else UNITS)
        for optimised in (True, False)
    ]
    return found + [
        {"stripe_unit": unit, "optimised": True, "file_bytes": WHOLE_BYTES, "repeat": 1, "seed": seed}
        for unit in (() if quick else WHOLE_UNITS)
    ]


def measure(point: Row) -> Results:
    """One write."""
    return accessed(
        "crossbar:4",
        compute_nodes=1,
        io_nodes=3,
        stripe_unit=point["stripe_unit"],
        file_bytes=point["file_bytes"],
        optimise=point["optimised"],
        link_rate_bps=LINK_RATE_BPS,
        repetitions=point["repeat"],
        seed=point["seed"],
    )


def reduced(rows: Rows) -> list[Row]:
    """The rows that are not of the whole file."""
    return [row for row in rows if row["file_bytes"] != WHOLE_BYTES]


def judge(rows: Rows) -> Verdict:
    """The optimised write does not depend on the stripe unit; the other does."""
    fast = {row["stripe_unit"]: row["throughput_bps"] for row in reduced(rows) if row["optimised"]}
    slow = {row["stripe_unit"]: row["throughput_bps"] for row in rows if not row["optimised"]}
    whole = {row["stripe_unit"]: row["throughput_bps"] for row in where(rows, file_bytes=WHOLE_BYTES)}
    fine = {unit: fast[unit] for unit in fast if unit >= FINE}
    worst = min(fine, key=lambda unit: fine[unit])
    below = [b for a, b in pairwise(sorted(slow)) if slow[b] < slow[a]]
    checks = [
        Claim(f"optimised write, the slowest stripe unit from {FINE} bytes over the fastest")
        .at_least(NEGLIGIBLE, fine[worst] / max(fine.values()))
        .cites("down to 75 bytes with only a negligible loss, section 2.10")
        .against(slow[worst] / max(slow.values()), f"as the non-optimised write depends on it, at {worst} bytes"),
        Claim(f"optimised over non-optimised write at {FINE} bytes")
        .at_least(10.0, fast[FINE] / slow[FINE])
        .cites("especially valuable for low stripe unit sizes, section 2.6")
        .against(1.0, "no gain"),
        Claim(f"gain of the optimised write at {COARSE} bytes over its gain at {FINE}")
        .at_most(0.5, (fast[COARSE] / slow[COARSE]) / (fast[FINE] / slow[FINE]))
        .cites("especially valuable for low stripe unit sizes, section 2.6")
        .against(1.0, "the same gain at all sizes"),
        Claim("steps to a larger stripe unit at which the non-optimised write becomes slower")
        .equal(0, len(below))
        .against(float(len(slow) // 2), "no relation: every other one"),
    ]
    if whole:
        checks.append(
            Claim(f"a file of {WHOLE_BYTES // 10**6} MB, optimised, {FINE} bytes over {COARSE}")
            .at_least(NEGLIGIBLE, whole[FINE] / whole[COARSE])
            .cites("Figure 13's own size; a negligible loss, section 2.10")
            .against(slow[FINE] / slow[COARSE], "as the non-optimised write depends on it")
        )
    return judged(
        rows, checks, [f"optimised write, {u} bytes: {v / LINK_RATE_BPS:.3f} of the link" for u, v in fast.items()]
    )


def figures(rows: Rows) -> Figures:
    """Throughput over the stripe unit, as Figure 13; stars: the whole file."""
    names = ("optimised (mwritec)", "non-optimised (mwrite)")
    x, title = "stripe unit, bytes", "Writing from 1 compute node to 3 I/O nodes over 100 Mbit/s links"
    figure, axes = lines_by_size(
        reduced(rows), "stripe_unit", "optimised", names, NEGLIGIBLE, LINK_RATE_BPS, title=title, xlabel=x
    )
    whole, style = where(rows, file_bytes=WHOLE_BYTES), {"marker": "*", "markersize": 11, "linestyle": "", "zorder": 5}
    plot_throughput(axes, whole, "stripe_unit", "optimised, 660 MB", INK, **style)
    axes.set_ylim(0, None)
    axes.legend(**BELOW)
    return {"granularity": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_granularity",
    title="Writing a striped file in small units, optimised and not (Figure 13)",
    does="writes a striped file in stripe units of a few bytes to 64 kB, optimised and not",
    answers="Gabrielyan 2007, Figure 13 and section 2.10: optimised writes are as fast at 75 bytes as at 64 kB",
    deviations=(
        "660 MB, the document's file, in stripe units of 75 and 65,536 bytes, once each; 60 MB, three times, in all others (10 MB with --quick)",
        "non-optimised files have 600 fragments instead of 660 MB: each fragment takes a round trip, however many there are",
        "links of 100 Mbit/s as Fast Ethernet has, on a user-space switch; subfiles lie in the page cache instead of on disks",
    ),
    emulation=True,
)
