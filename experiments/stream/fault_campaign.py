"""Hundreds of random failures on one running network: does the redundancy they call for follow equation 45, as corrected?

Every loaded cable of Swiss-T1 fails by itself; the more often, the more failures overlap. Each point is a run on switches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.commands.studies.study import Study
from testbed.faults.schedules import PoissonFaults
from testbed.model.verdict import Check, Verdict
from testbed.results.study_store import Row
from testbed.stream.plan import StreamParameters

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
LASTS_S = 1.0
DEVIATIONS = 4.0
"""Standard deviations that a run's mean may lie from the expected one: failures are random, and a run is finite."""


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Rates of failure of each cable; some 250 failures in all (quick: 20)."""
    rates, duration = ((0.05, 0.2), 12.0) if quick else ((0.02, 0.05, 0.1, 0.2), 60.0)
    return [{"rate_per_s": rate, "duration_s": duration, "seed": seed + k} for k, rate in enumerate(rates)]


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
    expected = expected_redundancy(plan, faults)
    return {
        "faults": campaign.faults,
        "most_at_once": campaign.most_at_once,
        "overlapping_share": campaign.overlapping_s / max(campaign.failing_s, 1e-9),
        "cables": expected.cables,
        "unavailability": expected.unavailability,
        "singles_only": expected.singles_only,
        "equation_45": expected.equation_45,
        "expected": expected.mean,
        "spread": expected.spread,
        "of_these_failures": campaign.redundancy_predicted,
        "measured": campaign.redundancy_measured,
        "sender": campaign.sender_redundancy,
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
    """Each run's own verdict, and its redundancy against the expected one."""
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
                detail=f"{row['faults']} failures, {row['wrong_packets']} of {row['packets']} packets fared otherwise"
                + (f"; failed: {', '.join(row['failed'])}" if row["failed"] else ""),
            )
        )
        slack = DEVIATIONS * row["spread"] + 0.01
        checks.append(
            Check.equal(
                f"redundancy called for, {name}",
                row["expected"],
                row["measured"],
                tolerance=slack,
                detail=f"equation 45 as corrected (at most two failures at once): {row['equation_45']:.3f}; single failures "
                f"alone: {row['singles_only']:.3f}",
            )
        )
    reasons = [row["invalid"] for row in rows if row["invalid"]]
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Redundancy over the rate of failures."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    rates = [row["rate_per_s"] for row in rows]
    low, high = ([row["expected"] + sign * DEVIATIONS * row["spread"] for row in rows] for sign in (-1, 1))
    axes.fill_between(rates, low, high, color="0.88", label="expected, ± 4 standard deviations")
    for key, style, words in (
        ("expected", "k-", "expected, any number of failures at once"),
        ("equation_45", "C0--", "equation 45, corrected (one or two at once)"),
        ("singles_only", "C1:", "single failures only"),
        ("of_these_failures", "C2x", "predicted from these failures"),
        ("measured", "C3o", "measured"),
    ):
        axes.plot(rates, [row[key] for row in rows], style, label=words, fillstyle="none", markersize=8)
    axes.set_xlabel("failures of each cable, 1/s (each lasts 1 s)")
    axes.set_ylabel("redundancy called for, N / FEC$_t$ - 1, mean over time")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    axes.set_title(f"{NETWORK}, {SOURCE} to {SINK}: {sum(row['faults'] for row in rows)} failures")
    return {"redundancy": figure}


STUDY = Study.of_module(
    __name__,
    name="fault_campaign",
    does="hundreds of random failures, overlapping ones too, on one running network of real switches",
    answers="Gabrielyan 2007, appendix G: overlaps exact from the label intervals; redundancy against all states, eq. 45 as corrected beside it",
    emulation=True,
)
