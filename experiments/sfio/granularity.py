"""Optimised against non-optimised writes of one compute node to three I/O nodes, by stripe unit (Gabrielyan 2007,
figure 13)."""

from itertools import pairwise

from experiments.sfio.comparison import LINK_RATE_BPS, ON_SWITCHES, Comparison
from experiments.sfio.runs import accessed, judged
from testbed.model.studies import Claim, Figures, Results, Row, Rows, Study, Verdict

FRAGMENTS = 600
"""Of a non-optimised run, which sends every one of them by itself."""
FINE, COARSE = 75, 65_536
NEGLIGIBLE = 0.97
"""A loss of 3 % is the most that we call negligible; the document puts no number to it."""


COMPARED = Comparison(
    size="stripe_unit",
    way="optimised",
    sizes=(5, 25, 75, 200, 1005, 5000, 20_000, 65_536),
    quick_sizes=(25, 75, 200, 1005, 5000, 65_536),
    file_bytes=60_000_000,
    quick_file_bytes=10_000_000,
    least_bytes=lambda unit, size: min(size, unit * FRAGMENTS),
    whole_bytes=660_000_000,
    whole_sizes=(75, 65_536),
)


points = COMPARED.points


def measure(point: Row) -> Results:
    """One write."""
    how = {"compute_nodes": 1, "io_nodes": 3, "optimise": point["optimised"]}
    return accessed("crossbar:4", point, link_rate_bps=LINK_RATE_BPS, **how)


def judge(rows: Rows) -> Verdict:
    """The optimised write does not depend on the stripe unit; the other does."""
    fast, slow, whole = COMPARED.speeds(rows)
    fine = {unit: fast[unit] for unit in fast if unit >= FINE}
    worst = min(fine, key=lambda unit: fine[unit])
    below = [b for a, b in pairwise(sorted(slow)) if slow[b] < slow[a]]
    checks = [
        Claim(f"optimised write, the slowest stripe unit from {FINE} bytes over the fastest")
        .at_least(NEGLIGIBLE, fine[worst] / max(fine.values()))
        .cites("down to 75 bytes with only a negligible loss, section 2.10")
        .against(
            slow[worst] / max(slow.values()),
            f"as the non-optimised write depends on it, at {worst} bytes",
        ),
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
        .against(len(slow) // 2, "no relation: every other one"),
    ]
    if whole:
        checks.append(
            Claim(
                f"a file of {COMPARED.whole_bytes // 10**6} MB, optimised, {FINE} bytes over {COARSE}"
            )
            .at_least(NEGLIGIBLE, whole[FINE] / whole[COARSE])
            .cites("Figure 13's own size; a negligible loss, section 2.10")
            .against(slow[FINE] / slow[COARSE], "as the non-optimised write depends on it")
        )
    return judged(rows, checks)


def figures(rows: Rows) -> Figures:
    """Throughput over the stripe unit, as Figure 13; stars: the whole file."""
    names = ("optimised (mwritec)", "non-optimised (mwrite)", "optimised, 660 MB")
    title = "Writing from 1 compute node to 3 I/O nodes over 100 Mbit/s links"
    return {"granularity": COMPARED.figure(title, rows, names, NEGLIGIBLE, "stripe unit, bytes")}


STUDY = Study.of_module(
    __name__,
    name="sfio_granularity",
    title="Writing a striped file in small units, optimised and not (Figure 13)",
    answers="Gabrielyan 2007, Figure 13 and section 2.10: optimised writes are as fast at 75 bytes as at 64 kB",
    deviations=(
        "660 MB, the document's file, in units of 75 and 65,536 bytes, once; else 60 MB, three times (--quick: 10)",
        "non-optimised files have 600 fragments, not 660 MB: each takes a round trip, however many there are",
        ON_SWITCHES,
    ),
    emulation=True,
)
