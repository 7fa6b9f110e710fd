"""What do groups of neighbouring failed links cost under FT-DRB (Zarza 2011, 5.6.2, Figures 5.29-5.30)?

Line and square (convex), L and U (concave) on a 32x32 torus, failed from the start, uniform traffic.
"""

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_least, delivery_check, of_failures
from experiments.interconnect.study_points import drb_point, seeds_of
from testbed.faults.cable_faults import SHAPES, shape_walk
from testbed.model.studies import Figures, Points, Rows, Study, Verdict
from testbed.report.drawing.charts import INK, RED, Figure, draw_bars, panels

LEG = 5  # links a leg of each shape
CLAIMED = 98.0
FULL_S = 3.2


def points(quick: bool, seed: int) -> Points:
    """Four shapes at a place drawn by the seed, and the run without."""
    seeds = seeds_of(seed, quick)
    kinds = [(0, "none"), *((1, f"shape:{shape}:{LEG}") for shape in SHAPES)]
    return [
        drb_point("torus:32x32", "uniform", s, quick=quick, full_s=FULL_S, faults=n, fault_kind=kind)
        for s in seeds
        for n, kind in kinds
    ]


def judge(rows: Rows) -> Verdict:
    """Sent = received; above 98 % for each shape."""
    checks = [
        at_least(f"{kind}: performance, 100 L0 / Lf (%)", CLAIMED, values)
        .cites("above 98 % (5.6.2, Figure 5.30)")
        .against(95.0, "what is promised of links that fail anywhere (5.6.1)")
        for kind, values in _by_shape(rows).items()
    ]
    return Verdict.of((delivery_check(rows), *checks))


def figures(rows: Rows) -> Figures:
    """5.29: the shapes; 5.30: their performance."""
    samples = {("FT-DRB", kind): values for kind, values in _by_shape(rows).items()}
    title, claim = f"Performance with shapes of failed links, {rows[0]['network']}", (CLAIMED, "claim: above 98 %")
    return {"5.29": _shape_drawing(), "5.30": draw_bars(title, samples, y=PERFORMANCE, low=95, claim=claim)}


def _by_shape(rows: Rows) -> dict[str, list[float]]:
    return of_failures(rows, lambda row: row["fault_kind"].split(":")[1])


def _shape_drawing() -> Figure:
    """The four fault shapes as the links that fail."""
    figure, places = panels(9, 2.7, columns=4)
    for axes, shape in zip(places, SHAPES, strict=True):
        xs, ys = ([at - min(of) for at in of] for of in zip(*shape_walk(shape, LEG), strict=True))
        routers = [(x, y) for x in range(-1, LEG + 2) for y in range(-1, LEG + 2)]
        axes.plot(*zip(*routers, strict=True), "s", color="#c3c9d0", markersize=3)
        axes.plot(xs, ys, color=RED, linewidth=2.2, label="failed links")
        axes.plot(xs, ys, "s", color=INK, markersize=3.5)
        axes.set(title=f"{shape}: {len(xs) - 1} links", xlabel="x (routers)", ylabel="y (routers)")
        axes.set(aspect="equal", xticks=[], yticks=[])
    places[0].legend(loc="upper right")
    figure.suptitle("Shapes of failed links (red)")
    return figure


STUDY = Study.of_module(
    __name__,
    name="interconnect_shapes",
    title="Neighbouring links that fail together: a line, a square, an L and a U on a 32x32 torus",
    deviations=(
        "Each leg of a shape has five links, and its place is drawn by the seed: the document gives neither.",
        "3.2 s a run (--quick: 0.08 s), no time is given; messages at random (Poisson), not at a constant rate.",
        "Payloads of 512 bytes only, not of 256.",
    ),
    answers="Zarza 2011, Figures 5.29-5.30: above 98 % with each shape",
    measure=measure_run,
)
