"""Streams whose cables fail at random (Poisson processes), and the results of their runs.

The studies of failures in time share this module.
"""

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

# Limit on the failures of one run, above that of any study.
MAX_FAILURES = 50_000


def failing_plan(
    point: Row, stream: StreamParameters | None = None
) -> tuple[StreamPlan, PoissonFaults]:
    """Return a stream with random failures. The same point has the same failures.

    Args:
        point: The network, source, sink and seed; ``failures_an_hour`` of all loaded cables
            together; the duration of each failure (``lasts_s``) and of the stream
            (``duration_s``); and possibly ``layers`` (0: all).
        stream: The stream. None: 100 packets per second, with small symbols, because the simulator
            transfers their content too.

    Returns:
        The plan, and the failures as a Poisson process.
    """
    if stream is None:
        stream = StreamParameters(rate_pps=SIMULATED_PPS, playback_s=PLAYBACK_S, symbol_bytes=16)
    settings = {
        **vars(stream),
        "layers": point.get("layers") or None,
        "faults": (),
        "seed": point["seed"],
    }
    plan = stream_plan(point["network"], point["source"], point["sink"], **settings)
    rate_per_s = point["failures_an_hour"] / 3600 / len(loaded_cables(plan))
    faults = PoissonFaults(rate_per_s=rate_per_s, lasts_s=point["lasts_s"], most=MAX_FAILURES)
    plan = replace(plan, duration_s=point["duration_s"])
    return replace(plan, faults=random_faults(plan, faults)), faults


def cost_figures(plan: StreamPlan, run: StreamMeasurements) -> Results:
    """Return the costs of a run's failures.

    Returns:
        The results of ``failure_costs``; ``rest_pps``, the packet rate in the steady state (P); and
        ``estimates``, how often the sender estimated a loss rate without a diagnosis.
    """
    costs = failure_costs(RunFacts(plan, run))
    rest_pps = costs["block_packets"] * plan.stream.rate_pps / plan.stream.source_packets
    estimates = 0
    for event in run.counters.get(DIAGNOSES, ()):
        if event["speaker"] == "estimate":
            estimates += 1
    return {**costs, "rest_pps": rest_pps, "estimates": estimates}


def campaign_row(session: StreamJudgement) -> tuple[Results, Results]:
    """Compare which packets of a run arrived with the predictions, packet by packet.

    Returns:
        The results that a row contains, and all results.

    Raises:
        ValueError: No failures overlapped and no nodes moved, so that no packet was compared.
    """
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


def predictions_check(name: str, why: str, rows: Rows, remark: str) -> Check:
    """Check that the runs passed all checks of their verdicts.

    Args:
        name: Name of the check.
        why: Why there is no rival.
        rows: The rows of the runs.
        remark: A remark that the report shows.
    """
    failed = []
    for row in rows:
        failed += row["failed"]
    packets = sum_of(rows, "packets")
    detail = f"{sum_of(rows, 'wrong_packets'):.0f} of {packets:.0f} packets fared otherwise"
    detail += f"; {remark}"
    if failed:
        detail += f"; failed: {', '.join(failed)}"
    return Claim(name).count(0, len(failed), why).noting(detail).of(packets + len(failed))


def expected_mean(rows: Rows, key: str) -> float:
    """Return the mean over the rows of a result (``key``) of ``expected_redundancy``."""
    return mean_of([row["expected"] for row in rows], key)


def chance_spread(rows: Rows) -> float:
    """Return the standard deviation of the rows' mean redundancy due to random failures."""
    variances = [row["expected"]["spread"] ** 2 for row in rows]
    return math.sqrt(sum(variances)) / len(rows)
