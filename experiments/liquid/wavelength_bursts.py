"""Optical burst switching: buffers emptied by repeated liquid schedules, or bursts one by one.

The strategies are compared over the load. The thesis proposes liquid schedules as further work. The
verdict says what part of the proposal holds; the figures show what does not.

The second part of the study, the horizons, are runs of increasing length that begin with empty
buffers. Traffic that is not carried at the end is either lost or still in a buffer. A strategy with
less capacity than the load leaves a backlog that grows in proportion to time. A strategy that is
only slow leaves a constant backlog if the load is below 1. At load 1 its backlog grows more slowly
than time, because the queue at the bottleneck is null recurrent.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from experiments.liquid.rows import column
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    grouped,
    parted,
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
# Loads from this one on are high.
HIGH_LOAD = 0.8
# Liquid schedules must lose nothing at loads up to this one.
LOSSLESS_UP_TO = 0.9

SLOTS = 2000
QUICK_SLOTS = 400

# Slots of each run of the horizons. Schedules grow with time at the critical load 1, and take long
# to compute.
HORIZONS = (250, 500, 1000, 2000)
CRITICAL_HORIZONS = (250, 500, 1000)
HORIZON_SEEDS = 3

# The buffer of each pair in bursts. The large one never overflows.
USUAL_BUFFER = 400
LARGE_BUFFER = 1_000_000

# A carried throughput may be this much lower, because of bursts in transit at the end.
IN_TRANSIT = 0.005

NAMES = {
    "liquid": "liquid schedules, one after the other",
    "liquid-rolling": "liquid schedule anew in every slot",
    "greedy-defer": "first fit, waits (knows all reservations)",
    "greedy-drop": "first fit, lost where none is free",
}
SWITCH_NAMES = {"wsxc": "without conversion (WSXC)", "wixc": "with conversion (WIXC)"}
LOAD_LABEL = "offered load of the bottleneck fibre (1 = all its wavelengths)"

# Fields that are drawn: label and scale of their axis.
SHOWN = {
    "mean_delay_slots": ("mean delay of what is carried (slots)", "log"),
    "p99_delay_slots": ("delay that 99 % of it keep to (slots)", "log"),
    "loss": ("share of the bursts that is lost", "linear"),
    "waiting": ("bursts waiting in all edge routers (mean)", "log"),
}

CLOUD = {"network": "optical-cloud", "wavelengths": 8}


def points(quick: bool, seed: int) -> Points:
    """Return every strategy at every load; a full study also has conversion and the horizons."""
    loads = QUICK_LOADS if quick else LOADS
    slots = QUICK_SLOTS if quick else SLOTS
    without_conversion = _points_by_load("wsxc", loads, slots, seed)
    if quick:
        return without_conversion
    with_conversion = _points_by_load("wixc", loads, slots, seed)
    return without_conversion + _horizon_points(seed) + with_conversion


def _points_by_load(switching: str, loads: Sequence[float], slots: int, seed: int) -> Points:
    return grid(
        **CLOUD, switching=switching, load=loads, strategy=STRATEGIES, slots=slots, seed=seed
    )


def _horizon_points(seed: int) -> Points:
    result = []
    for slots in HORIZONS:
        result += grid(
            **CLOUD,
            switching="wsxc",
            load=(0.95, 1.0) if slots in CRITICAL_HORIZONS else (0.95,),
            strategy=("liquid", "greedy-defer"),
            slots=slots,
            buffer_bursts=LARGE_BUFFER,
            seed=range(seed, seed + HORIZON_SEEDS),
        )
    return result


def measure(point: Row) -> Results:
    """Simulate a strategy under a load.

    The first tenth of the slots does not count, except in the horizons.
    """
    slots = point["slots"]
    warm_up_slots = slots // 10
    buffer_bursts = USUAL_BUFFER
    if "buffer_bursts" in point:
        warm_up_slots = 0
        buffer_bursts = point["buffer_bursts"]
    cloud = optical_cloud_of(
        load_network(point["network"]),
        wavelengths=point["wavelengths"],
        switching=point["switching"],
    )
    traffic = BurstTraffic(
        load=point["load"],
        slots=slots,
        seed=point["seed"],
        warm_up_slots=warm_up_slots,
        buffer_bursts=buffer_bursts,
    )
    return asdict(simulate_bursts(cloud, traffic, point["strategy"]))


def judge(rows: Rows) -> Verdict:
    """Check the proposal of the thesis, without conversion of wavelengths."""
    horizons, by_load = parted(rows, "buffer_bursts")
    without_conversion = where(by_load, switching="wsxc")
    loads = sorted(set(column(without_conversion, "load")))
    high_loads = [load for load in loads if load >= HIGH_LOAD]
    checks = [
        _loss_check(without_conversion),
        _carried_check(without_conversion, high_loads, "greedy-drop"),
        _carried_check(without_conversion, high_loads, "greedy-defer"),
    ]
    for load in high_loads:
        checks.append(_delay_check(without_conversion, load))
    if horizons:
        checks += _horizon_checks(horizons)
    return Verdict.of(checks)


def _loss_check(rows: Rows) -> Check:
    """Check that liquid schedules lose nothing; the rival is first fit without buffers."""
    losses = [
        row["loss"]
        for row in rows
        if row["strategy"].startswith("liquid") and row["load"] <= LOSSLESS_UP_TO
    ]
    rival_losses = [
        row["loss"] for row in where(rows, strategy="greedy-drop") if row["load"] >= HIGH_LOAD
    ]
    return (
        Claim(f"bursts lost by liquid schedules at loads up to {LOSSLESS_UP_TO:g}")
        .equal(0.0, max(losses))
        .cites("buffers are emptied without loss, 3.2.2")
        .against(
            min(rival_losses, default=None),
            f"{NAMES['greedy-drop']}, from load {HIGH_LOAD:g} on",
        )
    )


def _carried_check(rows: Rows, loads: Sequence[float], other: str) -> Check:
    """Compare what successive liquid schedules carry with what first fit carries.

    Successive schedules are what the thesis proposes. The lowest ratio of all loads counts.

    Args:
        rows: The rows.
        loads: The loads.
        other: Strategy of first fit: "greedy-drop" must be exceeded, "greedy-defer" reached.
    """
    throughput_ratios = []
    for load in loads:
        liquid = _value(rows, load, "liquid", "throughput")
        throughput_ratios.append(liquid / _value(rows, load, other, "throughput"))
    name = (
        f"carried by {NAMES['liquid']}, over {NAMES[other]}: "
        f"least at loads of {HIGH_LOAD:g} and more"
    )
    lowest = min(throughput_ratios)
    if other == "greedy-defer":
        check = Claim(name).at_least(1.0 - IN_TRANSIT, lowest)
        return check.against(None, "none: it is compared with its rival")
    check = Claim(name).at_least(1.1 - IN_TRANSIT, lowest)
    return check.against(1.0, "as much as that")


def _delay_check(rows: Rows, load: float) -> Check:
    return (
        Claim(f"mean delay, liquid anew in every slot over first fit that waits, at load {load:g}")
        .at_most(1.0, _relative_delay(rows, load, "liquid-rolling"))
        .against(_relative_delay(rows, load, "liquid"), "schedules one after the other")
    )


def _relative_delay(rows: Rows, load: float, strategy: str) -> float:
    """Return the mean delay of a strategy over that of first fit that waits."""
    first_fit_slots = _value(rows, load, "greedy-defer", "mean_delay_slots")
    return _value(rows, load, strategy, "mean_delay_slots") / first_fit_slots


def _value(rows: Rows, load: float, strategy: str, field: str) -> float:
    """Return a field of the row of a load and a strategy."""
    return float(where(rows, load=load, strategy=strategy)[0][field])


def _horizon_checks(rows: Rows) -> list[Check]:
    """Check whether liquid schedules lack capacity, or only make bursts wait."""
    unaccounted = 0
    for row in rows:
        accounted = row["carried"] + row["blocked"] + row["overflowed"] + row["backlog"]
        unaccounted += row["offered"] - accounted
    below_critical = where(rows, load=0.95, strategy="liquid")
    critical = where(rows, load=1.0, strategy="liquid")
    first_fit = where(rows, load=0.95, strategy="greedy-defer")
    shortest = min(HORIZONS)
    longest = max(row["slots"] for row in rows)
    longest_ratio = _mean_throughput(below_critical, longest) / _mean_throughput(first_fit, longest)
    shortest_ratio = _mean_throughput(below_critical, shortest) / _mean_throughput(
        first_fit, shortest
    )
    name = f"carried by {NAMES['liquid']}, over {NAMES['greedy-defer']}: load 0.95, {longest} slots"
    return [
        Claim("bursts neither carried, nor lost, nor in a buffer at the end").count(0, unaccounted),
        _growth_check(below_critical, "load 0.95", 0.25, "a backlog that stays"),
        _growth_check(critical, "load 1, buffers without limit", 0.85, "slower than time"),
        Claim(name)
        .at_least(1.0 - IN_TRANSIT, longest_ratio)
        .against(shortest_ratio, f"{shortest} slots, where the backlog weighs most"),
    ]


def _mean_throughput(rows: Rows, slots: int) -> float:
    return float(statistics.mean(column(where(rows, slots=slots), "throughput")))


def growth(rows: Rows) -> tuple[float, float]:
    """Return the exponent of time with which the backlog at the end grows.

    The backlog of each seed is fitted by a straight line in logarithms.

    Returns:
        The mean over the seeds, and half the width of its 95 % confidence interval.
    """
    exponents = []
    for seed in sorted(set(column(rows, "seed"))):
        log_slots = []
        log_backlogs = []
        for slots, backlog in sorted(_backlogs(where(rows, seed=seed))):
            log_slots.append(math.log(slots))
            log_backlogs.append(math.log(backlog))
        exponents.append(statistics.linear_regression(log_slots, log_backlogs).slope)
    return spread(exponents)


def _backlogs(rows: Rows) -> list[tuple[int, int]]:
    """Return slots and backlog at the end of each run; 0 counts as 1, for the logarithm."""
    return [(row["slots"], max(row["backlog"], 1)) for row in rows]


def _growth_check(rows: Rows, case: str, limit: float, remark: str) -> Check:
    """Check that the backlog of successive liquid schedules grows more slowly than time.

    Args:
        rows: The rows.
        case: Load and buffers, to end the name of the check.
        limit: Largest accepted exponent.
        remark: Meaning of a passed check.
    """
    name = f"exponent of time with which the bursts left waiting by {NAMES['liquid']} grow, {case}"
    return (
        Claim(name)
        .at_most(limit, growth(rows))
        .against(1.0, "capacity missing: they grow as time does")
        .noting(remark)
    )


def figures(rows: Rows) -> Figures:
    """Draw delay, loss and waiting bursts over the load, and the backlog over the horizon.

    Delay, loss and waiting bursts have one figure for each kind of switch.
    """
    horizons, by_load = parted(rows, "buffer_bursts")
    drawn: Results = {}
    if horizons:
        drawn["horizons"] = _horizon_figure(horizons)
    for switching in SWITCH_NAMES:
        rows_of_switching = where(by_load, switching=switching)
        if rows_of_switching:
            for field in SHOWN:
                name = f"bursts-{switching}-{field.replace('_', '-')}"
                drawn[name] = _figure_by_load(rows_of_switching, switching, field)
    return drawn


def _figure_by_load(rows: Rows, switching: str, field: str) -> Figure:
    label, scale = SHOWN[field]
    samples = {}
    for row in rows:
        # Nothing has a delay if nothing is carried.
        if row[field] is not None:
            samples[NAMES[row["strategy"]], row["load"]] = (row[field], 0.0)
    title = (
        f"Optical bursts over {rows[0]['network']}, {rows[0]['wavelengths']} wavelengths, "
        f"{SWITCH_NAMES[switching]}"
    )
    figure = draw_lines(title, samples, x=LOAD_LABEL, y=label)
    figure.axes[0].set_yscale(scale)
    return figure


def _horizon_figure(rows: Rows) -> Figure:
    samples: dict[tuple[str, float], list[float]] = {}
    for (load, strategy), runs in grouped(rows, ("load", "strategy")).items():
        exponent, _ = growth(runs)
        name = f"{NAMES[strategy]}, load {load:g}: exponent {exponent:.2f}"
        for slots, backlog in _backlogs(runs):
            samples.setdefault((name, slots), []).append(float(backlog))
    figure = draw_lines(
        "What is not carried waits: exponent 1 would be capacity missing",
        samples,
        x="slots from empty buffers on",
        y="bursts waiting in all edge routers at the end",
    )
    figure.axes[0].set(xscale="log", yscale="log")
    return figure


STUDY = Study.of_module(
    __name__,
    title="Optical bursts: edge buffers emptied by liquid schedules",
    deviations=(
        "further work of the document, without figures; bursts of one slot, Poisson, all pairs "
        "alike, over NSFNET",
        "in virtual time; propagation and the time to compute a schedule are left out",
    ),
    answers="Gabrielyan 2007, subsection 3.2.2 and its further work: edge buffers emptied by "
    "repeated liquid schedules",
)
