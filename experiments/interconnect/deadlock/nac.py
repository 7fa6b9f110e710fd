"""Does a ring of eight under tornado traffic deadlock, when, and does NAC free it (Zarza 2011, 5.5.1, Figures
5.11-5.17); and how long does it take to find the cycle, against buffers, slack, virtual channels, load and failures
(equations 4.8 and 4.9, section 4.3)?

The second is `nac_times`, whose points alone have a ``slack``. Of the first: the stated rates, a sweep of rates up to
saturation, and the stated 500 packets/s with a burst in phase at 1.18 s.
"""

import itertools
import statistics
from dataclasses import replace

from experiments.interconnect.deadlock import nac_times
from experiments.interconnect.figures import (
    LATENCY,
    draw_surfaces,
    draw_time_series,
    maps_around_burst,
)
from experiments.interconnect.runs import measure_ring
from experiments.interconnect.samples import delivery_check, equal
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
    Figures,
    Points,
    Row,
    Rows,
    Study,
    grouped,
    mean_of,
    parted,
    spread,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_lines

STATED = (400.0, 500.0, 600.0)
SWEEP = (10_000.0, 20_000.0, 24_000.0, 26_000.0, 28_000.0, 30_000.0, 34_000.0, 37_000.0, 40_000.0)
ALWAYS_FROM = 34_000.0
WITHIN_S = 0.1
STATED_RISE_US = 10.22
BEFORE_LATENCY_US = 8.7


def points(quick: bool, seed: int) -> Points:
    """Parts "stated", "sweep" (without NAC, until deadlock), "nac" (the sweep's rates with it) and "burst";
    those of `nac_times`."""
    seeds = seeds_of(seed, quick)
    sweep = (10_000.0, 30_000.0, 34_000.0, 40_000.0) if quick else SWEEP
    longest = 0.2 if quick else 4.0
    found = []
    sets = (
        ("stated", STATED, longest / 2, "none", 0),
        ("sweep", sweep, longest, "none", 0),
        ("nac", sweep, min(longest, 0.1), "nac", 0),
        ("burst", (500.0,), 2.0, "none", BURST_MESSAGES),
        ("burst", (500.0,), 2.0, "nac", BURST_MESSAGES),
    )
    for s in seeds:
        for part, rates, seconds, how, burst in sets:
            found += [
                ring_point(part, rate, s, seconds=seconds, deadlock=how, burst=burst)
                for rate in rates
            ]
    return found + nac_times.points(quick, seed)


def measure(point: Row) -> Row:
    """One run."""
    return nac_times.measure(point) if "slack" in point else measure_ring(point)


def judge(rows: Rows) -> Verdict:
    """No deadlock at the stated rates nor at 10 k/s; always, and soon, from 34 k/s; monotone between; NAC delivers
    all, and takes the time of equations 4.8 and 4.9."""
    times, rows = parted(rows, "slack")
    sweep, bare, freed = where(rows, part="sweep"), _bursts(rows, "none"), _bursts(rows, "nac")
    stated = where(rows, part="stated") + [r for r in sweep if r["rate"] <= 10_000.0]
    checks = (
        _count("no run deadlocks at the stated rates, nor at 10 k/s (runs)", 0, stated).against(
            float(len(stated)), "all, as Figure 5.12 has it of 500/s"
        ),
        *_soon_and_in_order(sweep),
        _all_delivered(where(rows, part="nac") + freed),
        _count("a burst in phase at 500/s deadlocks without NAC (runs)", len(bare), bare).against(
            0.0, "none, as at 500/s without a burst"
        ),
        *_latency_returns(freed),
        *nac_times.times_checks(times),
    )
    return Verdict.of(checks)


def _count(name: str, required: int, rows: Rows) -> Check:
    return (
        Claim(name)
        .equal(required, sum(bool(row["deadlocked"]) for row in rows))
        .noting(f"{len(rows)} runs")
    )


def _soon_and_in_order(sweep: Rows) -> list[Check]:
    """When runs without NAC deadlock, by their rate."""
    high = [row for row in sweep if row["rate"] >= ALWAYS_FROM]
    # a run without a deadlock counts as infinite
    times = grouped(sweep, "rate", lambda r: r["deadlock_s"] if r["deadlocked"] else float("inf"))
    medians = {rate: statistics.median(values) for rate, values in sorted(times.items())}
    return [
        Claim(f"every run deadlocks from {ALWAYS_FROM:.0f} packets/s on, within 100 ms (latest, s)")
        .at_most(WITHIN_S, max(r["deadlock_s"] if r["deadlocked"] else r["seconds"] for r in high))
        .against(min(r["seconds"] for r in high), "none until the end of the run")
        .noting(f"{sum_of(high, 'deadlocked')} of {len(high)} runs"),
        Claim("the higher the rate, the sooner (medians in order)")
        .equal(len(medians), 1 + sum(b <= a for a, b in itertools.pairwise(medians.values())))
        .against(
            (len(medians) + 1) / 2, "the rate does not matter, and half of the steps fall by chance"
        )
        .noting(
            ", ".join(f"{rate / 1000:.0f} k/s {middle:.2g} s" for rate, middle in medians.items())
        ),
    ]


def _all_delivered(safe: Rows) -> Check:
    check = replace(delivery_check(safe), name="with NAC every packet is delivered (packets)")
    return check.noting(f"{len(safe)} runs, {sum_of(safe, 'nac_moves')} moves")


def _latency_returns(freed: Rows) -> list[Check]:
    """What the burst costs while NAC treats the deadlock, and that it is over afterwards."""
    rise, after = ([row[name] for row in freed] for name in ("rise_us", "latency_after_us"))
    before = mean_of(freed, "latency_before_us")
    name, ours = (
        "rise of the running mean of latency in the slot of the burst (us)",
        "ten messages a node, is ours",
    )
    return [
        equal(name, STATED_RISE_US, rise, 1.0, f"the burst, {ours}")
        .cites("about 10.22 us (5.5.1, Figure 5.13)")
        .against(0.0, "the deadlock costs nothing"),
        equal("with NAC latency returns to what it was (us)", before, after, 0.1)
        .against(before + spread(rise)[0], "it stays as in the slot of the burst")
        .noting(f"the reference model of a hop: {BEFORE_LATENCY_US} us"),
    ]


def _bursts(rows: Rows, deadlock: str) -> list[Row]:
    return where(rows, part="burst", deadlock=deadlock)


def figures(rows: Rows) -> Figures:
    """5.11, 5.16, 5.17: surface maps; 5.12-5.15: throughput and latency over time; the sweep of rates; shares of runs
    that deadlock."""
    times, rows = parted(rows, "slack")
    bare, freed = (_bursts(rows, deadlock)[0] for deadlock in ("none", "nac"))
    slots = [SLOT_S * k for k in range(len(freed["received_slots"]))]
    event, received = (BURST_AT_S, "burst in phase"), "received (Mbit/s a node)"

    def throughput(title: str, name: str, row: Row, shown: slice = slice(None)) -> Figure:
        values = [8 * 2048 * n / SLOT_S / 8 / 1e6 for n in row["received_slots"]]
        return draw_time_series(
            title, {name: (slots[shown], values[shown])}, y=received, event=event
        )

    zoom = slice(FIRST_SHOWN_SLOT - 17, FIRST_SHOWN_SLOT + 23)
    first, late = (
        {"0.01 to 0.02 s": freed["first_map"]},
        {"with NAC": (slots, freed["latency_slots_us"])},
    )
    running = "With NAC: running mean of latency (equations 5.1, 5.2)"
    return {
        "5.11": draw_surfaces("Packets received, tornado in row y = 5", first),
        "5.12": throughput(
            "Without NAC: throughput of the ring, 500 packets/s a node", "without NAC", bare
        ),
        "5.13": draw_time_series(running, late, y=LATENCY, event=event),
        "5.14": throughput("With NAC: throughput of the ring", "with NAC", freed),
        "5.15": throughput("With NAC: throughput from 1.00 to 1.40 s", "with NAC", freed, zoom),
        "5.16-5.17": draw_surfaces(
            "Packets received around the burst, with NAC", maps_around_burst(freed)
        ),
        "sweep": _draw_sweep(where(rows, part="sweep") + where(rows, part="stated")),
        **nac_times.figures(times),
    }


def _draw_sweep(rows: Rows) -> Figure:
    """Time to deadlock over the rate, on a logarithmic axis; of runs without one, how long they were."""
    words = {True: "deadlock", False: "none until the run's end"}
    samples = grouped(
        rows,
        lambda row: (words[bool(row["deadlocked"])], row["rate"] / 1000),
        lambda row: row["deadlock_s" if row["deadlocked"] else "seconds"],
    )
    title, x = (
        "Ring of eight, tornado: time to deadlock",
        "packets a second and node (thousands), Poisson",
    )
    claim, upright = (
        (WITHIN_S, f"claim: sooner, from {ALWAYS_FROM / 1000:.0f} k/s on"),
        (40.7, "saturation, 40.7 k/s"),
    )
    figure = draw_lines(
        title, samples, x=x, y="time to deadlock without NAC (s)", claim=claim, upright=upright
    )
    figure.axes[0].set_yscale("log")
    return figure


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac",
    title="Rings under tornado traffic: when they deadlock, how NAC frees them, and how long it takes",
    deviations=(
        "500 packets/s of 2 KB load the ring to 1.2 % and never deadlock: a burst and a sweep replace Figure 5.12.",
        "A control packet's 0.3975 us a hop were set so that equation 4.8 gives the document's 6.36 us: no finding.",
        "The document gives equations 4.8 and 4.9 and proposals (4.3, 6.2), no figures; rings, loads, times are ours.",
        f"{POISSON}.",
    ),
    answers="Zarza 2011, Figures 5.11-5.17: a deadlock that NAC treats, with no packet lost and latency as before; "
    "equations 4.8 and 4.9; section 4.3: deeper buffers, fewer identifications, virtual channels",
)
