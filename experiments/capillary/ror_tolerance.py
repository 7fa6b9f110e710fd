"""Where ROR rises with the layers of capillary routing: at small static tolerances, which the thesis does not look
at."""

import statistics

from experiments.capillary.mobile_pairs import mobile_pair
from testbed.model.code_description import SHORT_AND_LARGE
from testbed.model.studies.samples import half_width
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import BLUE, GREEN, GREY, INK, ORANGE, panels, ticks
from testbed.routing.methods import route_by_name
from testbed.routing.redundancy.route_ror import ror_by_tolerance

TOLERANCES = (0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.036, 0.042, 0.05, 0.057, 0.065, 0.078)
SMALL, THESIS_MIDDLE = 0.01, 0.057
LOOKS = {"short": (BLUE, "o", "blocks of M = 20 (eq. 23)"), "large": (ORANGE, "s", "large blocks (eq. 29)")}


def points(quick: bool, seed: int) -> Points:
    """Mobile networks of 115 nodes."""
    return [{"nodes": 115, "seed": seed + k} for k in range(8 if quick else 36)]


def measure(point: Row) -> Results:
    """ROR of layer 1 and of the full route, a tolerance each, for both equations."""
    network, source, sink = mobile_pair(point["nodes"], point["seed"])
    found: Results = {"source": source, "sink": sink}
    for key, method in (("first", "capillary:1"), ("full", "capillary")):
        route = route_by_name(network, source, sink, method)
        for equation, large in (("short", False), ("large", True)):
            found[f"{equation}_{key}"] = ror_by_tolerance(route, TOLERANCES, 20, 1e-5, large_blocks=large)
    return found


def rising_share(rows: Rows, equation: str) -> list[float]:
    """Share of networks in which the full route needs more than layer 1, a tolerance each."""
    return [
        statistics.fmean(row[f"{equation}_full"][t] > row[f"{equation}_first"][t] for row in rows)
        for t in range(len(TOLERANCES))
    ]


def _share_width(rows: Rows, tolerance: float) -> float:
    t = TOLERANCES.index(tolerance)
    return half_width([float(row["short_full"][t] > row["short_first"][t]) for row in rows])


def mean_ratio(rows: Rows, equation: str) -> list[float]:
    """Mean ROR of the full route over that of layer 1, a tolerance each."""
    full, first = (zip(*(row[f"{equation}_{key}"] for row in rows), strict=True) for key in ("full", "first"))
    return [statistics.fmean(a) / statistics.fmean(b) for a, b in zip(full, first, strict=True)]


def judge(rows: Rows) -> Verdict:
    """At a tolerance of 1 % or less more layers cost more; at the middle of the thesis' range they seldom do."""
    share = rising_share(rows, "short")
    small = min(share[t] for t, tolerance in enumerate(TOLERANCES) if tolerance <= SMALL)
    middle = share[TOLERANCES.index(THESIS_MIDDLE)]
    checks = (
        Claim(f"share of networks whose ROR rises from layer 1 to full at tolerances up to {SMALL:.0%} (least)")
        .at_least(0.85, small)
        .against(0.5, "as often as not")
        .plus_minus(_share_width(rows, SMALL)),
        Claim(f"share of networks whose ROR rises at {THESIS_MIDDLE:.1%}")
        .at_most(0.1, middle)
        .cites("decreases noticeably in most cases (page 79)")
        .against(small, "as at small tolerances")
        .plus_minus(_share_width(rows, THESIS_MIDDLE)),
    )
    ratio = mean_ratio(rows, "short")
    turn = next((t for t, r in zip(TOLERANCES, ratio, strict=True) if r < 1), None)
    least = TOLERANCES.index(0.036)
    notes = (
        f"mean ROR falls with the layers from a tolerance of {turn:.2%} on" if turn is not None else "it never falls",
        f"at the thesis' smallest tolerance, 3.6 %, it rises in {share[least]:.0%} of the networks",
    )
    return Verdict.of(checks, notes)


def figures(rows: Rows) -> Figures:
    """Ratio of the means, and the share of networks in which ROR rises, against the tolerance."""
    figure, (left, right) = panels(10, 4.6, columns=2)
    percent = [100 * t for t in TOLERANCES]
    for equation, (colour, marker, label) in LOOKS.items():
        left.plot(percent, mean_ratio(rows, equation), marker=marker, color=colour, label=label)
        right.plot(percent, [100 * s for s in rising_share(rows, equation)], marker=marker, color=colour, label=label)
    left.axhline(1, color=INK, linewidth=1, linestyle="--", label="no change")
    ticks(left, [0.5, 0.75, 1, 1.5, 2, 3, 5], axis="y")
    left.set_ylabel("mean ROR, full route over layer 1")
    right.set_ylabel("networks in which ROR rises with the layers (%)")
    right.axhline(10, color=GREY, linewidth=1, linestyle=":", label="at most, at 5.7 %")
    for axes in (left, right):
        axes.axvspan(3.6, 7.8, color=GREEN, alpha=0.08, label="tolerances of the thesis")
        axes.set_xlabel("static tolerance t (%)")
        axes.legend()
    figure.suptitle(f"When do more layers cost more? {len(rows)} mobile networks of 115 nodes, DER 1e-5")
    return {"rising-ror": figure}


STUDY = Study.of_module(
    __name__,
    title="Where more capillary layers need more redundancy",
    ror_code=SHORT_AND_LARGE,
    answers="Gabrielyan 2007, section 4.4, which looks at 3.6 to 7.8 percent only: below, more layers cost more",
    deviations=("The document looks at tolerances from 3.6 % on only; what is below is ours.",),
)
