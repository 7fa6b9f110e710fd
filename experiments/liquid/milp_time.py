"""Figure 65: computing time by integer programming, the thesis' search and the fast method."""

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

# Processor time after which a method is stopped.
LIMITS_S = {"liquid": 10.0, "exact": 10.0, "milp": 60.0}
QUICK_LIMIT_S = 10.0

# Number of runs of a method. The shortest one counts.
REPEATS = {"liquid": 3, "exact": 1, "milp": 1}

NAMES = {
    "liquid": "fast method",
    "exact": "the thesis' search, on sets of bits",
    "milp": "integer programming (HiGHS)",
}

# The thesis' search was this many times faster than its solver, on average.
FACTOR = 4000.0

# The thesis found a schedule of more than this share of the patterns within this time.
SOON_S = 0.1
SOON_SHARE = 0.97


def points(quick: bool, seed: int) -> Points:
    """Return one point per pattern."""
    limits_s = dict.fromkeys(NAMES, QUICK_LIMIT_S) if quick else LIMITS_S
    return pattern_points(quick, limits_s=limits_s, seed=seed)


def measure(point: Row) -> Results:
    """Return the processor time of each method, and whether it found a liquid schedule in time.

    If it did not, its time is a lower bound. All methods run in the same process, after compiled
    code has been loaded.
    """
    traffic = traffic_of(point["allocation"])
    # Compile and warm up everything, so that compilation is not part of the measured time.
    schedule_by_name(Traffic.from_transfers([["a", "b"], ["a", "c"]]), "liquid")
    schedule_by_name(traffic, "liquid")
    results: Results = {"bottleneck_load": traffic.bottleneck_load, "transfers": len(traffic)}
    for method in NAMES:
        times_s = []
        liquid = False
        for _ in range(REPEATS[method]):
            schedule = schedule_by_name(
                traffic,
                method,
                seed=point["seed"],
                time_limit_s=point["limits_s"][method],
                now=time.process_time,
            )
            times_s.append(schedule.seconds or 0.0)
            liquid = schedule.liquid
        results[f"{method}_s"] = min(times_s)
        results[f"{method}_liquid"] = liquid
    return results


def judge(rows: Rows) -> Verdict:
    """Check the shares of patterns that are solved soon, and the ratios of computing times.

    A ratio is a lower bound if integer programming ran out of time.
    """
    liquid_count = sum_of(rows, "liquid_liquid")
    checks = (
        Claim("patterns with a liquid schedule by the fast method").count(len(rows), liquid_count),
        _soon_check(rows, "exact"),
        _soon_check(rows, "liquid"),
        _factor_check(rows, "exact"),
        _factor_check(rows, "liquid"),
    )
    return Verdict.of(checks)


def _soon_share(rows: Rows, method: str) -> float:
    """Return the share of the patterns that a method solves within ``SOON_S``."""
    solved = [row for row in rows if row[f"{method}_liquid"]]
    solved_soon = [row for row in solved if row[f"{method}_s"] <= SOON_S]
    return len(solved_soon) / len(rows)


def _soon_check(rows: Rows, method: str) -> Check:
    return (
        Claim(f"share of the patterns with a liquid schedule within {SOON_S:g} s, {NAMES[method]}")
        .at_least(SOON_SHARE, _soon_share(rows, method))
        .cites("more than 97 %, section 3.8.2 (2002: on an Alpha of 500 MHz)")
        .against(_soon_share(rows, "milp"), "integer programming's share")
    )


def factor(row: Row, method: str) -> float:
    """Return the time of integer programming divided by that of a method, or a lower bound.

    It is 0 if the method itself ran out of time.
    """
    if not row[f"{method}_liquid"]:
        return 0.0
    return float(row["milp_s"] / row[f"{method}_s"])


def _factor_check(rows: Rows, method: str) -> Check:
    lower_bounds = [row for row in rows if not row["milp_liquid"]]
    return (
        Claim(f"time of integer programming over that of {NAMES[method]}, mean of the patterns")
        .at_least(FACTOR, statistics.mean(factor(row, method) for row in rows))
        .cites("about 4000 on average (CPLEX of its time), Appendix C")
        .against(1.0, "as fast")
        .noting(
            f"a lower bound on {len(lower_bounds)} of {len(rows)} patterns, "
            "on which integer programming ran out of time"
        )
    )


def figures(rows: Rows) -> Figures:
    """Draw the times by pattern. Patterns without a schedule in time have series of their own."""
    limit_s = rows[0]["limits_s"]["milp"]
    figure = draw_times(
        rows,
        "Computing time against integer programming (Figure 65)",
        NAMES,
        (limit_s, f"limit of MILP {limit_s:g} s"),
        (SOON_S, "thesis: 97 % of patterns below 0.1 s"),
    )
    return {"computing-time": figure}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_milp_time",
    title="How long liquid schedules take to compute",
    answers="Gabrielyan 2007, Figure 65 and section 3.8.2: "
    "97 % of the patterns within 0.1 s, 4000 times faster than MILP on average",
    deviations=(
        "HiGHS, not CPLEX; frames are tried from the bottleneck load up, not minimised, which is "
        "easier for it",
        "processor time on this machine, not on the document's (2002: an Alpha of 500 MHz)",
    ),
)
