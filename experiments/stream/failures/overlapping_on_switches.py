"""Hundreds of random failures on one running network of real switches: does the redundancy that is sent follow equation
45, as corrected?

Every loaded cable of Swiss-T1 fails by itself; the more often, the more failures overlap. Each point is a minute on
switches, so that a busy machine carries some; those of one rate are judged together.
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

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
LASTS_S = 1.0
DEVIATIONS = 2.5
"""Standard deviations that a run's mean may lie from the expected one: failures are random, and a run is finite."""
MOST_IN_REGIME = 0.5
"""Failures in force on average up to which equation 45 neglects little: three and more at once."""
SHARE, LEAST = 0.02, 0.002
"""Of the redundancy that the failures of a run call for, that what is sent may be off."""


def points(quick: bool, seed: int) -> Points:
    """Rates of failure of each cable, and so many pieces of a minute of each: the lower the rate, the more (quick: two
    half minutes of one)."""
    pieces, duration_s = ({0.1: 2}, 25.0) if quick else ({0.03: 5, 0.05: 2, 0.1: 1, 0.2: 1}, 60.0)
    rates = [rate for rate, count in pieces.items() for _ in range(count)]
    return [
        {"rate_per_s": rate, "duration_s": duration_s, "seed": seed + k}
        for k, rate in enumerate(rates)
    ]


def measure(point: Row, fabric: str = "emulation") -> Results:
    """One run; a run that the machine could not keep up with is repeated once."""
    from testbed.stream.fabric import open_fabric
    from testbed.stream.prediction.expected_redundancy import expected_redundancy
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import stream_plan

    faults = PoissonFaults(rate_per_s=point["rate_per_s"], lasts_s=LASTS_S)
    settings = {"faults": faults, "duration_s": point["duration_s"], "seed": point["seed"]}
    plan = stream_plan(NETWORK, SOURCE, SINK, rate_pps=400, playback_s=1.0, hold_s=1.0, **settings)
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=1)
    costs = cost_figures(plan, session.run)
    del costs["by_cable"]
    found, campaign = campaign_row(session)
    outages = [
        outage for outage in campaign["outages"] if outage["predicted_most"] or outage["measured"]
    ]
    return {**costs, "expected": expected_redundancy(plan, faults), **found, "outages": outages}


def judge(rows: Rows) -> Verdict:
    """The runs' own verdicts, and at each rate the redundancy against the expected one and against that of the failures
    that came."""
    checks = []
    for rate, own in by_rate(rows).items():
        name = f"{rate:g} failures a cable and second"
        checks += [
            predictions_check(
                f"every prediction of the runs, {name}",
                "none: every check of a run names its own",
                own,
                f"{sum_of(own, 'failures'):.0f} failures",
            ),
            _expectation(rate, own, name),
            _given(own, name),
        ]
    return verdict_of(rows, checks)


def by_rate(rows: Rows) -> dict[float, list[Row]]:
    """Rate -> its pieces, which are of equal length."""
    return dict(sorted(grouped(rows, "rate_per_s").items()))


def _mean(rows: Rows, key: str) -> float:
    """Of a figure, or of an expected one, over the pieces."""
    return mean_of(rows, key) if key in rows[0] else expected_mean(rows, key)


def _expectation(rate: float, rows: Rows, name: str) -> Check:
    """Against the mean of all states, in its own regime against equation 45; the rival is that of single failures
    alone."""
    inside = rate * LASTS_S * rows[0]["expected"]["cables"] <= MOST_IN_REGIME
    return (
        Claim(
            f"redundancy sent over the runs, {name}: {'equation 45 as corrected' if inside else 'all states'}"
        )
        .equal(
            _mean(rows, "equation_45" if inside else "mean"),
            _mean(rows, "redundancy"),
            DEVIATIONS * chance_spread(rows),
        )
        .plus_minus(1.96 * chance_spread(rows))
        .against(_mean(rows, "singles_only"), "single failures alone")
        .noting(
            f"equation 45 as corrected {_mean(rows, 'equation_45'):.3f}, "
            f"all states {_mean(rows, 'mean'):.3f}; tolerance: "
            f"{DEVIATIONS:g} standard deviations of chance; beyond reach {sum_of(rows, 'beyond_s'):.1f} s"
        )
    )


def _given(rows: Rows, name: str) -> Check:
    """Against what the failures that came call for; the rival answers only while one cable is broken."""
    alone = sum(
        one["predicted"] * one["time_s"] / row["block_packets"] / row["duration_s"]
        for row in rows
        for one in row["by_down"]
        if one["name"] == "1"
    )
    packets = sum(row["rest_pps"] * row["duration_s"] for row in rows)
    states = _mean(rows, "redundancy_states")
    return (
        Claim(f"redundancy sent for the failures that came, {name}")
        .equal(states, _mean(rows, "redundancy"), max(LEAST, SHARE * states))
        .against(alone / len(rows), "only what the times with one cable broken call for")
        .noting(
            f"{sum_of(rows, 'failures'):.0f} failures, up to {max(row['most_at_once'] for row in rows)} at once, "
            f"{sum_of(rows, 'overlapping_s'):.1f} s of overlap; the transient beside it: "
            f"{(sum_of(rows, 'before') + sum_of(rows, 'after')) / packets:.3f}"
        )
    )


def figures(rows: Rows) -> Figures:
    """Redundancy over the rate of failures."""
    words = {
        "mean": f"expected, any number of failures at once, ± {DEVIATIONS:g} standard deviations",
        "equation_45": "equation 45, corrected (one or two at once)",
        "singles_only": "single failures only",
        "redundancy_states": "predicted from these failures",
        "redundancy": "packets sent",
    }
    samples = {
        (said, rate): (_mean(own, key), DEVIATIONS * chance_spread(own) if key == "mean" else 0.0)
        for key, said in words.items()
        for rate, own in by_rate(rows).items()
    }
    title = f"{NETWORK}, {SOURCE} to {SINK}: {sum_of(rows, 'failures')} failures"
    x, y = (
        "failures of each cable, 1/s (each lasts 1 s)",
        "redundancy, packets beyond rest over those of rest",
    )
    return {"redundancy": draw_lines(title, samples, x=x, y=y)}


STUDY = Study.of_module(
    __name__,
    name="fault_campaign",
    title="Hundreds of overlapping failures on running switches",
    answers="Gabrielyan 2007, appendix G: packets sent against eq. 45 as corrected where overlaps are rare, against "
    "all states where they are not; rival: single failures alone",
    emulation=True,
    deviations=(
        "N is the exact worst window of stratified labels; several failures lose the union of their labels.",
        "Times in which no block size helps, or no report gets back, count for nothing on both sides.",
    ),
)
