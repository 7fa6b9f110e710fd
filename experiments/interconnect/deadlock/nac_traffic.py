"""Measures the cost of a deadlock that NAC treats, by load and other traffic (Zarza 2011, 5.5).

Tornado traffic in one row has 400, 500 or 600 packets/s, and a burst in phase at 1.18 s. It runs
alone and next to four patterns at 200 packets/s (5.5.2 and 5.5.3, Figures 5.18 to 5.24 and A.1 to
A.17).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from experiments.interconnect.figures import draw_surfaces, maps_around_burst
from experiments.interconnect.runs import measure_ring
from experiments.interconnect.samples import COUNTED, at_most
from experiments.interconnect.study_points import (
    BURST_AT_S,
    BURST_MESSAGES,
    BURST_SLOT,
    POISSON,
    ring_point,
    seeds_of,
)
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
    spread,
    sum_of,
    where,
)
from testbed.report.drawing.charts import Figure, Mark, draw_bars

# Packets per second and node of the tornado traffic, and the simulated time in seconds.
RATES = (400.0, 500.0, 600.0)
SECONDS = 2.0


class Step(NamedTuple):
    """Two rates, and the document's ratio of the costs of a deadlock at the two rates."""

    low: float
    high: float
    ratio: float


STEPS = (Step(400.0, 500.0, 1.12), Step(500.0, 600.0, 1.08))

# Patterns of the other traffic, which all nodes outside the row send.
BACKGROUNDS = ("bit-reversal", "butterfly", "shuffle", "transpose")

# Largest share of packets that may be late (%), as in Figure 5.20.
MAX_DIP_PERCENT = 0.33

# Numbers of the document's figures of surface maps, by the pattern of the other traffic.
APPENDIX = {
    "": "A.2-A.4",
    "bit-reversal": "A.6-A.8",
    "butterfly": "A.9-A.11",
    "transpose": "A.12-A.14",
    "shuffle": "A.15-A.17",
}


def points(quick: bool, seed: int) -> Points:
    """Return the points: each rate, without other traffic and with each pattern, all with NAC."""
    backgrounds = ("", "bit-reversal") if quick else ("", *BACKGROUNDS)
    result = []
    for run_seed in seeds_of(seed, quick, few=1):
        for rate in RATES:
            for background in backgrounds:
                point = ring_point(
                    "burst",
                    rate,
                    run_seed,
                    seconds=SECONDS,
                    deadlock="nac",
                    burst=BURST_MESSAGES,
                    others=background,
                )
                result.append(point)
    return result


def judge(rows: Rows) -> Verdict:
    """Check that NAC delivers all messages, and that a deadlock costs what the document says."""
    checks = [_delivery_check(rows), _recovery_check(rows), _throughput_check(rows)]
    checks += [_step_check(rows, step) for step in STEPS]
    highest = where(rows, rate=RATES[-1], others="")
    rise = at_most(
        "rise of the running mean over the latency before, tornado alone, the highest rate (%)",
        50.0,
        [_rise_percent(row) for row in highest],
    )
    rise = rise.cites("an increase of 50 % (5.5.2)")
    checks.append(
        rise.against(
            100.0 * 10.22 / 8.7, "10.22 us (section 5.5.1) over the 8.7 us of an empty ring"
        )
    )
    return Verdict.of(checks)


def _delivery_check(rows: Rows) -> Check:
    """Check that all messages arrive because NAC moves packets, in every run."""
    lost_percent = max(abs(100.0 * (1 - row["received"] / row["sent"])) for row in rows)
    name = "every packet is delivered, and NAC moved packets in every run (% lost)"
    check = Claim(name).count(0.0, lost_percent, COUNTED)
    check = check.noting(f"{len(rows)} runs, {sum_of(rows, 'nac_moves')} moves")
    freed = all(row["nac_moves"] > 0 and not row["deadlocked"] for row in rows)
    return replace(check, passed=check.passed and freed)


def _recovery_check(rows: Rows) -> Check:
    """Check that latency after the treatment is the same as before, in the worst run."""
    worst = max(rows, key=_drift_percent)
    name = (
        "latency of the slots after the treatment against that of before, the worst run (% apart)"
    )
    check = Claim(name).equal(0.0, _drift_percent(worst), 2.0)
    check = check.against(
        min(map(_rise_percent, rows)),
        "it stays as in the slot of the burst, the least of all runs",
    )
    return check.noting(f"{worst['rate']:.0f}/s, {worst['others'] or 'no other traffic'}")


def _throughput_check(rows: Rows) -> Check:
    """Check the share of packets that are late while NAC treats the deadlock."""
    dip_percent = max(row["throughput_dip_percent"] for row in rows)
    name = "packets of the run that are late while NAC treats the deadlock, the worst run (%)"
    check = Claim(name).at_most(MAX_DIP_PERCENT, dip_percent)
    check = check.cites("0.33 % of throughput at most (Figure 5.20)")
    return check.against(
        100.0 * (1 - BURST_AT_S / rows[0]["seconds"]),
        "the deadlock stays, and so do all packets after it",
    )


def _step_check(rows: Rows, step: Step) -> Check:
    """Check that the burst costs more latency at the higher rate, as in the document."""
    low_rises_us = [row["rise_us"] for row in where(rows, rate=step.low, others="")]
    high_rises_us = [row["rise_us"] for row in where(rows, rate=step.high, others="")]
    low_mean_us, low_half_us = spread(low_rises_us)
    high_mean_us, high_half_us = spread(high_rises_us)
    ratio = high_mean_us / low_mean_us
    half_interval = None
    if len(low_rises_us) > 1:
        half_interval = math.hypot(high_half_us / high_mean_us, low_half_us / low_mean_us) * ratio
    name = f"rise of latency at {step.high:.0f} packets/s over that at {step.low:.0f}"
    check = Claim(name).equal(step.ratio, (ratio, half_interval), 0.03)
    check = check.cites(f"about {100 * (step.ratio - 1):.0f} % higher (5.5.2, Figure 5.18)")
    check = check.against(1.0, "the rate does not matter")
    return check.noting(
        f"{len(low_rises_us)} runs each; the burst is ours, and as large at every rate"
    )


def _rise_us(row: Row) -> float:
    return float(row["rise_us"])


def _rise_percent(row: Row) -> float:
    """Return by how many percent the running mean of latency rises in the slot of the burst."""
    return float(100.0 * row["rise_us"] / row["latency_before_us"])


def _drift_percent(row: Row) -> float:
    """Return the difference of latency after the treatment and before it, in percent."""
    return float(100.0 * abs(row["latency_after_us"] / row["latency_before_us"] - 1))


def _dip_percent(row: Row) -> float:
    return float(row["throughput_dip_percent"])


def figures(rows: Rows) -> Figures:
    """Draw latency, throughput and surface maps (Figures 5.18 to 5.24 and A.1 to A.17)."""
    with_bit_reversal = where(rows, others="bit-reversal", rate=500.0)[0]
    tornado_alone = where(rows, others="")
    with_other_traffic = [row for row in rows if row["others"]]
    return {
        "5.18-5.21": _draw_cost(
            rows,
            _rise_us,
            "Rise of the running mean of latency in the slot of the burst",
            "latency (us)",
        ),
        "5.19-5.22": _draw_cost(rows, _rise_percent, "The same, relative to before", "latency (%)"),
        "5.20-5.23": _draw_cost(
            rows,
            _dip_percent,
            "Throughput not delivered while NAC treats the deadlock",
            "packets of the run (%)",
            (MAX_DIP_PERCENT, "claim: at most 0.33 %"),
        ),
        "5.24": draw_surfaces(
            "Packets received, tornado at 500/s and bit reversal at 200/s",
            maps_around_burst(with_bit_reversal),
        ),
        "A.1": _draw_running_means(tornado_alone, "tornado alone"),
        "A.5": _draw_running_means(with_other_traffic, "other traffic beside"),
        **_appendix_maps(rows),
    }


def _draw_cost(
    rows: Rows, cost: Callable[[Row], float], title: str, y: str, claim: Mark | None = None
) -> Figure:
    """Draw the cost of a deadlock by rate and other traffic.

    Args:
        rows: The rows.
        cost: Returns the cost in a run.
        title: Title of the figure.
        y: Label of the y axis.
        claim: Threshold of the claim, and its label.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    for row in sorted(rows, key=_rate_of):
        label = (row["others"] or "tornado alone", f"{row['rate']:.0f} packets/s")
        samples.setdefault(label, []).append(cost(row))
    return draw_bars(title, samples, y=y, claim=claim)


def _rate_of(row: Row) -> float:
    return float(row["rate"])


def _draw_running_means(rows: Rows, traffic: str) -> Figure:
    """Draw the running mean of latency at three moments, by rate and other traffic."""
    slots = {"before": BURST_SLOT - 1, "slot of the burst": BURST_SLOT, "end of the run": -1}
    samples: dict[tuple[str, str], list[float]] = {}
    by_rate = sorted(rows, key=_rate_of)
    for row in sorted(by_rate, key=_background_of):
        group = f"{row['rate']:.0f}/s"
        if row["others"]:
            group += f", {row['others']}"
        for moment, slot in slots.items():
            samples.setdefault((moment, group), []).append(row["latency_slots_us"][slot])
    return draw_bars(f"Running mean of latency, {traffic}", samples, y="latency (us)")


def _background_of(row: Row) -> str:
    return str(row["others"])


def _appendix_maps(rows: Rows) -> Results:
    """Draw the packets that were received in four slots (Figures A.2 to A.4 and A.6 to A.17).

    There is a figure for each pattern of other traffic, and a row of maps for each rate. The maps
    are those of the first run.
    """
    drawn = {}
    moments = ("before", "NAC at work", "after", "as before")
    for background, numbers in APPENDIX.items():
        maps: dict[str, Sequence[Sequence[float]]] = {}
        for rate in RATES:
            runs = where(rows, others=background, rate=rate)
            if runs:
                for moment, values in zip(moments, runs[0]["maps"], strict=True):
                    maps[f"{rate:.0f}/s, {moment}"] = values
        traffic = f", {background} at 200/s beside it" if background else " alone"
        if maps:
            title = f"Packets received in a slot, tornado{traffic}"
            drawn[numbers] = draw_surfaces(title, maps, columns=4)
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac_traffic",
    title="Cost of a deadlock that NAC treats, by the rate of the ring and the traffic around it",
    deviations=(
        "The stated rates do not deadlock. The measured cost is that of ten messages per node in "
        "phase at 1.18 s, which do.",
        POISSON,
    ),
    answers="Zarza 2011, Figures 5.18-5.24: all packets are delivered, latency returns, and "
    "throughput falls by at most 0.33 %",
    measure=measure_ring,
)
