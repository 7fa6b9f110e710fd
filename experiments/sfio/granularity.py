"""Optimised and non-optimised writes by stripe unit (Gabrielyan 2007, Figure 13).

One compute node writes to three I/O nodes.
"""

from itertools import pairwise

from experiments.sfio.comparison import LINK_RATE_BPS, ON_SWITCHES, Comparison, LineNames
from experiments.sfio.runs import measure_access, verdict_of_runs
from testbed.model.studies import Claim, Figures, Results, Row, Rows, Study, Verdict

# Fragments of a non-optimised run, which sends each of them by itself.
FRAGMENTS = 600

# A small and a large stripe unit, in bytes.
FINE = 75
COARSE = 65_536

# A loss of up to 3 % counts as negligible. The document states no number.
NEGLIGIBLE = 0.97


def _fragments_bytes(stripe_unit: int, file_bytes: int) -> int:
    """Return the size of a file with ``FRAGMENTS`` stripe units, but at most ``file_bytes``."""
    return min(file_bytes, stripe_unit * FRAGMENTS)


COMPARED = Comparison(
    size_field="stripe_unit",
    call_field="optimised",
    size_label="stripe unit, bytes",
    line_names=LineNames("optimised (mwritec)", "non-optimised (mwrite)", "optimised, 660 MB"),
    sizes=(5, 25, 75, 200, 1005, 5000, 20_000, 65_536),
    quick_sizes=(25, 75, 200, 1005, 5000, 65_536),
    file_bytes=60_000_000,
    quick_file_bytes=10_000_000,
    piecewise_bytes=_fragments_bytes,
    complete_bytes=660_000_000,
    complete_sizes=(FINE, COARSE),
)


points = COMPARED.points


def measure(point: Row) -> Results:
    """Measure one write."""
    return measure_access(
        "crossbar:4",
        point,
        link_rate_bps=LINK_RATE_BPS,
        compute_nodes=1,
        io_nodes=3,
        optimise=point["optimised"],
    )


def judge(rows: Rows) -> Verdict:
    """Check that only the non-optimised write depends on the stripe unit."""
    fast, slow, complete = COMPARED.speeds(rows)
    fast_from_fine = {unit: bps for unit, bps in fast.items() if unit >= FINE}
    worst = min(fast_from_fine, key=fast_from_fine.__getitem__)
    slower_steps = []
    for unit, larger_unit in pairwise(sorted(slow)):
        if slow[larger_unit] < slow[unit]:
            slower_steps.append(larger_unit)
    fine_gain = fast[FINE] / slow[FINE]
    coarse_gain = fast[COARSE] / slow[COARSE]
    checks = [
        Claim(f"optimised write, the slowest stripe unit from {FINE} bytes over the fastest")
        .at_least(NEGLIGIBLE, fast[worst] / max(fast_from_fine.values()))
        .cites("down to 75 bytes with only a negligible loss, section 2.10")
        .against(
            slow[worst] / max(slow.values()),
            f"as the non-optimised write depends on it, at {worst} bytes",
        ),
        Claim(f"optimised over non-optimised write at {FINE} bytes")
        .at_least(10.0, fine_gain)
        .cites("especially valuable for low stripe unit sizes, section 2.6")
        .against(1.0, "no gain"),
        Claim(f"gain of the optimised write at {COARSE} bytes over its gain at {FINE}")
        .at_most(0.5, coarse_gain / fine_gain)
        .cites("especially valuable for low stripe unit sizes, section 2.6")
        .against(1.0, "the same gain at all sizes"),
        Claim("steps to a larger stripe unit at which the non-optimised write becomes slower")
        .equal(0, len(slower_steps))
        .against(len(slow) // 2, "no relation: every other one"),
    ]
    if complete:
        megabytes = COMPARED.complete_bytes // 10**6
        checks.append(
            Claim(f"a file of {megabytes} MB, optimised, {FINE} bytes over {COARSE}")
            .at_least(NEGLIGIBLE, complete[FINE] / complete[COARSE])
            .cites("Figure 13's own size; a negligible loss, section 2.10")
            .against(slow[FINE] / slow[COARSE], "as the non-optimised write depends on it")
        )
    return verdict_of_runs(rows, checks)


def figures(rows: Rows) -> Figures:
    """Draw the throughput over the stripe unit, as Figure 13."""
    title = "Writing from 1 compute node to 3 I/O nodes over 100 Mbit/s links"
    return {"granularity": COMPARED.figure(title, rows, min_link_share=NEGLIGIBLE)}


STUDY = Study.of_module(
    __name__,
    name="sfio_granularity",
    title="Writing a striped file in small units, optimised and not (Figure 13)",
    answers="Gabrielyan 2007, Figure 13 and section 2.10: optimised writes are as fast at 75 bytes "
    "as at 64 kB",
    deviations=(
        "660 MB, the document's file, in units of 75 and 65,536 bytes, once; else 60 MB, three "
        "times (--quick: 10)",
        "non-optimised files have 600 fragments, not 660 MB: each takes a round trip, however many "
        "there are",
        ON_SWITCHES,
    ),
    emulation=True,
)
