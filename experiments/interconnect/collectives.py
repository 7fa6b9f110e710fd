"""What do failed links cost scatter and gather under FT-DRB (Zarza 2011, 5.6.3, Figure 5.31)?

A 32x32 torus, one root, 2 to 200 links failed from the start.
"""

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.permanent import NO_DIVERSION, beyond_escapes
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import delivery_check, performances
from experiments.interconnect.study_points import POISSON_512, drb_points, seeds_of
from testbed.model.studies import Figures, Points, Results, Rows, Study, Verdict, spread
from testbed.report.drawing.charts import draw_lines

CLAIMED = 99.0
COUNTS = (0, 2, 4, 6, 8, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200)
BUSY_ROOT = 200_000.0
"""Messages a second that the root of a gather is sent: 41 % of its link."""


def points(quick: bool, seed: int) -> Points:
    """Both collectives at the thesis' 400 packets/s a node (quick: three counts)."""
    seeds = seeds_of(seed, quick, few=6)
    counts = (0, 10, 50) if quick else COUNTS
    gather: Results = {"rate": BUSY_ROOT / 1023} | ({} if quick else {"seconds": 0.5})
    found = []
    for pattern, changed in (("scatter", {"seconds": 2.0 if quick else 100.0}), ("gather", gather)):
        changed |= {"quick": quick, "fault_kind": "start"}
        found += drb_points("torus:32x32", pattern, seeds, faults=counts, **changed)
        found += drb_points(
            "torus:32x32", pattern, seeds[:6], faults=counts[-1], options=NO_DIVERSION, **changed
        )
    return found


def judge(rows: Rows) -> Verdict:
    """Sent = received; less than 1 % lost at every number of failures, and less than by routers' escapes alone."""
    checks = [delivery_check(rows)]
    worst: dict[str, tuple[int, list[float]]] = {}
    alone = {key[:2]: values for key, values in _measured(rows, alone=True).items()}
    for (pattern, count, rate), values in _measured(rows).items():
        stated = count and (pattern == "gather" or rate == 400.0)
        if stated and (pattern not in worst or spread(values)[0] < spread(worst[pattern][1])[0]):
            worst[pattern] = (count, values)
    for pattern, (count, values) in worst.items():
        name, said = (
            f"{pattern}: performance at the worst number of failed links",
            "less than 1 % lost (5.6.3, 5.31)",
        )
        mine = alone.get((pattern, count), ())
        checks += beyond_escapes(name, CLAIMED, values, mine, said, f"worst at {count} links")
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """5.31: performance over the number of failed links."""
    samples = {
        (f"{name}, {rate:.0f} packets/s a sender", n): v
        for (name, n, rate), v in _measured(rows).items()
    }
    title, claim = (
        f"Scatter and gather with failed links, {rows[0]['network']}",
        (CLAIMED, "claim: less than 1 % lost"),
    )
    return {"5.31": draw_lines(title, samples, x="failed links", y=PERFORMANCE, claim=claim)}


def _measured(rows: Rows, *, alone: bool = False) -> dict[tuple[str, int, float], list[float]]:
    own = [row for row in rows if bool(row["options"]) == alone or not row["faults"]]
    return performances(own, ("pattern", "faults", "rate"))


STUDY = Study.of_module(
    __name__,
    name="interconnect_collectives",
    title="Scatter and gather on a 32x32 torus with up to 200 failed links",
    deviations=(
        "Gather at 195 packets/s a node instead of 400: at 400 the root's only link would carry 84 % of its capacity.",
        "Gather for 0.5 s, scatter (one sender) for 100 s (--quick: 2 s): the document gives no time.",
        POISSON_512,
    ),
    answers="Zarza 2011, Figure 5.31: less than 1 % lost",
    measure=measure_run,
)
