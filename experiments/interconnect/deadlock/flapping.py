"""NAC in the timed simulator on networks of 2 x 3 whose cables fail and work again every few packet times, in drawn
settings.

What the exploration of ``nac_exhaustive`` lets happen in any order happens here with the delays that routers have.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.runs import model_of
from testbed.faults.cable_faults import Cable, cable_fault, switch_cables
from testbed.faults.fault import Fault
from testbed.interconnect.options import FtDrbOptions, NacOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import Injections
from topologies import load_network

EXPLORED: dict[str, tuple[tuple[tuple[int, int], ...], tuple[Cable, ...]]] = {
    "torus:2x3": (((0, 1), (2, 1)), (("s0_0", "s0_1"), ("s0_1", "s0_2"))),
    "mesh:2x3": (((1, 2), (5, 0)), (("s0_0", "s0_1"), ("s1_1", "s1_2"))),
}
"""Flows (hosts, one a router) and failing cables of the two explorations that found states that can never drain."""
BARE = 5
"""Every so manieth run is made without NAC, too."""
Flows = Sequence[tuple[int, int]]


def measure_batch(network: str, seed: int, runs: int, *, ask_anew: bool) -> dict[str, int]:
    """So many runs; each draws its packets, buffers, hop, load, flows and how fast its cables fail and work again.

    Counted are runs, messages, failures, packets that NAC put aside, runs in which it did, those in which messages
    stayed under way permanently (``stuck``), and the same of runs without NAC (``bare``, ``bare_stuck``; not with
    ``ask_anew``, ``NacOptions.ask_anew``).
    """
    counted = Counter(dict.fromkeys(("messages", "failures", "moved", "moving", "stuck", "bare", "bare_stuck"), 0))
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        parameters = drawn_parameters(rng)
        parameters = replace(parameters, nac=replace(parameters.nac, ask_anew=ask_anew))
        sent, faults = drawn_load(rng, network, parameters)
        run = simulate(model_of(network, parameters), sent, parameters, faults)
        moved = run.nac_counters["moved"] + run.nac_counters["recovery_moved"]
        counted.update(messages=run.sent, failures=len(faults), moved=moved, moving=moved > 0)
        counted["stuck"] += run.received < run.sent
        if number % BARE == 0 and not ask_anew:
            bare = replace(parameters, deadlock="none")
            run = simulate(model_of(network, bare), sent, bare, faults)
            counted.update(bare=1, bare_stuck=run.received < run.sent)
    return {"runs": runs, **{name: int(value) for name, value in counted.items()}}


def drawn_parameters(rng: np.random.Generator) -> SimulationParameters:
    """Packets of 256 to 2048 bytes, one or two slots, both models of a hop, sources that divert and sources that never
    do."""
    size = int(rng.choice([256, 512, 2048]))
    return SimulationParameters(
        model=str(rng.choice(["thesis", "booksim"])),
        routing="ft-drb",
        deadlock="nac",
        packet_bytes=size,
        buffer_bytes=size * int(rng.choice([1, 1, 2])),
        drain_s=0.02,
        watchdog_s=0.005,
        nac=NacOptions(strict_slot=bool(rng.integers(2))),
        ft_drb=FtDrbOptions(notifications=int(rng.choice([5, 250]))),
        seed=int(rng.integers(1, 1 << 30)),
    )


def drawn_load(
    rng: np.random.Generator, network: str, parameters: SimulationParameters
) -> tuple[Injections, list[Fault]]:
    """Some 1,200 messages, by the explored flows or between all hosts, and one to four cables that flap until they are
    sent."""
    flows, cables = EXPLORED[network]
    packet_s = parameters.serialization_ticks(parameters.packet_bytes) / 1e11
    if rng.integers(2):
        chosen: Flows = flows
    else:
        chosen = [(a, b) for a in range(6) for b in range(6) if a != b]
        every = switch_cables(load_network(network))
        cables = tuple(every[i] for i in rng.choice(len(every), size=int(rng.integers(1, 5)), replace=False))
    load = float(rng.choice([0.7, 1.5, 3.0])) * min(1.0, 6 / len(chosen))
    sent = _poisson(rng, chosen, 1200 // len(chosen), packet_s / load)
    end_s = float(sent.time_ps[-1]) / 1e12
    return sent, [fault for cable in cables for fault in _flaps(rng, cable, packet_s, end_s)]


def _poisson(rng: np.random.Generator, flows: Flows, each: int, between_s: float) -> Injections:
    times = np.concatenate([np.cumsum(rng.exponential(between_s, size=each)) for _ in flows])
    order = np.argsort(times, kind="stable")
    ends: NDArray[np.int32] = np.repeat(np.array(flows, dtype=np.int32), each, axis=0)[order]
    return Injections(
        time_ps=(times[order] * 1e12).astype(np.int64),
        source=np.ascontiguousarray(ends[:, 0]),
        destination=np.ascontiguousarray(ends[:, 1]),
    )


def _flaps(rng: np.random.Generator, cable: Cable, packet_s: float, end_s: float) -> list[Fault]:
    """The cable works, and is dead, some half to ten packet times on average, in turn."""
    works_s, dead_s = (packet_s * float(v) for v in rng.choice([0.5, 1.0, 2.0, 4.0, 10.0], size=2))
    found, at_s = [], float(rng.uniform(0.0, 4.0 * packet_s))
    while at_s < end_s:
        stop_s = at_s + dead_s * float(rng.uniform(0.3, 1.7))
        found.append(cable_fault(cable, start_s=at_s, stop_s=stop_s))
        at_s = stop_s + works_s * float(rng.uniform(0.3, 1.7))
    return found
