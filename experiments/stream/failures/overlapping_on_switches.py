"""Fails the cables of one network at random on real switches, and compares redundancy with eq. 45.

An error of the document in equation 45 is corrected. Every loaded cable of Swiss-T1 fails
independently; at higher rates more failures overlap. Each point takes only a minute, so that some
points succeed on a busy machine. The points of one rate are judged together.
"""

from experiments.stream.failures.failing_streams import (
    campaign_row,
    chance_spread,
    cost_figures,
    expected_mean,
    predictions_check,
)
from testbed.faults.fault import PoissonFaults
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    mean_of,
    sum_of,
    verdict_of,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_lines

NETWORK = "swiss-t1"
SOURCE = "s1"
SINK = "s6"

# Duration of each failure.
FAILURE_S = 1.0

# Standard deviations by which a run's mean may differ from the expected one. Failures are random,
# and a run is finite.
DEVIATIONS = 2.5

# Mean number of active failures up to which equation 45 neglects little (three and more at once).
MAX_ACTIVE_OF_EQUATION_45 = 0.5

# Largest accepted difference of the redundancy that is sent from that which a run's failures need:
# a fraction of it, and the smallest tolerance.
RELATIVE_TOLERANCE = 0.02
MIN_TOLERANCE = 0.002

Z95 = 1.96

# Failures per second of each cable, and the number of runs. Lower rates have more runs.
RUNS = {0.03: 5, 0.05: 2, 0.1: 1, 0.2: 1}
QUICK_RUNS = {0.1: 2}

# Fields that are drawn, and their labels.
LABELS = {
    "mean": f"expected, any number of failures at once, ± {DEVIATIONS:g} standard deviations",
    "equation_45": "equation 45, corrected (one or two at once)",
    "singles_only": "single failures only",
    "redundancy_states": "predicted from these failures",
    "redundancy": "packets sent",
}


def points(quick: bool, seed: int) -> Points:
    """Return the runs of each failure rate (``quick``: two short runs of one rate)."""
    runs = QUICK_RUNS if quick else RUNS
    result: Points = []
    for rate_per_s, count in runs.items():
        for _ in range(count):
            result.append(
                {
                    "rate_per_s": rate_per_s,
                    "duration_s": 25.0 if quick else 60.0,
                    "seed": seed + len(result),
                }
            )
    return result


def measure(point: Row, fabric: str = "emulation") -> Results:
    """Measure one run; repeat it once if the machine could not keep up."""
    from testbed.stream.fabric import open_fabric
    from testbed.stream.prediction.expected_redundancy import expected_redundancy
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import stream_plan

    faults = PoissonFaults(rate_per_s=point["rate_per_s"], lasts_s=FAILURE_S)
    plan = stream_plan(
        NETWORK,
        SOURCE,
        SINK,
        rate_pps=400,
        playback_s=1.0,
        hold_s=1.0,
        faults=faults,
        duration_s=point["duration_s"],
        seed=point["seed"],
    )
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=1)
    costs = cost_figures(plan, session.run)
    del costs["by_cable"]
    campaign_figures, campaign = campaign_row(session)
    outages = []
    for outage in campaign["outages"]:
        if outage["predicted_most"] or outage["measured"]:
            outages.append(outage)
    return {
        **costs,
        "expected": expected_redundancy(plan, faults),
        **campaign_figures,
        "outages": outages,
    }


def judge(rows: Rows) -> Verdict:
    """Check the runs' own verdicts, and their redundancy at each failure rate.

    Redundancy is compared with the expected one, and with what the failures that happened need.
    """
    checks = []
    for rate_per_s, runs in by_rate(rows).items():
        name = f"{rate_per_s:g} failures a cable and second"
        checks += [
            predictions_check(
                f"every prediction of the runs, {name}",
                "none: every check of a run names its own",
                runs,
                f"{sum_of(runs, 'failures'):.0f} failures",
            ),
            _check_expected(rate_per_s, runs, name),
            _check_actual_failures(runs, name),
        ]
    return verdict_of(rows, checks)


def by_rate(rows: Rows) -> dict[float, list[Row]]:
    """Return the runs of each failure rate, which have the same duration."""
    return dict(sorted(grouped(rows, "rate_per_s").items()))


def _mean(rows: Rows, key: str) -> float:
    """Return the mean of a measured result (``key``) over the runs, or of an expected result."""
    return mean_of(rows, key) if key in rows[0] else expected_mean(rows, key)


def _check_expected(rate_per_s: float, rows: Rows, name: str) -> Check:
    """Check redundancy against equation 45, or against all states if failures overlap often.

    The rival is that of single failures alone.

    Args:
        rate_per_s: Failures per second of each cable.
        rows: The runs.
        name: Description of the rate.
    """
    active = rate_per_s * FAILURE_S * rows[0]["expected"]["cables"]
    key = "mean"
    theory = "all states"
    if active <= MAX_ACTIVE_OF_EQUATION_45:
        key = "equation_45"
        theory = "equation 45 as corrected"
    spread = chance_spread(rows)
    return (
        Claim(f"redundancy sent over the runs, {name}: {theory}")
        .equal(_mean(rows, key), _mean(rows, "redundancy"), DEVIATIONS * spread)
        .plus_minus(Z95 * spread)
        .against(_mean(rows, "singles_only"), "single failures alone")
        .noting(
            f"equation 45 as corrected {_mean(rows, 'equation_45'):.3f}, "
            f"all states {_mean(rows, 'mean'):.3f}; tolerance: "
            f"{DEVIATIONS:g} standard deviations of chance; "
            f"beyond reach {sum_of(rows, 'beyond_s'):.1f} s"
        )
    )


def _check_actual_failures(rows: Rows, name: str) -> Check:
    """Check redundancy against what the failures that happened need.

    The rival answers only while one cable is broken.
    """
    states = _mean(rows, "redundancy_states")
    packets = sum(row["rest_pps"] * row["duration_s"] for row in rows)
    transient = (sum_of(rows, "before") + sum_of(rows, "after")) / packets
    max_at_once = max(row["most_at_once"] for row in rows)
    return (
        Claim(f"redundancy sent for the failures that came, {name}")
        .equal(states, _mean(rows, "redundancy"), max(MIN_TOLERANCE, RELATIVE_TOLERANCE * states))
        .against(_redundancy_for_one(rows), "only what the times with one cable broken call for")
        .noting(
            f"{sum_of(rows, 'failures'):.0f} failures, up to {max_at_once} at once, "
            f"{sum_of(rows, 'overlapping_s'):.1f} s of overlap; "
            f"the transient beside it: {transient:.3f}"
        )
    )


def _redundancy_for_one(rows: Rows) -> float:
    """Return the redundancy that is needed while exactly one cable is broken."""
    redundancies: list[float] = []
    for row in rows:
        for state in row["by_down"]:
            if state["name"] == "1":
                packets = state["predicted"] * state["time_s"]
                redundancies.append(packets / row["block_packets"] / row["duration_s"])
    return sum(redundancies) / len(rows)


def figures(rows: Rows) -> Figures:
    """Draw redundancy by failure rate."""
    samples = {}
    for key, label in LABELS.items():
        for rate_per_s, runs in by_rate(rows).items():
            half_width = DEVIATIONS * chance_spread(runs) if key == "mean" else 0.0
            samples[label, rate_per_s] = (_mean(runs, key), half_width)
    figure = draw_lines(
        f"{NETWORK}, {SOURCE} to {SINK}: {sum_of(rows, 'failures')} failures",
        samples,
        x="failures of each cable, 1/s (each lasts 1 s)",
        y="redundancy, packets beyond rest over those of rest",
    )
    return {"redundancy": figure}


STUDY = Study.of_module(
    __name__,
    name="fault_campaign",
    title="Hundreds of overlapping failures on real switches",
    answers="Gabrielyan 2007, appendix G: "
    "packets sent against eq. 45 as corrected where overlaps are rare, "
    "against all states where they are not; rival: single failures alone",
    emulation=True,
    deviations=(
        "N is exact for the worst phase of stratified labels; "
        "several failures lose the union of their labels.",
        "Times in which no block size helps, or no loss report arrives, "
        "count as 0 in prediction and measurement.",
    ),
)
