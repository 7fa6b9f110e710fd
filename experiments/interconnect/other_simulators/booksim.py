"""Compares the simulator with BookSim2 on two tori, a mesh and a tree, up to saturation.

The networks are an 8x8 and a 4x4x4 torus, an 8x8 mesh and a 4-ary 3-tree. BookSim2's values are
stored in ``booksim_values.json``, which says how they were measured. Ours are measured at the same
loads: 30, 70 and 90 % of the load at which BookSim2 saturates. A cycle is that of a flit: 256 ns,
for 64 bytes at 2 Gbps.
"""

import json
import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.interconnect.figures import file_name_of
from experiments.interconnect.runs import model_of
from experiments.interconnect.samples import COUNTED, mean
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
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    half_width,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_lines

VALUES = Path(__file__).with_name("booksim_values.json")
SEEDS = 6

# The two models of a hop: that of BookSim2, and that of the document, which is the rival.
BOOKSIM = "booksim"
THESIS = "thesis"
AS_THESIS = "as our other model of a hop, `thesis`"

# The routing with detours, which has separate checks.
DETOUR_ROUTING = "valiant"


class Limits(NamedTuple):
    """Limits of the relative difference of latencies.

    Attributes:
        mean: Limit of the mean over networks and patterns.
        farthest: Limit of each network and pattern, or None.
    """

    mean: float
    farthest: float | None


# Limits by load, in parts of the load at which BookSim2 saturates.
LATENCY_LIMITS = {0.3: Limits(0.02, None), 0.7: Limits(0.05, None), 0.9: Limits(0.07, 0.13)}

# Limits of how far loads of saturation may be apart: the mean, and each network and pattern.
SATURATION_LIMIT = 0.03
FARTHEST_SATURATION_LIMIT = 0.075

# Limit of the mean latency of detours.
DETOUR_LIMIT = 0.05

PACKET_FLITS = 32

# Lengths of a run. Messages generated after the warm-up are measured.
WARM_UP_CYCLES = 20_000
MEASURED_CYCLES = 60_000

# BookSim2 calls a run unstable if its mean latency exceeds this value (``latency_thres``). The
# load of saturation is that with this latency.
SATURATED_CYCLES = 500.0

# Lengths and seeds of a run of the search for saturation, and how precise it is (in parts of the
# load).
SEARCH_WARM_UP_CYCLES = 10_000
SEARCH_MEASURED_CYCLES = 40_000
SEARCH_SEEDS = 2
SEARCH_STEP = 0.01


class Setting(NamedTuple):
    """A network, routing and pattern that are compared."""

    network: str
    routing: str
    pattern: str


class Sample(NamedTuple):
    """A setting and a load.

    Attributes:
        setting: The setting.
        share: The load, in parts of the load at which BookSim2 saturates.
    """

    setting: Setting
    share: float


class Difference(NamedTuple):
    """The relative difference of a latency from BookSim2's.

    Attributes:
        value: Our latency over BookSim2's, less 1.
        half_interval: Half its 95 % confidence interval.
    """

    value: float
    half_interval: float


def points(quick: bool, seed: int) -> Points:
    """Return the points of each stored latency, and of each stored saturation load.

    Our model of BookSim2's hop has several seeds. The document's model, which is the rival, has
    one, and no detours.
    """
    seed_count = 1 if quick else SEEDS
    result: Points = []
    for stored in _stored():
        if quick and stored["pattern"] != "uniform":
            continue
        result += _points_of_row(stored, BOOKSIM, range(seed, seed + seed_count), quick=quick)
        if stored["routing"] != DETOUR_ROUTING:
            result += _points_of_row(stored, THESIS, [seed], quick=quick)
    return result


def _points_of_row(stored: Row, model: str, seeds: Sequence[int], *, quick: bool) -> Points:
    """Return the points for one stored row.

    The saturation load is searched once for each setting. Its row is the one with the highest load.
    """
    common = {name: stored[name] for name in ("network", "routing", "pattern", "share")}
    result = []
    for seed in seeds:
        result.append(
            {**common, "part": "latency", "model": model, "rate": stored["load"], "seed": seed}
        )
    if stored["share"] == max(LATENCY_LIMITS) and not quick:
        search = {"part": "saturation", "model": model, "rate": stored["saturation"]}
        result.append({**common, **search, "seed": seeds[0]})
    return result


@lru_cache(maxsize=1)
def table() -> Results:
    """Return the stored values of BookSim2.

    Returns:
        ``published`` compares values of the program that was rebuilt with BookSim2's published
        ones. ``rows`` has the values that this study compares. Other fields say how they were
        measured.
    """
    with VALUES.open() as file:
        values: Results = json.load(file)
    return values


def _stored() -> Points:
    rows: Points = table()["rows"]
    return rows


def measure(point: Row) -> Results:
    """Simulate one run, or search the load of saturation (flits per cycle and node)."""
    if point["part"] == "saturation":

        def latency(load: float, seed: int) -> float:
            _, latency_cycles = _run(
                point, load, seed, SEARCH_WARM_UP_CYCLES, SEARCH_MEASURED_CYCLES
            )
            return latency_cycles

        return {"load": saturation_of(latency, point["rate"])}
    run, latency_cycles = _run(point, point["rate"], point["seed"], WARM_UP_CYCLES, MEASURED_CYCLES)
    return {"sent": run.sent, "received": run.received, "latency_cycles": latency_cycles}


def saturation_of(latency: Callable[[float, int], float], guess: float) -> float:
    """Return the load at which the mean latency of runs reaches ``SATURATED_CYCLES``.

    The load is found by bisection. It is 1 if the network never saturates.

    Args:
        latency: Returns the latency in cycles of a load and a seed.
        guess: A load near the result.
    """

    def stable(load: float) -> bool:
        latencies = [latency(load, seed) for seed in range(1, SEARCH_SEEDS + 1)]
        return sum(latencies) / len(latencies) < SATURATED_CYCLES

    low = 0.94 * guess
    high = min(1.06 * guess, 1.0)
    while not stable(low):
        high = low
        low = 0.9 * low
    while high < 1.0 and stable(high):
        low = high
        high = min(1.1 * high, 1.0)
    if high >= 1.0 and stable(high):
        return 1.0
    while high - low > SEARCH_STEP * high:
        middle = (low + high) / 2
        if stable(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _run(
    point: Row, load: float, seed: int, warm_up_cycles: int, measured_cycles: int
) -> tuple[SimulationResult, float]:
    """Simulate one run.

    Returns:
        The run, and the mean latency (cycles) of the messages generated after the warm-up.
    """
    parameters = _parameters(point["routing"], point["model"], seed)
    network = network_of(point["network"])
    attributes = network.attributes
    shape: Sequence[int] = attributes.get("shape") or [attributes["k"]] * attributes["n"]
    pattern = build_pattern(
        point["pattern"], len(network.hosts), shape=shape, to_itself=parameters.hop.to_itself
    )
    if "shape" in attributes:
        pattern = numbered_as_in_booksim(pattern, shape)
    process = InjectionProcess(rate_per_s=load / (PACKET_FLITS * FLIT_CYCLE_S))
    start_s = warm_up_cycles * FLIT_CYCLE_S
    end_s = (warm_up_cycles + measured_cycles) * FLIT_CYCLE_S
    injections = build_injections(pattern, process, duration_s=end_s, seed=seed)
    run = simulate(model_of(point["network"], parameters), injections, parameters)
    latency_s = summarize(run, start_s=start_s, end_s=end_s).mean_latency_s or 0.0
    return run, latency_s / FLIT_CYCLE_S


def numbered_as_in_booksim(pattern: DestinationPattern, shape: Sequence[int]) -> DestinationPattern:
    """Return the pattern with the nodes numbered as in BookSim2.

    BookSim2's routing corrects the lowest digit of a node's number first, and ours the highest.

    >>> numbered_as_in_booksim(build_pattern("shuffle", 8), (2, 2, 2)).choices[1]
    (4,)
    """
    ours = np.arange(math.prod(shape)).reshape(shape).transpose().reshape(-1)
    booksims = np.argsort(ours)
    choices = []
    for node in booksims:
        destinations = [int(ours[destination]) for destination in pattern.choices[node]]
        choices.append(tuple(destinations))
    return DestinationPattern(name=pattern.name, choices=tuple(choices), in_turn=pattern.in_turn)


def _parameters(routing: str, model: str, seed: int) -> SimulationParameters:
    """Return the parameters of the stored table.

    Packets have 32 flits, and a buffer has two of them. There are two virtual channels. Detours
    have as many as they need.
    """
    deadlock = "none" if routing == DETOUR_ROUTING else "virtual-channels"
    return SimulationParameters(model=model, routing=routing, deadlock=deadlock, seed=seed)


def judge(rows: Rows) -> Verdict:
    """Check latencies, the loads of saturation, detours, and that no message is lost."""
    checks = [_delivery_check(rows)]
    for share, limits in LATENCY_LIMITS.items():
        checks += _latency_checks(rows, share, limits)
    checks.append(_switch_hold_check(rows))
    checks += _saturation_checks(rows)
    if any(sample.setting.routing == DETOUR_ROUTING for sample in _latencies(BOOKSIM, rows)):
        checks.append(_detour_check(rows))
    return Verdict.of(checks)


def _delivery_check(rows: Rows) -> Check:
    latency_rows = where(rows, part="latency")
    sent = sum_of(latency_rows, "sent")
    received = sum_of(latency_rows, "received")
    check = Claim("messages undelivered").count(0.0, sent - received, COUNTED)
    return check.noting(f"{sent} messages sent").of(sent + received)


def _latency_checks(rows: Rows, share: float, limits: Limits) -> list[Check]:
    """Check how far latencies are apart from BookSim2's at one load.

    The mean over networks and patterns is checked, and the largest difference if it has a limit.
    """
    differences = {}
    for sample, difference in _differences(rows, BOOKSIM).items():
        if sample.share == share and sample.setting.routing != DETOUR_ROUTING:
            differences[sample.setting] = difference
    rival_sizes = []
    for sample, difference in _differences(rows, THESIS).items():
        if sample.share == share:
            rival_sizes.append(abs(difference.value))
    rival = sum(rival_sizes) / len(rival_sizes)

    name = f"mean latency at {share:.0%} of saturation, apart from BookSim2's"
    mean_check = Claim(f"{name}: the mean over networks and patterns").at_most(
        limits.mean, _mean_size(differences.values())
    )
    signed_mean = sum(difference.value for difference in differences.values()) / len(differences)
    mean_check = mean_check.against(rival, AS_THESIS)
    checks = [
        mean_check.noting(f"{len(differences)} points, {signed_mean:+.1%} in the signed mean")
    ]
    if limits.farthest is not None:
        farthest = max(differences, key=lambda setting: abs(differences[setting].value))
        value, half_interval = differences[farthest]
        check = Claim(f"{name}: the farthest").at_most(limits.farthest, (abs(value), half_interval))
        check = check.against(rival, f"{AS_THESIS} in the mean")
        checks.append(check.noting(", ".join(farthest)))
    return checks


def _switch_hold_check(rows: Rows) -> Check:
    """Check that we are nearer to BookSim2 than to BookSim2 that does not hold the switch.

    It compares differences at 70 and 90 % of saturation, if BookSim2 was run both ways.
    """
    ours = _latencies(BOOKSIM, rows)
    with_hold = []
    without_hold = []
    for stored in _stored():
        values = ours.get(_sample_of(stored), [])
        if values and stored.get("without_hold") and stored["share"] > 0.5:
            with_hold.append(abs(mean(values) / mean(stored["cycles"]) - 1))
            without_hold.append(abs(mean(values) / mean(stored["without_hold"]) - 1))
    distance = "how far from BookSim2"
    name = (
        f"{distance} at 70 and 90 % of saturation, over {distance} without hold_switch_for_packet"
    )
    check = Claim(name).at_most(0.8, sum(with_hold) / sum(without_hold))
    check = check.against(1.0, "no nearer: whether the switch is held would not matter")
    mean_with_hold = sum(with_hold) / len(with_hold)
    mean_without_hold = sum(without_hold) / len(without_hold)
    return check.noting(
        f"{len(with_hold)} points, {mean_with_hold:.1%} and {mean_without_hold:.1%} in the mean"
    )


def _saturation_checks(rows: Rows) -> list[Check]:
    """Check the loads of saturation. There is no check if none was searched."""
    searches = [row for row in where(rows, part="saturation") if row["routing"] != DETOUR_ROUTING]
    differences = _saturation_differences(where(searches, model=BOOKSIM))
    if not differences:
        return []
    rivals = _saturation_differences(where(searches, model=THESIS))
    sizes = {setting: abs(difference) for setting, difference in differences.items()}
    rival_sizes = [abs(difference) for difference in rivals.values()]
    count = len(sizes)

    name = "load at saturation (mean latency of 500 cycles), apart from BookSim2's"
    # The search is precise to a step. The steps of several searches are independent.
    measured = (sum(sizes.values()) / count, SEARCH_STEP / math.sqrt(count))
    mean_check = Claim(f"{name}: the mean over networks and patterns").at_most(
        SATURATION_LIMIT, measured
    )
    mean_check = mean_check.against(sum(rival_sizes) / len(rival_sizes), AS_THESIS)
    signed_mean = sum(differences.values()) / count
    mean_check = mean_check.noting(
        f"{count} networks and patterns, {signed_mean:+.1%} in the signed mean"
    )

    farthest = max(sizes, key=sizes.__getitem__)
    farthest_check = Claim(f"{name}: the farthest").at_most(
        FARTHEST_SATURATION_LIMIT, (sizes[farthest], SEARCH_STEP)
    )
    farthest_check = farthest_check.against(max(rival_sizes), f"{AS_THESIS}, at its farthest")
    return [mean_check, farthest_check.noting(", ".join(farthest))]


def _saturation_differences(searches: Rows) -> dict[Setting, float]:
    """Return our load of saturation over BookSim2's, less 1."""
    return {_setting_of(row): row["load"] / row["rate"] - 1 for row in searches}


def _detour_check(rows: Rows) -> Check:
    """Check the latencies of Valiant's detours up to 70 % of saturation.

    The rival is the latency of BookSim2's shortest paths at the same share of their saturation.
    """
    differences = {}
    for sample, difference in _differences(rows, BOOKSIM).items():
        if sample.setting.routing == DETOUR_ROUTING and sample.share < 0.9:
            differences[sample] = difference
    shortest_cycles = {}
    for stored in where(_stored(), routing="dor"):
        key = (stored["network"], stored["pattern"], stored["share"])
        shortest_cycles[key] = mean(stored["cycles"])
    rivals = []
    for stored in where(_stored(), routing=DETOUR_ROUTING):
        if stored["share"] < 0.9:
            key = (stored["network"], stored["pattern"], stored["share"])
            rivals.append(abs(shortest_cycles[key] / mean(stored["cycles"]) - 1))
    name = "Valiant: mean latency at 30 and 70 % of its saturation, apart from BookSim2's: the mean"
    check = Claim(name).at_most(DETOUR_LIMIT, _mean_size(differences.values()))
    check = check.against(
        sum(rivals) / len(rivals), "as shortest paths take at the same share of theirs"
    )
    return check.noting(f"{len(differences)} points")


def _setting_of(row: Row) -> Setting:
    return Setting(row["network"], row["routing"], row["pattern"])


def _sample_of(row: Row) -> Sample:
    return Sample(_setting_of(row), row["share"])


def _latencies(model: str, rows: Rows) -> dict[Sample, list[float]]:
    """Return our latencies (cycles) with one model of a hop."""
    latencies: dict[Sample, list[float]] = {}
    for row in where(rows, part="latency", model=model):
        latencies.setdefault(_sample_of(row), []).append(row["latency_cycles"])
    return latencies


def _differences(rows: Rows, model: str) -> dict[Sample, Difference]:
    """Return the differences of our latencies from BookSim2's."""
    booksims = {_sample_of(row): row["cycles"] for row in _stored()}
    differences = {}
    for sample, ours in _latencies(model, rows).items():
        theirs = booksims[sample]
        ratio = mean(ours) / mean(theirs)
        # Both means are uncertain.
        relative_half_interval = math.hypot(
            half_width(ours) / mean(ours), half_width(theirs) / mean(theirs)
        )
        differences[sample] = Difference(ratio - 1, ratio * relative_half_interval)
    return differences


def _mean_size(differences: Collection[Difference]) -> tuple[float, float]:
    """Return the mean absolute difference, and half its 95 % confidence interval."""
    count = len(differences)
    sizes = [abs(difference.value) for difference in differences]
    half_intervals = [difference.half_interval for difference in differences]
    return sum(sizes) / count, math.hypot(*half_intervals) / count


def figures(rows: Rows) -> Figures:
    """Draw the differences over the share of saturation, one line per pattern.

    There is a figure for each network and routing.
    """
    lines: dict[tuple[str, str], dict[tuple[str, float], tuple[float, float]]] = {}
    for (setting, share), difference in _differences(rows, BOOKSIM).items():
        figure_lines = lines.setdefault((setting.network, setting.routing), {})
        percent = (100 * difference.value, 100 * difference.half_interval)
        figure_lines[setting.pattern, 100 * share] = percent
    drawn = {}
    for (network, routing), figure_lines in lines.items():
        drawn[f"{file_name_of(network)}-{routing}"] = draw_lines(
            f"{network}, {routing}: our mean latency beside BookSim2's",
            figure_lines,
            x="offered load (% of the load at which BookSim2 saturates)",
            y="ours over BookSim2's, less 1 (%)",
            claim=(0.0, "BookSim2"),
        )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_booksim",
    title="The simulator compared with BookSim2: latencies up to 90 % of saturation, and "
    "saturation, on four networks",
    deviations=(
        "BookSim2's values are those of a program that was rebuilt from its public source, and "
        "reproduces its published values.",
        "Saturation is a mean latency of 500 cycles, which is BookSim2's limit. Both loads are "
        "searched to 1 %.",
        "Nodes are numbered as in BookSim2, which corrects the lowest digit first. Our routing "
        "corrects the highest.",
        "On the fat tree both simulators choose a random path to the nearest common ancestor "
        "(nca, here --routing nca).",
    ),
    answers="Zarza 2011, section 5.2 (models of a router): agreement with BookSim2 (Jiang and "
    "others 2013)",
)
