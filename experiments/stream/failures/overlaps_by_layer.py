"""How often do failures overlap (Figure 67), and does capillary routing still pay when they do? Redundancy by layer
over how often cables are broken (Gabrielyan 2007, appendix G).

Three kinds of points. *Chance* is how often failures overlap, by formula and by simulated Poisson processes. *States*
are computed: every state of one or two broken cables, and draws of those of three and
more, the same for the same cables at all layers, priced by equation 25. *Packets* are streams in virtual time on one of
these networks, on either side of the unavailability at which the order of the first layer and the full route turns.
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
from testbed.report.drawing.charts import draw_lines, ticks
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.expected_redundancy import (
    StateCosts,
    expected_redundancy,
    loaded_cables,
    redundancy_means,
)
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

FULL = 0
"""Stands for all layers."""
LAYERS = (1, 2, 3, 5, 10, FULL)
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
STATES = 6000
SHOWN = ("manet:nodes=40,seed=4", "n0", "n39")
"""The network of the packets."""
RARE, OFTEN = (0.003, 3.0, 3), (0.05, 10.0, 2)
"""On either side of the turn: share of the time for which each cable is broken, seconds a failure, hours."""
SHARE = 0.02
STREAM = StreamParameters(
    rate_pps=SIMULATED_PPS,
    playback_s=PLAYBACK_S,
    symbol_bytes=16,
    labels="random",
    most_overhead=11.75,  # N up to 255: the same cap for all layers
)


def points(quick: bool, seed: int) -> Points:
    """Computed: thirteen networks (quick: two); packets: hours of the first layer and of the full route (quick: twelve
    minutes); chance: durations of a failure."""
    seeds = (3, 4) if quick else range(1, 9)
    networks = [(f"manet:nodes=40,seed={k}", "n0", "n39") for k in seeds]
    if not quick:
        networks += [(f"manet:nodes=80,seed={k}", "n0", "n79") for k in range(1, 4)]
        networks += [("swiss-t1", "s1", "s6"), ("optical-cloud", "x1", "x14")]
    states = points_over(networks, kind="states", layers=LAYERS, seed=seed)
    duration_s = 720.0 if quick else 3600.0
    for unavailable, lasts_s, hours in (OFTEN,) if quick else (RARE, OFTEN):
        for hour in range(1 if quick else hours):
            failing = {
                "unavailable": unavailable,
                "lasts_s": lasts_s,
                "duration_s": duration_s,
                "seed": seed + hour,
            }
            states += points_over([SHOWN], kind="packets", layers=(1, FULL), **failing)
    return states + failure_overlaps.points(quick, seed)


def measure(point: Row) -> Results:
    """One route computed at every unavailability, one stream, or a simulated stretch of failures."""
    if point["kind"] == failure_overlaps.KIND:
        return failure_overlaps.measure(point)
    return _states(point) if point["kind"] == "states" else _packets(point)


def route_plan(point: Row) -> StreamPlan:
    """The stream of a point, without failures."""
    settings = vars(STREAM) | {"layers": point["layers"] or None, "faults": ()}
    return stream_plan(point["network"], point["source"], point["sink"], **settings)


def _states(point: Row) -> Results:
    costs = StateCosts(route_plan(point), reports=False)
    draws = [
        np.random.default_rng(_number(point["seed"], cable)).random(STATES)
        for cable in costs.cables
    ]
    means = redundancy_means(costs, UNAVAILABLE, np.array(draws).transpose())
    ror = costs.redundancies(costs.singles())
    return {
        "cables": len(costs.cables),
        "ror": float(np.nansum(ror)),
        "infinite": int(np.isnan(ror).sum()),
        "mean": [one.mean for one in means],
        "equation_45": [one.one + one.two for one in means],
        "beyond": [one.beyond for one in means],
    }


def _number(seed: int, cable: tuple[str, str, int]) -> int:
    return random.Random(f"{seed}/{cable[0]}/{cable[1]}/{cable[2]}").getrandbits(63)


def _packets(point: Row) -> Results:
    rate_per_s = -math.log1p(-point["unavailable"]) / point["lasts_s"]
    an_hour = {"failures_an_hour": rate_per_s * 3600 * len(loaded_cables(route_plan(point)))}
    plan, faults = failing_plan({**point, **an_hour}, STREAM)
    found = cost_figures(plan, SimulatedStreamFabric().run(plan))
    del found["by_cable"], found["by_down"]
    return {**found, "expected": expected_redundancy(plan, faults)}


def judge(rows: Rows) -> Verdict:
    """By computation: at the lowest rate layers save what ROR says. By packets: each stream, and the order on either
    side of the turn. By chance: the formulas of how often failures overlap."""
    checks = [_saving(rows)]
    for unavailable, own in sorted(grouped(where(rows, kind="packets"), "unavailable").items()):
        if {row["layers"] for row in own} == {1, FULL}:
            checks += [_order(unavailable, own), *_streams(unavailable, own)]
    return Verdict.of(
        checks + failure_overlaps.overlap_checks(where(rows, kind=failure_overlaps.KIND))
    )


def whole_networks(rows: Rows) -> dict[str, dict[int, Row]]:
    """Network -> layers -> computed row, of those that have every layer and no link that carries everything."""
    found = grouped(where(rows, kind="states"), "network")
    whole = {
        n: own
        for n, own in found.items()
        if len(own) == len(LAYERS) and not sum_of(own, "infinite")
    }
    return {name: {row["layers"]: row for row in own} for name, own in whole.items()}


def turn(first: Sequence[float], full: Sequence[float]) -> float | None:
    """The unavailability from which on the full route needs more than the first layer, between two computed ones by the
    logarithm of the ratio; 0 where it always does, None where it never does.

    >>> 0.0001 < turn([1.0] * 13, [0.5] + [2.0] * 12) < 0.0003
    True
    """
    ratio = [math.log(b / a) for a, b in zip(first, full, strict=True)]
    last = max((k for k, value in enumerate(ratio) if value <= 0), default=-1)
    if last == len(ratio) - 1:
        return None
    if last < 0:
        return 0.0
    ends = slice(last, last + 2)
    return math.exp(np.interp(0.0, ratio[ends], np.log(UNAVAILABLE[ends])))


def turns(rows: Rows) -> dict[str, float | None]:
    """Network -> ``turn`` of its first layer and its full route."""
    return {
        name: turn(own[1]["mean"], own[FULL]["mean"]) for name, own in whole_networks(rows).items()
    }


def _saving(rows: Rows) -> Check:
    """Mean over the networks of 1 - full / first layer, at the lowest rate, against that of ROR; and where it ends."""
    whole = list(whole_networks(rows).values())
    if not whole:
        return Check.unmeasured(
            "saving of the full route over the first layer",
            "no network was computed at every layer",
        )
    predicted = sum(1 - own[FULL]["ror"] / own[1]["ror"] for own in whole) / len(whole)
    found = sum(1 - own[FULL]["mean"][0] / own[1]["mean"][0] for own in whole) / len(whole)
    found_at = list(turns(rows).values())
    at = sorted(one for one in found_at if one)
    where = (
        f" at an unavailability of {at[0]:.2%} to {at[-1]:.2%}, median {statistics.median(at):.2%}"
        if at
        else ""
    )
    return (
        Claim(
            f"computed: saving of the full route over the first layer while each cable is broken {UNAVAILABLE[0]:.2%} "
            "of the time"
        )
        .equal(predicted, found, 0.03)
        .against(0.0, "no saving, as soon as failures can overlap")
        .noting(
            f"predicted by ROR alone; of {len(whole)} networks the order turns in {len(at)}{where}; "
            "the full route never needs more in "
            f"{found_at.count(None)}, always in {found_at.count(0.0)}"
        )
    )


def _order(unavailable: float, rows: Rows) -> Check:
    """Full route less first layer, on packets. Which failures came is chance, and the same for prediction and
    measurement: what they called for is taken out of the measured means, and what was to be expected put in. Without
    that hours would be needed by the dozen.
    """
    of = {layers: where(rows, layers=layers) for layers in (1, FULL)}
    sent, came = (
        {k: mean_of(own, key) for k, own in of.items()}
        for key in ("redundancy", "redundancy_states")
    )
    expected = {k: expected_mean(own, "mean") for k, own in of.items()}
    known = {k: sent[k] - came[k] + expected[k] for k in of}
    spread = math.hypot(*map(chance_spread, of.values()))
    raw = sent[FULL] - sent[1]
    return (
        Claim(
            "on packets: mean redundancy of the full route less that of the first layer, "
            f"each cable broken {unavailable:.1%} of the time"
        )
        .equal(
            expected[FULL] - expected[1],
            known[FULL] - known[1],
            SHARE * (expected[FULL] + expected[1]),
        )
        .against(0.0, "no difference")
        .noting(
            f"{min(map(len, of.values()))} streams each; "
            f"with the chance of which failures came left in {raw:.4f} ± {1.96 * spread:.4f}"
        )
    )


def _streams(unavailable: float, rows: Rows) -> list[Check]:
    """What was sent against the states of the failures that came; the rival takes it to be the same over either
    route."""
    of = {
        words: where(rows, layers=layers)
        for layers, words in ((1, "layer 1"), (FULL, "all layers"))
    }
    first, full = (mean_of(own, "redundancy_states") for own in of.values())
    return [
        Claim(f"on packets: redundancy for the failures that came, {words}, {unavailable:.1%}")
        .equal(predicted, mean_of(own, "redundancy"), SHARE * predicted)
        .against(other, "what the other route's failures call for")
        .noting(
            f"{sum_of(own, 'failures')} failures; {sum_of(own, 'undecodable')} of "
            f"{sum_of(own, 'blocks')} blocks undecodable, beyond reach for {sum_of(own, 'beyond_s'):.0f} s"
        )
        for (words, own), predicted, other in zip(
            of.items(), (first, full), (full, first), strict=True
        )
    ]


def figures(rows: Rows) -> Figures:
    """Redundancy over unavailability by layer: relative to the first layer, the mean of the networks, and on the
    network of the packets."""
    whole, by_layer, shown = whole_networks(rows), {}, {}
    for layers in LAYERS:
        words = "all layers" if layers == FULL else f"layer {layers}"
        for k, u in enumerate(UNAVAILABLE):
            if whole:
                ratios = [own[layers]["mean"][k] / own[1]["mean"][k] for own in whole.values()]
                by_layer[words, 100 * u] = statistics.geometric_mean(ratios), 0.0
            if SHOWN[0] in whole and layers in (1, FULL):
                shown[f"{words}, computed", 100 * u] = whole[SHOWN[0]][layers]["mean"][k] / u, 0.0
        for u, own in grouped(where(rows, kind="packets", layers=layers), "unavailable").items():
            chance = 1.96 * chance_spread(own) / u
            shown[f"{words}, expected of packets", 100 * u] = expected_mean(own, "mean") / u, 0.0
            shown[f"{words}, packets sent, 95 % of chance", 100 * u] = (
                mean_of(own, "redundancy") / u,
                chance,
            )
    x = "time for which each cable is broken: rate x duration, %"
    title, y = f"Geometric mean of {len(whole)} networks", "mean redundancy, over that of layer 1"
    drawn = {
        "overlaps_by_layer": draw_lines(title, by_layer, x=x, y=y),
        "packets": draw_lines(SHOWN[0], shown, x=x, y="mean redundancy, over unavailability"),
    }
    for figure in drawn.values():
        ticks(figure.axes[0], (0.01, 0.1, 1, 10))
    return {**drawn, **failure_overlaps.figures(where(rows, kind=failure_overlaps.KIND))}


STUDY = Study.of_module(
    __name__,
    title="How often failures overlap, and where capillary routing stops to pay as they do",
    ror_code=describe_code(labels="random", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, appendix G and section 4.4: ROR with failures that overlap, by layer; rivals: "
    "no saving, no difference; Figure 67 and equations 35 to 44, with the misprinted example corrected",
    deviations=(
        "Thirteen networks of 40 and 80 nodes, one pair of end points each, first frames.",
        "The order over all rates is computed from states; packets confirm it on one network at two rates.",
        "States beyond the reach of 255 packets a block count as 0 in the means, and are given beside them; on packets "
        "also those in which both return paths are cut, so that no report tells the sender.",
        "The example of Figure 67 is printed for failures of one second; its probability belongs to two (errata).",
    ),
)
