"""What does a deadlock that NAC treats cost, by load and by other traffic (Zarza 2011, 5.5.2-5.5.3, Figures 5.18-5.24,
A.1-A.17)?

Tornado in one row at 400, 500, 600 packets/s with a burst in phase at 1.18 s, alone and next to four patterns at 200/s.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.interconnect.figures import draw_surfaces, maps_around_burst
from experiments.interconnect.runs import measure_ring
from experiments.interconnect.samples import COUNTED, at_most
from experiments.interconnect.study_points import (
    BURST_AT_S,
    BURST_MESSAGES,
    POISSON,
    SLOT_S,
    ring_point,
    seeds_of,
)
from testbed.model.studies import Check, Claim, Verdict, grouped, half_width, spread, sum_of
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.report.drawing.charts import Figure, Mark, draw_bars

RATES = (400.0, 500.0, 600.0)
STEPS = ((400.0, 500.0, 1.12), (500.0, 600.0, 1.08))
"""Two rates, and how much more latency a deadlock costs at the second, as the document says."""
OTHERS = ("bit-reversal", "butterfly", "shuffle", "transpose")
APPENDIX = {
    "": "A.2-A.4", "bit-reversal": "A.6-A.8", "butterfly": "A.9-A.11", "transpose": "A.12-A.14", "shuffle": "A.15-A.17",
}  # fmt: skip
"""The document's figures of surface maps by the traffic next to the tornado, each at three rates."""


def points(quick: bool, seed: int) -> Points:
    """Rates by patterns in the rest of the torus (none, and four), all with NAC."""
    seeds = seeds_of(seed, quick, few=1)
    return [
        ring_point(
            "burst", rate, s, seconds=2.0, deadlock="nac", burst=BURST_MESSAGES, others=others
        )
        for s in seeds
        for rate in RATES
        for others in (("", "bit-reversal") if quick else ("", *OTHERS))
    ]


def judge(rows: Rows) -> Verdict:
    """All delivered by moves of NAC; latency back afterwards; throughput over the run hardly touched."""
    lost = max(abs(100.0 * (1 - r["received"] / r["sent"])) for r in rows)
    worst = max(rows, key=lambda r: abs(r["latency_after_us"] / r["latency_before_us"] - 1))
    drift = 100.0 * abs(worst["latency_after_us"] / worst["latency_before_us"] - 1)
    throughput = max(r["throughput_dip_percent"] for r in rows)
    name = "every packet is delivered, and NAC moved packets in every run (% lost)"
    delivered = (
        Claim(name)
        .count(0.0, lost, COUNTED)
        .noting(f"{len(rows)} runs, {sum_of(rows, 'nac_moves')} moves")
    )
    rise = "rise of the running mean over the latency before, tornado alone, the highest rate (%)"
    checks = (
        replace(
            delivered,
            passed=delivered.passed
            and all(r["nac_moves"] > 0 and not r["deadlocked"] for r in rows),
        ),
        Claim(
            "latency of the slots after the treatment against that of before, the worst run (% apart)"
        )
        .equal(0.0, drift, 2.0)
        .against(
            min(100.0 * r["rise_us"] / r["latency_before_us"] for r in rows),
            "it stays as in the slot of the burst, the least of all runs",
        )
        .noting(f"{worst['rate']:.0f}/s, {worst['others'] or 'no other traffic'}"),
        Claim("packets of the run that are late while NAC treats the deadlock, the worst run (%)")
        .at_most(0.33, throughput)
        .cites("0.33 % of throughput at most (Figure 5.20)")
        .against(
            100.0 * (1 - BURST_AT_S / worst["seconds"]),
            "the deadlock stays, and so do all packets after it",
        ),
        *(_steeper(rows, low, high, by) for low, high, by in STEPS),
        at_most(rise, 50.0, list(map(_rise_percent, where(rows, rate=RATES[-1], others=""))))
        .cites("an increase of 50 % (5.5.2)")
        .against(100.0 * 10.22 / 8.7, "10.22 us (section 5.5.1) over the 8.7 us of an empty ring"),
    )
    return Verdict.of(checks)


def _rise_percent(row: Row) -> float:
    """Rise of the running mean of latency in the slot of the burst over the latency before it."""
    return float(100.0 * row["rise_us"] / row["latency_before_us"])


def _steeper(rows: Rows, low: float, high: float, by: float) -> Check:
    """Whether the burst costs more latency at the higher rate, by what the document says."""
    below, above = (
        [row["rise_us"] for row in where(rows, rate=rate, others="")] for rate in (low, high)
    )
    ratio = spread(above)[0] / spread(below)[0]
    apart = (
        math.hypot(half_width(above) / spread(above)[0], half_width(below) / spread(below)[0])
        * ratio
    )
    return (
        Claim(f"rise of latency at {high:.0f} packets/s over that at {low:.0f}")
        .equal(by, (ratio, apart if len(below) > 1 else None), 0.03)
        .cites(f"about {100 * (by - 1):.0f} % higher (5.5.2, Figure 5.18)")
        .against(1.0, "the rate does not matter")
        .noting(f"{len(below)} runs each; the burst is ours, and as large at every rate")
    )


def figures(rows: Rows) -> Figures:
    """5.18-5.23: latency and throughput degradation by rate and pattern; 5.24: surface maps with bit reversal;
    A.1-A.17."""

    def bars(
        title: str, value: Callable[[Row], float], y: str, claim: Mark | None = None
    ) -> Figure:
        samples = grouped(
            sorted(rows, key=lambda row: row["rate"]),
            lambda row: (row["others"] or "tornado alone", f"{row['rate']:.0f} packets/s"),
            value,
        )
        return draw_bars(title, samples, y=y, claim=claim)

    shown = where(rows, others="bit-reversal", rate=500.0)[0]
    late = "Throughput not delivered while NAC treats the deadlock"
    running, latency = "Running mean of latency", "latency (us)"
    return {
        "5.18-5.21": bars(
            f"Rise of the {running.lower()} in the slot of the burst",
            lambda r: r["rise_us"],
            latency,
        ),
        "5.19-5.22": bars("The same, relative to before", _rise_percent, "latency (%)"),
        "5.20-5.23": bars(
            late,
            lambda r: r["throughput_dip_percent"],
            "packets of the run (%)",
            (0.33, "claim: at most 0.33 %"),
        ),
        "5.24": draw_surfaces(
            "Packets received, tornado at 500/s and bit reversal at 200/s", maps_around_burst(shown)
        ),
        "A.1": draw_bars(f"{running}, tornado alone", _running(rows, alone=True), y=latency),
        "A.5": draw_bars(
            f"{running}, other traffic beside", _running(rows, alone=False), y=latency
        ),
        **_appendix_maps(rows),
    }


def _running(rows: Rows, *, alone: bool) -> dict[tuple[str, str], list[float]]:
    """Running means of latency by moment (before the burst, in its slot, at the end) and rate, or rate and other
    traffic."""
    found: dict[tuple[str, str], list[float]] = {}
    burst = int(BURST_AT_S / SLOT_S + 1e-6)
    for row in sorted(rows, key=lambda row: (row["others"], row["rate"])):
        if alone == (row["others"] == ""):
            group = f"{row['rate']:.0f}/s" + ("" if alone else f", {row['others']}")
            for moment, slot in (
                ("before", burst - 1),
                ("slot of the burst", burst),
                ("end of the run", -1),
            ):
                found.setdefault((moment, group), []).append(row["latency_slots_us"][slot])
    return found


def _appendix_maps(rows: Rows) -> Results:
    """A.2 to A.4, and A.6 to A.17: packets received in four slots, a row a rate, of the first run of each; a figure by
    other traffic."""
    drawn = {}
    slots = ("before", "NAC at work", "after", "as before")
    for others, numbers in APPENDIX.items():
        maps: dict[str, Sequence[Sequence[float]]] = {}
        for rate in RATES:
            for row in where(rows, others=others, rate=rate)[:1]:
                maps |= {
                    f"{rate:.0f}/s, {slot}": values
                    for slot, values in zip(slots, row["maps"], strict=True)
                }
        if maps:
            comparison = f", {others} at 200/s beside it" if others else " alone"
            drawn[numbers] = draw_surfaces(
                f"Packets received in a slot, tornado{comparison}", maps, columns=4
            )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_nac_traffic",
    title="What a deadlock that NAC treats costs, by the rate of the ring and by the traffic around it",
    deviations=(
        "The stated rates do not deadlock; the cost is that of ten messages a node in phase at 1.18 s, which do.",
        f"{POISSON}.",
    ),
    answers="Zarza 2011, Figures 5.18-5.24: all delivered, latency back as before, throughput down by at most 0.33 %",
    measure=measure_ring,
)
