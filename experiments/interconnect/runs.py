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
    RingRun,
    Run,
    faults_of,
    network_of,
    ring_traffic,
    traffic_of,
)
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import NAC_EVENTS, SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.model.studies.study import Results, Row

DeadCables = frozenset[frozenset[str]]
RING_NETWORK = "torus:8x8"
WINDOW_S = 0.1
"""Messages made so long before the burst, and so long after the slot of the burst, show the latency before and
after."""


COUNTERS = {
    "escapes": "escapes", "alternative": "sent_alternative", "marked": "marked_permanent",
    "notifications": "notifications", "grown": "metapaths_grown", "shrunk": "metapaths_shrunk",
    "balanced": "sent_balanced",
}  # fmt: skip
"""In the rows -> of FT-DRB in the simulator."""


def measure_run(point: Row) -> Results:
    """One run of FT-DRB: ``latency_s`` by equations 5.1 and 5.2 (source queue included), what was sent and received,
    and what NAC and FT-DRB did. ``latency_later_s``: of messages made in the second half of the run.
    """
    run = Run.of(point)
    faults, parameters, end = faults_of(run), parameters_of(run), run.seconds
    done = simulate(model_of(run.network, parameters), traffic_of(run), parameters, faults)
    summary, later = (summarize(done, start_s=start, end_s=end) for start in (0.0, end / 2))
    return {
        "latency_s": summary.destination_mean_latency_s,
        "latency_later_s": later.destination_mean_latency_s,
        **_phases(done, min((fault.start_s for fault in faults), default=0.0), end),
        **{name: getattr(done, name) for name in ("sent", "received", "deadlocked", "stopped", "livelocked")},
        "hops": float(done.hops[done.delivered >= 0].mean()) if done.received else 0.0,
        **{name: done.drb_counters.get(counter, 0) for name, counter in COUNTERS.items()},
        "acks": done.acks,
        "nac_moves": moves_of(done),
        "nac_identified": done.nac_counters.get("identified", 0),
    }


def _phases(run: SimulationResult, failed_s: float, end_s: float) -> dict[str, float]:
    """Of messages made after the first failure, and in the last quarter of the run (``_last``): the shares that routers
    gave an escape path (phase 1) and that their source sent over other paths (phase 2, and what Algorithm 3.3
    balances); the mean latency (us) of either, and of the rest.

    ``reaction_us``: how long after the first failure messages that escaped were made, on average.
    """
    found: dict[str, float] = {}
    escaped = run.escapes > 0
    diverted = run.diverted & ~escaped
    for name, start_s in (("", failed_s), ("_last", 0.75 * end_s)):
        there = run.born >= start_s * run.ticks_per_s
        found[f"escaped_share{name}"] = float(escaped[there].mean()) if there.any() else 0.0
        found[f"diverted_share{name}"] = float(diverted[there].mean()) if there.any() else 0.0
    after = (run.born >= failed_s * run.ticks_per_s) & (run.delivered >= 0)
    for name, phase in (("escaped", escaped), ("diverted", diverted), ("other", ~escaped & ~diverted)):
        some = run.latencies_s()[after & phase]
        found[f"latency_{name}_us"] = 1e6 * float(some.mean()) if len(some) else 0.0
    met = run.born[after & escaped] / run.ticks_per_s - failed_s
    found["reaction_us"] = 1e6 * float(met.mean()) if len(met) else 0.0
    return found


def measure_ring(point: Row) -> Results:
    """One run of the ring (Table 5.4): whether and when it deadlocks, slots of 10 ms, and what the burst did."""
    ring = RingRun(**point)
    parameters = parameters_of(Run.of({**point, "network": RING_NETWORK, "pattern": "tornado", "routing": "dor"}))
    run = simulate(model_of(RING_NETWORK, parameters), ring_traffic(ring), parameters)
    found: Results = {
        **{name: getattr(run, name) for name in ("sent", "received", "deadlocked")},
        "deadlock_s": run.deadlocked_at_s,
        "stopped": run.stopped,
        "nac_moves": moves_of(run),
        "nac_identified": run.nac_counters.get("identified", 0),
    }
    if ring.burst:
        found.update(_around_burst(run, ring.seconds))
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
    treatment = run.nac_timeline[:, 0]
    return {
        "received_slots": received.tolist(),
        "latency_slots_us": [round(value, 4) for value in running],
        "rise_us": running[burst_slot] - running[burst_slot - 1],
        "latency_before_us": _mean_us(run, BURST_AT_S - WINDOW_S, BURST_AT_S),
        "latency_after_us": _mean_us(run, BURST_AT_S + SLOT_S, BURST_AT_S + SLOT_S + WINDOW_S),
        "throughput_dip_percent": _missing_percent(run, (burst_slot + 1) * SLOT_S),
        "stuck_packets": run.stuck.packets,
        "identification_us": _identification_us(run),
        "nac_treatment_us": float(treatment[-1] - treatment[0]) / run.ticks_per_s * 1e6 if len(treatment) else 0.0,
        "maps": [_map_of(run, done, slot, FIRST_SHOWN_SLOT + k) for k in range(4)],
        "first_map": _map_of(run, done, slot, 1),
    }


def _identification_us(run: SimulationResult) -> float:
    """From the first input that is blocked until the first cycle is identified; 0 where there was none."""
    ticks, events = run.nac_timeline[:, 0], run.nac_timeline[:, 1]
    blocked, identified = (ticks[events == NAC_EVENTS.index(name)] for name in ("blocked", "identified"))
    if not len(blocked) or not len(identified):
        return 0.0
    return float(identified[0] - blocked[0]) / run.ticks_per_s * 1e6


def _running_means_us(run: SimulationResult, slots: int) -> list[float]:
    """Equations 5.1 and 5.2 at the end of every slot: the mean of each destination so far, then over destinations."""
    done = np.nonzero(run.delivered >= 0)[0]
    order = done[np.argsort(run.delivered[done], kind="stable")]
    slot = (run.delivered[order] / run.ticks_per_s / SLOT_S).astype(int)
    latency = (run.delivered[order] - run.born[order]) / run.ticks_per_s * 1e6
    nodes = int(run.destination.max()) + 1
    sums: NDArray[np.float64] = np.zeros(nodes)
    counts: NDArray[np.int64] = np.zeros(nodes, dtype=np.int64)
    edges = np.searchsorted(slot, np.arange(slots + 1))
    means, last = [], 0.0
    for k in range(slots):
        part = order[edges[k] : edges[k + 1]]
        np.add.at(sums, run.destination[part], latency[edges[k] : edges[k + 1]])
        np.add.at(counts, run.destination[part], 1)
        seen = counts > 0
        last = float((sums[seen] / counts[seen]).mean()) if seen.any() else last
        means.append(last)
    return means


def _mean_us(run: SimulationResult, start_s: float, end_s: float) -> float:
    mean = summarize(run, start_s=start_s, end_s=end_s).mean_latency_s
    return 1e6 * mean if mean is not None else 0.0


def _missing_percent(run: SimulationResult, until_s: float) -> float:
    """Messages made but not delivered by then, of all messages made by then."""
    end = until_s * run.ticks_per_s
    made = int((run.born < end).sum())
    arrived = int(((run.delivered >= 0) & (run.delivered < end)).sum())
    return 100.0 * (made - arrived) / made


def _map_of(run: SimulationResult, done: NDArray[np.bool_], slot: NDArray[np.int_], required: int) -> list[list[int]]:
    """Messages received in the slot by every node of the torus: [x][y]."""
    there = run.destination[done][slot == required]
    counts = np.bincount(there, minlength=RING_SHAPE[0] * RING_SHAPE[1])
    return [[int(v) for v in row] for row in counts.reshape(RING_SHAPE)]


def parameters_of(run: Run) -> SimulationParameters:
    """How the run is simulated."""
    return SimulationParameters(
        model="thesis",
        routing="d-mod-k" if run.routing == "dor" and run.network.startswith("fat-tree") else run.routing,
        deadlock=run.deadlock,
        packet_bytes=run.bytes,
        buffer_bytes=run.buffer_bytes,
        seed=run.seed,
        ft_drb=FtDrbOptions(paths=run.paths, **run.options),
    )


def model_of(network: str, parameters: SimulationParameters, dead: DeadCables = frozenset()) -> NetworkModel:
    """Numbers and tables, built once a process for all seeds; ``dead``: cables that tables leave out."""
    return _model_of(network, replace(parameters, seed=1), dead)


@lru_cache(maxsize=8)
def _model_of(network: str, parameters: SimulationParameters, dead: DeadCables) -> NetworkModel:
    return build_model(network_of(network), parameters, dead)
