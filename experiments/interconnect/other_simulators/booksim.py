"""Does the simulator agree with BookSim2, on an 8x8 and a 4x4x4 torus, an 8x8 mesh and a 4-ary 3-tree, up to
saturation?

BookSim2's values are stored (``booksim_values.json``, which says how they were made); ours are measured at the same
loads: 30, 70 and 90 % of the load at which BookSim2 saturates. Cycles are those of flits: 256 ns, 64 B at 2 Gbps.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.interconnect.figures import named
from experiments.interconnect.runs import model_of
from experiments.interconnect.samples import COUNTED
from experiments.interconnect.study_points import network_of
from testbed.interconnect.parameters import FLIT_CYCLE_S, SimulationParameters
from testbed.interconnect.results import SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import (
    DestinationPattern,
    InjectionProcess,
    build_injections,
    build_pattern,
)
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    half_width,
    spread,
    sum_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_lines

SEEDS = 6
MOST_APART = {0.3: (0.02, None), 0.7: (0.05, None), 0.9: (0.07, 0.13)}
"""Share of BookSim2's saturation -> the most that latencies may be apart: the mean over networks and patterns, and the
worst of them."""
SATURATION_APART, WORST_SATURATION_APART = 0.03, 0.075
THESIS = "as our other model of a hop, `thesis`"
Place = tuple[str, str, str]
"""Network, routing, pattern."""
VALUES = Path(__file__).with_name("booksim_values.json")
PACKET_FLITS = 32
WARM_UP_CYCLES, MEASURED_CYCLES = 20_000, 60_000
"""Messages made in the second part of a run are measured."""
SATURATED_CYCLES = 500.0
"""BookSim2 calls a run unstable when its mean latency exceeds this (its ``latency_thres``); that load is taken for
saturation."""
SEARCH_WARM_UP, SEARCH_MEASURED, SEARCH_SEEDS, SEARCH_STEP = 10_000, 40_000, 2, 0.01
"""Cycles and seeds of a run of the search for that load, and how near it gets (a share of the load)."""


def points(quick: bool, seed: int) -> Points:
    """Every stored point with six seeds and, for the rival, with one in the model `thesis`; the saturation of either
    model."""
    found: Points = []
    rows = [row for row in table()["rows"] if not quick or row["pattern"] == "uniform"]
    for row in rows:
        common = {name: row[name] for name in ("network", "routing", "pattern", "share")}
        for model, seeds in (("booksim", 1 if quick else SEEDS), ("thesis", 1)):
            if model == "booksim" or row["routing"] != "valiant":
                parts = [("latency", row["load"], s) for s in range(seed, seed + seeds)]
                parts += (
                    [("saturation", row["saturation"], seed)]
                    if row["share"] == 0.9 and not quick
                    else []
                )
                for part, rate, s in parts:
                    found.append(common | {"part": part, "model": model, "rate": rate, "seed": s})
    return found


@lru_cache(maxsize=1)
def table() -> Results:
    """BookSim2's values: ``published`` (the reference's table next to the rebuilt program's), ``rows`` (the wider
    table), and how made."""
    with VALUES.open() as file:
        read: Results = json.load(file)
    return read


def measure(point: Row) -> Results:
    """Part "latency": one run; part "saturation": the search, ``load`` in flits a cycle and node."""
    if point["part"] == "saturation":
        searched = SEARCH_WARM_UP, SEARCH_MEASURED
        return {
            "load": saturation_of(
                lambda load, seed: _run(point, load, seed, *searched)[1], point["rate"]
            )
        }
    run, latency_cycles = _run(point, point["rate"], point["seed"], WARM_UP_CYCLES, MEASURED_CYCLES)
    return {"sent": run.sent, "received": run.received, "latency_cycles": latency_cycles}


def saturation_of(latency: Callable[[float, int], float], guess: float) -> float:
    """The load at which ``latency(load, seed)`` in cycles, averaged over seeds, reaches 500; bisection around the
    guess."""

    def stable(load: float) -> bool:
        seeds = range(1, SEARCH_SEEDS + 1)
        return sum(latency(load, seed) for seed in seeds) / len(seeds) < SATURATED_CYCLES

    low, high = 0.94 * guess, min(1.06 * guess, 1.0)
    while not stable(low):
        low, high = 0.9 * low, low
    while high < 1.0 and stable(high):
        low, high = high, min(1.1 * high, 1.0)
    if high >= 1.0 and stable(high):
        return 1.0
    while high - low > SEARCH_STEP * high:
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return (low + high) / 2


def _run(
    point: Row, load: float, seed: int, warm_up: int, measured: int
) -> tuple[SimulationResult, float]:
    """A run, and the mean latency, in cycles, of messages made after the warm-up."""
    network, hop = network_of(point["network"]), point["model"]
    parameters = _parameters(point["routing"], hop, seed)
    attributes = network.attributes
    shape: Sequence[int] = attributes.get("shape") or [attributes["k"]] * attributes["n"]
    pattern = build_pattern(
        point["pattern"], len(network.hosts), shape=shape, to_itself=parameters.hop.to_itself
    )
    if "shape" in attributes:
        pattern = as_numbered_there(pattern, shape)
    process = InjectionProcess(rate_per_s=load / (PACKET_FLITS * FLIT_CYCLE_S))
    injections = build_injections(
        pattern, process, duration_s=(warm_up + measured) * FLIT_CYCLE_S, seed=seed
    )
    run = simulate(model_of(point["network"], parameters), injections, parameters)
    window = summarize(
        run, start_s=warm_up * FLIT_CYCLE_S, end_s=(warm_up + measured) * FLIT_CYCLE_S
    )
    return run, (window.mean_latency_s or 0.0) / FLIT_CYCLE_S


def as_numbered_there(pattern: DestinationPattern, shape: Sequence[int]) -> DestinationPattern:
    """The pattern over nodes numbered as in BookSim2, whose routing corrects the lowest digit of a number first; ours
    the highest.

    >>> as_numbered_there(build_pattern("shuffle", 8), (2, 2, 2)).choices[1]
    (4,)
    """
    ours = np.arange(math.prod(shape)).reshape(shape).transpose().reshape(-1)
    theirs = np.argsort(ours)
    choices = tuple(tuple(int(ours[d]) for d in pattern.choices[node]) for node in theirs)
    return DestinationPattern(name=pattern.name, choices=choices, in_turn=pattern.in_turn)


def _parameters(routing: str, hop: str, seed: int) -> SimulationParameters:
    """As in the table: packets of 32 flits, two of them a buffer; two virtual channels, or as many as a detour
    needs."""
    deadlock = "none" if routing == "valiant" else "virtual-channels"
    return SimulationParameters(model=hop, routing=routing, deadlock=deadlock, seed=seed)


def judge(rows: Rows) -> Verdict:
    """Latencies by share of saturation, saturation itself, Valiant's detours, and that nothing is lost."""
    checks = [_delivery(rows)]
    for share, (mean, worst) in MOST_APART.items():
        checks += _latency_checks(rows, share, mean, worst)
    checks += [_switch_hold_check(rows), *_saturation_checks(rows)]
    detours = [place for place in _values("booksim", rows) if place[0][1] == "valiant"]
    if detours:
        checks.append(_detours(rows))
    return Verdict.of(checks)


def _delivery(rows: Rows) -> Check:
    sent, received = (sum_of(where(rows, part="latency"), name) for name in ("sent", "received"))
    check = (
        Claim("messages undelivered")
        .count(0.0, sent - received, COUNTED)
        .noting(f"{sent} messages sent")
    )
    return check.of(sent + received)


def _latency_checks(rows: Rows, share: float, mean: float, worst: float | None) -> list[Check]:
    """The mean over networks and patterns of how far latencies are apart, and the farthest."""
    apart = {place: value for (place, at), value in _apart(rows, "booksim").items() if at == share}
    own = {place: value for place, value in apart.items() if place[1] != "valiant"}
    thesis = [abs(value) for (_, at), (value, _) in _apart(rows, "thesis").items() if at == share]
    rival = sum(thesis) / len(thesis)
    farthest = max(own, key=lambda place: abs(own[place][0]))
    name = f"mean latency at {share:.0%} of saturation, apart from BookSim2's"
    found = [
        Claim(f"{name}: the mean over networks and patterns")
        .at_most(mean, _mean_size(own))
        .against(rival, THESIS)
        .noting(
            f"{len(own)} points, {sum(value for value, _ in own.values()) / len(own):+.1%} in the signed mean"
        )
    ]
    if worst is not None:
        found.append(
            Claim(f"{name}: the farthest")
            .at_most(worst, (abs(own[farthest][0]), own[farthest][1]))
            .against(rival, f"{THESIS} in the mean")
            .noting(", ".join(farthest))
        )
    return found


def _switch_hold_check(rows: Rows) -> Check:
    """How far we are from BookSim2 at 70 and 90 %, over how far from BookSim2 without the held switch, where that was
    run."""
    ours, with_hold, without = _values("booksim", rows), [], []
    for row in _stored():
        values = ours.get((_place(row), row["share"]), [])
        if values and row.get("without_hold") and row["share"] > 0.5:
            with_hold.append(abs(spread(values)[0] / spread(row["cycles"])[0] - 1))
            without.append(abs(spread(values)[0] / spread(row["without_hold"])[0] - 1))
    means, far = (
        (f"{sum(apart) / len(apart):.1%}" for apart in (with_hold, without)),
        "how far from BookSim2",
    )
    return (
        Claim(f"{far} at 70 and 90 % of saturation, over {far} without hold_switch_for_packet")
        .at_most(0.8, sum(with_hold) / sum(without))
        .against(1.0, "no nearer: whether the switch is held would not matter")
        .noting(f"{len(with_hold)} points, {' and '.join(means)} in the mean")
    )


def _saturation_checks(rows: Rows) -> list[Check]:
    searches = [row for row in where(rows, part="saturation") if row["routing"] != "valiant"]
    own, rival = (
        {_place(row): row["load"] / row["rate"] - 1 for row in where(searches, model=model)}
        for model in ("booksim", "thesis")
    )
    if not own:
        return []
    farthest = max(own, key=lambda place: abs(own[place]))
    step, count, apart = SEARCH_STEP, len(own), list(map(abs, rival.values()))
    name = "load at saturation (mean latency of 500 cycles), apart from BookSim2's"
    return [
        Claim(f"{name}: the mean over networks and patterns")
        .at_most(SATURATION_APART, (sum(map(abs, own.values())) / count, step / math.sqrt(count)))
        .against(sum(apart) / len(apart), THESIS)
        .noting(
            f"{count} networks and patterns, {sum(own.values()) / count:+.1%} in the signed mean"
        ),
        Claim(f"{name}: the farthest")
        .at_most(WORST_SATURATION_APART, (abs(own[farthest]), step))
        .against(max(apart), f"{THESIS}, at its farthest")
        .noting(", ".join(farthest)),
    ]


def _detours(rows: Rows) -> Check:
    """Valiant's latencies up to 70 % of saturation; the rival: those of shortest paths at the same share, in
    BookSim2."""
    apart = {
        key: value
        for key, value in _apart(rows, "booksim").items()
        if key[0][1] == "valiant" and key[1] < 0.9
    }
    straight = {
        (row["network"], row["pattern"], row["share"]): spread(row["cycles"])[0]
        for row in where(_stored(), routing="dor")
    }
    comparison = [
        abs(straight[row["network"], row["pattern"], row["share"]] / spread(row["cycles"])[0] - 1)
        for row in where(_stored(), routing="valiant")
        if row["share"] < 0.9
    ]
    return (
        Claim(
            "Valiant: mean latency at 30 and 70 % of its saturation, apart from BookSim2's: the mean"
        )
        .at_most(0.05, _mean_size(apart))
        .against(
            sum(comparison) / len(comparison), "as shortest paths take at the same share of theirs"
        )
        .noting(f"{len(apart)} points")
    )


def _stored() -> Points:
    rows: Points = table()["rows"]
    return rows


def _place(row: Row) -> Place:
    return row["network"], row["routing"], row["pattern"]


def _values(model: str, rows: Rows) -> dict[tuple[Place, float], list[float]]:
    return grouped(
        where(rows, part="latency", model=model),
        lambda row: (_place(row), row["share"]),
        "latency_cycles",
    )


def _apart(rows: Rows, model: str) -> dict[tuple[Place, float], tuple[float, float]]:
    """Place and share -> our mean over BookSim2's less 1, and the half width of its 95 % interval, of both together."""
    theirs = {(_place(row), row["share"]): row["cycles"] for row in _stored()}
    found = {}
    for key, ours in _values(model, rows).items():
        ratio = spread(ours)[0] / spread(theirs[key])[0]
        width = math.hypot(
            half_width(ours) / spread(ours)[0], half_width(theirs[key]) / spread(theirs[key])[0]
        )
        found[key] = (ratio - 1, ratio * width)
    return found


def _mean_size(apart: Mapping[Any, tuple[float, float]]) -> tuple[float, float]:
    """With the half width of its interval."""
    sizes, widths = zip(*((abs(value), width) for value, width in apart.values()), strict=True)
    return sum(sizes) / len(apart), math.hypot(*widths) / len(apart)


def figures(rows: Rows) -> Figures:
    """How far our latencies are from BookSim2's, over the share of saturation: a line a pattern, a figure a network and
    routing."""
    apart = _apart(rows, "booksim")
    offered = "offered load (% of the load at which BookSim2 saturates)"
    drawn = {}
    for network, routing in dict.fromkeys(place[:2] for place, _ in apart):
        lines = {
            (place[2], 100 * share): (100 * value, 100 * width)
            for (place, share), (value, width) in apart.items()
            if place[:2] == (network, routing)
        }
        title, y = (
            f"{network}, {routing}: our mean latency beside BookSim2's",
            "ours over BookSim2's, less 1 (%)",
        )
        drawn[f"{named(network)}-{routing}"] = draw_lines(
            title, lines, x=offered, y=y, claim=(0.0, "BookSim2")
        )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_booksim",
    title="The simulator beside BookSim2: latencies up to 90 % of saturation, and saturation, on four networks",
    deviations=(
        "BookSim2's values are of a program rebuilt from its public source, which reproduces its published ones.",
        "Saturation is a mean latency of 500 cycles, BookSim2's own limit; both sides are searched to 1 %.",
        "Nodes are numbered as in BookSim2, which corrects the lowest digit first where ours corrects the highest.",
        "On the fat tree both go a random way to the nearest common ancestor (nca, here --routing nca).",
    ),
    answers="Zarza 2011, section 5.2 (models of a router): agreement with BookSim2 (Jiang and others 2013)",
)
