"""What do groups of neighbouring failed links cost under FT-DRB (Zarza 2011, 5.6.2, Figures 5.29-5.30)?

Line and square (convex), L and U (concave) on a 32x32 torus, failed from the start, uniform traffic.
"""

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.permanent import NO_DIVERSION, beyond_escapes
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import delivery_check, of_failures
from experiments.interconnect.study_points import drb_point, seeds_of
from testbed.faults.cable_faults import SHAPES, shape_walk
from testbed.model.studies import Figures, Points, Results, Rows, Study, Verdict
from testbed.report.drawing.charts import INK, RED, Figure, draw_bars, panels

LEG = 5  # links a leg of each shape
CLAIMED = 98.0
FULL_S = 3.2
ALONE_SEEDS = 3
"""Of runs in which sources divert nothing."""


def points(quick: bool, seed: int) -> Points:
    """Four shapes at a place drawn by the seed, and the run without; the first seeds without diversion too."""
    seeds = seeds_of(seed, quick)
    shapes = [(1, f"shape:{shape}:{LEG}") for shape in SHAPES]
    runs: list[tuple[int, int, str, Results]] = [
        (s, n, kind, {}) for s in seeds for n, kind in [(0, "none"), *shapes]
    ]
    runs += [(s, n, kind, NO_DIVERSION) for s in seeds[:ALONE_SEEDS] for n, kind in shapes]
    return [
        drb_point(
            "torus:32x32",
            "uniform",
            s,
            quick=quick,
            full_s=FULL_S,
            faults=n,
            fault_kind=kind,
            options=options,
        )
        for s, n, kind, options in runs
    ]


def judge(rows: Rows) -> Verdict:
    """Sent = received; above 98 % for each shape, and better than routers' escapes alone, where sources diverted."""
    checks, alone = [delivery_check(rows)], _by_shape(rows, alone=True)
    for kind, values in _by_shape(rows).items():
        name = f"{kind}: performance, 100 L0 / Lf"
        diverted = sum(row["alternative"] for row in rows if kind in row["fault_kind"].split(":"))
        bar, *gain = beyond_escapes(
            name, CLAIMED, values, alone.get(kind, ()), "above 98 % (5.6.2, Figure 5.30)"
        )
        checks += [bar, *(check.of(diverted, "no message was diverted") for check in gain)]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """5.29: the shapes; 5.30: their performance."""
    samples = {("FT-DRB", kind): values for kind, values in _by_shape(rows).items()}
    title, claim = (
        f"Performance with shapes of failed links, {rows[0]['network']}",
        (CLAIMED, "claim: above 98 %"),
    )
    return {
        "5.29": _shape_drawing(),
        "5.30": draw_bars(title, samples, y=PERFORMANCE, low=95, claim=claim),
    }


def _by_shape(rows: Rows, *, alone: bool = False) -> dict[str, list[float]]:
    own = [row for row in rows if bool(row["options"]) == alone or not row["faults"]]
    return of_failures(own, lambda row: row["fault_kind"].split(":")[1])


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
        "3.2 s a run, no time is given; messages at random (Poisson), not at a constant rate.",
        "--quick: 0.08 s a run, in which hardly a source diverts: next to nothing is gained over escapes alone.",
        "Payloads of 512 bytes only, not of 256.",
    ),
    answers="Zarza 2011, Figures 5.29-5.30: above 98 % with each shape",
    measure=measure_run,
)
