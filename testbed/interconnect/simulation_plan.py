"""The run of a simulation with one seed, and its row of figures.

At the end of a run the head of every buffer waits for one link (``BlockedPackets.waits``), whatever routing chose it
and whatever avoids deadlocks. In a deadlock some of these waits close a cycle, which a drawing shows.

``run_seed`` is what a process runs for a seed; it needs nothing but its arguments.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, TypeVar

import networkx as nx
import numpy as np

from testbed.faults.cable_faults import check_faults, faults_from_trace
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_cable_faults
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.network_model import zero_load_ticks
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.plan import Experiment, load_of
from testbed.interconnect.results import NAC_EVENTS, SimulationResult, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic.injection import InjectionProcess, Injections, build_injections
from testbed.interconnect.traffic.patterns import build_pattern
from testbed.interconnect.traffic.traffic_files import read_messages
from topologies import Network
from topologies.text.json_types import JsonObject

Waiting = TypeVar("Waiting", int, tuple[int, int])


def cycle_of(waits: Iterable[tuple[Waiting, Waiting]]) -> list[Waiting]:
    """A cycle of links (or of other places), each of which waits for the next, from its smallest on; empty where the
    waits close none.

    >>> cycle_of([(0, 1), (1, 2), (2, 0), (7, 0)])
    [0, 1, 2]
    >>> cycle_of([(0, 1), (1, 2)])
    []
    """
    graph = nx.DiGraph(sorted(set(waits)))
    try:
        cycle = [link for link, _ in nx.find_cycle(graph, sorted(graph))]
    except nx.NetworkXNoCycle:
        return []
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def deadlock_cycle(network: Network, run: SimulationResult) -> list[tuple[str, str]]:
    """The ends of the links of the cycle, in order; empty where there is none to be found."""
    return [(network.links[i].source, network.links[i].target) for i in cycle_of(run.stuck.waits)]


OF_RUN = ("sent", "received", "conserved", "deadlocked", "deadlocked_at_s", "livelocked", "stopped", "packet_hops")
"""Figures of a row that a run has by itself."""
SAMPLES = 80
"""Moments at which a row says what lay in the network."""
NAC_DRAWN = 100_000
"""Events of NAC that are kept for a drawing."""


def own_routing(network: Network) -> str:
    """The routing that the network names, in the simulator's words."""
    named = network.attributes.get("routing")
    known = {"dimension-order": "dor", "d-mod-k": "d-mod-k", "table": "table"}
    return known.get(named, "shortest-path") if isinstance(named, str) else "shortest-path"


def run_seed(experiment: Experiment, seed: int) -> JsonObject:
    """One run's row: figures of the measured messages, and the counts of all."""
    parameters = replace(experiment.parameters, seed=seed)
    injections = _messages(experiment, parameters, seed)
    faults = faults_of(experiment, seed)
    run = simulate(
        experiment.network, injections, parameters, faults,
        recording=Recording(nac_events=experiment.timeline or (NAC_DRAWN if parameters.deadlock == "nac" else 0)),
    )  # fmt: skip
    cycle = deadlock_cycle(experiment.network, run) if run.deadlocked else []
    end = experiment.duration_s * 0.95
    if experiment.traffic is None:
        summary = summarize(run, start_s=experiment.warm_up_s, end_s=max(end, experiment.warm_up_s))
    else:
        summary = summarize(run, start_s=0.0, end_s=run.stopped_tick / TICKS_PER_S + 1.0)
    return {
        "seed": seed,
        "load": load_of(experiment),
        **asdict(summary),
        **{name: getattr(run, name) for name in OF_RUN},
        "stuck_packets": run.stuck.packets,
        "last_delivery_s": last_delivery_s(run),
        "nac": dict(run.nac_counters),
        "ft_drb": dict(run.drb_counters),
        "faults": len(faults),
        "circle": cycle,
        "over_time": over_time(run),
        **({"nac_timeline": timeline_rows(experiment.network, run)} if experiment.timeline else {}),
        "latency_at_no_load_of_one_router_s": zero_load_ticks(parameters, 1, parameters.packet_bytes) / TICKS_PER_S,
    }


def over_time(run: SimulationResult) -> dict[str, list[float]]:
    """``time_s``: SAMPLES moments of the run; ``in_network``: packets that have left their source and are not there
    yet, ``waiting``: those that have not left it; ``nac_moves``: packets that NAC moved since the moment before."""
    ends = np.linspace(0, max(run.stopped_tick, int(run.delivered.max(initial=1))), SAMPLES + 1)[1:]
    moved = [NAC_EVENTS.index("moved"), NAC_EVENTS.index("recovery-moved")]
    moves = run.nac_timeline[np.isin(run.nac_timeline[:, 1], moved), 0] if len(run.nac_timeline) else np.zeros(0)

    def until(ticks: Any) -> Any:
        return np.searchsorted(np.sort(ticks[ticks >= 0]), ends, side="right")

    born, entered, delivered = until(run.born), until(run.entered), until(run.delivered)
    return {
        "time_s": (ends / TICKS_PER_S).round(9).tolist(),
        "in_network": (entered - delivered).tolist(),
        "waiting": (born - entered).tolist(),
        "nac_moves": np.diff(until(moves), prepend=0).tolist(),
    }


def faults_of(experiment: Experiment, seed: int) -> tuple[Fault, ...]:
    """Failures in words and of the trace; InputError as they raise it."""
    network, trace, lasting = experiment.network, experiment.trace, experiment.duration_s
    found = parse_cable_faults(experiment.faults, network, seed=seed, duration_s=lasting)
    if trace is None:
        return found
    of_trace = faults_from_trace(
        network, trace, simulated_s=lasting, seed=[seed, 7], permanent=experiment.trace_permanent
    )
    return check_faults(network, [*found, *of_trace])


def timeline_rows(network: Network, run: SimulationResult) -> list[tuple[float, str, str, str]]:
    """What NAC did: (seconds, event, router, its input as "from-to"), in order."""
    switches = [switch.id for switch in network.switches]
    links = [f"{link.source}-{link.target}" for link in network.links]
    return [
        (int(tick) / run.ticks_per_s, NAC_EVENTS[int(event)], switches[int(router)], links[int(link)])
        for tick, event, router, link in run.nac_timeline
    ]


def last_delivery_s(run: SimulationResult) -> float | None:
    """When the last message arrived; None: none did."""
    return float(run.delivered.max()) / run.ticks_per_s if run.received else None


def _messages(experiment: Experiment, parameters: SimulationParameters, seed: int) -> Injections:
    network = experiment.network
    if experiment.traffic is not None:
        return read_messages(experiment.traffic, network, parameters)
    shape = network.attributes.get("shape")
    pattern = build_pattern(
        experiment.pattern,
        len(network.hosts),
        shape=shape if isinstance(shape, list) else None,
        to_itself=parameters.hop.to_itself,
    )
    process = InjectionProcess(
        kind=experiment.injection,
        rate_per_s=experiment.rate_per_s,
        burst_messages=experiment.burst,
        in_phase=experiment.in_phase,
    )
    return build_injections(pattern, process, duration_s=experiment.duration_s, seed=seed)
