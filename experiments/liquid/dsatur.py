"""Figure 64: what the greedy colouring of the congestion graph (DSATUR) loses against liquid schedules."""

from experiments.liquid.swiss_t1_traffic import points, traffic_of
from testbed.model.studies import Claim, Figures, Results, Row, Rows, Study, Verdict
from testbed.report.drawing.charts import draw_lines
from testbed.scheduling.baselines import dsatur_frames
from testbed.scheduling.methods import schedule_by_name

THESIS_PATTERNS, THESIS_LOSING, THESIS_WORST, THESIS_MILD = 362, 94, 19.0, 0.66
MILD = 9.0
"""Per cent of throughput: the thesis splits the patterns that lose at this loss."""
EVEN = (MILD - 2) / (THESIS_WORST - 2)
"""Share of the losing patterns below that split if losses were spread evenly from 2 to 19 %."""


def measure(point: Row) -> Results:
    """Frames by the fast method and by DSATUR, ties as in Table 3."""
    traffic = traffic_of(point["allocation"])
    return {
        "bottleneck_load": traffic.bottleneck_load,
        "liquid": schedule_by_name(traffic, "liquid", seed=point["seed"]).length,
        "dsatur": len(dsatur_frames(traffic.paths())),
    }


def judge(rows: Rows) -> Verdict:
    """Every pattern has a liquid schedule, and DSATUR loses about as often and as much as in the thesis."""
    liquid = sum(row["liquid"] == row["bottleneck_load"] for row in rows)
    losses = _losses(rows)
    share = len(losses) / len(rows)
    mild = sum(loss <= MILD for loss in losses) / max(1, len(losses))
    return Verdict.of(
        (
            Claim("patterns with a liquid schedule").count(len(rows), liquid),
            Claim("share of patterns on which DSATUR loses throughput")
            .equal(THESIS_LOSING / THESIS_PATTERNS, share, 0.05)
            .cites("94 of 362 (26 %), Appendix B")
            .against(0.0, "no loss")
            .noting("which allocation stands for a pattern, and how ties are broken, move it"),
            Claim(f"share of the losing patterns that lose {MILD:g} % or less")
            .equal(THESIS_MILD, mild, 0.15)
            .cites("66 %, Appendix B")
            .against(EVEN, "losses spread evenly"),
            Claim("largest loss of throughput by DSATUR, %")
            .equal(THESIS_WORST, max(losses, default=0.0), 3.0)
            .cites("19 %, Figure 64")
            .against(MILD, "all losses mild"),
        )
    )


def _losses(rows: Rows) -> list[float]:
    """Loss of throughput in %, where there is one, largest first."""
    found = [100.0 * (1 - row["bottleneck_load"] / row["dsatur"]) for row in rows]
    return sorted((loss for loss in found if loss > 0), reverse=True)


def figures(rows: Rows) -> Figures:
    """Losses of the patterns affected, largest first."""
    losses = _losses(rows)
    name = f"DSATUR: {len(losses)} of {len(rows)} patterns ({100 * len(losses) / len(rows):.0f} %)"
    samples = {(name, number): (loss, 0.0) for number, loss in enumerate(losses, start=1)}
    title, thesis = (
        "Loss by greedy colouring (Figure 64)",
        (THESIS_WORST, "thesis: 26 % of patterns, at most 19 %"),
    )
    x = "patterns affected, from the largest loss on"
    return {
        "dsatur-loss": draw_lines(title, samples, x=x, y="loss of throughput (%)", claim=thesis)
    }


STUDY = Study.of_module(
    __name__,
    points=points,
    name="liquid_dsatur",
    title="What greedy colouring (DSATUR) loses against liquid schedules",
    answers="Gabrielyan 2007, Figure 64: DSATUR loses up to 19 % on 26 % of the patterns",
)
