"""Optical burst switching: buffers emptied by repeated liquid schedules against bursts assigned one by one, over the
load.

The thesis proposes it as further work; the verdict says what of it holds, its figures what does not. A second part,
the horizon, runs ever longer from empty buffers on: what is not carried at the end is then either lost or still in a
buffer. A strategy with less capacity than the load leaves a backlog in proportion to the time; one that is only slow
leaves a backlog that stays (load below 1) or grows more slowly than time (load 1, where the bottleneck's queue is null
recurrent).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    grouped,
    spread,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_lines
from testbed.wavelengths.burst_switching import (
    STRATEGIES,
    BurstTraffic,
    optical_cloud_of,
    simulate_bursts,
)
from topologies import load_network

LOADS = (0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
QUICK_LOADS = (0.3, 0.6, 0.8, 0.95)
HIGH_LOAD, LOSSLESS_UP_TO = 0.8, 0.9
HORIZONS, CRITICAL_HORIZONS, HORIZON_SEEDS = (250, 500, 1000, 2000), (250, 500, 1000), 3
"""Slots of each run from empty buffers on; at load 1 (critical) schedules grow with time, and take long to compute."""
USUAL_BUFFER, LARGE_BUFFER = 400, 1_000_000
NAMES = {
    "liquid": "liquid schedules, one after the other",
    "liquid-rolling": "liquid schedule anew in every slot",
    "greedy-defer": "first fit, waits (knows all reservations)",
    "greedy-drop": "first fit, lost where none is free",
}
LOAD = "offered load of the bottleneck fibre (1 = all its wavelengths)"
SHOWN = {
    "mean_delay_slots": ("mean delay of what is carried (slots)", "log"),
    "p99_delay_slots": ("delay that 99 % of it keep to (slots)", "log"),
    "loss": ("share of the bursts that is lost", "linear"),
    "waiting": ("bursts waiting in all edge routers (mean)", "log"),
}


CLOUD = {"network": "optical-cloud", "wavelengths": 8}


def points(quick: bool, seed: int) -> Points:
    """Every strategy at every load, without conversion and with it; in full the horizons too."""
    loads, slots = (QUICK_LOADS, 400) if quick else (LOADS, 2000)
    retained, converted = (
        grid(**CLOUD, switching=kind, load=loads, strategy=STRATEGIES, slots=slots, seed=seed)
        for kind in ("wsxc", "wixc")
    )
    return retained if quick else retained + _over_horizons(seed) + converted


def _over_horizons(seed: int) -> Points:
    found, seeds = [], range(seed, seed + HORIZON_SEEDS)
    for slots in HORIZONS:
        run = {
            "load": (0.95, 1.0) if slots in CRITICAL_HORIZONS else (0.95,),
            "strategy": ("liquid", "greedy-defer"),
        }
        found += grid(
            **CLOUD, switching="wsxc", **run, slots=slots, buffer_bursts=LARGE_BUFFER, seed=seeds
        )
    return found


def measure(point: Row) -> Results:
    """One strategy under one load; of a horizon everything counts, from the first slot on."""
    network = load_network(point["network"])
    cloud = optical_cloud_of(
        network, wavelengths=point["wavelengths"], switching=point["switching"]
    )
    slots, horizon = point["slots"], "buffer_bursts" in point
    room, warm_up = point.get("buffer_bursts", USUAL_BUFFER), 0 if horizon else slots // 10
    run = {"load": point["load"], "slots": slots, "seed": point["seed"]}
    traffic = BurstTraffic(**run, warm_up_slots=warm_up, buffer_bursts=room)
    return asdict(simulate_bursts(cloud, traffic, point["strategy"]))


def judge(rows: Rows) -> Verdict:
    """What of the proposal holds, without conversion."""
    horizons = [row for row in rows if "buffer_bursts" in row]
    rows = [row for row in rows if "buffer_bursts" not in row]
    retained = where(rows, switching="wsxc")
    loads = sorted({row["load"] for row in retained})
    losses = [
        r["loss"]
        for r in retained
        if r["strategy"].startswith("liquid") and r["load"] <= LOSSLESS_UP_TO
    ]
    high = [load for load in loads if load >= HIGH_LOAD]
    dropped = [
        row["loss"] for row in where(retained, strategy="greedy-drop") if row["load"] in high
    ]
    checks = [
        Claim(f"bursts lost by liquid schedules at loads up to {LOSSLESS_UP_TO:g}")
        .equal(0.0, max(losses))
        .cites("buffers are emptied without loss, 3.2.2")
        .against(min(dropped, default=None), f"{NAMES['greedy-drop']}, from load {HIGH_LOAD:g} on"),
        _carried_check(retained, high, "greedy-drop", 1.1),
        _carried_check(retained, high, "greedy-defer", 1.0),
    ]
    checks += [_delay_check(retained, load) for load in high]
    checks += _horizon_checks(horizons) if horizons else []
    return Verdict.of(checks)


def _carried_check(rows: Rows, loads: Sequence[float], other: str, least: float) -> Check:
    """What successive liquid schedules carry, as the thesis proposes them, over what first fit carries; half a percent
    is the weight of what is still on its way at the end."""
    ratios = [
        _of(rows, load, "liquid", "throughput") / _of(rows, load, other, "throughput")
        for load in loads
    ]
    name = f"carried by {NAMES['liquid']}, over {NAMES[other]}: least at loads of {HIGH_LOAD:g} and more"
    check = Claim(name).at_least(least - 0.005, min(ratios))
    if other == "greedy-defer":
        return check.against(None, "none: it is compared with its rival")
    return check.against(1.0, "as much as that")


def _delay_check(rows: Rows, load: float) -> Check:
    return (
        Claim(f"mean delay, liquid anew in every slot over first fit that waits, at load {load:g}")
        .at_most(1.0, _over(rows, load, "liquid-rolling"))
        .against(_over(rows, load, "liquid"), "schedules one after the other")
    )


def _horizon_checks(rows: Rows) -> list[Check]:
    """Whether what liquid schedules did not carry is lost capacity, or bursts that wait; and what it is that they wait
    for."""
    astray = sum(
        r["offered"] - r["carried"] - r["blocked"] - r["overflowed"] - r["backlog"] for r in rows
    )
    below, critical = (where(rows, load=load, strategy="liquid") for load in (0.95, 1.0))
    last = max(r["slots"] for r in rows)
    first_fit = where(rows, load=0.95, strategy="greedy-defer")
    over = [_mean(below, slots) / _mean(first_fit, slots) for slots in (min(HORIZONS), last)]
    return [
        Claim("bursts neither carried, nor lost, nor in a buffer at the end").count(0, astray),
        _growth_check(below, "load 0.95", 0.25, "a backlog that stays"),
        _growth_check(critical, "load 1, buffers without limit", 0.85, "slower than time"),
        Claim(
            f"carried by {NAMES['liquid']}, over {NAMES['greedy-defer']}: load 0.95, {last} slots"
        )
        .at_least(0.995, over[1])
        .against(over[0], f"{min(HORIZONS)} slots, where the backlog weighs most"),
    ]


def _mean(rows: Rows, slots: int) -> float:
    return float(statistics.mean(row["throughput"] for row in where(rows, slots=slots)))


def growth(rows: Rows) -> tuple[float, float]:
    """(exponent of the time with which the backlog at the end grows, half width of its 95 % interval over the
    seeds)."""
    slopes = []
    for seed in sorted({row["seed"] for row in rows}):
        own = sorted((row["slots"], max(row["backlog"], 1)) for row in where(rows, seed=seed))
        times, backlogs = (
            [math.log(value) for value in values] for values in zip(*own, strict=True)
        )
        slopes.append(statistics.linear_regression(times, backlogs).slope)
    return spread(slopes)


def _growth_check(rows: Rows, where: str, most: float, words: str) -> Check:
    return (
        Claim(
            f"exponent of time with which the bursts left waiting by {NAMES['liquid']} grow, {where}"
        )
        .at_most(most, growth(rows))
        .against(1.0, "capacity missing: they grow as time does")
        .noting(words)
    )


def _of(rows: Rows, load: float, strategy: str, name: str) -> float:
    return float(where(rows, load=load, strategy=strategy)[0][name])


def figures(rows: Rows) -> Figures:
    """Delay, share lost and bursts waiting against the load, a figure each and kind of switch; bursts left waiting
    against the time that the run took."""
    horizons = [row for row in rows if "buffer_bursts" in row]
    drawn: Results = {"horizons": _horizon_figure(horizons)} if horizons else {}
    for kind, words in (("wsxc", "without conversion (WSXC)"), ("wixc", "with conversion (WIXC)")):
        if own := [row for row in rows if row["switching"] == kind and "buffer_bursts" not in row]:
            title = f"Optical bursts over {own[0]['network']}, {own[0]['wavelengths']} wavelengths, {words}"
            for measure, (y, scale) in SHOWN.items():
                known = [row for row in own if row[measure] is not None]
                samples = {
                    (NAMES[row["strategy"]], row["load"]): (row[measure], 0.0) for row in known
                }
                drawn[f"bursts-{kind}-{measure.replace('_', '-')}"] = figure = draw_lines(
                    title, samples, x=LOAD, y=y
                )
                figure.axes[0].set_yscale(scale)
    return drawn


def _horizon_figure(rows: Rows) -> Figure:
    samples = {}
    for (load, strategy), own in grouped(rows, ("load", "strategy")).items():
        name = f"{NAMES[strategy]}, load {load:g}: exponent {growth(own)[0]:.2f}"
        for slots, left in grouped(own, "slots", lambda row: float(max(row["backlog"], 1))).items():
            samples[name, slots] = left
    x, y = "slots from empty buffers on", "bursts waiting in all edge routers at the end"
    figure = draw_lines(
        "What is not carried waits: exponent 1 would be capacity missing", samples, x=x, y=y
    )
    figure.axes[0].set(xscale="log", yscale="log")
    return figure


def _over(rows: Rows, load: float, strategy: str) -> float:
    """Mean delay of a strategy over that of first fit that waits."""
    return _of(rows, load, strategy, "mean_delay_slots") / _of(
        rows, load, "greedy-defer", "mean_delay_slots"
    )


STUDY = Study.of_module(
    __name__,
    title="Optical bursts: edge buffers emptied by liquid schedules",
    deviations=(
        "further work of the document, without figures; bursts of one slot, Poisson, all pairs alike, over NSFNET",
        "in virtual time; propagation and the time to compute a schedule are left out",
    ),
    answers="Gabrielyan 2007, subsection 3.2.2 and its further work: edge buffers emptied by repeated liquid schedules",
)
