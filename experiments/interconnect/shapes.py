"""Measures the cost of groups of neighbouring failed links under FT-DRB (Zarza 2011, 5.6.2).

The shapes are a line and a square (convex), and an L and a U (concave), on a 32x32 torus (Figures
5.29 and 5.30). They fail at the start, under uniform traffic.
"""

from itertools import product

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.permanent import NO_DIVERSION, diversion_checks
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    delivery_check,
    diverting,
    failure_performances,
    not_diverting,
)
from experiments.interconnect.study_points import drb_point, seeds_of
from testbed.faults.cable_faults import SHAPES, shape_walk
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, Verdict
from testbed.report.drawing.charts import INK, RED, Figure, draw_bars, panels

NETWORK = "torus:32x32"

# Links of each leg of a shape.
LEG = 5

CLAIMED = 98.0

# Simulated time of a full run.
FULL_S = 3.2

# Seeds of the runs in which sources divert no message.
ALONE_SEEDS = 3

# Colour of the routers without a failed link.
_WORKING = "#c3c9d0"


def points(quick: bool, seed: int) -> Points:
    """Return the points: four shapes at a position that the seed gives, and no failures.

    The first seeds also have the shapes without diversion.
    """
    seeds = seeds_of(seed, quick)
    result = []
    for run_seed in seeds:
        result.append(_point(run_seed, {"faults": 0, "options": {}}, quick=quick))
        for shape in SHAPES:
            result.append(_point(run_seed, _failures(shape), quick=quick))
    for run_seed in seeds[:ALONE_SEEDS]:
        for shape in SHAPES:
            settings = {**_failures(shape), "options": NO_DIVERSION}
            result.append(_point(run_seed, settings, quick=quick))
    return result


def _failures(shape: str) -> Results:
    return {"faults": 1, "fault_kind": f"shape:{shape}:{LEG}"}


def _point(seed: int, settings: Row, *, quick: bool) -> Results:
    return drb_point(NETWORK, "uniform", seed, quick=quick, full_s=FULL_S, **settings)


def judge(rows: Rows) -> Verdict:
    """Check that performance is above 98 % for each shape because sources divert messages."""
    checks = [delivery_check(rows)]
    alone = _by_shape(not_diverting(rows))
    for shape, values in _by_shape(diverting(rows)).items():
        threshold_check, *gain_checks = diversion_checks(
            f"{shape}: performance, 100 L0 / Lf",
            CLAIMED,
            values,
            alone.get(shape, ()),
            "above 98 % (5.6.2, Figure 5.30)",
        )
        checks.append(threshold_check)
        diverted = _diverted_messages(rows, shape)
        for check in gain_checks:
            checks.append(check.of(diverted, "no message was diverted"))
    return Verdict.of(checks)


def _diverted_messages(rows: Rows, shape: str) -> int:
    """Return the number of messages that sources diverted in runs with this shape."""
    count = 0
    for row in rows:
        if shape in row["fault_kind"].split(":"):
            count += row["alternative"]
    return count


def figures(rows: Rows) -> Figures:
    """Draw the shapes (Figure 5.29) and their performance (Figure 5.30)."""
    samples = {}
    for shape, values in _by_shape(diverting(rows)).items():
        samples["FT-DRB", shape] = values
    title = f"Performance with shapes of failed links, {rows[0]['network']}"
    claim = (CLAIMED, "claim: above 98 %")
    return {
        "5.29": _draw_shapes(),
        "5.30": draw_bars(title, samples, y=PERFORMANCE, low=95, claim=claim),
    }


def _by_shape(rows: Rows) -> dict[str, list[float]]:
    """Return performance by shape."""
    return failure_performances(rows, _shape_of)


def _shape_of(row: Row) -> str:
    _, shape, _ = row["fault_kind"].split(":")
    return str(shape)


def _draw_shapes() -> Figure:
    """Draw the links that fail in each shape."""
    figure, all_axes = panels(9, 2.7, columns=4)
    sides = range(-1, LEG + 2)
    routers = list(product(sides, sides))
    router_xs, router_ys = zip(*routers, strict=True)
    for axes, shape in zip(all_axes, SHAPES, strict=True):
        walk = shape_walk(shape, LEG)
        # Move each shape into the same corner.
        left = min(x for x, _ in walk)
        bottom = min(y for _, y in walk)
        xs = [x - left for x, _ in walk]
        ys = [y - bottom for _, y in walk]
        axes.plot(router_xs, router_ys, "s", color=_WORKING, markersize=3)
        axes.plot(xs, ys, color=RED, linewidth=2.2, label="failed links")
        axes.plot(xs, ys, "s", color=INK, markersize=3.5)
        axes.set(title=f"{shape}: {len(xs) - 1} links", xlabel="x (routers)", ylabel="y (routers)")
        axes.set(aspect="equal", xticks=[], yticks=[])
    all_axes[0].legend(loc="upper right")
    figure.suptitle("Shapes of failed links (red)")
    return figure


STUDY = Study.of_module(
    __name__,
    name="interconnect_shapes",
    title="Neighbouring links that fail together: a line, a square, an L and a U on a 32x32 torus",
    deviations=(
        "Each leg of a shape has five links, and its position depends on the seed. The document "
        "gives neither.",
        "3.2 s per run, because the document gives no time. Messages come at random (Poisson), "
        "not at a constant rate.",
        "With --quick a run has 0.08 s, in which hardly any source diverts messages. So next to "
        "nothing is gained over escapes alone.",
        "Payloads of 512 bytes only, not of 256.",
    ),
    answers="Zarza 2011, Figures 5.29-5.30: above 98 % with each shape",
    measure=measure_run,
)
