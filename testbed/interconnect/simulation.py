"""One run of the interconnect simulator: network, messages, parameters and faults in; what became of every message out.

``simulate`` is the way in for experiments, ``run_seed`` what a process runs for a seed of a plan: it needs nothing but
its arguments, and gives a row of figures. At the end of a run the head of every buffer waits for one link
(``BlockedPackets.waits``), whatever routing chose it and whatever avoids deadlocks. In a deadlock some of these waits
close a cycle, which a drawing shows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from testbed.errors import InputError
from testbed.faults.cable_faults import check_faults, faults_from_trace
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_cable_faults
from testbed.interconnect.engine_inputs import EngineInputs, Recording, build_inputs
from testbed.interconnect.network_model import NetworkModel, build_model, zero_load_ticks
from testbed.interconnect.options import MAX_S
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.plan import Experiment, load_of
from testbed.interconnect.results import NAC_EVENTS, EngineResult, SimulationResult, summarize
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from testbed.interconnect.transmission import with_slowest_link
from topologies import Json, JsonObject, Network


def simulate(
    network: Network | NetworkModel,
    injections: Injections,
    parameters: SimulationParameters,
    faults: Sequence[Fault] = (),
    *,
    engine: Callable[[EngineInputs], EngineResult] | None = None,
    recording: Recording | None = None,
) -> SimulationResult:
    """Run until every message is delivered, nothing moves any more, or ``drain_s`` after the last message.

    ``engine``: another one than the compiled (None), which a test compares with it.
    ``recording``: how much of the history is kept (None: ``Recording()``). A ``NetworkModel`` made before spares its
    making. Raises InputError for messages of unknown hosts, too late or too long, and what ``build_model`` refuses.
    """
    model = (
        network
        if isinstance(network, NetworkModel)
        else build_model(network, parameters, dead_from_start(faults))
    )
    _check_messages(model, injections, parameters)
    _check_dead(model, parameters, faults)
    inputs = build_inputs(
        model, injections, parameters, check_faults(model.network, faults), recording or Recording()
    )
    outcome = (engine or _compiled)(inputs)
    born, source, destination, *_ = inputs.messages
    return SimulationResult(**vars(outcome), born=born, source=source, destination=destination)


def _compiled(inputs: EngineInputs) -> EngineResult:
    from testbed.interconnect.compiled.compiled_run import run_compiled  # numba

    return run_compiled(inputs)


def dead_from_start(faults: Sequence[Fault]) -> frozenset[frozenset[str]]:
    """The cables that fail at 0 and stay dead: an adaptive routing's tables do without them."""
    return frozenset(
        frozenset(fault.ends) for fault in faults if fault.start_s <= 0 and fault.stop_s >= MAX_S
    )


def _check_dead(
    model: NetworkModel, parameters: SimulationParameters, faults: Sequence[Fault]
) -> None:
    if not model.relation.all_lanes:
        return
    dead = dead_from_start(faults)
    if len(dead) < len(faults):
        raise InputError(
            f"--routing {parameters.routing}: its tables know failures from 0 to the end only; give @0, or use ft-drb"
        )
    if dead != model.dead:
        raise InputError(
            "a model made for other dead cables than those of the run; build it with the same"
        )


def _check_messages(
    model: NetworkModel, injections: Injections, parameters: SimulationParameters
) -> None:
    hosts, sizes = model.layout.hosts, injections.size_bytes
    for name, ends in (("source", injections.source), ("destination", injections.destination)):
        if len(ends) and not (ends.min() >= 0 and ends.max() < hosts):
            raise InputError(
                f"messages: a {name} that is none of the hosts 0..{hosts - 1} of {model.network.name}"
            )
    if len(injections) and injections.time_ps[-1] / 1e12 + parameters.drain_s > MAX_S + 1:
        raise InputError(
            f"messages: the last at {injections.time_ps[-1] / 1e12:g} s; give at most {MAX_S:g} s with drain_s"
        )
    if (
        sizes is not None
        and len(sizes)
        and not 1 <= sizes.min() <= sizes.max() <= parameters.packet_bytes
    ):
        raise InputError(
            f"messages: sizes must be 1 to packet_bytes ({parameters.packet_bytes}) bytes"
        )


Waiting = TypeVar("Waiting", int, tuple[int, int])


def cycle_of(waits: Iterable[tuple[Waiting, Waiting]]) -> list[Waiting]:
    """A cycle of links (or of other places), each of which waits for the next, from its smallest on; empty where the
    waits close none.

    >>> cycle_of([(0, 1), (1, 2), (2, 0), (7, 0)])
    [0, 1, 2]
    >>> cycle_of([(0, 1), (1, 2)])
    []
    """
    import networkx as nx  # of deadlocks only

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


OF_RUN = (
    "sent",
    "received",
    "deadlocked",
    "deadlocked_at_s",
    "livelocked",
    "stopped",
    "packet_hops",
)
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
        "packets_conserved": run.conserved,
        "blocked_packets": run.stuck.packets,
        "last_delivery_s": last_delivery_s(run),
        "nac": dict(run.nac_counters),
        "ft_drb": dict(run.drb_counters),
        "faults": len(faults),
        "deadlock_cycle": cycle,
        "over_time": over_time(run),
        **({"nac_trace": timeline_rows(experiment.network, run)} if experiment.timeline else {}),
        "zero_load_hop_latency_s": zero_load_ticks(parameters, 1, parameters.packet_bytes)
        / TICKS_PER_S,
    }


def over_time(run: SimulationResult) -> dict[str, list[float]]:
    """``time_s``: SAMPLES moments of the run; ``packets_in_network``: packets that have left their source and are not there
    yet, ``packets_in_source_queues``: those that have not left it; ``nac_moves``: packets that NAC moved since the moment before."""
    ends = np.linspace(0, max(run.stopped_tick, int(run.delivered.max(initial=1))), SAMPLES + 1)[1:]
    moved = [NAC_EVENTS.index("moved"), NAC_EVENTS.index("recovery-moved")]
    moves = (
        run.nac_timeline[np.isin(run.nac_timeline[:, 1], moved), 0]
        if len(run.nac_timeline)
        else np.zeros(0)
    )

    def until(ticks: Any) -> Any:
        return np.searchsorted(np.sort(ticks[ticks >= 0]), ends, side="right")

    born, entered, delivered = until(run.born), until(run.entered), until(run.delivered)
    return {
        "time_s": (ends / TICKS_PER_S).round(9).tolist(),
        "packets_in_network": (entered - delivered).tolist(),
        "packets_in_source_queues": (born - entered).tolist(),
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
        (
            int(tick) / run.ticks_per_s,
            NAC_EVENTS[int(event)],
            switches[int(router)],
            links[int(link)],
        )
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


def read_messages(document: Json, network: Network, parameters: SimulationParameters) -> Injections:
    """The messages of a traffic file, with their sizes.

    ``{"messages": [{"source", "destination", "time_s", "bytes"}]}``; ``{"transfers": [{"source", "destination",
    "bytes"}]}``: all at 0; ``{"frames": [[{"source", "destination"}, ...], ...]}`` (with ``transfers``: numbers into
    it): each frame begins when the longest of the frame before can have arrived. Ends may be pairs ``["h0", "h1"]``.
    ``bytes`` defaults to a packet. Raises InputError that names the entry.
    """
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    slow = with_slowest_link(network, parameters)
    rows: list[tuple[int, int, int, int]] = []
    if "frames" in document:
        start = 0
        for number, frame in enumerate(_list(document["frames"], "frames")):
            known = document.get("transfers", [])
            longest = 0
            for place, item in enumerate(_list(frame, f"frames[{number}]")):
                entry = known[item] if isinstance(item, int) and 0 <= item < len(known) else item
                source, destination, size, _ = _entry(
                    entry, f"frames[{number}][{place}]", hosts, parameters
                )
                rows += _packets(start, source, destination, size, parameters)
                packets = -(-size // parameters.packet_bytes)
                longest = max(longest, packets * slow.serialization_ticks(parameters.packet_bytes))
            far = (
                zero_load_ticks(slow, len(network.switches), 1) if len(network.switches) < 64 else 0
            )
            start += longest + far
    else:
        name = "messages" if "messages" in document else "transfers"
        if name not in document:
            raise InputError(
                'traffic: it has none of "messages", "transfers" and "frames"; give one'
            )
        for number, item in enumerate(_list(document[name], name)):
            source, destination, size, time_s = _entry(item, f"{name}[{number}]", hosts, parameters)
            rows += _packets(round(time_s * TICKS_PER_S), source, destination, size, parameters)
    if not rows:
        raise InputError("traffic: it has no message; give one or more")
    rows.sort(key=lambda row: (row[0], row[1]))
    made, sources, destinations, sizes = (
        np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)
    )
    ends = {"source": sources.astype(np.int32), "destination": destinations.astype(np.int32)}
    return Injections(time_ps=made * 10, size_bytes=sizes, **ends)


def _list(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"traffic: {where} is no list; give one")
    return value


def _entry(
    item: object, where: str, hosts: Mapping[str, int], parameters: SimulationParameters
) -> tuple[int, int, int, float]:
    if isinstance(item, list) and len(item) >= 2:
        item = {"source": item[0], "destination": item[1]}
    if not isinstance(item, Mapping):
        raise InputError(
            f'traffic: {where} is {item!r}; give {{"source": ..., "destination": ...}}'
        )
    ends = []
    for name in ("source", "destination"):
        host = item.get(name, item.get({"source": "from", "destination": "to"}[name]))
        if not isinstance(host, str) or host not in hosts:
            raise InputError(
                f"traffic: {where}: its {name} {host!r} is no host of the network; give one, as {next(iter(hosts))}"
            )
        ends.append(hosts[host])
    size, time_s = item.get("bytes", parameters.packet_bytes), item.get("time_s", 0.0)
    if not isinstance(size, int) or not 1 <= size <= 10**12:
        raise InputError(f"traffic: {where}: {size!r} bytes; give a whole number, 1 or more")
    if not isinstance(time_s, int | float) or not 0 <= time_s <= 18:
        raise InputError(f"traffic: {where}: time_s {time_s!r}; give 0 to 18 s")
    return ends[0], ends[1], size, float(time_s)


def _packets(
    tick: int, source: int, destination: int, size: int, parameters: SimulationParameters
) -> list[tuple[int, int, int, int]]:
    whole, rest = divmod(size, parameters.packet_bytes)
    if whole > 1_000_000:
        raise InputError(
            f"traffic: a message of {size} bytes is {whole} packets; give at most a million"
        )
    sizes = [parameters.packet_bytes] * whole + [rest] * (rest > 0)
    return [(tick, source, destination, one) for one in sizes]
