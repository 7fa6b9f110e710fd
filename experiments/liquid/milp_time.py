"""Figure 65: how long liquid schedules take to compute, by integer programming, the thesis' search and the fast method."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.liquid.swiss_t1_traffic import (
    LIQUID,
    OTHER,
    THIRD,
    Row,
    figure_of,
    node_axis,
    pattern_points,
    traffic_of,
)
from testbed.commands.studies.study import Study
from testbed.model.traffic import Traffic
from testbed.model.verdict import Check, Verdict
from testbed.scheduling.methods import schedule_by_name

TIME_LIMIT_S = 10.0
METHODS = ("liquid", "exact", "milp")
REPEATS = {"liquid": 3, "exact": 1, "milp": 1}
LOOKS = {
    "liquid": (LIQUID, "o", "fast method"),
    "exact": (THIRD, "s", "the thesis' search, on sets of bits"),
    "milp": (OTHER, "^", "integer programming (HiGHS)"),
}
THESIS_RATIO = 4000.0
MIN_RATIO_FAST, MIN_RATIO_EXACT = 100.0, 5.0


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """One a pattern."""
    return pattern_points(quick, time_limit_s=TIME_LIMIT_S, seed=seed)


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds and length by each method, in the same process, compiled code warm; the least of three for the fast one."""
    traffic = traffic_of(point["allocation"])
    schedule_by_name(Traffic.from_transfers([["a", "b"], ["a", "c"]]), "liquid")
    schedule_by_name(traffic, "liquid")
    results: dict[str, Any] = {"bottleneck_load": traffic.bottleneck_load}
    for method in METHODS:
        times = []
        for _ in range(REPEATS[method]):
            schedule = schedule_by_name(
                traffic, method, seed=point["seed"], time_limit_s=point["time_limit_s"], now=time.perf_counter
            )
            times.append(schedule.seconds or 0.0)
        results[f"{method}_s"] = min(times)
        results[f"{method}_liquid"] = schedule.liquid
    return results


def judge(rows: Sequence[Row]) -> Verdict:
    """Ratios of times pattern by pattern, where integer programming found a liquid schedule or used up its time."""
    liquid = sum(row["liquid_liquid"] for row in rows)
    checks = [Check.equal("patterns with a liquid schedule by the fast method", len(rows), liquid)]
    for method, least in (("liquid", MIN_RATIO_FAST), ("exact", MIN_RATIO_EXACT)):
        ratio = statistics.median(row["milp_s"] / row[f"{method}_s"] for row in rows)
        checks.append(
            Check.at_least(
                f"median time of integer programming over that of {LOOKS[method][2]}",
                least,
                ratio,
                detail=f"{least:g} or more (thesis: {THESIS_RATIO:g} on average, for CPLEX of its time)",
            )
        )
    notes = [
        f"{LOOKS[m][2]}: {sum(row[f'{m}_liquid'] for row in rows)} of {len(rows)} liquid within {TIME_LIMIT_S:g} s, together "
        f"{sum(row[f'{m}_s'] for row in rows):.3g} s, median {1e3 * statistics.median(row[f'{m}_s'] for row in rows):.3g} ms, "
        f"worst {1e3 * max(row[f'{m}_s'] for row in rows):.3g} ms"
        for m in METHODS
    ]
    return Verdict(checks=tuple(checks), notes=tuple(notes))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Time against pattern; hollow where no liquid schedule came within the limit."""
    figure, axes = figure_of()
    for method in METHODS:
        colour, mark, label = LOOKS[method]
        for solved in (True, False):
            at = [k for k, row in enumerate(rows) if row[f"{method}_liquid"] is solved]
            axes.plot(
                at, [rows[k][f"{method}_s"] for k in at], mark, markersize=3.4, color=colour,
                markerfacecolor=colour if solved else "none", label=label if solved else None,
            )  # fmt: skip
    axes.axhline(
        TIME_LIMIT_S,
        color="#555d66",
        linestyle="--",
        linewidth=0.9,
        label=f"time limit {TIME_LIMIT_S:g} s (hollow: not liquid)",
    )
    axes.axhline(0.1, color="#555d66", linestyle=":", linewidth=0.9, label="thesis: 97 % of patterns below 0.1 s")
    axes.set_yscale("log")
    axes.set_ylabel("time to a liquid schedule (s)")
    axes.set_title("Computing time against integer programming (Figure 65)")
    axes.legend(fontsize=8)
    node_axis(axes, rows)
    return {"computing-time": figure}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_milp_time",
    does="time integer programming, the thesis' search and the fast method on the traffic patterns of Swiss-T1",
    answers="Gabrielyan 2007, Figure 65: liquid scheduling is far faster than MILP (asked for: 100 times, and 5 for the thesis' search)",
)
