"""Runs of our simulator at the points of the table of BookSim2's values, and the load at which it saturates as that
table has it.

The table (``booksim_values.json``) says how its values were made. Cycles are those of flits: 256 ns, 64 B at 2 Gbps.
"""

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from experiments.interconnect.runs import model_of
from experiments.interconnect.study_points import network_of
from testbed.interconnect.parameters import FLIT_CYCLE_S, SimulationParameters
from testbed.interconnect.results import SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import DestinationPattern, InjectionProcess, build_injections, build_pattern
from testbed.model.studies.study import Results, Row

VALUES = Path(__file__).with_name("booksim_values.json")
PACKET_FLITS = 32
WARM_UP_CYCLES, MEASURED_CYCLES = 20_000, 60_000
"""Messages made in the second part of a run are measured."""
SATURATED_CYCLES = 500.0
"""BookSim2 calls a run unstable when its mean latency exceeds this (its ``latency_thres``); that load is taken for
saturation."""
SEARCH_WARM_UP, SEARCH_MEASURED, SEARCH_SEEDS, SEARCH_STEP = 10_000, 40_000, 2, 0.01
"""Cycles and seeds of a run of the search for that load, and how near it gets (a share of the load)."""


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
        return {"load": saturation_of(lambda load, seed: _run(point, load, seed, *searched)[1], point["rate"])}
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


def _run(point: Row, load: float, seed: int, warm_up: int, measured: int) -> tuple[SimulationResult, float]:
    """A run, and the mean latency, in cycles, of messages made after the warm-up."""
    network, hop = network_of(point["network"]), point["model"]
    parameters = _parameters(point["routing"], hop, seed)
    attributes = network.attributes
    shape: Sequence[int] = attributes.get("shape") or [attributes["k"]] * attributes["n"]
    pattern = build_pattern(point["pattern"], len(network.hosts), shape=shape, to_itself=parameters.hop.to_itself)
    if "shape" in attributes:
        pattern = as_numbered_there(pattern, shape)
    process = InjectionProcess(rate_per_s=load / (PACKET_FLITS * FLIT_CYCLE_S))
    injections = build_injections(pattern, process, duration_s=(warm_up + measured) * FLIT_CYCLE_S, seed=seed)
    run = simulate(model_of(point["network"], parameters), injections, parameters)
    window = summarize(run, start_s=warm_up * FLIT_CYCLE_S, end_s=(warm_up + measured) * FLIT_CYCLE_S)
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
