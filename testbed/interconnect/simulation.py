"""One run of the interconnect simulator.

``simulate`` runs messages over a network, with parameters and faults, and returns the history of
every message. ``run_seed`` runs one seed of a plan, and returns a row of figures. It uses nothing
but its arguments, so that it can be called in another process.

At the end of a run the head of every buffer waits for one link (``BlockedPackets.waits``), whatever
the routing and the avoidance of deadlocks. In a deadlock some of these waits form a cycle, which a
figure shows.
"""

import math
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
from testbed.interconnect.parameters import PS_PER_TICK, TICKS_PER_S, SimulationParameters
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
    """Run until every message is delivered, nothing moves any more, or a time limit expires.

    The time limit is ``drain_s`` after the generation of the last message.

    Args:
        network: A network, or its tables if they have already been built.
        injections: The messages.
        parameters: Parameters of routers and links.
        faults: Failures of cables.
        engine: Another engine, for tests. None: the compiled one.
        recording: The amount of history to store; None: ``Recording()``.

    Raises:
        InputError: Messages have unknown hosts, begin too late or are too long, or ``build_model``
            refuses the network.
    """
    if isinstance(network, NetworkModel):
        model = network
    else:
        model = build_model(network, parameters, dead_from_start(faults))
    _check_messages(model, injections, parameters)
    _check_dead(model, parameters, faults)
    inputs = build_inputs(
        model, injections, parameters, check_faults(model.network, faults), recording or Recording()
    )
    outcome = (engine or _run_compiled_engine)(inputs)
    return SimulationResult(
        **vars(outcome),
        born=inputs.messages.born,
        source=inputs.messages.source,
        destination=inputs.messages.destination,
    )


def _run_compiled_engine(inputs: EngineInputs) -> EngineResult:
    from testbed.interconnect.compiled.compiled_run import run_compiled  # takes long: numba

    return run_compiled(inputs)


def dead_from_start(faults: Sequence[Fault]) -> frozenset[frozenset[str]]:
    """Return the cables that fail at 0 and are never repaired, as sets of their two ends.

    The tables of an adaptive routing do not contain them.
    """
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
            f"--routing {parameters.routing}: its tables know failures from 0 to the end only; "
            "give @0, or use ft-drb"
        )
    if dead != model.dead:
        raise InputError(
            "a model made for other dead cables than those of the run; build it with the same"
        )


def _check_messages(
    model: NetworkModel, injections: Injections, parameters: SimulationParameters
) -> None:
    """Check that messages have known hosts, do not begin too late, and fit into packets.

    Raises:
        InputError: They do not.
    """
    hosts = model.layout.hosts
    for name, ends in (("source", injections.source), ("destination", injections.destination)):
        if len(ends) and not (ends.min() >= 0 and ends.max() < hosts):
            raise InputError(
                f"messages: a {name} that is none of the hosts 0..{hosts - 1} of "
                f"{model.network.name}"
            )
    if len(injections):
        last_s = injections.time_ps[-1] / 1e12
        if last_s + parameters.drain_s > MAX_S + 1:
            raise InputError(
                f"messages: the last at {last_s:g} s; give at most {MAX_S:g} s with drain_s"
            )
    sizes = injections.size_bytes
    if sizes is None or not len(sizes):
        return
    if sizes.min() < 1 or sizes.max() > parameters.packet_bytes:
        raise InputError(
            f"messages: sizes must be 1 to packet_bytes ({parameters.packet_bytes}) bytes"
        )


# A buffer or link that waits: its number, or a router and its port.
Waiting = TypeVar("Waiting", int, tuple[int, int])


def cycle_of(waits: Iterable[tuple[Waiting, Waiting]]) -> list[Waiting]:
    """Return a cycle of links (or other resources) of which each waits for the next.

    Args:
        waits: Pairs of a link and the link that it waits for.

    Returns:
        The cycle from its smallest link on; empty if there is none.

    >>> cycle_of([(0, 1), (1, 2), (2, 0), (7, 0)])
    [0, 1, 2]
    >>> cycle_of([(0, 1), (1, 2)])
    []
    """
    import networkx as nx  # takes long, and only deadlocks need it

    graph = nx.DiGraph(sorted(set(waits)))
    try:
        cycle = [link for link, _ in nx.find_cycle(graph, sorted(graph))]
    except nx.NetworkXNoCycle:
        return []
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]


def deadlock_cycle(network: Network, run: SimulationResult) -> list[tuple[str, str]]:
    """Return the links of a cycle of waits, as (source, target) in order, or an empty list."""
    return [(network.links[i].source, network.links[i].target) for i in cycle_of(run.stuck.waits)]


# A packet of a traffic file: tick, source, destination, size in bytes.
_Packet = tuple[int, int, int, int]

# Figures of a row that are attributes of the result.
OF_RUN = (
    "sent",
    "received",
    "deadlocked",
    "deadlocked_at_s",
    "livelocked",
    "stopped",
    "packet_hops",
)

# Number of moments at which a row says how many packets were in the network.
SAMPLES = 80

# Largest number of events of NAC that are stored for a figure.
NAC_DRAWN = 100_000

# The simulator's names of the routings that a network can name.
_ROUTING_NAMES = {"dimension-order": "dor", "d-mod-k": "d-mod-k", "table": "table"}

# Last time at which a message of a traffic file may begin, in seconds. The keys of events can
# represent times up to 21.9 s.
_MAX_START_S = 18

# Largest size of a message, in packets. A larger one is probably a mistake in the unit.
_MAX_PACKETS_PER_MESSAGE = 1_000_000


def own_routing(network: Network) -> str:
    """Return the simulator's name of the routing that the network names."""
    routing = network.attributes.get("routing")
    if not isinstance(routing, str):
        return "shortest-path"
    return _ROUTING_NAMES.get(routing, "shortest-path")


def run_seed(experiment: Experiment, seed: int) -> JsonObject:
    """Return the row of one run: figures of the measured messages, and counts of all messages."""
    parameters = replace(experiment.parameters, seed=seed)
    injections = _messages(experiment, parameters, seed)
    faults = faults_of(experiment, seed)
    nac_events = experiment.timeline
    if not nac_events and parameters.deadlock == "nac":
        nac_events = NAC_DRAWN
    recording = Recording(nac_events=nac_events)
    run = simulate(experiment.network, injections, parameters, faults, recording=recording)
    cycle = deadlock_cycle(experiment.network, run) if run.deadlocked else []
    if experiment.traffic is None:
        # Messages of the last twentieth may not have had the time to arrive.
        end_s = max(experiment.duration_s * 0.95, experiment.warm_up_s)
        summary = summarize(run, start_s=experiment.warm_up_s, end_s=end_s)
    else:
        summary = summarize(run, start_s=0.0, end_s=run.stopped_tick / TICKS_PER_S + 1.0)
    row = {
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
    }
    if experiment.timeline:
        row["nac_trace"] = timeline_rows(experiment.network, run)
    hop_ticks = zero_load_ticks(parameters, 1, parameters.packet_bytes)
    row["zero_load_hop_latency_s"] = hop_ticks / TICKS_PER_S
    return row


def over_time(run: SimulationResult) -> dict[str, list[float]]:
    """Return how many packets were in the network, and moved by NAC, at SAMPLES moments.

    Returns:
        ``time_s``: the moments. ``packets_in_network``: packets that have left their source and
        have not arrived. ``packets_in_source_queues``: packets that have not left their source.
        ``nac_moves``: packets that NAC has moved since the previous moment.
    """
    last_tick = max(run.stopped_tick, int(run.delivered.max(initial=1)))
    moments = np.linspace(0, last_tick, SAMPLES + 1)[1:]
    move_ticks = np.zeros(0)
    if len(run.nac_timeline):
        kinds = [NAC_EVENTS.index("moved"), NAC_EVENTS.index("recovery-moved")]
        move_ticks = run.nac_timeline[np.isin(run.nac_timeline[:, 1], kinds), 0]

    def count_until(ticks: Any) -> Any:
        return np.searchsorted(np.sort(ticks[ticks >= 0]), moments, side="right")

    born = count_until(run.born)
    entered = count_until(run.entered)
    delivered = count_until(run.delivered)
    return {
        "time_s": (moments / TICKS_PER_S).round(9).tolist(),
        "packets_in_network": (entered - delivered).tolist(),
        "packets_in_source_queues": (born - entered).tolist(),
        "nac_moves": np.diff(count_until(move_ticks), prepend=0).tolist(),
    }


def faults_of(experiment: Experiment, seed: int) -> tuple[Fault, ...]:
    """Return the failures of the experiment, given as text and by its trace.

    Raises:
        InputError: The text is invalid, or a failure does not fit the network.
    """
    network = experiment.network
    duration_s = experiment.duration_s
    faults = parse_cable_faults(experiment.faults, network, seed=seed, duration_s=duration_s)
    if experiment.trace is None:
        return faults
    trace_faults = faults_from_trace(
        network,
        experiment.trace,
        simulated_s=duration_s,
        seed=[seed, 7],  # differs from the seed of ``parse_cable_faults``
        permanent=experiment.trace_permanent,
    )
    return check_faults(network, [*faults, *trace_faults])


def timeline_rows(network: Network, run: SimulationResult) -> list[tuple[float, str, str, str]]:
    """Return the events of NAC in order: (seconds, event, router, its input as "from-to")."""
    switches = [switch.id for switch in network.switches]
    links = [f"{link.source}-{link.target}" for link in network.links]
    rows = []
    for tick, event, router, link in run.nac_timeline.tolist():
        rows.append((tick / run.ticks_per_s, NAC_EVENTS[event], switches[router], links[link]))
    return rows


def last_delivery_s(run: SimulationResult) -> float | None:
    """Return when the last message arrived, or None if none arrived."""
    return float(run.delivered.max()) / run.ticks_per_s if run.received else None


def _messages(experiment: Experiment, parameters: SimulationParameters, seed: int) -> Injections:
    """Return the messages of the traffic file, or of the pattern."""
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
    """Return the messages of a traffic file, with their sizes.

    The document has one of these forms:

    - ``{"messages": [{"source", "destination", "time_s", "bytes"}]}``
    - ``{"transfers": [{"source", "destination", "bytes"}]}``: all begin at 0.
    - ``{"frames": [[{"source", "destination"}, ...], ...]}``: each frame begins when the longest
      transfer of the previous frame can have arrived. With ``transfers``, entries may be numbers of
      transfers.

    An entry may be a pair ``["h0", "h1"]``. ``bytes`` defaults to a packet.

    Raises:
        InputError: An entry is invalid; the error names it.
    """
    if "frames" in document:
        rows = _packets_of_frames(document, network, parameters)
    else:
        rows = _packets_of_messages(document, network, parameters)
    if not rows:
        raise InputError("traffic: it has no message; give one or more")
    rows.sort(key=lambda row: (row[0], row[1]))
    columns = np.ascontiguousarray(np.array(rows, dtype=np.int64).T)
    return Injections(
        time_ps=columns[0] * PS_PER_TICK,
        source=columns[1].astype(np.int32),
        destination=columns[2].astype(np.int32),
        size_bytes=columns[3],
    )


def _packets_of_frames(
    document: Json, network: Network, parameters: SimulationParameters
) -> list[_Packet]:
    """Return the packets of frames that begin one after another."""
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    slow = with_slowest_link(network, parameters)
    transfers = document.get("transfers", [])
    # Time of a packet's head over the longest path. In large networks paths are shorter than this.
    head_ticks = 0
    if len(network.switches) < 64:
        head_ticks = zero_load_ticks(slow, len(network.switches), 1)
    rows: list[_Packet] = []
    start = 0
    for number, frame in enumerate(_list(document["frames"], "frames")):
        longest = 0
        for position, item in enumerate(_list(frame, f"frames[{number}]")):
            entry = item
            if isinstance(item, int) and 0 <= item < len(transfers):
                entry = transfers[item]
            where = f"frames[{number}][{position}]"
            source, destination, size_bytes, _ = _entry(entry, where, hosts, parameters)
            rows += _packets(start, source, destination, size_bytes, parameters)
            packets = math.ceil(size_bytes / parameters.packet_bytes)
            longest = max(longest, packets * slow.serialization_ticks(parameters.packet_bytes))
        start += longest + head_ticks
    return rows


def _packets_of_messages(
    document: Json, network: Network, parameters: SimulationParameters
) -> list[_Packet]:
    """Return the packets of messages that begin at given times, or of transfers, at 0."""
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    name = "messages" if "messages" in document else "transfers"
    if name not in document:
        raise InputError('traffic: it has none of "messages", "transfers" and "frames"; give one')
    rows: list[_Packet] = []
    for number, item in enumerate(_list(document[name], name)):
        where = f"{name}[{number}]"
        source, destination, size_bytes, time_s = _entry(item, where, hosts, parameters)
        rows += _packets(round(time_s * TICKS_PER_S), source, destination, size_bytes, parameters)
    return rows


def _list(value: object, where: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise InputError(f"traffic: {where} is no list; give one")
    return value


def _entry(
    item: object, where: str, hosts: Mapping[str, int], parameters: SimulationParameters
) -> tuple[int, int, int, float]:
    """Return the source, the destination, the size in bytes and the time in seconds of an entry.

    Args:
        item: The entry.
        where: Its position in the document, for messages.
        hosts: Number of each host.
        parameters: Parameters of routers and links.

    Raises:
        InputError: The entry is invalid.
    """
    if isinstance(item, list) and len(item) >= 2:
        item = {"source": item[0], "destination": item[1]}
    if not isinstance(item, Mapping):
        raise InputError(
            f'traffic: {where} is {item!r}; give {{"source": ..., "destination": ...}}'
        )
    ends = []
    for name, short_name in (("source", "from"), ("destination", "to")):
        host = item.get(name, item.get(short_name))
        if not isinstance(host, str) or host not in hosts:
            raise InputError(
                f"traffic: {where}: its {name} {host!r} is no host of the network; give one, as "
                f"{next(iter(hosts))}"
            )
        ends.append(hosts[host])
    size_bytes = item.get("bytes", parameters.packet_bytes)
    if not isinstance(size_bytes, int) or not 1 <= size_bytes <= 10**12:
        raise InputError(f"traffic: {where}: {size_bytes!r} bytes; give a whole number, 1 or more")
    time_s = item.get("time_s", 0.0)
    if not isinstance(time_s, int | float) or not 0 <= time_s <= _MAX_START_S:
        raise InputError(f"traffic: {where}: time_s {time_s!r}; give 0 to {_MAX_START_S} s")
    return ends[0], ends[1], size_bytes, float(time_s)


def _packets(
    tick: int, source: int, destination: int, size_bytes: int, parameters: SimulationParameters
) -> list[_Packet]:
    """Return the packets of a message. The last one may be shorter."""
    full_packets, remainder_bytes = divmod(size_bytes, parameters.packet_bytes)
    if full_packets > _MAX_PACKETS_PER_MESSAGE:
        raise InputError(
            f"traffic: a message of {size_bytes} bytes is {full_packets} packets; "
            "give at most a million"
        )
    sizes = [parameters.packet_bytes] * full_packets
    if remainder_bytes:
        sizes.append(remainder_bytes)
    return [(tick, source, destination, packet_bytes) for packet_bytes in sizes]
