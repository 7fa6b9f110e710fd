"""A stream under Poisson failures of its route's cables, and its row of figures: what the studies of failures in time
share."""

import math
from dataclasses import asdict, replace

from testbed.faults.fault import PoissonFaults
from testbed.model.studies import Check, Claim, Results, Row, Rows, mean_of, sum_of
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.failure_costs import failure_costs
from testbed.stream.judgement.streams import StreamJudgement
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import random_faults
from testbed.stream.prediction.active_faults import DIAGNOSES
from testbed.stream.prediction.expected_redundancy import loaded_cables
from testbed.stream.workload import stream_plan

PLAYBACK_S = 1.0
SIMULATED_PPS = 100.0
MOST_FAILURES = 50_000


def failing_plan(
    point: Row, stream: StreamParameters | None = None
) -> tuple[StreamPlan, PoissonFaults]:
    """``failures_an_hour``: of all loaded cables together, each of ``lasts_s``. The same point gives the same failures.

    Symbols are small where none are requested, as the simulator carries them all the same.
    """
    stream = stream or StreamParameters(
        rate_pps=SIMULATED_PPS, playback_s=PLAYBACK_S, symbol_bytes=16
    )
    settings = vars(stream) | {
        "layers": point.get("layers") or None,
        "faults": (),
        "seed": point["seed"],
    }
    plan = stream_plan(point["network"], point["source"], point["sink"], **settings)
    rate_per_s = point["failures_an_hour"] / 3600 / len(loaded_cables(plan))
    faults = PoissonFaults(rate_per_s=rate_per_s, lasts_s=point["lasts_s"], most=MOST_FAILURES)
    plan = replace(plan, duration_s=point["duration_s"])
    return replace(plan, faults=random_faults(plan, faults)), faults


def cost_figures(plan: StreamPlan, run: StreamMeasurements) -> Results:
    """``failure_costs``, how many packets a second are sent at rest (P), and how often the sender had to
    estimate."""
    costs = failure_costs(RunFacts(plan, run))
    at_rest = costs["block_packets"] * plan.stream.rate_pps / plan.stream.source_packets
    estimates = sum(event["speaker"] == "estimate" for event in run.counters.get(DIAGNOSES, ()))
    return {**costs, "rest_pps": at_rest, "estimates": estimates}


def campaign_row(session: StreamJudgement) -> tuple[Results, Results]:
    """What every packet's prediction came to in a run in which failures overlap or nodes move, in short and all of it.
    ValueError of a run in which neither did."""
    campaign = session.analysis.epochs_result
    if session.analysis.theory.faults_alone:
        raise ValueError("no failures overlapped; take a higher rate or a longer run")
    row = {
        "most_at_once": campaign.most_at_once,
        "undecodable_within_reach": campaign.undecodable_within_reach,
        "wrong_packets": campaign.wrongly_lost + campaign.wrongly_arrived,
        "packets": campaign.certain,
        "invalid": session.verdict.invalid,
        "failed": [check.name for check in session.verdict.checks if not check.passed],
    }
    return row, asdict(campaign)


def predictions_check(name: str, why: str, rows: Rows, more: str) -> Check:
    """No check of the runs' own failed; ``why`` there is no rival, ``more`` to be said."""
    failed = [name for row in rows for name in row["failed"]]
    wrong, packets = (sum_of(rows, key) for key in ("wrong_packets", "packets"))
    said = f"{wrong:.0f} of {packets:.0f} packets fared otherwise; {more}"
    said += f"; failed: {', '.join(failed)}" if failed else ""
    return Claim(name).count(0, len(failed), why).noting(said).of(packets + len(failed))


def expected_mean(rows: Rows, key: str) -> float:
    """Of what ``expected_redundancy`` said, over the rows."""
    return mean_of([row["expected"] for row in rows], key)


def chance_spread(rows: Rows) -> float:
    """Standard deviation of the mean of what is expected, by chance."""
    return math.sqrt(sum(row["expected"]["spread"] ** 2 for row in rows)) / len(rows)
