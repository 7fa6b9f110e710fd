"""Measures the cost of rare random failures in packets, against D x P x ROR (eq. 21 and 22).

The equations are those of Gabrielyan 2007. D is the time for which one link is broken during the
communication, and P the packet rate in the steady state. The sender knows neither route nor
failure: it diagnoses what failed, answers with the exact N, and returns to the steady state. The
formula neglects the transient, which is what the sender sends before that answer and after the end
of a failure. The transient is counted separately.

The formula is no longer valid if many links are broken at the same time. This limit is computed
without packets: thousands of failures are drawn, and each state of the cables (which of them are
broken) costs the N that it needs, up to the limit of the code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.stream.failures.failing_streams import cost_figures, failing_plan
from experiments.stream.networks import NETWORKS, Ends, points_over
from testbed.model.code_description import describe_code
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    parted,
    sum_of,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Measured, Verdict
from testbed.report.drawing.charts import Figure, draw_lines, ticks
from testbed.stream.measurements import BoolArray, FloatArray
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.expected_redundancy import StateCosts
from testbed.stream.simulated import SimulatedStreamFabric

# Largest accepted relative difference of a measured cost from its prediction: that of ROR on
# packets.
RELATIVE_TOLERANCE = 0.02

# Largest accepted difference of the mean cost of one cable's failures, in packets per block.
BLOCK_TOLERANCE = 0.25

# Largest accepted relative difference of the computed cost from D x P x ROR. Also the largest
# accepted difference from 1 of the exponent with which the cost grows with a factor.
LAW_TOLERANCE = 0.05

# Largest accepted mean number of packets per block beyond N in the steady state.
REST_TOLERANCE = 0.05

Z95 = 1.96

# Mean numbers of links that are broken at the same time.
DOWN = (0.001, 0.005, 0.02, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

# Largest mean number of broken links for which the formula is claimed to be valid.
CLAIMED_DOWN = 0.02

# Mean number of broken links with which the factors of the formula are varied.
BASE_DOWN = 0.005

# The factors of the cost, and the fields of a point that grow with each.
SWEPT = {
    "rate": ("rate_pps",),
    "duration of the communication": ("failures",),
    "failure rate": ("down", "failures"),
    "failure time": ("down", "lasts_s"),
}
FACTORS = (1, 2, 4)

# Name of the points with other numbers of layers, which vary the factor ROR.
ROR_LAW = "ROR"

# Kinds of failures that the documents do not treat, and the sum that replaces ROR for them.
BEYOND = {
    "rates": "cables that fail at rates of their own: the sum over cables weighted by rate",
    "groups": "pairs of cables that fail together: the sum over pairs",
}

# Standard deviation of the logarithm of a cable's failure rate (normal distribution).
RATES_SPREAD = 1.5

# Overhead of the longest block of the code.
MAX_OVERHEAD = 255 / 20 - 1


def points(quick: bool, seed: int) -> Points:
    """Return streams at several failure rates and durations, and states of the cables.

    Each stream takes an hour in the simulator: two rates on the first network, and the higher one
    on the others. ``quick``: two quarters of an hour on the first network.
    """
    if quick:
        ends = NETWORKS[0]
        streams = _stream_points(ends, (90,), (2.0, 8.0), duration_s=900.0, seed=seed)
        return streams + law_points(quick, seed)
    result: Points = []
    failures_s = (2.0, 5.0, 10.0, 30.0)
    for ends in NETWORKS:
        failures_an_hour = (6, 24) if ends == NETWORKS[0] else (24,)
        result += _stream_points(ends, failures_an_hour, failures_s, duration_s=3600.0, seed=seed)
    return result + law_points(quick, seed)


def _stream_points(
    ends: Ends,
    failures_an_hour: Sequence[int],
    failures_s: Sequence[float],
    *,
    duration_s: float,
    seed: int,
) -> Points:
    result = points_over(
        [ends], failures_an_hour=failures_an_hour, lasts_s=failures_s, duration_s=duration_s
    )
    for number, point in enumerate(result):
        point["seed"] = seed + 100 * number
    return result


def law_points(quick: bool, seed: int) -> Points:
    """Return the points whose states of the cables are drawn.

    Every network has each mean number of broken links, and the laws of BEYOND. On the first network
    each factor of SWEPT is doubled twice, and the number of layers varies.
    """
    base: Results = {
        "failures": 20_000 if quick else 100_000,
        "down": BASE_DOWN,
        "lasts_s": 10.0,
        "rate_pps": 100.0,
        "layers": 0,
        "seed": seed,
    }
    networks = NETWORKS[:1] if quick else NETWORKS
    result: Points = []
    for ends in networks:
        for down in DOWN:
            result.append(_law_point(ends, base, {"law": "down", "down": down}))
    for law, fields in SWEPT.items():
        for factor in FACTORS:
            swept = {name: base[name] * factor for name in fields}
            result.append(_law_point(NETWORKS[0], base, {"law": law, "factor": factor, **swept}))
    for layers in (1, 2, 3):
        result.append(_law_point(NETWORKS[0], base, {"law": ROR_LAW, "layers": layers}))
    for ends in networks:
        for law in BEYOND:
            result.append(_law_point(ends, base, {"law": law}))
    return result


def _law_point(ends: Ends, base: Row, changes: Row) -> Results:
    network, source, sink = ends
    return {"network": network, "source": source, "sink": sink, **base, **changes}


def measure(point: Row) -> Results:
    """Measure one stream in the simulator, or compute the states of its cables alone."""
    if "law" in point:
        return cost_of_states(point)
    plan, _ = failing_plan(point)
    costs = StateCosts(plan)
    row = cost_figures(plan, SimulatedStreamFabric().run(plan))
    row["worst_block"] = float(np.nanmax(costs.block_sizes(costs.singles())))
    return row


def cost_of_states(point: Row) -> Results:
    """Compute the cost of random states of the cables, and D x P x ROR.

    Returns:
        - ``ror``: ROR of the route.
        - ``cost``: Packets that are sent in addition to those of the steady state, by a sender that
          knows each state at once.
        - ``predicted``, ``spread``: D x P x ROR, and its standard deviation as a compound Poisson
          process.
        - ``by_ror``: D x P x ROR if all cables failed equally often.
        - ``constant``: The cost of constant redundancy for the worst failure.
        - ``beyond``, ``capped``: The fraction of the time with broken cables in which no N is
          enough. The largest N is that of the code, or that of a usual stream.
    """
    plan, _ = failing_plan({**point, "failures_an_hour": 1.0, "duration_s": 10.0})
    costs = StateCosts(_with_longest_blocks(plan))
    units, shares = failing_units(point, len(costs.cables))
    durations_s, broken = draw_states(point, units, shares)
    broken_s = durations_s.sum()
    blocks_per_s = point["rate_pps"] / plan.stream.source_packets
    # Packets per block beyond the base.
    of_states = costs.block_sizes(broken) - costs.base
    of_cables = costs.block_sizes(costs.singles()) - costs.base
    beyond_usual = np.isnan(StateCosts(plan).block_sizes(broken))
    return {
        "ror": float(np.nansum(of_cables)) / costs.base,
        "cost": float(np.nansum(durations_s * of_states)) * blocks_per_s,
        **_predicted_costs(point, costs, units, shares, blocks_per_s),
        "constant": float(broken_s * np.nanmax(of_cables)) * blocks_per_s,
        "beyond": float(durations_s[np.isnan(of_states)].sum() / broken_s),
        "capped": float(durations_s[beyond_usual].sum() / broken_s),
    }


def _predicted_costs(
    point: Row, costs: StateCosts, units: BoolArray, shares: FloatArray, blocks_per_s: float
) -> Results:
    """Return D x P x ROR, its value if all cables fail equally often, and its deviation.

    Args:
        point: The point.
        costs: The costs of states.
        units: The cables that fail together, an array of units by cables.
        shares: Each unit's fraction of the failures.
        blocks_per_s: Blocks of the stream per second.
    """
    of_cables = costs.block_sizes(costs.singles()) - costs.base
    of_units = costs.block_sizes(units) - costs.base
    blocks_per_failure = blocks_per_s * point["lasts_s"]
    failures_by_unit = point["failures"] * shares
    failures_by_cable = point["failures"] * units.sum() / len(units) / len(costs.cables)
    variance = float(np.nansum(failures_by_unit * of_units**2))
    return {
        "predicted": blocks_per_failure * float(np.nansum(failures_by_unit * of_units)),
        "by_ror": blocks_per_failure * (failures_by_cable * float(np.nansum(of_cables))),
        "spread": blocks_per_failure * math.sqrt(variance),
    }


def _with_longest_blocks(plan: StreamPlan) -> StreamPlan:
    """Return the plan with N up to the limit of the code."""
    return replace(plan, stream=replace(plan.stream, most_overhead=MAX_OVERHEAD))


def failing_units(point: Row, cables: int) -> tuple[BoolArray, FloatArray]:
    """Return the units, which are the sets of cables that fail together, and how often each fails.

    Args:
        point: The point. Pairs of cables fail together by the law "groups", and cables have
            different rates by the law "rates".
        cables: Number of cables.

    Returns:
        The cables of each unit, an array of units by cables, and each unit's fraction of the
        failures.
    """
    rng = np.random.default_rng([point["seed"], 1])
    units = np.eye(cables, dtype=np.bool_)
    if point["law"] == "groups":
        order = rng.permutation(cables)[: cables // 2 * 2]
        units = units[order[::2]] | units[order[1::2]]
    weights = np.ones(len(units))
    if point["law"] == "rates":
        weights = np.exp(RATES_SPREAD * rng.standard_normal(len(units)))
    return units, weights / weights.sum()


def draw_states(point: Row, units: BoolArray, shares: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Draw failures, and return the states of the cables.

    Args:
        point: The point.
        units: The cables that fail together, an array of units by cables.
        shares: Each unit's fraction of the failures.

    Returns:
        The duration of each state in seconds, and the broken cables, an array of states by cables.
    """
    rng = np.random.default_rng(point["seed"])
    count = rng.poisson(point["failures"])
    starts_s = rng.random(count) * point["failures"] * point["lasts_s"] / point["down"]
    if point["law"] == "rates":
        failing = rng.choice(len(units), count, p=shares)
    else:
        failing = rng.integers(0, len(units), count)
    event_s = np.concatenate([starts_s, starts_s + point["lasts_s"]])
    order = np.argsort(event_s)
    # Each failure breaks its unit once and repairs it once.
    unit_of_event = np.tile(failing, 2)[order]
    step = np.repeat([1, -1], count)[order, None].astype(np.int16)
    broken = np.cumsum(units[unit_of_event] * step, axis=0, dtype=np.int16)[:-1] > 0
    return np.diff(event_s[order]), broken


def judge(rows: Rows) -> Verdict:
    """Check the costs of streams, and where the law holds for states of the cables.

    Streams: the cost by duration and by cable, the packets in the steady state, and that no block
    is lost after the sender's answer.
    """
    law_rows, streams = parted(rows, "law")
    checks = [
        *_duration_checks(streams),
        _check_total(streams),
        _check_cables(streams),
        _check_rest(streams),
        settled_check(streams),
        *_law_checks(law_rows),
    ]
    return verdict_of(rows, checks)


def settled_check(rows: Rows) -> Check:
    """Check that no block is lost after the sender's answer."""
    undecodable = sum_of(rows, "undecodable_settled")
    return Claim("undecodable blocks after the sender's answer").count(
        0, undecodable, "none: a count that has to be nought"
    )


def cost_of_a_failure(rows: Rows) -> tuple[float, float]:
    """Return the packets that a failure costs without its transient, predicted and measured.

    The prediction is what the states of the cables need. The measurement is the prediction times
    the ratio of packets that were sent to packets that were predicted, in settled blocks.
    """
    predicted = sum_of(rows, "states") / max(1, sum_of(rows, "failures"))
    settled_predicted = max(1.0, sum_of(rows, "settled_predicted"))
    return predicted, predicted * sum_of(rows, "settled") / settled_predicted


def _duration_checks(rows: Rows) -> list[Check]:
    """Check the cost of a failure by its duration. The rival is the cost of another duration."""
    costs = {}
    for failure_s, streams in sorted(grouped(rows, "lasts_s").items()):
        costs[failure_s] = cost_of_a_failure(streams)
    shortest_s = min(costs)
    longest_s = max(costs)
    checks = []
    for failure_s, (predicted, measured) in costs.items():
        other_s = longest_s if failure_s == shortest_s else shortest_s
        other_cost, _ = costs[other_s]
        checks.append(
            Claim(f"packets beyond rest that a failure of {failure_s:g} s costs")
            .equal(predicted, measured, RELATIVE_TOLERANCE * predicted)
            .against(
                other_cost, f"a cost that does not depend on the duration: that of {other_s:g} s"
            )
            .noting("eq. 22, overlapping failures as one state; the transient left out")
        )
    return checks


@dataclass(frozen=True)
class TransientFit:
    """A linear fit of the packets that were sent in addition to those of the steady state.

    Packets = ``slope`` x (packets that the states need) + ``longer_s`` x (packets that a second of
    each failure needs). The second term is the transient: because of it a failure costs as if it
    lasted ``longer_s`` longer.

    Attributes:
        slope: The factor of the states.
        longer_s: The transient in seconds.
        slope_error: Half the width of the 95 % interval of ``slope``.
        longer_error_s: Half the width of the 95 % interval of ``longer_s``.
    """

    slope: float
    longer_s: float
    slope_error: float
    longer_error_s: float


def transient_fit(rows: Rows) -> TransientFit:
    """Fit the packets of streams by least squares.

    The residual of each stream is divided by the square root of its number of failures, because
    its variance grows with the number of random failures.
    """
    weights = np.array([1 / math.sqrt(max(1, row["failures"])) for row in rows])
    needed = [[row["states"], row["formula"] / row["lasts_s"]] for row in rows]
    design = np.array(needed, dtype=np.float64) * weights[:, None]
    target = np.array([row["total"] for row in rows]) * weights
    (slope, longer_s), *_ = np.linalg.lstsq(design, target, rcond=None)
    residual = target - design @ np.array([slope, longer_s])
    variance = float(residual @ residual) / max(1, len(rows) - 2)
    errors = Z95 * np.sqrt(np.diag(np.linalg.pinv(design.T @ design)) * variance)
    return TransientFit(
        slope=float(slope),
        longer_s=float(longer_s),
        slope_error=float(errors[0]),
        longer_error_s=float(errors[1]),
    )


def _check_total(rows: Rows) -> Check:
    """Check the slope of ``TransientFit``: additional packets per packet of D x P x ROR."""
    fit = transient_fit(rows)
    slope_error = None
    longer_error = ""
    # Two rows determine both values without an error.
    if len(rows) > 2:
        slope_error = fit.slope_error
        longer_error = f" ± {fit.longer_error_s:.2f}"
    return (
        Claim("all packets beyond rest, per packet that D x P x ROR asks for")
        .equal(1.0, (fit.slope, slope_error), RELATIVE_TOLERANCE)
        .against(0.0, "a cost that does not depend on the duration")
        .noting(
            f"beside it every failure costs as if it lasted {fit.longer_s:.2f}{longer_error} s "
            "longer: the transient"
        )
    )


@dataclass(frozen=True)
class _CableCost:
    """The mean cost of one cable's failures.

    Attributes:
        measured: Measured packets per block beyond the steady state while it is broken.
        predicted: Predicted packets.
        blocks: Number of blocks over which the mean is taken.
    """

    measured: float
    predicted: float
    blocks: int


def _check_cables(rows: Rows) -> Check:
    """Check the mean cost of each cable. The rival is that all failures cost the same."""
    differences = []
    rival_differences = []
    blocks = 0
    for network_rows in grouped(rows, "network").values():
        costs = _cable_costs(network_rows)
        network_mean = sum(cost.predicted for cost in costs) / max(1, len(costs))
        for cost in costs:
            differences.append(abs(cost.measured - cost.predicted))
            rival_differences.append(abs(network_mean - cost.predicted))
            blocks += cost.blocks
    return (
        Claim(
            "mean packets a block beyond rest while one cable is broken, "
            "off the predicted ones: the worst cable"
        )
        .at_most(BLOCK_TOLERANCE, max(differences, default=math.inf))
        .against(
            max(rival_differences, default=0.0),
            "every failure costs the mean of all, whichever it is",
        )
        .noting(f"{len(differences)} cables, {blocks} blocks")
    )


def _cable_costs(rows: Rows) -> list[_CableCost]:
    """Return the mean cost of each cable over the streams on one network."""
    entries = []
    for row in rows:
        entries += row["by_cable"]
    costs = []
    for cable_entries in grouped(entries, "name").values():
        costs.append(
            _CableCost(
                measured=_mean_over_blocks(cable_entries, "measured"),
                predicted=_mean_over_blocks(cable_entries, "predicted"),
                blocks=int(sum_of(cable_entries, "blocks")),
            )
        )
    return costs


def _mean_over_blocks(entries: Rows, key: str) -> float:
    """Return the mean of a field, weighted by the number of blocks of each entry."""
    total: float = sum(entry[key] * entry["blocks"] for entry in entries)
    return total / sum_of(entries, "blocks")


def _law_checks(rows: Rows) -> list[Check]:
    """Check equation 21 with few and with many links down, and each of its factors.

    Args:
        rows: The rows of ``cost_of_states``.
    """
    checks = []
    for network, states in grouped(where(rows, law="down"), "network").items():
        checks.append(_check_few_down(network, states))
        checks.append(_check_one_down(network, states))
    for law, description in BEYOND.items():
        for network, states in grouped(where(rows, law=law), "network").items():
            (state,) = states
            checks.append(_check_beyond(f"{description}, {network}", state))
    if rows:
        checks += [_check_factor(law, where(rows, law=law)) for law in SWEPT]
        checks.append(_check_ror_factor(rows))
    return checks


def _ratio(row: Row) -> Measured:
    """Return the cost over D x P x ROR, with half the width of its 95 % interval."""
    return row["cost"] / row["predicted"], Z95 * row["spread"] / row["predicted"]


def _relative_difference(row: Row) -> float:
    """Return by which fraction the cost differs from D x P x ROR."""
    return float(abs(row["cost"] / row["predicted"] - 1))


def _check_few_down(network: str, rows: Rows) -> Check:
    few_down = [row for row in rows if row["down"] <= CLAIMED_DOWN]
    worst = max(few_down, key=_relative_difference)
    half_width = Z95 * worst["spread"] / worst["predicted"]
    return (
        Claim(f"packets beyond rest, off D x P x ROR up to {CLAIMED_DOWN:g} links down, {network}")
        .at_most(LAW_TOLERANCE, (_relative_difference(worst), half_width))
        .against(
            worst["constant"] / worst["predicted"] - 1,
            "constant redundancy for the worst failure",
        )
    )


def _check_one_down(network: str, rows: Rows) -> Check:
    """Check that the formula is no longer valid with one link down on average."""
    (one_down,) = where(rows, down=1)
    last_down = 0
    for row in rows:
        if row["cost"] <= (1 + LAW_TOLERANCE) * row["predicted"]:
            last_down = max(last_down, row["down"])
    return (
        Claim(f"packets beyond rest per packet of D x P x ROR, one link down on average, {network}")
        .at_least(1 + LAW_TOLERANCE, _ratio(one_down))
        .against(1.0, "the law holds however many are down")
        .noting(
            f"within {LAW_TOLERANCE:.0%} up to {last_down:g} links down; "
            f"beyond reach {one_down['beyond']:.1%} of the time with N up to 255, "
            f"{one_down['capped']:.1%} with the sender's usual cap"
        )
    )


def _check_beyond(name: str, row: Row) -> Check:
    """Check the cost of a kind of failures in ``BEYOND``."""
    return (
        Claim(f"packets beyond rest, {name}")
        .equal(1.0, _ratio(row), LAW_TOLERANCE)
        .against(row["by_ror"] / row["predicted"], "D x P x ROR, every cable as often as the mean")
    )


def _check_factor(law: str, rows: Rows) -> Check:
    """Check that the cost is proportional to a factor of SWEPT."""
    factors = [row["factor"] for row in rows]
    costs = [row["cost"] for row in rows]
    return _check_exponent(law, rows, factors, costs)


def _check_ror_factor(rows: Rows) -> Check:
    """Check that the cost is proportional to ROR.

    More links fail on routes with another ROR. So costs are compared per packet of the steady state
    and second of a failure.
    """
    routes = []
    for row in rows:
        if row["law"] in (ROR_LAW, "down") and row["down"] == BASE_DOWN:
            routes.append(row)
    ror = [row["ror"] for row in routes]
    costs = [row["cost"] * (row["ror"] / row["predicted"]) for row in routes]
    return _check_exponent(ROR_LAW, routes, ror, costs)


def _check_exponent(
    law: str, rows: Rows, factors: Sequence[float], costs: Sequence[float]
) -> Check:
    """Check that the exponent with which costs grow with a factor is 1.

    Args:
        law: Name of the factor.
        rows: The rows, for their errors.
        factors: The value of the factor in each row.
        costs: The cost of each row.
    """
    log_factors = np.log(factors)
    offsets = log_factors - log_factors.mean()
    weights = offsets / (offsets**2).sum()
    errors = []
    for weight, row in zip(weights, rows, strict=True):
        errors.append(weight * row["spread"] / row["predicted"])
    exponent = float(weights @ np.log(costs))
    return (
        Claim(f"exponent with which packets beyond rest grow with the {law}")
        .equal(1.0, (exponent, Z95 * math.hypot(*errors)), LAW_TOLERANCE)
        .against(0.0, "a cost that does not depend on it")
    )


def _check_rest(rows: Rows) -> Check:
    """Check the packets per block while nothing is broken."""
    calm = []
    for row in rows:
        calm += where(row["by_down"], name="0")
    blocks = sum_of(calm, "blocks")
    mean = math.inf
    if calm:
        mean = sum(entry["measured"] * entry["blocks"] for entry in calm) / max(1, blocks)
    constant = min(row["worst_block"] - row["block_packets"] for row in rows)
    return (
        Claim("mean packets a block beyond N at rest, while nothing is broken")
        .at_most(REST_TOLERANCE, mean)
        .against(constant, "constant redundancy for the worst failure")
        .noting(f"{blocks} blocks, from the moment at which the sender has fallen back")
    )


def figures(rows: Rows) -> Figures:
    """Draw the cost of a failure by its duration, and the law by the mean number of links down."""
    law_rows, streams = parted(rows, "law")
    return {"failure_cost": _draw_costs(streams), "law": _draw_law(law_rows)}


def _draw_costs(rows: Rows) -> Figure:
    samples = {}
    for (network, failure_s), streams in sorted(grouped(rows, ("network", "lasts_s")).items()):
        predicted, measured = cost_of_a_failure(streams)
        total = sum_of(streams, "total") / max(1, sum_of(streams, "failures"))
        samples[f"{network}: eq. 22", failure_s] = (predicted, 0.0)
        samples[f"{network}: measured, without the transient", failure_s] = (measured, 0.0)
        samples[f"{network}: measured, all packets", failure_s] = (total, 0.0)
    figure = draw_lines(
        "Cost by duration",
        samples,
        x="duration of a failure, s",
        y="packets beyond rest a failure",
    )
    ticks(figure.axes[0], (row["lasts_s"] for row in rows))
    figure.axes[0].set_yscale("log")
    return figure


def _draw_law(rows: Rows) -> Figure:
    samples = {}
    for row in where(rows, law="down"):
        samples[row["network"], row["down"]] = (row["cost"] / row["predicted"], 0.0)
    figure = draw_lines(
        "Where the law ends",
        samples,
        x="links down on average",
        y="packets beyond rest over D x P x ROR",
        claim=(1.0, "D x P x ROR"),
    )
    figure.axes[0].set_xscale("log")
    return figure


STUDY = Study.of_module(
    __name__,
    title="The cost of rare random failures in packets",
    ror_code=describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, eq. 21 and 22: D x P x ROR is what the sender really adds; "
    "rivals: a cost that does not depend on the duration, "
    "the same cost for every link, constant redundancy",
    deviations=(
        "Cables fail, both directions at once, not directed links.",
        "N is exact for the worst phase of stratified labels, and not that of equation 25; "
        "lightly loaded links cost what their labels need.",
    ),
)
