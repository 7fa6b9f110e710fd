"""Does each study of failures run long enough: do its figures stand still when its simulated time is doubled?

Of every network, pattern and kind of failure of a study the point with most failed links, in a tenth of its time, in
its time and in twice that. (`interconnect_phases` has one pattern on four networks up to their end, and both phases of
FT-DRB apart.)
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.interconnect import collectives, paths, permanent, shapes, traces, transient
from experiments.interconnect.document_parameters import random_starts
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import of_failures, safety_checks
from experiments.interconnect.study_points import POISSON_512
from testbed.model.studies.samples import grouped, spread, t_quantile
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import draw_bars

STUDIES = {
    room.STUDY.name.removeprefix("interconnect_"): room.STUDY
    for room in (collectives, paths, permanent, random_starts, transient, shapes, traces)
}
SHARES = (0.1, 1.0, 2.0)
"""Of a study's time."""
SEEN = 0.1
"""Points of performance that a figure may move by in any case: the document gives whole ones."""
LONG_S, LONG_SEEDS, SEEDS = 20.0, 3, 6
"""A point that takes longer than the first has three seeds, others six."""
SAME = ("network", "pattern", "fault_kind", "rate")
"""What points of one figure have in common, but for their seeds and how many links fail."""


@dataclass(frozen=True)
class Moved:
    """One figure: how far doubling the time moves it, in points and over what it may, and how far its own time moved
    it, over the same; and of the messages of the last quarter of the study's own time that failures concern, the part
    that their source diverts."""

    what: str
    points: float
    doubled: float
    uncertainty: float
    from_tenth: float
    stands: float
    diverted: float


def points(quick: bool, seed: int) -> Points:
    """The chosen points of every study in three lengths, and the runs without failures that belong to them."""
    found: dict[str, Results] = {}
    for name, study in STUDIES.items():
        for group in _groups(study.points(quick, seed)):
            for point in group[: 2 if quick else LONG_SEEDS if group[0]["seconds"] > LONG_S else SEEDS]:
                for share in SHARES:
                    failed = {**point, "seconds": round(share * point["seconds"], 9)}
                    whole = {**failed, "faults": 0, "fault_kind": "none"}
                    for some in (whole, {**failed, "of": name, "share": share, "runs": len(group)}):
                        found[repr(sorted(some.items()))] = some
    return list(found.values())


def _groups(points: Sequence[Row]) -> Iterator[list[Row]]:
    """The points of each figure with most failed links, all seeds; of studies that change the number of paths those of
    four."""
    figures = grouped([p for p in points if p["faults"] and p["paths"] == 4 and not p["options"]], SAME)
    for group in figures.values():
        most = max(point["faults"] for point in group)
        yield where(group, faults=most)


def judge(rows: Rows) -> Verdict:
    """No figure of a study moves by more than its interval, or a tenth of a point, when the time is doubled."""
    checks, notes = safety_checks(rows), []
    for (study, network), figures in _moves(rows).items():
        worst = max(figures, key=lambda figure: figure.doubled)
        moves = f"it moves by {worst.points:.2f} points to {worst.stands:.2f} %"
        checks.append(
            Claim(f"{study}, {network}: performance moves when the time is doubled, over what it may")
            .at_most(1.0, worst.doubled)
            .plus_minus(worst.uncertainty)
            .against(max(figure.from_tenth for figure in figures), "as from a tenth of the time, the most")
            .noting(f"the most of {len(figures)} figures: {worst.what}; {moves}, {worst.diverted:.2f} diverted")
        )
        ordered = sorted(figures, key=lambda figure: -figure.doubled)
        moved = ", ".join(f"{one.what} {one.doubled:.2g} ({one.diverted:.2f})" for one in ordered)
        notes.append(f"{study}, {network}, over what it may (diverted of what failures concern at the end): {moved}")
    return Verdict.of(checks, notes)


def _moves(rows: Rows) -> dict[tuple[str, str], list[Moved]]:
    """Of each study and network its figures."""
    whole = grouped(where(rows, faults=0), ("network", "pattern"))
    of_figure = grouped([row for row in rows if row["faults"]], ("of", *SAME))
    found: dict[tuple[str, str], list[Moved]] = {}
    for (study, network, pattern, *_), runs in of_figure.items():
        lengths = grouped(runs, "share", None)
        tenth, own, doubled = (of_failures(whole[network, pattern] + lengths[share], "of")[study] for share in SHARES)
        first = lengths[1.0][0]
        may = max(SEEN, _interval(own, first["runs"]))
        differences = [b - a for a, b in zip(own, doubled, strict=True)]
        what = f"{first['pattern']}, {first['fault_kind']}, {first['rate']:.0f}/s, {first['seconds']:g} s"
        (moved, half), from_tenth = spread(differences), abs(spread(own)[0] - spread(tenth)[0]) / may
        at_last = spread(doubled)[0], _diverted(lengths[1.0])
        figure = Moved(what, abs(moved), abs(moved) / may, half / may, from_tenth, *at_last)
        found.setdefault((study, network), []).append(figure)
    return found


def _diverted(rows: Rows) -> float:
    """Over all that is diverted or escapes in the last quarter; 0 where nothing does."""
    diverted, escaped = (math.fsum(row[f"{what}_share_last"] for row in rows) for what in ("diverted", "escaped"))
    return diverted / (diverted + escaped) if diverted + escaped else 0.0


def _interval(values: Sequence[float], runs: int) -> float:
    """Half width of the mean's 95 % interval, if so many runs spread as these do."""
    return t_quantile(runs) * statistics.stdev(values) / math.sqrt(runs)


def figures(rows: Rows) -> Figures:
    """How far the worst figure of each study and network moves, over what it may, from a tenth of the time and
    doubled."""
    bars: dict[tuple[str, str], tuple[float, float]] = {}
    for (study, network), moves in _moves(rows).items():
        worst = max(moves, key=lambda figure: figure.doubled)
        place = f"{study}, {network}"
        bars["from a tenth of the time", place] = (max(one.from_tenth for one in moves), 0.0)
        bars["when the time is doubled", place] = (worst.doubled, worst.uncertainty)
    claim = (1.0, "its interval, or a tenth of a point")
    title = "How far figures move with the length of the run"
    drawn = draw_bars(title, bars, y="moved / what it may", low=0, claim=claim)
    drawn.axes[0].tick_params("x", rotation=90)
    for name in drawn.axes[0].get_xticklabels():
        name.set_horizontalalignment("center")
    return {"moves": drawn}


STUDY = Study.of_module(
    __name__,
    name="interconnect_lengths",
    title="Is every study's run long enough: its figures when the time is doubled",
    deviations=(
        "Six seeds of each point, three of the failures of PNNL MPP2 for 25.6 s (--quick: two); "
        "a study's interval is that of its own number of seeds, if these spread as those do.",
        "Of a figure's points those with most failed links; near saturation see interconnect_saturation.",
        POISSON_512,
    ),
    answers="The document gives no simulated time; how long a run must be follows from its figures",
    measure=measure_run,
)
