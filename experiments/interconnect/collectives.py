"""Measures the cost of failed links for scatter and gather under FT-DRB (Zarza 2011, 5.6.3).

A 32x32 torus has one root. From 2 to 200 links fail at the start (Figure 5.31).
"""

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.permanent import NO_DIVERSION, diversion_checks
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    delivery_check,
    diverting,
    mean,
    not_diverting,
    performances,
)
from experiments.interconnect.study_points import POISSON_512, drb_points, seeds_of
from testbed.model.studies import Figures, Points, Results, Rows, Study, Verdict
from testbed.report.drawing.charts import draw_lines

NETWORK = "torus:32x32"
CLAIMED = 99.0
COUNTS = (0, 2, 4, 6, 8, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200)
STATED_RATE = 400.0

# Messages per second that are sent to the root of a gather: 41 % of what its link carries.
BUSY_ROOT = 200_000.0

# The nodes that send to the root of a gather.
SENDERS = 1023

# Runs in which sources divert no message.
ALONE_SEEDS = 6


def points(quick: bool, seed: int) -> Points:
    """Return the points of both collectives at each number of failed links.

    With the largest number, a few runs without diversion are added.
    """
    seeds = seeds_of(seed, quick, few=6)
    counts = (0, 10, 50) if quick else COUNTS
    scatter: Results = {"seconds": 2.0 if quick else 100.0}
    gather: Results = {"rate": BUSY_ROOT / SENDERS}
    if not quick:
        gather["seconds"] = 0.5

    result = []
    for pattern, settings in (("scatter", scatter), ("gather", gather)):
        settings |= {"quick": quick, "fault_kind": "start"}
        result += drb_points(NETWORK, pattern, seeds, faults=counts, **settings)
        settings |= {"faults": counts[-1], "options": NO_DIVERSION}
        result += drb_points(NETWORK, pattern, seeds[:ALONE_SEEDS], **settings)
    return result


def judge(rows: Rows) -> Verdict:
    """Check that less than 1 % is lost at every number of failures.

    It should also be less than with the routers' escapes alone.
    """
    checks = [delivery_check(rows)]
    alone = {}
    for (pattern, count, _), values in _performances(not_diverting(rows)).items():
        alone[pattern, count] = values

    worst: dict[str, tuple[int, list[float]]] = {}
    for (pattern, count, rate), values in _performances(diverting(rows)).items():
        is_claimed = count > 0 and (pattern == "gather" or rate == STATED_RATE)
        if is_claimed and (pattern not in worst or mean(values) < mean(worst[pattern][1])):
            worst[pattern] = (count, values)

    for pattern, (count, values) in worst.items():
        checks += diversion_checks(
            f"{pattern}: performance at the worst number of failed links",
            CLAIMED,
            values,
            alone.get((pattern, count), ()),
            "less than 1 % lost (5.6.3, 5.31)",
            f"worst at {count} links",
        )
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Draw performance over the number of failed links (Figure 5.31)."""
    samples = {}
    for (pattern, count, rate), values in _performances(diverting(rows)).items():
        samples[f"{pattern}, {rate:.0f} packets/s a sender", count] = values
    title = f"Scatter and gather with failed links, {rows[0]['network']}"
    claim = (CLAIMED, "claim: less than 1 % lost")
    return {"5.31": draw_lines(title, samples, x="failed links", y=PERFORMANCE, claim=claim)}


def _performances(rows: Rows) -> dict[tuple[str, int, float], list[float]]:
    """Return performance by pattern, number of failed links and rate."""
    return performances(rows, ("pattern", "faults", "rate"))


STUDY = Study.of_module(
    __name__,
    name="interconnect_collectives",
    title="Scatter and gather on a 32x32 torus with up to 200 failed links",
    deviations=(
        "Gather has 195 packets/s per node instead of 400. At 400 the root's only link would "
        "carry 84 % of its capacity.",
        "Gather runs 0.5 s and scatter, which has one sender, 100 s (with --quick 2 s). The "
        "document gives no time.",
        POISSON_512,
    ),
    answers="Zarza 2011, Figure 5.31: less than 1 % lost",
    measure=measure_run,
)
