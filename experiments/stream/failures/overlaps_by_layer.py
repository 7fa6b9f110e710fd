"""Computes redundancy by layer and failure rate, and how often failures overlap (Figure 67).

The question is whether capillary routing still saves redundancy if failures overlap (Gabrielyan
2007, appendix G). There are three kinds of points:

- "chance": how often failures overlap, by formula and by simulated Poisson processes.
- "states": every state with one or two broken cables is computed, and random states with three and
  more. The random states are the same for the same cables at all layers. Equation 25 gives their
  cost.
- "packets": streams in the simulator on one of these networks. At one rate the first layer needs
  more redundancy, and at the other one the full route.
"""

import math
import random
import statistics
from collections.abc import Sequence

import numpy as np

from experiments.stream.failures import failure_overlaps
from experiments.stream.failures.failing_streams import (
    PLAYBACK_S,
    SIMULATED_PPS,
    chance_spread,
    cost_figures,
    expected_mean,
    failing_plan,
)
from experiments.stream.networks import points_over
from testbed.model.code_description import describe_code
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
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_lines, ticks
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.expected_redundancy import (
    StateCosts,
    expected_redundancy,
    loaded_cables,
    redundancy_means,
)
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

# Stands for all layers.
FULL = 0
LAYERS = (1, 2, 3, 5, 10, FULL)

# Fractions of the time for which each cable is broken (unavailability).
UNAVAILABLE = (
    0.0001,
    0.0003,
    0.001,
    0.002,
    0.003,
    0.005,
    0.0075,
    0.01,
    0.015,
    0.02,
    0.03,
    0.05,
    0.1,
)

# Random states that are drawn per route.
STATES = 6000

# The network of the packets, with its end points.
SHOWN = ("manet:nodes=40,seed=4", "n0", "n39")

# Unavailability, seconds per failure, and hours of the streams. With RARE the first layer needs
# more redundancy than the full route, and with OFTEN less.
RARE = (0.003, 3.0, 3)
OFTEN = (0.05, 10.0, 2)

# Largest accepted relative difference of redundancy on packets.
RELATIVE_TOLERANCE = 0.02

Z95 = 1.96

STREAM = StreamParameters(
    rate_pps=SIMULATED_PPS,
    playback_s=PLAYBACK_S,
    symbol_bytes=16,
    labels="random",
    # N up to 255. All layers have the same limit.
    most_overhead=11.75,
)

Samples = dict[tuple[str, float], tuple[float, float]]


def points(quick: bool, seed: int) -> Points:
    """Return the points of all three kinds.

    States: thirteen networks (``quick``: two) with all layers. Packets: hours (``quick``: twelve
    minutes) of the first layer and of the full route. Chance: durations of a failure.
    """
    small_seeds = range(3, 5) if quick else range(1, 9)
    networks = [(f"manet:nodes=40,seed={k}", "n0", "n39") for k in small_seeds]
    if not quick:
        networks += [(f"manet:nodes=80,seed={k}", "n0", "n79") for k in range(1, 4)]
        networks += [("swiss-t1", "s1", "s6"), ("optical-cloud", "x1", "x14")]
    result = points_over(networks, kind="states", layers=LAYERS, seed=seed)
    if quick:
        result += _packet_points(*OFTEN[:2], duration_s=720.0, seeds=[seed])
    else:
        for unavailable, failure_s, hours in (RARE, OFTEN):
            seeds = range(seed, seed + hours)
            result += _packet_points(unavailable, failure_s, duration_s=3600.0, seeds=seeds)
    return result + failure_overlaps.points(quick, seed)


def _packet_points(
    unavailable: float, failure_s: float, *, duration_s: float, seeds: Sequence[int]
) -> Points:
    result: Points = []
    for seed in seeds:
        result += points_over(
            [SHOWN],
            kind="packets",
            layers=(1, FULL),
            unavailable=unavailable,
            lasts_s=failure_s,
            duration_s=duration_s,
            seed=seed,
        )
    return result


def measure(point: Row) -> Results:
    """Measure a point of any kind.

    See ``_measure_states``, ``_measure_packets`` and ``failure_overlaps.measure``.
    """
    if point["kind"] == failure_overlaps.KIND:
        return failure_overlaps.measure(point)
    if point["kind"] == "states":
        return _measure_states(point)
    return _measure_packets(point)


def route_plan(point: Row) -> StreamPlan:
    """Return the stream of a point, without failures."""
    settings = {**vars(STREAM), "layers": point["layers"] or None, "faults": ()}
    return stream_plan(point["network"], point["source"], point["sink"], **settings)


def _measure_states(point: Row) -> Results:
    """Compute the redundancy of one route at every unavailability.

    Returns:
        The number of cables; ROR; the number of cables for which it is infinite; and for each
        unavailability the mean redundancy, the part of equation 45 (one and two broken cables), and
        the fraction of the time in which no N is enough (``beyond``).
    """
    costs = StateCosts(route_plan(point), reports=False)
    draws = []
    for cable in costs.cables:
        rng = np.random.default_rng(_cable_seed(point["seed"], cable))
        draws.append(rng.random(STATES))
    means = redundancy_means(costs, UNAVAILABLE, np.array(draws).transpose())
    ror = costs.redundancies(costs.singles())
    return {
        "cables": len(costs.cables),
        "ror": float(np.nansum(ror)),
        "infinite": int(np.isnan(ror).sum()),
        "mean": [mean.mean for mean in means],
        "equation_45": [mean.one + mean.two for mean in means],
        "beyond": [mean.beyond for mean in means],
    }


def _cable_seed(seed: int, cable: tuple[str, str, int]) -> int:
    """Return a seed that is the same for the same cable on all routes."""
    first, second, number = cable
    return random.Random(f"{seed}/{first}/{second}/{number}").getrandbits(63)


def _measure_packets(point: Row) -> Results:
    """Measure the redundancy of one stream in the simulator, with its expected value."""
    rate_per_s = -math.log1p(-point["unavailable"]) / point["lasts_s"]
    failures_an_hour = rate_per_s * 3600 * len(loaded_cables(route_plan(point)))
    plan, faults = failing_plan({**point, "failures_an_hour": failures_an_hour}, STREAM)
    row = cost_figures(plan, SimulatedStreamFabric().run(plan))
    del row["by_cable"]
    del row["by_down"]
    row["expected"] = expected_redundancy(plan, faults)
    return row


def judge(rows: Rows) -> Verdict:
    """Check the computed states, the packets, and the formulas of overlaps.

    States: at the lowest rate layers save what ROR says. Packets: the redundancy of each stream,
    and which of the first layer and the full route needs more at each rate.
    """
    checks = [_check_saving(rows)]
    by_rate = grouped(where(rows, kind="packets"), "unavailable")
    for unavailable, streams in sorted(by_rate.items()):
        if {row["layers"] for row in streams} == {1, FULL}:
            checks += _packet_checks(unavailable, streams)
    checks += failure_overlaps.overlap_checks(where(rows, kind=failure_overlaps.KIND))
    return Verdict.of(checks)


def completely_measured_networks(rows: Rows) -> dict[str, dict[int, Row]]:
    """Return the computed rows by network and number of layers.

    Networks that lack a layer, or that have a link that carries everything, are left out.
    """
    networks = {}
    for network, states in grouped(where(rows, kind="states"), "network").items():
        if len(states) == len(LAYERS) and not sum_of(states, "infinite"):
            networks[network] = {row["layers"]: row for row in states}
    return networks


def turn(first: Sequence[float], full: Sequence[float]) -> float | None:
    """Return the unavailability from which on the full route needs more than the first layer.

    Between two computed values it is interpolated by the logarithm of the ratio.

    Args:
        first: Redundancy of the first layer, for each value of UNAVAILABLE.
        full: Redundancy of the full route.

    Returns:
        0 if the full route always needs more, and None if it never does.

    >>> 0.0001 < turn([1.0] * 13, [0.5] + [2.0] * 12) < 0.0003
    True
    """
    ratio = [math.log(full_mean / mean) for mean, full_mean in zip(first, full, strict=True)]
    last_saving = -1
    for index, value in enumerate(ratio):
        if value <= 0:
            last_saving = index
    if last_saving == len(ratio) - 1:
        return None
    if last_saving < 0:
        return 0.0
    ends = slice(last_saving, last_saving + 2)
    return math.exp(np.interp(0.0, ratio[ends], np.log(UNAVAILABLE[ends])))


def turns(rows: Rows) -> dict[str, float | None]:
    """Return ``turn`` of each network."""
    result = {}
    for network, by_layers in completely_measured_networks(rows).items():
        result[network] = turn(by_layers[1]["mean"], by_layers[FULL]["mean"])
    return result


def _check_saving(rows: Rows) -> Check:
    """Check the saving of the full route over the first layer at the lowest rate, against ROR.

    A remark says at which rate the saving ends.
    """
    networks = list(completely_measured_networks(rows).values())
    if not networks:
        return Check.unmeasured(
            "saving of the full route over the first layer",
            "no network was computed at every layer",
        )
    predicted = []
    measured = []
    for by_layers in networks:
        first = by_layers[1]
        full = by_layers[FULL]
        predicted.append(1 - full["ror"] / first["ror"])
        measured.append(1 - full["mean"][0] / first["mean"][0])
    return (
        Claim(
            "computed: saving of the full route over the first layer "
            f"while each cable is broken {UNAVAILABLE[0]:.2%} of the time"
        )
        .equal(sum(predicted) / len(networks), sum(measured) / len(networks), 0.03)
        .against(0.0, "no saving, as soon as failures can overlap")
        .noting(_describe_turns(list(turns(rows).values())))
    )


def _describe_turns(values: Sequence[float | None]) -> str:
    """Describe at which unavailability the full route begins to need more."""
    between = sorted(value for value in values if value)
    range_text = ""
    if between:
        range_text = (
            f" at an unavailability of {between[0]:.2%} to {between[-1]:.2%}, "
            f"median {statistics.median(between):.2%}"
        )
    return (
        f"predicted by ROR alone; "
        f"of {len(values)} networks the order turns in {len(between)}{range_text}; "
        f"the full route never needs more in {values.count(None)}, always in {values.count(0.0)}"
    )


def _packet_checks(unavailable: float, rows: Rows) -> list[Check]:
    """Return the checks of the streams at one unavailability."""
    first = where(rows, layers=1)
    full = where(rows, layers=FULL)
    return [
        _check_difference(unavailable, first, full),
        _check_stream(f"layer 1, {unavailable:.1%}", first, full),
        _check_stream(f"all layers, {unavailable:.1%}", full, first),
    ]


def _check_difference(unavailable: float, first: Rows, full: Rows) -> Check:
    """Check the difference of the full route from the first layer, on packets.

    Failures are random. To reduce the variance, the redundancy that the failures of the run need is
    subtracted from the measured mean, and its expected value is added. Without this, the streams
    would take dozens of hours.

    Args:
        unavailable: Fraction of the time for which each cable is broken.
        first: The streams over the first layer.
        full: The streams over the full route.
    """
    expected_first = expected_mean(first, "mean")
    expected_full = expected_mean(full, "mean")
    measured = _without_chance(full) - _without_chance(first)
    raw = mean_of(full, "redundancy") - mean_of(first, "redundancy")
    spread = math.hypot(chance_spread(first), chance_spread(full))
    return (
        Claim(
            "on packets: mean redundancy of the full route less that of the first layer, "
            f"each cable broken {unavailable:.1%} of the time"
        )
        .equal(
            expected_full - expected_first,
            measured,
            RELATIVE_TOLERANCE * (expected_full + expected_first),
        )
        .against(0.0, "no difference")
        .noting(
            f"{min(len(first), len(full))} streams each; with the chance of which failures came "
            f"left in {raw:.4f} ± {Z95 * spread:.4f}"
        )
    )


def _without_chance(rows: Rows) -> float:
    """Return the measured mean redundancy, corrected for the random failures of the runs.

    See ``_check_difference``.
    """
    sent = mean_of(rows, "redundancy")
    needed = mean_of(rows, "redundancy_states")
    return sent - needed + expected_mean(rows, "mean")


def _check_stream(name: str, rows: Rows, other_rows: Rows) -> Check:
    """Check redundancy against what the failures that happened need.

    The rival is the redundancy that the other route needs.

    Args:
        name: Name of the route, and the unavailability.
        rows: The streams over the route.
        other_rows: The streams over the other route.
    """
    predicted = mean_of(rows, "redundancy_states")
    return (
        Claim(f"on packets: redundancy for the failures that came, {name}")
        .equal(predicted, mean_of(rows, "redundancy"), RELATIVE_TOLERANCE * predicted)
        .against(
            mean_of(other_rows, "redundancy_states"), "what the other route's failures call for"
        )
        .noting(
            f"{sum_of(rows, 'failures')} failures; "
            f"{sum_of(rows, 'undecodable')} of {sum_of(rows, 'blocks')} blocks undecodable, "
            f"beyond reach for {sum_of(rows, 'beyond_s'):.0f} s"
        )
    )


def figures(rows: Rows) -> Figures:
    """Draw redundancy by unavailability and layer, and the overlaps.

    One figure is the mean of the networks relative to the first layer, and the other one the
    network of the packets.
    """
    networks = completely_measured_networks(rows)
    x = "time for which each cable is broken: rate x duration, %"
    by_layer = draw_lines(
        f"Geometric mean of {len(networks)} networks",
        _samples_by_layer(list(networks.values())),
        x=x,
        y="mean redundancy, over that of layer 1",
    )
    shown: Samples = {}
    for layers in LAYERS:
        if SHOWN[0] in networks and layers in (1, FULL):
            shown |= _computed_samples(networks[SHOWN[0]], layers)
        shown |= _packet_samples(where(rows, kind="packets", layers=layers), layers)
    packets = draw_lines(SHOWN[0], shown, x=x, y="mean redundancy, over unavailability")
    _set_ticks(by_layer)
    _set_ticks(packets)
    overlaps = failure_overlaps.figures(where(rows, kind=failure_overlaps.KIND))
    return {"overlaps_by_layer": by_layer, "packets": packets, **overlaps}


def _set_ticks(figure: Figure) -> None:
    ticks(figure.axes[0], (0.01, 0.1, 1, 10))


def _layers_label(layers: int) -> str:
    return "all layers" if layers == FULL else f"layer {layers}"


def _samples_by_layer(networks: Sequence[dict[int, Row]]) -> Samples:
    """Return the geometric mean over networks of redundancy over that of the first layer."""
    samples: Samples = {}
    if not networks:
        return samples
    for layers in LAYERS:
        for k, unavailable in enumerate(UNAVAILABLE):
            ratios = []
            for by_layers in networks:
                ratios.append(by_layers[layers]["mean"][k] / by_layers[1]["mean"][k])
            mean = statistics.geometric_mean(ratios)
            samples[_layers_label(layers), 100 * unavailable] = (mean, 0.0)
    return samples


def _computed_samples(by_layers: dict[int, Row], layers: int) -> Samples:
    """Return the computed redundancy over unavailability of one network."""
    samples: Samples = {}
    label = f"{_layers_label(layers)}, computed"
    for mean, unavailable in zip(by_layers[layers]["mean"], UNAVAILABLE, strict=True):
        samples[label, 100 * unavailable] = (mean / unavailable, 0.0)
    return samples


def _packet_samples(rows: Rows, layers: int) -> Samples:
    """Return the expected and the measured redundancy over unavailability of streams."""
    samples: Samples = {}
    label = _layers_label(layers)
    for unavailable, streams in grouped(rows, "unavailable").items():
        percentage = 100 * unavailable
        expected = expected_mean(streams, "mean") / unavailable
        sent = mean_of(streams, "redundancy") / unavailable
        half_width = Z95 * chance_spread(streams) / unavailable
        samples[f"{label}, expected of packets", percentage] = (expected, 0.0)
        samples[f"{label}, packets sent, 95 % of chance", percentage] = (sent, half_width)
    return samples


STUDY = Study.of_module(
    __name__,
    title="How often failures overlap, and when capillary routing no longer pays",
    ror_code=describe_code(labels="random", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, appendix G and section 4.4: "
    "ROR with failures that overlap, by layer; rivals: no saving, no difference; "
    "Figure 67 and equations 35 to 44, with the misprinted example corrected",
    deviations=(
        "Thirteen networks of 40 and 80 nodes, one pair of end points and the first frame of each.",
        "The order over all rates is computed from states; "
        "packets confirm it on one network at two rates.",
        "States beyond the reach of 255 packets a block count as 0 in the means, "
        "and are reported separately; on packets also those in which "
        "both return paths are cut, so that no report tells the sender.",
        "The example of Figure 67 is printed for failures of one second; "
        "its probability belongs to two (errata).",
    ),
)
