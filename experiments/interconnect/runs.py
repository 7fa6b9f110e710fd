"""Simulates points of the interconnect studies and returns the results that they compare.

The model of a hop is that of the document.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.interconnect.study_points import (
    BURST_AT_S,
    BURST_SLOT,
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

# Cables that fail, each as the set of its two ends.
DeadCables = frozenset[frozenset[str]]

RING_NETWORK = "torus:8x8"

# The latency before the burst is that of messages generated in a window of this length before it.
# The latency afterwards is that of messages in such a window after the slot of the burst.
WINDOW_S = 0.1

# Number of slots around the burst whose surface maps are shown.
SHOWN_SLOTS = 4

# FT-DRB's counters by their names in a row.
COUNTERS = {
    "escapes": "escapes",
    "alternative": "sent_alternative",
    "grown": "metapaths_grown",
    "shrunk": "metapaths_shrunk",
}


def measure_run(point: Row) -> Results:
    """Simulate one run with FT-DRB.

    Returns:
        The numbers of packets that were sent, received and so on, what NAC and FT-DRB did, and:

        - ``latency_s``: latency by equations 5.1 and 5.2, the source queue included
        - ``latency_later_s``: the same, of messages generated in the second half of the run
        - ``escaped_share``: share of the messages generated after the first failure to which a
          router gave an escape path
    """
    run = Run.of(point)
    faults = faults_of(run)
    parameters = parameters_of(run)
    model = model_of(run.network, parameters)
    result = simulate(model, traffic_of(run), parameters, faults)

    first_failure_s = min((fault.start_s for fault in faults), default=0.0)
    after_failure = result.born >= first_failure_s * result.ticks_per_s
    escaped_share = 0.0
    if after_failure.any():
        escaped_share = float((result.escapes[after_failure] > 0).mean())

    summary = summarize(result, start_s=0.0, end_s=run.seconds)
    later = summarize(result, start_s=run.seconds / 2, end_s=run.seconds)
    row: Results = {
        "latency_s": summary.destination_mean_latency_s,
        "latency_later_s": later.destination_mean_latency_s,
        "escaped_share": escaped_share,
        "sent": result.sent,
        "received": result.received,
        "deadlocked": result.deadlocked,
        "stopped": result.stopped,
        "livelocked": result.livelocked,
    }
    for name, counter in COUNTERS.items():
        row[name] = result.drb_counters.get(counter, 0)
    row["nac_moves"] = moves_of(result)
    return row


def measure_ring(point: Row) -> Results:
    """Simulate one run of the ring (Zarza 2011, Table 5.4).

    Returns:
        Whether and when it deadlocked. If the run has a burst, also received messages and
        latencies in slots of 10 ms, and the effects of the burst.
    """
    run = Run.of({**point, "network": RING_NETWORK, "pattern": "tornado", "routing": "dor"})
    parameters = parameters_of(run)
    model = model_of(RING_NETWORK, parameters)
    result = simulate(model, ring_traffic(point), parameters)
    row: Results = {
        "sent": result.sent,
        "received": result.received,
        "deadlocked": result.deadlocked,
        "deadlock_s": result.deadlocked_at_s,
        "stopped": result.stopped,
        "nac_moves": moves_of(result),
    }
    if point["burst"]:
        row.update(_around_burst(result, point["seconds"]))
    return row


def moves_of(result: SimulationResult) -> int:
    """Return the number of packets that NAC moved to avoidance buffers.

    The router that identified a cycle moves one, and the other routers move theirs in recovery.
    """
    counters = result.nac_counters
    return counters.get("moved", 0) + counters.get("recovery_moved", 0)


def _around_burst(result: SimulationResult, seconds: float) -> Results:
    """Return counts per slot, surface maps, and latencies before, during and after the burst."""
    slots = round(seconds / SLOT_S)
    delivered = result.delivered >= 0
    delivered_s = result.delivered[delivered] / result.ticks_per_s
    destination = result.destination[delivered]
    # Messages that are delivered after the end of the run are counted in one more slot.
    slot = np.minimum((delivered_s / SLOT_S).astype(int), slots)
    received = np.bincount(slot, minlength=slots + 1)[:slots]
    running_us = _running_means_us(result, slots)
    burst_slot_end_s = BURST_AT_S + SLOT_S
    shown_slots = range(FIRST_SHOWN_SLOT, FIRST_SHOWN_SLOT + SHOWN_SLOTS)
    return {
        "received_slots": received.tolist(),
        "latency_slots_us": [round(value, 4) for value in running_us],
        "rise_us": running_us[BURST_SLOT] - running_us[BURST_SLOT - 1],
        "latency_before_us": _mean_us(result, BURST_AT_S - WINDOW_S, BURST_AT_S),
        "latency_after_us": _mean_us(result, burst_slot_end_s, burst_slot_end_s + WINDOW_S),
        "throughput_dip_percent": _undelivered_percent(result, (BURST_SLOT + 1) * SLOT_S),
        "maps": [_surface_map(destination[slot == number]) for number in shown_slots],
        "first_map": _surface_map(destination[slot == 1]),
    }


def _running_means_us(result: SimulationResult, slots: int) -> list[float]:
    """Return the mean latency so far at the end of each slot (equations 5.1 and 5.2).

    It is the mean over destinations of the mean latency of each destination.
    """
    delivered = result.delivered >= 0
    slot = (result.delivered[delivered] / result.ticks_per_s / SLOT_S).astype(int)
    in_time = slot < slots
    destination = result.destination[delivered]
    latency_ticks = (result.delivered - result.born)[delivered]
    latency_us = latency_ticks / result.ticks_per_s * 1e6

    shape = (slots, int(result.destination.max()) + 1)
    cells = (slot[in_time], destination[in_time])
    sums_us = np.zeros(shape)
    np.add.at(sums_us, cells, latency_us[in_time])
    counts = np.zeros(shape)
    np.add.at(counts, cells, 1)

    counts_so_far = counts.cumsum(axis=0)
    # A destination without messages has the mean 0, and is not counted as reached.
    means_us = sums_us.cumsum(axis=0) / np.maximum(counts_so_far, 1)
    reached = np.count_nonzero(counts_so_far, axis=1)
    return list(means_us.sum(axis=1) / np.maximum(reached, 1))


def _mean_us(result: SimulationResult, start_s: float, end_s: float) -> float:
    """Return the mean latency of messages generated in a window, or 0 if none was delivered."""
    mean_s = summarize(result, start_s=start_s, end_s=end_s).mean_latency_s
    if mean_s is None:
        return 0.0
    return 1e6 * mean_s


def _undelivered_percent(result: SimulationResult, at_s: float) -> float:
    """Return the share of the messages generated until a moment that are not delivered then."""
    end_tick = at_s * result.ticks_per_s
    generated = int((result.born < end_tick).sum())
    in_time = (result.delivered >= 0) & (result.delivered < end_tick)
    arrived = int(in_time.sum())
    return 100.0 * (generated - arrived) / generated


def _surface_map(destination: NDArray[np.int_]) -> list[list[int]]:
    """Return the number of messages by the coordinates of their destination, as [x][y]."""
    counts = np.bincount(destination, minlength=RING_SHAPE[0] * RING_SHAPE[1])
    result: list[list[int]] = counts.reshape(RING_SHAPE).tolist()
    return result


def parameters_of(run: Run) -> SimulationParameters:
    """Return the parameters with which the run is simulated."""
    routing = run.routing
    if routing == "dor" and run.network.startswith("fat-tree"):
        # A fat tree has no dimensions. D-mod-k is its deterministic routing.
        routing = "d-mod-k"
    return SimulationParameters(
        model="thesis",
        routing=routing,
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
    """Return the numbering and tables of a network, built once per process for all seeds.

    Args:
        network: Specification of the network.
        parameters: Parameters of the simulation. The seed does not matter.
        dead: Cables that the tables leave out.
    """
    return _model_of(network, replace(parameters, seed=1), dead)


@lru_cache(maxsize=8)
def _model_of(network: str, parameters: SimulationParameters, dead: DeadCables) -> NetworkModel:
    return build_model(network_of(network), parameters, dead)
