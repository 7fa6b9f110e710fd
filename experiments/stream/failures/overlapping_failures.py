"""Equation 45 (Gabrielyan 2007, as corrected) in its own regime: overlaps that are rare but matter, on packets of many
hours.

Failures of Swiss-T1's and the optical cloud's cables are random; the mean redundancy that the sender adds is held
against the states of one and two broken cables (equation 45), and against its rival, single failures alone. Where three
and more at once are no longer rare, equation 45 is the rival, and all states are the prediction.
"""

import math
from dataclasses import asdict

from experiments.stream.failures.failing_streams import simulated_figures
from experiments.stream.failures.failure_cost import settled_check
from experiments.stream.networks import NETWORKS, points_over
from testbed.model.studies.samples import grouped, sum_of
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import ORANGE, panels, ticks
from testbed.stream.prediction.expected_redundancy import expected_redundancy

LASTS_S, HOUR_S = 3.0, 3600.0
HOURS = ({0.15: 6, 0.4: 2, 1.0: 1}, {0.4: 2})
"""Of each network, hours by failures in force on average (N t / d): so many failures that chance leaves less open than
the rival's gap."""
MOST_IN_REGIME = 0.5
"""Failures in force on average up to which equation 45 neglects little: three and more at once."""
DEVIATIONS = 2.5
SHARE = 0.02


def points(quick: bool, seed: int) -> Points:
    """One hour each (quick: half an hour at one rate, on one network)."""
    fixed = {"lasts_s": LASTS_S, "duration_s": HOUR_S / 2 if quick else HOUR_S}
    return [
        point
        | {"failures_an_hour": round(in_force * HOUR_S / LASTS_S, 6), "seed": seed + 1000 * number + point["hour"]}
        for one, hours in zip(NETWORKS, ({0.4: 1},) if quick else HOURS, strict=False)
        for number, (in_force, count) in enumerate(hours.items())
        for point in points_over([one.ends], in_force=in_force, hour=range(count), **fixed)
    ]


def measure(point: Row) -> Results:
    """One hour in virtual time, and what was to be expected before any failure."""
    plan, faults, found = simulated_figures(point)
    del found["by_cable"]
    return {**found, "expected": asdict(expected_redundancy(plan, faults))}


def judge(rows: Rows) -> Verdict:
    """Each network and rate: redundancy against the expectation, and against that of the failures that came."""
    each = grouped(rows, ("network", "in_force")).values()
    checks = [check for own in each for check in (_expectation(own), _given(own))]
    return Verdict.of([*checks, settled_check(rows).of(sum_of(rows, "blocks"))])


def pooled(rows: Rows) -> dict[str, float]:
    """Means over hours of one network and rate; ``deviation``: of the measured mean, by chance."""
    count = len(rows)
    found = {key: sum(row["expected"][key] for row in rows) / count for key in ("singles_only", "equation_45", "mean")}
    found |= {"measured": sum_of(rows, "redundancy") / count, "states": sum_of(rows, "redundancy_states") / count}
    found["each_alone"] = sum(row["formula"] / row["rest_pps"] / row["duration_s"] for row in rows) / count
    found["all"] = sum(row["total"] / row["block_packets"] / row["blocks"] for row in rows) / count
    found["deviation"] = math.sqrt(sum(row["expected"]["spread"] ** 2 for row in rows)) / count
    return found


def _expectation(rows: Rows) -> Check:
    row, means = rows[0], pooled(rows)
    inside = row["in_force"] <= MOST_IN_REGIME
    own, other = ("equation_45", "singles_only") if inside else ("mean", "equation_45")
    words = "equation 45 as corrected" if inside else "all states"
    return (
        Claim(f"mean redundancy, {row['in_force']:g} failures in force, {row['network']}: {words}")
        .equal(means[own], means["measured"], DEVIATIONS * means["deviation"])
        .plus_minus(1.96 * means["deviation"])
        .against(means[other], "single failures alone" if inside else "equation 45, which ends at two at once")
        .noting(
            f"{sum_of(rows, 'failures')} failures in {len(rows)} hours; all states {means['mean']:.4f}; "
            f"tolerance: {DEVIATIONS:g} standard deviations of chance; transient beside it: "
            f"{means['all'] - means['measured']:.4f}"
        )
    )


def _given(rows: Rows) -> Check:
    row, means = rows[0], pooled(rows)
    return (
        Claim(f"redundancy for the failures that came, {row['in_force']:g} in force, {row['network']}")
        .equal(means["states"], means["measured"], SHARE * means["states"])
        .against(means["each_alone"], "each failure costs as if alone, overlaps add up")
        .noting(f"{sum_of(rows, 'overlapping_s'):.0f} s of overlap")
    )


def figures(rows: Rows) -> Figures:
    """Redundancy over failures in force, relative to single failures alone."""
    networks = grouped(rows, "network")
    figure, every = panels(5.5 * len(networks), 4.6, columns=len(networks))
    for axes, (network, own) in zip(every, networks.items(), strict=True):
        of_rate = dict(sorted(grouped(own, "in_force").items()))
        rates, means = list(of_rate), [pooled(some) for some in of_rate.values()]
        mean, corrected, measured, deviation = (
            [one[key] / one["singles_only"] for one in means]
            for key in ("mean", "equation_45", "measured", "deviation")
        )
        axes.plot(rates, mean, "k_-", label="all states", markersize=9)
        axes.plot(rates, corrected, "C0x--", label="equation 45, corrected", markersize=9)
        axes.axhline(1, color=ORANGE, linestyle=":", label="single failures alone")
        bars, words = [1.96 * half for half in deviation], "measured, 95 % of chance"
        axes.errorbar(rates, measured, yerr=bars, fmt="C3o", fillstyle="none", label=words)
        axes.set(xlabel="failures in force on average (N t / d)", title=network, ylim=(0, None))
        axes.set_ylabel("mean redundancy, over that of single failures")
        ticks(axes, rates)
        axes.legend()
    return {"overlaps": figure}


STUDY = Study.of_module(
    __name__,
    title="Equation 45 where overlaps are rare but matter",
    answers="Gabrielyan 2007, appendix G, eq. 45 as corrected, on packets; rival: single failures alone (eq. 46)",
    deviations=(
        "Equation 45 is weighted as corrected: u (1-u)^(N-1) for each link, u^2 (1-u)^(N-2) for each pair.",
        "N is the exact worst window of stratified labels, and what two failures lose is the union of their labels.",
        "Pairs of cables whose failure lets no loss report back count for nothing, in prediction and measurement.",
    ),
)
