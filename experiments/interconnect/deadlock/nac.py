"""Does a ring of eight under tornado traffic deadlock, when, and does NAC free it (Zarza 2011, 5.5.1, Figures 5.11-5.17)?

The stated rates, a sweep of rates up to saturation, and the stated 500 packets/s with a burst in phase at 1.18 s.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from experiments.interconnect.figures import draw_surfaces, draw_time_series
from experiments.interconnect.runs import measure_ring
from experiments.interconnect.samples import COUNTED, Row, of_mean
from experiments.interconnect.traffic import (
    BURST_AT_S,
    BURST_MESSAGES,
    FIRST_SHOWN_SLOT,
    SLOT_S,
    ring_point,
    seeds_of,
)
from testbed.model.samples import spread
from testbed.model.studies.study import Study
from testbed.model.verdict import Check, Evidence, Verdict

STATED = (400.0, 500.0, 600.0)
SWEEP = (10_000.0, 20_000.0, 24_000.0, 26_000.0, 28_000.0, 30_000.0, 34_000.0, 37_000.0, 40_000.0)
ALWAYS_FROM = 34_000.0
WITHIN_S = 0.1
NAC_TIME_US = 6.36
STATED_RISE_US = 10.22
BEFORE_LATENCY_US = 8.7


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Parts "stated", "sweep" (without NAC, until deadlock), "nac" (the sweep's rates with it) and "burst"."""
    seeds = seeds_of(seed, quick)
    sweep = (10_000.0, 30_000.0, 34_000.0, 40_000.0) if quick else SWEEP
    longest = 0.2 if quick else 4.0
    found = []
    for s in seeds:
        found += [ring_point("stated", r, s, seconds=longest / 2, deadlock="none") for r in STATED]
        found += [ring_point("sweep", r, s, seconds=longest, deadlock="none") for r in sweep]
        found += [ring_point("nac", r, s, seconds=min(longest, 0.1), deadlock="nac") for r in sweep]
        found += [
            ring_point("burst", 500.0, s, seconds=2.0, deadlock=deadlock, burst=BURST_MESSAGES)
            for deadlock in ("none", "nac")
        ]
    return found


def judge(rows: Sequence[Row]) -> Verdict:
    """No deadlock at the stated rates nor at 10 k/s; always, and soon, from 34 k/s; monotone between; NAC delivers all."""
    stated = _part(rows, "stated") + [r for r in _part(rows, "sweep") if r["rate"] <= 10_000.0]
    high = [r for r in _part(rows, "sweep") if r["rate"] >= ALWAYS_FROM]
    times = _times_to_deadlock(rows)
    medians = [statistics.median(values) for _, values in sorted(times.items())]
    safe = _part(rows, "nac") + [r for r in _part(rows, "burst") if r["deadlock"] == "nac"]
    bare = [r for r in _part(rows, "burst") if r["deadlock"] == "none"]
    freed = [r for r in _part(rows, "burst") if r["deadlock"] == "nac"]
    late = max(r["deadlock_s"] if r["deadlocked"] else r["seconds"] for r in high)
    rise = [r["rise_us"] for r in freed]
    after = [r["latency_after_us"] for r in freed]
    checks = (
        _count(
            "no run deadlocks at the stated rates, nor at 10 k/s (runs)",
            0,
            stated,
            rival=float(len(stated)),
            rival_is="all, as Figure 5.12 has it of 500/s",
        ),
        Check.at_most(
            f"every run deadlocks from {ALWAYS_FROM:.0f} packets/s on, within 100 ms (latest, s)",
            WITHIN_S,
            late,
            rival=min(r["seconds"] for r in high),
            rival_is="none until the end of the run",
            detail=f"{sum(r['deadlocked'] for r in high)} of {len(high)} runs",
        ),
        Check.equal(
            "the higher the rate, the sooner (medians in order)",
            float(len(medians)),
            float(1 + sum(b <= a for a, b in itertools.pairwise(medians))),
            rival=(len(medians) + 1) / 2,
            rival_is="the rate does not matter, and half of the steps fall by chance",
            detail=", ".join(f"{r / 1000:.0f} k/s {statistics.median(v):.2g} s" for r, v in sorted(times.items())),
        ),
        Check(
            name="with NAC every packet is delivered (packets)",
            predicted=float(sum(r["sent"] for r in safe)),
            measured=float(sum(r["received"] for r in safe)),
            tolerance=0.0,
            passed=all(r["sent"] == r["received"] and not r["deadlocked"] for r in safe),
            detail=f"{len(safe)} runs, {sum(r['nac_moves'] for r in safe)} moves",
            rival_note=COUNTED,
        ).of(sum(r["sent"] + r["received"] + r["deadlocked"] for r in safe)),
        _count(
            "a burst in phase at 500/s deadlocks without NAC (runs)",
            len(bare),
            bare,
            rival=0.0,
            rival_is="none, as at 500/s without a burst",
        ),
        Check.equal(
            "rise of the running mean of latency in the slot of the burst (us)",
            STATED_RISE_US,
            spread(rise)[0],
            tolerance=1.0,
            **of_mean(
                rise,
                {
                    "rival": 0.0,
                    "rival_is": "the deadlock costs nothing",
                    "stated": "about 10.22 us (5.5.1, Figure 5.13)",
                    "detail": "the burst, ten messages a node, is ours",
                },
            ),
        ),
        Check.equal(
            "with NAC latency returns to what it was (us)",
            spread([r["latency_before_us"] for r in freed])[0],
            spread(after)[0],
            tolerance=0.1,
            uncertainty=spread(after)[1] if len(after) > 1 else None,
            rival=spread([r["latency_before_us"] for r in freed])[0] + spread(rise)[0],
            rival_is="it stays as in the slot of the burst",
            detail=f"the reference model of a hop: {BEFORE_LATENCY_US} us",
        ),
    )
    stuck = spread([float(r["stuck_packets"]) for r in bare])[0]
    notes = (
        "Figures 5.12-5.15 cannot come from the units stated: 500 packets/s of 2 KB on 2 Gbps is 1.2 % load (saturation is at "
        "40.7 k/s), and no run deadlocked. A burst in phase shows the same effect: "
        f"{stuck:.0f} packets stay stuck in the routers for ever without NAC (the reference: 48), and all later ones at "
        "their sources.",
        f"From the first blocked input to the first cycle identified: {spread([r['identification_us'] for r in freed])[0]:.2f} us "
        f"(a ring of 8: 8 t_f = 3.18 us, and as long for the recovery: the thesis' {NAC_TIME_US} us). The whole burst took NAC "
        f"{spread([r['nac_treatment_us'] for r in freed])[0]:.0f} us, one turn of the cycle after another.",
    )
    return Verdict(checks=checks, notes=notes)


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """5.11, 5.16, 5.17: surface maps; 5.12-5.15: throughput and latency over time; the sweep of rates."""
    burst = {r["deadlock"]: r for r in reversed(_part(rows, "burst"))}
    slots = [SLOT_S * k for k in range(len(burst["nac"]["received_slots"]))]
    span = range(FIRST_SHOWN_SLOT, FIRST_SHOWN_SLOT + 4)
    surfaces = {f"{SLOT_S * k:.2f} to {SLOT_S * (k + 1):.2f} s": burst["nac"]["maps"][k - span.start] for k in span}

    def throughput(row: Row) -> tuple[Sequence[float], Sequence[float]]:
        return slots, [8 * 2048 * n / SLOT_S / 8 / 1e6 for n in row["received_slots"]]

    says = "burst in phase"
    figure_sweep = _draw_sweep(rows)
    zoom = slice(FIRST_SHOWN_SLOT - 17, FIRST_SHOWN_SLOT + 23)
    times, values = throughput(burst["nac"])
    return {
        "5.11": draw_surfaces(
            "Packets received, tornado in row y = 5", {"0.01 to 0.02 s": burst["nac"]["first_map"]}, z_label="packets"
        ),
        "5.12": draw_time_series(
            "Without NAC: throughput of the ring, 500 packets/s a node", {"without NAC": throughput(burst["none"])},
            y_label="received (Mbit/s a node)", event_s=BURST_AT_S, event_says=says,
        ),
        "5.13": draw_time_series(
            "With NAC: running mean of latency (equations 5.1, 5.2)",
            {"with NAC": (slots, burst["nac"]["latency_slots_us"])},
            y_label="mean latency (us)", event_s=BURST_AT_S, event_says=says,
        ),
        "5.14": draw_time_series(
            "With NAC: throughput of the ring", {"with NAC": throughput(burst["nac"])},
            y_label="received (Mbit/s a node)", event_s=BURST_AT_S, event_says=says,
        ),
        "5.15": draw_time_series(
            "With NAC: throughput from 1.00 to 1.40 s", {"with NAC": (times[zoom], values[zoom])},
            y_label="received (Mbit/s a node)", event_s=BURST_AT_S, event_says=says,
        ),
        "5.16-5.17": draw_surfaces("Packets received around the burst, with NAC", surfaces, z_label="packets"),
        "sweep": figure_sweep,
    }  # fmt: skip


def _draw_sweep(rows: Sequence[Row]) -> Any:
    """Every run's time to deadlock over the rate, on a logarithmic axis; runs without one at the top."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.6, 4.4))
    sweep = _part(rows, "sweep") + _part(rows, "stated")
    dead = [r for r in sweep if r["deadlocked"]]
    alive = [r for r in sweep if not r["deadlocked"]]
    axes.semilogy(
        [r["rate"] / 1000 for r in dead], [r["deadlock_s"] for r in dead], "o", color="#a3470a", label="deadlock"
    )
    axes.semilogy(
        [r["rate"] / 1000 for r in alive], [r["seconds"] for r in alive], "^", color="#16693f", fillstyle="none",
        label="none until the run's end",
    )  # fmt: skip
    axes.axhline(WITHIN_S, color="#16191d", linestyle="--", linewidth=1.1, label="claim: sooner, from 34 k/s on")
    axes.axvline(ALWAYS_FROM / 1000, color="#5c6670", linestyle=":", linewidth=1.1)
    axes.axvline(40.7, color="#6a3d9a", linestyle="-.", linewidth=1.1, label="saturation, 40.7 k/s")
    axes.set_xlabel("packets a second and node (thousands), Poisson")
    axes.set_ylabel("time to deadlock without NAC (s)")
    axes.set_title("Ring of eight, tornado: time to deadlock without avoidance", fontsize=11)
    axes.grid(True, color="#d9dde2", linewidth=0.6)
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _part(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def _times_to_deadlock(rows: Sequence[Row]) -> dict[float, list[float]]:
    """Rate -> seconds, one a run; a run without a deadlock counts as infinite."""
    found: dict[float, list[float]] = {}
    for row in _part(rows, "sweep"):
        found.setdefault(row["rate"], []).append(row["deadlock_s"] if row["deadlocked"] else float("inf"))
    return found


def _count(name: str, wanted: int, rows: Sequence[Row], **evidence: Unpack[Evidence]) -> Check:
    dead = sum(bool(row["deadlocked"]) for row in rows)
    counted: Evidence = {**evidence, "detail": f"{len(rows)} runs"}
    return Check.equal(name, float(wanted), float(dead), **counted)


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac",
    title="A ring of eight under tornado traffic: when it deadlocks, and how NAC frees it",
    deviations=(
        "500 packets/s of 2 KB load the ring to 1.2 % and never deadlock. A burst in phase and a sweep of rates do, in the place of Figure 5.12.",
        "The time of a control packet over a hop, 0.3975 us, was set so that equation 4.8 gives the document's 6.36 us: that figure is no finding.",
        "Messages come at random (Poisson) where the document has a constant rate.",
    ),
    does="tornado on a ring of eight with and without NAC: stated rates, a sweep of rates, a burst in phase at 500/s",
    answers="Zarza 2011, Figures 5.11-5.17: a deadlock that NAC treats, with no packet lost and latency as before",
    measure=measure_ring,
)
