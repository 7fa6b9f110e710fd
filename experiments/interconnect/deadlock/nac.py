"""Measures when rings deadlock under tornado traffic, and how NAC frees them (Zarza 2011, 5.5.1).

A ring of eight has the stated rates, a sweep of rates up to saturation, and the stated 500
packets/s with a burst in phase at 1.18 s (Figures 5.11 to 5.17). A second part is in
``nac_times``: how long NAC takes to find the cycle (equations 4.8 and 4.9, section 4.3). Only its
points have a ``slack``.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from experiments.interconnect.deadlock import nac_times
from experiments.interconnect.figures import (
    LATENCY,
    draw_surfaces,
    draw_time_series,
    maps_around_burst,
)
from experiments.interconnect.runs import measure_ring
from experiments.interconnect.samples import delivery_check, equal, mean
from experiments.interconnect.study_points import (
    BURST_AT_S,
    BURST_MESSAGES,
    FIRST_SHOWN_SLOT,
    POISSON,
    SLOT_S,
    ring_point,
    seeds_of,
)
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Row,
    Rows,
    Study,
    Verdict,
    grouped,
    mean_of,
    parted,
    sum_of,
    where,
)
from testbed.report.drawing.charts import Figure, draw_lines

# Packets per second and node.
STATED = (400.0, 500.0, 600.0)
SWEEP = (10_000.0, 20_000.0, 24_000.0, 26_000.0, 28_000.0, 30_000.0, 34_000.0, 37_000.0, 40_000.0)
QUICK_SWEEP = (10_000.0, 30_000.0, 34_000.0, 40_000.0)

# The checks expect that no run deadlocks up to the first rate, and every run from the second on.
NEVER_UNTIL = 10_000.0
ALWAYS_FROM = 34_000.0

# Largest time to a deadlock at such a rate.
WITHIN_S = 0.1

BURST_RATE = 500.0
BURST_S = 2.0

# The rise of the running mean of latency in the document.
STATED_RISE_US = 10.22

# Latency without a burst in the document's model of a hop.
BEFORE_LATENCY_US = 8.7

# Nodes of the ring, and bytes of their packets.
NODES = 8
PACKET_BYTES = 2048

# The slots that are shown enlarged: 1.00 to 1.40 s.
ZOOM = slice(FIRST_SHOWN_SLOT - 17, FIRST_SHOWN_SLOT + 23)


def points(quick: bool, seed: int) -> Points:
    """Return the points, and those of ``nac_times``.

    Part "stated" has the stated rates, and part "sweep" the sweep without NAC. Part "nac" has the
    rates of the sweep with NAC. Part "burst" has the burst, without and with NAC.
    """
    sweep = QUICK_SWEEP if quick else SWEEP
    longest_s = 0.2 if quick else 4.0
    nac_s = min(longest_s, 0.1)
    result = []
    for run_seed in seeds_of(seed, quick):
        for rate in STATED:
            result.append(_bare_point("stated", rate, run_seed, longest_s / 2))
        for rate in sweep:
            result.append(_bare_point("sweep", rate, run_seed, longest_s))
        for rate in sweep:
            result.append(ring_point("nac", rate, run_seed, seconds=nac_s, deadlock="nac"))
        for deadlock in ("none", "nac"):
            point = ring_point(
                "burst",
                BURST_RATE,
                run_seed,
                seconds=BURST_S,
                deadlock=deadlock,
                burst=BURST_MESSAGES,
            )
            result.append(point)
    return result + nac_times.points(quick, seed)


def _bare_point(part: str, rate: float, seed: int, seconds: float) -> dict[str, object]:
    """Return the point of a run without NAC, which may end earlier with a deadlock."""
    return ring_point(part, rate, seed, seconds=seconds, deadlock="none")


def measure(point: Row) -> Row:
    """Simulate one run."""
    if "slack" in point:
        return nac_times.measure(point)
    return measure_ring(point)


def judge(rows: Rows) -> Verdict:
    """Check when rings deadlock, that NAC delivers all messages, and how long it takes.

    No run should deadlock at the stated rates or at 10 k/s, and every run, soon, from 34 k/s on.
    The higher the rate, the sooner the deadlock. NAC should take the time of equations 4.8 and 4.9.
    """
    times, ring_rows = parted(rows, "slack")
    sweep = where(ring_rows, part="sweep")
    slow = where(ring_rows, part="stated") + [row for row in sweep if row["rate"] <= NEVER_UNTIL]
    bare = _bursts(ring_rows, "none")
    freed = _bursts(ring_rows, "nac")

    slow_check = _deadlocks_check(
        "no run deadlocks at the stated rates, nor at 10 k/s (runs)", 0, slow
    )
    slow_check = slow_check.against(float(len(slow)), "all, as Figure 5.12 has it of 500/s")
    burst_check = _deadlocks_check(
        "a burst in phase at 500/s deadlocks without NAC (runs)", len(bare), bare
    )
    checks = (
        slow_check,
        _always_check(sweep),
        _order_check(sweep),
        _delivery_check(where(ring_rows, part="nac") + freed),
        burst_check.against(0.0, "none, as at 500/s without a burst"),
        *_latency_checks(freed),
        *nac_times.times_checks(times),
    )
    return Verdict.of(checks)


def _bursts(rows: Rows, deadlock: str) -> list[Row]:
    return where(rows, part="burst", deadlock=deadlock)


def _deadlocks_check(name: str, expected: int, rows: Rows) -> Check:
    """Check the number of runs that deadlock."""
    deadlocked = sum(bool(row["deadlocked"]) for row in rows)
    return Claim(name).equal(expected, deadlocked).noting(f"{len(rows)} runs")


def _always_check(sweep: Rows) -> Check:
    """Check that every run at a high rate deadlocks soon."""
    runs = [row for row in sweep if row["rate"] >= ALWAYS_FROM]
    name = f"every run deadlocks from {ALWAYS_FROM:.0f} packets/s on, within 100 ms (latest, s)"
    check = Claim(name).at_most(WITHIN_S, max(map(_end_s, runs)))
    check = check.against(min(row["seconds"] for row in runs), "none until the end of the run")
    return check.noting(f"{sum_of(runs, 'deadlocked')} of {len(runs)} runs")


def _end_s(row: Row) -> float:
    """Return the time of the deadlock, or the end of the run."""
    return float(row["deadlock_s"] if row["deadlocked"] else row["seconds"])


def _time_to_deadlock_s(row: Row) -> float:
    """Return the time of the deadlock, which is infinite if there is none."""
    return float(row["deadlock_s"] if row["deadlocked"] else "inf")


def _order_check(sweep: Rows) -> Check:
    """Check that rings deadlock the sooner, the higher the rate is."""
    times_s = grouped(sweep, "rate", _time_to_deadlock_s)
    medians_s = {rate: statistics.median(values) for rate, values in sorted(times_s.items())}
    falls = 0
    for median_s, next_median_s in pairwise(medians_s.values()):
        if next_median_s <= median_s:
            falls += 1
    count = len(medians_s)
    check = Claim("the higher the rate, the sooner (medians in order)").equal(count, 1 + falls)
    check = check.against(
        (count + 1) / 2, "the rate does not matter, and half of the steps fall by chance"
    )
    parts = [f"{rate / 1000:.0f} k/s {median_s:.2g} s" for rate, median_s in medians_s.items()]
    return check.noting(", ".join(parts))


def _delivery_check(rows: Rows) -> Check:
    """Check that every run with NAC delivers all messages."""
    check = replace(delivery_check(rows), name="with NAC every packet is delivered (packets)")
    return check.noting(f"{len(rows)} runs, {sum_of(rows, 'nac_moves')} moves")


def _latency_checks(freed: Rows) -> list[Check]:
    """Check the rise of latency while NAC treats the deadlock, and latency afterwards."""
    rises_us = [row["rise_us"] for row in freed]
    after_us = [row["latency_after_us"] for row in freed]
    before_us = mean_of(freed, "latency_before_us")
    rise_check = equal(
        "rise of the running mean of latency in the slot of the burst (us)",
        STATED_RISE_US,
        rises_us,
        1.0,
        "the burst, ten messages a node, is ours",
    )
    rise_check = rise_check.cites("about 10.22 us (5.5.1, Figure 5.13)")
    after_check = equal("with NAC latency returns to what it was (us)", before_us, after_us, 0.1)
    after_check = after_check.against(
        before_us + mean(rises_us), "it stays as in the slot of the burst"
    )
    return [
        rise_check.against(0.0, "the deadlock costs nothing"),
        after_check.noting(f"the reference model of a hop: {BEFORE_LATENCY_US} us"),
    ]


def figures(rows: Rows) -> Figures:
    """Draw surface maps, throughput, latency, the sweep of rates, and the figures of ``nac_times``.

    Surface maps are Figures 5.11, 5.16 and 5.17. Throughput and latency over time are Figures 5.12
    to 5.15.
    """
    times, ring_rows = parted(rows, "slack")
    bare = _bursts(ring_rows, "none")[0]
    freed = _bursts(ring_rows, "nac")[0]
    first_map = {"0.01 to 0.02 s": freed["first_map"]}
    around_burst = "Packets received around the burst, with NAC"
    return {
        "5.11": draw_surfaces("Packets received, tornado in row y = 5", first_map),
        "5.12": _draw_slots(
            "Without NAC: throughput of the ring, 500 packets/s a node",
            "without NAC",
            _throughput_mbps(bare),
        ),
        "5.13": _draw_slots(
            "With NAC: running mean of latency (equations 5.1, 5.2)",
            "with NAC",
            freed["latency_slots_us"],
            y=LATENCY,
        ),
        "5.14": _draw_slots(
            "With NAC: throughput of the ring", "with NAC", _throughput_mbps(freed)
        ),
        "5.15": _draw_slots(
            "With NAC: throughput from 1.00 to 1.40 s",
            "with NAC",
            _throughput_mbps(freed),
            shown=ZOOM,
        ),
        "5.16-5.17": draw_surfaces(around_burst, maps_around_burst(freed)),
        "sweep": _draw_sweep(where(ring_rows, part="sweep") + where(ring_rows, part="stated")),
        **nac_times.figures(times),
    }


def _throughput_mbps(row: Row) -> list[float]:
    """Return the throughput per node in each slot, in Mbit/s."""
    slots = row["received_slots"]
    return [8 * PACKET_BYTES * count / SLOT_S / NODES / 1e6 for count in slots]


def _draw_slots(
    title: str,
    series: str,
    values: Sequence[float],
    *,
    y: str = "received (Mbit/s a node)",
    shown: slice = slice(None),
) -> Figure:
    """Draw values over the time of their slots, with the burst.

    Args:
        title: Title of the figure.
        series: Name of the values.
        values: The value of each slot.
        y: Label of the y axis.
        shown: The slots that are shown.
    """
    times_s = [SLOT_S * slot for slot in range(len(values))]
    points_by_series = {series: (times_s[shown], values[shown])}
    return draw_time_series(title, points_by_series, y=y, event=(BURST_AT_S, "burst in phase"))


def _draw_sweep(rows: Rows) -> Figure:
    """Draw the time to a deadlock over the rate, on a logarithmic axis.

    For runs without a deadlock their length is drawn.
    """
    samples: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        series = "deadlock" if row["deadlocked"] else "none until the run's end"
        samples.setdefault((series, row["rate"] / 1000), []).append(_end_s(row))
    figure = draw_lines(
        "Ring of eight, tornado: time to deadlock",
        samples,
        x="packets a second and node (thousands), Poisson",
        y="time to deadlock without NAC (s)",
        claim=(WITHIN_S, f"claim: sooner, from {ALWAYS_FROM / 1000:.0f} k/s on"),
        upright=(40.7, "saturation, 40.7 k/s"),
    )
    figure.axes[0].set_yscale("log")
    return figure


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac",
    title="Rings under tornado traffic: when they deadlock, how NAC frees them, and how long it "
    "takes",
    deviations=(
        "500 packets/s of 2 KB load the ring to 1.2 % and never deadlock. A burst and a sweep "
        "replace Figure 5.12.",
        "The 0.3975 us of a control packet per hop were chosen so that equation 4.8 gives the "
        "document's 6.36 us. This is not a finding.",
        "For equations 4.8 and 4.9 and its proposals (4.3, 6.2) the document has no measurements. "
        "Rings, loads and times are ours.",
        POISSON,
    ),
    answers="Zarza 2011, Figures 5.11-5.17: NAC treats a deadlock, no packet is lost, and latency "
    "returns; equations 4.8 and 4.9; section 4.3: deeper buffers, fewer identifications, virtual "
    "channels",
)
