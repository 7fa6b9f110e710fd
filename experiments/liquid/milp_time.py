"""Figure 65: how long liquid schedules take to compute, by integer programming, the thesis' search and the fast
method."""

import statistics
import time

from experiments.liquid.swiss_t1_traffic import draw_times, pattern_points, traffic_of
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    sum_of,
)
from testbed.model.traffic import Traffic
from testbed.scheduling.methods import schedule_by_name

LIMITS_S = {"liquid": 10.0, "exact": 10.0, "milp": 60.0}
QUICK_LIMIT_S = 10.0
REPEATS = {"liquid": 3, "exact": 1, "milp": 1}
NAMES = {
    "liquid": "fast method",
    "exact": "the thesis' search, on sets of bits",
    "milp": "integer programming (HiGHS)",
}
FACTOR = 4000.0
"""By which the document's search is faster than its solver, on average."""
SOON_S, SOON_SHARE = 0.1, 0.97


def points(quick: bool, seed: int) -> Points:
    """One a pattern."""
    return pattern_points(
        quick, limits_s=dict.fromkeys(NAMES, QUICK_LIMIT_S) if quick else LIMITS_S, seed=seed
    )


def measure(point: Row) -> Results:
    """Seconds of processor and length by each method, in the same process, compiled code warm; the least of three for
    the fast one.

    ``.._liquid``: whether a liquid schedule came within the limit; where not, the seconds are a lower bound.
    """
    traffic = traffic_of(point["allocation"])
    schedule_by_name(Traffic.from_transfers([["a", "b"], ["a", "c"]]), "liquid")
    schedule_by_name(traffic, "liquid")
    results: Results = {"bottleneck_load": traffic.bottleneck_load, "transfers": len(traffic)}
    for method in NAMES:
        how = {
            "seed": point["seed"],
            "time_limit_s": point["limits_s"][method],
            "now": time.process_time,
        }
        schedules = [schedule_by_name(traffic, method, **how) for _ in range(REPEATS[method])]
        results[f"{method}_s"] = min(schedule.seconds or 0.0 for schedule in schedules)
        results[f"{method}_liquid"] = schedules[-1].liquid
    return results


def judge(rows: Rows) -> Verdict:
    """Shares of patterns done soon, and ratios of times pattern by pattern, each a lower bound where a method ran out
    of time."""
    liquid = sum_of(rows, "liquid_liquid")
    checks = [
        Claim("patterns with a liquid schedule by the fast method").count(len(rows), liquid),
        *(_soon_check(rows, method) for method in ("exact", "liquid")),
        *(_factor_check(rows, method) for method in ("exact", "liquid")),
    ]
    return Verdict.of(checks)


def _soon_share(rows: Rows, method: str) -> float:
    return statistics.fmean(
        row[f"{method}_liquid"] and row[f"{method}_s"] <= SOON_S for row in rows
    )


def _soon_check(rows: Rows, method: str) -> Check:
    return (
        Claim(f"share of the patterns with a liquid schedule within {SOON_S:g} s, {NAMES[method]}")
        .at_least(SOON_SHARE, _soon_share(rows, method))
        .cites("more than 97 %, section 3.8.2 (2002: on an Alpha of 500 MHz)")
        .against(_soon_share(rows, "milp"), "integer programming's share")
    )


def factor(row: Row, method: str) -> float:
    """Time of integer programming over that of the method, at least: 0 where the method itself ran out of time."""
    return float(row["milp_s"] / row[f"{method}_s"]) if row[f"{method}_liquid"] else 0.0


def _factor_check(rows: Rows, method: str) -> Check:
    censored = sum(not row["milp_liquid"] for row in rows)
    return (
        Claim(f"time of integer programming over that of {NAMES[method]}, mean of the patterns")
        .at_least(FACTOR, statistics.mean(factor(row, method) for row in rows))
        .cites("about 4000 on average (CPLEX of its time), Appendix C")
        .against(1.0, "as fast")
        .noting(
            f"a lower bound on {censored} of {len(rows)} patterns, on which integer programming ran out of time"
        )
    )


def figures(rows: Rows) -> Figures:
    """Time against pattern; apart where no liquid schedule came within the limit."""
    limit = rows[0]["limits_s"]["milp"]
    marks = (limit, f"limit of MILP {limit:g} s"), (SOON_S, "thesis: 97 % of patterns below 0.1 s")
    return {
        "computing-time": draw_times(
            rows, "Computing time against integer programming (Figure 65)", NAMES, *marks
        )
    }


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_milp_time",
    title="How long liquid schedules take to compute",
    answers="Gabrielyan 2007, Figure 65 and section 3.8.2: "
    "97 % of the patterns within 0.1 s, 4000 times faster than MILP on average",
    deviations=(
        "HiGHS, not CPLEX; frames are tried from the bottleneck load up, not minimised, which is easier for it",
        "processor time on this machine, not on the document's (2002: an Alpha of 500 MHz)",
    ),
)
