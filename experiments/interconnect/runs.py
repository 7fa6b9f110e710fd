"""Runs the points of the interconnect studies in the simulator (thesis model of a hop) and reads off what is
compared."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.study_points import (
    BURST_AT_S,
    FIRST_SHOWN_SLOT,
    RING_SHAPE,
    SLOT_S,
    Run,
    faults_of,
    network_of,
    ring_traffic,
    traffic_of,
)
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.model.studies import Results, Row

DeadCables = frozenset[frozenset[str]]
RING_NETWORK = "torus:8x8"
WINDOW_S = 0.1
"""Messages made so long before the burst, and so long after the slot of the burst, show the latency before and
after."""


COUNTERS = {
    "escapes": "escapes", "alternative": "sent_alternative", "grown": "metapaths_grown", "shrunk": "metapaths_shrunk",
}  # fmt: skip
"""In the rows -> of FT-DRB in the simulator."""


def measure_run(point: Row) -> Results:
    """One run of FT-DRB: ``latency_s`` by equations 5.1 and 5.2 (source queue included), what was sent and received,
    and what NAC and FT-DRB did. ``latency_later_s``: of messages made in the second half of the run;
    ``escaped_share``: of those made after the first failure, how many routers gave an escape path.
    """
    run = Run.of(point)
    faults, parameters, end = faults_of(run), parameters_of(run), run.seconds
    done = simulate(model_of(run.network, parameters), traffic_of(run), parameters, faults)
    met = done.born >= min((fault.start_s for fault in faults), default=0.0) * done.ticks_per_s
    summary, later = (summarize(done, start_s=start, end_s=end) for start in (0.0, end / 2))
    return {
        "latency_s": summary.destination_mean_latency_s,
        "latency_later_s": later.destination_mean_latency_s,
        "escaped_share": float((done.escapes[met] > 0).mean()) if met.any() else 0.0,
        **{
            name: getattr(done, name)
            for name in ("sent", "received", "deadlocked", "stopped", "livelocked")
        },
        **{name: done.drb_counters.get(counter, 0) for name, counter in COUNTERS.items()},
        "nac_moves": moves_of(done),
    }


def measure_ring(point: Row) -> Results:
    """One run of the ring (Table 5.4): whether and when it deadlocks, slots of 10 ms, and what the burst did."""
    parameters = parameters_of(
        Run.of({**point, "network": RING_NETWORK, "pattern": "tornado", "routing": "dor"})
    )
    run = simulate(model_of(RING_NETWORK, parameters), ring_traffic(point), parameters)
    found: Results = {
        **{name: getattr(run, name) for name in ("sent", "received", "deadlocked")},
        "deadlock_s": run.deadlocked_at_s,
        "stopped": run.stopped,
        "nac_moves": moves_of(run),
    }
    if point["burst"]:
        found.update(_around_burst(run, point["seconds"]))
    return found


def moves_of(run: SimulationResult) -> int:
    """Packets that NAC put aside: by routers that identified themselves, and in recovery."""
    return run.nac_counters.get("moved", 0) + run.nac_counters.get("recovery_moved", 0)


def _around_burst(run: SimulationResult, seconds: float) -> Results:
    """Slots, surface maps and latencies before, in and after the slot of the burst."""
    slots = round(seconds / SLOT_S)
    burst_slot = int(BURST_AT_S / SLOT_S + 1e-6)
    done = run.delivered >= 0
    at_s = run.delivered[done] / run.ticks_per_s
    slot = np.minimum((at_s / SLOT_S).astype(int), slots)
    received = np.bincount(slot, minlength=slots + 1)[:slots]
    running = _running_means_us(run, slots)
    return {
        "received_slots": received.tolist(),
        "latency_slots_us": [round(value, 4) for value in running],
        "rise_us": running[burst_slot] - running[burst_slot - 1],
        "latency_before_us": _mean_us(run, BURST_AT_S - WINDOW_S, BURST_AT_S),
        "latency_after_us": _mean_us(run, BURST_AT_S + SLOT_S, BURST_AT_S + SLOT_S + WINDOW_S),
        "throughput_dip_percent": _missing_percent(run, (burst_slot + 1) * SLOT_S),
        "maps": [_map_of(run, done, slot, FIRST_SHOWN_SLOT + k) for k in range(4)],
        "first_map": _map_of(run, done, slot, 1),
    }


def _running_means_us(run: SimulationResult, slots: int) -> list[float]:
    """Equations 5.1 and 5.2 at the end of every slot: the mean of each destination so far, then over destinations."""
    done = run.delivered >= 0
    slot = (run.delivered[done] / run.ticks_per_s / SLOT_S).astype(int)
    shape, places = (
        (slots, int(run.destination.max()) + 1),
        (slot[slot < slots], run.destination[done][slot < slots]),
    )
    latency_us = (run.delivered[done] - run.born[done]) / run.ticks_per_s * 1e6
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, places, latency_us[slot < slots])
    np.add.at(counts, places, 1)
    means = sums.cumsum(axis=0) / np.maximum(counts.cumsum(axis=0), 1)
    reached = np.count_nonzero(counts.cumsum(axis=0), axis=1)
    return list(means.sum(axis=1) / np.maximum(reached, 1))


def _mean_us(run: SimulationResult, start_s: float, end_s: float) -> float:
    mean = summarize(run, start_s=start_s, end_s=end_s).mean_latency_s
    return 1e6 * mean if mean is not None else 0.0


def _missing_percent(run: SimulationResult, until_s: float) -> float:
    """Messages made but not delivered by then, of all messages made by then."""
    end = until_s * run.ticks_per_s
    made = int((run.born < end).sum())
    arrived = int(((run.delivered >= 0) & (run.delivered < end)).sum())
    return 100.0 * (made - arrived) / made


def _map_of(
    run: SimulationResult, done: NDArray[np.bool_], slot: NDArray[np.int_], required: int
) -> list[list[int]]:
    """Messages received in the slot by every node of the torus: [x][y]."""
    there = run.destination[done][slot == required]
    counts = np.bincount(there, minlength=RING_SHAPE[0] * RING_SHAPE[1])
    return [[int(v) for v in row] for row in counts.reshape(RING_SHAPE)]


def parameters_of(run: Run) -> SimulationParameters:
    """How the run is simulated."""
    return SimulationParameters(
        model="thesis",
        routing="d-mod-k"
        if run.routing == "dor" and run.network.startswith("fat-tree")
        else run.routing,
        deadlock=run.deadlock,
        packet_bytes=run.bytes,
        buffer_bytes=run.buffer_bytes,
        switching=run.switching,
        router_delay_s=run.router_delay_s,
        seed=run.seed,
        ft_drb=FtDrbOptions(paths=run.paths, **run.options),
    )


def model_of(
    network: str, parameters: SimulationParameters, dead: DeadCables = frozenset()
) -> NetworkModel:
    """Numbers and tables, built once a process for all seeds; ``dead``: cables that tables leave out."""
    return _model_of(network, replace(parameters, seed=1), dead)


@lru_cache(maxsize=8)
def _model_of(network: str, parameters: SimulationParameters, dead: DeadCables) -> NetworkModel:
    return build_model(network_of(network), parameters, dead)
