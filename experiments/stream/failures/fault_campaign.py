"""Hundreds of random failures on one running network of real switches: does the redundancy that is sent follow equation 45, as corrected?

Every loaded cable of Swiss-T1 fails by itself; the more often, the more failures overlap. Each point is a run on switches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from experiments.stream.failures.failing_streams import cost_figures
from testbed.commands.studies.study import Study
from testbed.faults.schedules import PoissonFaults
from testbed.model.verdict import Check, Verdict
from testbed.results.study_store import Row
from testbed.stream.plan import StreamParameters

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
LASTS_S = 1.0
DEVIATIONS = 2.5
"""Standard deviations that a run's mean may lie from the expected one: failures are random, and a run is finite."""
MOST_IN_REGIME = 0.5
"""Failures in force on average up to which equation 45 neglects little: three and more at once."""
SHARE, LEAST = 0.02, 0.002
"""Of the redundancy that the failures of a run call for, that what is sent may be off."""


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Rates of failure of each cable; the lower the rate, the longer the run: some hundred failures in each (quick: forty in two)."""
    runs = ((0.05, 25.0), (0.1, 12.0)) if quick else ((0.03, 280.0), (0.05, 120.0), (0.1, 80.0), (0.2, 60.0))
    return [{"rate_per_s": rate, "duration_s": lasts, "seed": seed + k} for k, (rate, lasts) in enumerate(runs)]


def measure(point: Mapping[str, Any], fabric: str = "emulation") -> dict[str, Any]:
    """One run; a run that the machine could not keep up with is repeated once."""
    from testbed.stream.prediction.expected_redundancy import expected_redundancy
    from testbed.stream.session import SessionRequest, open_fabric, plan_session, run_session

    faults = PoissonFaults(rate_per_s=point["rate_per_s"], lasts_s=LASTS_S)
    request = SessionRequest(
        network=NETWORK,
        source=SOURCE,
        sink=SINK,
        stream=StreamParameters(rate_pps=400, playback_s=1.0, hold_s=1.0),
        faults=faults,
        duration_s=point["duration_s"],
        seed=point["seed"],
    )
    plan, route = plan_session(request)
    session = run_session(plan, route, open_fabric(fabric), repeats_if_invalid=1)
    campaign = session.analysis.campaign
    if campaign is None:  # so few failures that none overlapped
        raise ValueError(
            f"no failures overlapped at {point['rate_per_s']} a second; take a higher rate or a longer run"
        )
    costs = cost_figures(plan, session.run)
    del costs["by_cable"]
    return {
        **costs,
        "expected": asdict(expected_redundancy(plan, faults)),
        "most_at_once": campaign.most_at_once,
        "packets": campaign.certain,
        "wrong_packets": campaign.wrongly_lost + campaign.wrongly_arrived,
        "undecodable_within_reach": campaign.undecodable_within_reach,
        "outages": [
            outage for outage in campaign.to_json()["outages"] if outage["predicted_most"] or outage["measured"]
        ],
        "invalid": session.verdict.invalid,
        "failed": [check.name for check in session.verdict.checks if not check.passed],
    }


def judge(rows: Sequence[Row]) -> Verdict:
    """Each run's own verdict, and its redundancy against the expected one and against that of the failures that came."""
    checks = []
    for row in rows:
        name = f"{row['rate_per_s']:g} failures a cable and second"
        checks.append(
            Check(
                name=f"every prediction of the run, {name}",
                predicted=0,
                measured=len(row["failed"]),
                tolerance=0,
                passed=not row["failed"],
                detail=f"{row['failures']} failures, {row['wrong_packets']} of {row['packets']} packets fared otherwise"
                + (f"; failed: {', '.join(row['failed'])}" if row["failed"] else ""),
            )
        )
        checks += [_expectation(row, name), _given(row, name)]
    reasons = [row["invalid"] for row in rows if row["invalid"]]
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None)


def _expectation(row: Row, name: str) -> Check:
    """Against the mean of all states, in its own regime against equation 45; the rival is that of single failures alone."""
    expected = row["expected"]
    inside = row["rate_per_s"] * LASTS_S * expected["cables"] <= MOST_IN_REGIME
    return Check.equal(
        f"redundancy sent over the run, {name}: {'equation 45 as corrected' if inside else 'all states'}",
        expected["equation_45"] if inside else expected["mean"],
        row["redundancy"],
        tolerance=DEVIATIONS * expected["spread"],
        uncertainty=1.96 * expected["spread"],
        rival=expected["singles_only"],
        rival_is="single failures alone",
        detail=f"equation 45 as corrected {expected['equation_45']:.3f}, all states {expected['mean']:.3f}; tolerance: "
        f"{DEVIATIONS:g} standard deviations of chance; beyond reach {row['beyond_s']:.1f} s",
    )


def _given(row: Row, name: str) -> Check:
    """Against what the failures that came call for; the rival adds them up as if each were alone."""
    return Check.equal(
        f"redundancy sent for the failures that came, {name}",
        row["redundancy_states"],
        row["redundancy"],
        tolerance=max(LEAST, SHARE * row["redundancy_states"]),
        rival=row["formula"] / row["rest_pps"] / row["duration_s"],
        rival_is="each failure costs as if alone, overlaps add up",
        detail=f"{row['failures']} failures, up to {row['most_at_once']} at once, {row['overlapping_s']:.1f} s of overlap; the "
        f"transient beside it: {(row['before'] + row['after']) / row['rest_pps'] / row['duration_s']:.3f}",
    )


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Redundancy over the rate of failures."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    rates = [row["rate_per_s"] for row in rows]
    low, high = (
        [row["expected"]["mean"] + sign * DEVIATIONS * row["expected"]["spread"] for row in rows] for sign in (-1, 1)
    )
    axes.fill_between(rates, low, high, color="0.88", label=f"expected, ± {DEVIATIONS:g} standard deviations")
    for key, style, words in (
        ("mean", "k-", "expected, any number of failures at once"),
        ("equation_45", "C0--", "equation 45, corrected (one or two at once)"),
        ("singles_only", "C1:", "single failures only"),
    ):
        axes.plot(rates, [row["expected"][key] for row in rows], style, label=words)
    for key, style, words in (
        ("redundancy_states", "C2x", "predicted from these failures"),
        ("redundancy", "C3o", "packets sent"),
    ):
        axes.plot(rates, [row[key] for row in rows], style, label=words, fillstyle="none", markersize=8)
    axes.set_xlabel("failures of each cable, 1/s (each lasts 1 s)")
    axes.set_ylabel("redundancy, packets beyond rest over those of rest")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes.set_title(f"{NETWORK}, {SOURCE} to {SINK}: {sum(row['failures'] for row in rows)} failures")
    return {"redundancy": figure}


STUDY = Study.of_module(
    __name__,
    name="fault_campaign",
    title="Hundreds of overlapping failures on running switches",
    does="hundreds of random failures, overlapping ones too, on one running network of real switches",
    answers="Gabrielyan 2007, appendix G: packets sent against eq. 45 as corrected where overlaps are rare, against all states where they "
    "are not; rival: single failures alone",
    emulation=True,
    deviations=(
        "N is the exact worst window of stratified labels, and what several failures lose is the union of their labels.",
        "Times in which no block size helps, or no loss report gets back, count for nothing in prediction and measurement.",
    ),
)
