"""The start of each message of an execution trace, on a simulated network.

A message starts as soon as everything on which it depends is done:

- A node is done when its duration has passed after everything on which it depends.
- A send is done when it starts.
- A receive also depends on the arrival of its message. The k-th receive with a source, a
  destination and a tag belongs to the k-th send with them.

The transit time of a message depends on all other messages. Therefore the starts and the arrivals
are found together. The network is simulated with the starts that are known so far. The arrivals of
this simulation give new starts, and so on. Events before a moment do not depend on messages that
start after it. Therefore each simulation makes at least the next start final. Starts that no longer
change are those of the trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from testbed.errors import InputError
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.simulation import read_messages, simulate
from testbed_chakra.trace_files import TraceNode
from topologies import Network
from topologies.text.json_types import Json

# Rank, and id of a node of this rank.
NodeKey = tuple[int, int]
# Source rank, destination rank, and tag.
Channel = tuple[int, int, int]

# Largest number of simulations.
MAX_TURNS = 10_000


@dataclass(frozen=True, kw_only=True)
class TracedRun:
    """The result of a trace.

    Attributes:
        document: The messages with their starts, as the document of a traffic file.
        starts_s: Start of each send in seconds.
        finished_s: Time in seconds at which the last node is done.
        turns: Number of simulations.
    """

    document: Json
    starts_s: Mapping[NodeKey, float]
    finished_s: float
    turns: int


@dataclass
class _Messages:
    """The sends and the receives of a channel, in the order of the trace."""

    sends: list[NodeKey] = field(default_factory=list)
    receives: list[NodeKey] = field(default_factory=list)


def trace_starts(
    ranks: Sequence[Sequence[TraceNode]], network: Network, parameters: SimulationParameters
) -> TracedRun:
    """Return the messages of a trace with their starts, on a network without faults.

    Args:
        ranks: The nodes of each rank. Rank k is the k-th host of the network.
        network: The network.
        parameters: Parameters of the simulation.

    Raises:
        InputError: There are more ranks than hosts, a receive has no send or the other way round,
            nodes wait for each other in a cycle, the trace has no message, or a message never
            arrives.
    """
    hosts = [host.id for host in network.hosts]
    if len(ranks) > len(hosts):
        raise InputError(
            f"trace: {len(ranks)} ranks, and network {network.name!r} has {len(hosts)} hosts; "
            "take a larger one"
        )
    nodes: dict[NodeKey, TraceNode] = {}
    for rank, nodes_of_rank in enumerate(ranks):
        for node in nodes_of_rank:
            nodes[rank, node.id] = node
    send_of_receive = _match_sends(nodes)
    order = _dependency_order(nodes, send_of_receive)
    sends = [key for key in order if nodes[key].kind == "COMM_SEND"]
    model = build_model(network, parameters, frozenset())
    transit_ticks = dict.fromkeys(sends, 0)
    for turn in range(1, MAX_TURNS):
        done_ticks, starts = _times(nodes, send_of_receive, order, transit_ticks)
        messages = _messages(nodes, sends, starts, hosts)
        new_transit_ticks = {}
        for key, arrival in zip(sends, _arrivals(messages, model, parameters), strict=True):
            new_transit_ticks[key] = arrival - starts[key]
        if new_transit_ticks == transit_ticks:
            return TracedRun(
                document={"messages": messages},
                starts_s={key: tick / TICKS_PER_S for key, tick in starts.items()},
                finished_s=max(done_ticks.values()) / TICKS_PER_S,
                turns=turn,
            )
        transit_ticks = new_transit_ticks
    raise InputError(f"trace: starts still change after {MAX_TURNS} turns")


def _match_sends(nodes: Mapping[NodeKey, TraceNode]) -> dict[NodeKey, NodeKey]:
    """Return the send of each receive."""
    channels: dict[Channel, _Messages] = {}
    for key, node in nodes.items():
        if node.kind == "COMM_SEND":
            channels.setdefault((*node.ends, node.tag), _Messages()).sends.append(key)
        elif node.kind == "COMM_RECV":
            channels.setdefault((*node.ends, node.tag), _Messages()).receives.append(key)
    if not channels:
        raise InputError("trace: no rank sends anything")
    send_of_receive: dict[NodeKey, NodeKey] = {}
    for (source, destination, tag), messages in channels.items():
        if len(messages.sends) != len(messages.receives):
            raise InputError(
                f"trace: {len(messages.sends)} sends and {len(messages.receives)} receives "
                f"from rank {source} to {destination} with tag {tag}; give as many"
            )
        send_of_receive.update(zip(messages.receives, messages.sends, strict=True))
    return send_of_receive


def _dependencies(
    key: NodeKey, nodes: Mapping[NodeKey, TraceNode], send_of_receive: Mapping[NodeKey, NodeKey]
) -> list[NodeKey]:
    """Return the nodes on which a node depends; a receive also depends on its send."""
    rank, _ = key
    dependencies = [(rank, node_id) for node_id in nodes[key].after]
    if key in send_of_receive:
        dependencies.append(send_of_receive[key])
    return dependencies


def _dependency_order(
    nodes: Mapping[NodeKey, TraceNode], send_of_receive: Mapping[NodeKey, NodeKey]
) -> list[NodeKey]:
    """Return the nodes so that each comes after all its dependencies (Kahn 1962)."""
    missing = {}
    followers: dict[NodeKey, list[NodeKey]] = {}
    for key in nodes:
        dependencies = _dependencies(key, nodes, send_of_receive)
        missing[key] = len(dependencies)
        for dependency in dependencies:
            followers.setdefault(dependency, []).append(key)
    ready = deque(key for key, count in missing.items() if not count)
    order = []
    while ready:
        key = ready.popleft()
        order.append(key)
        for follower in followers.get(key, ()):
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    if len(order) < len(nodes):
        rank, node_id = next(key for key, count in missing.items() if count)
        raise InputError(
            f"trace: node {node_id} of rank {rank} waits for itself, over others; break the cycle"
        )
    return order


def _times(
    nodes: Mapping[NodeKey, TraceNode],
    send_of_receive: Mapping[NodeKey, NodeKey],
    order: Sequence[NodeKey],
    transit_ticks: Mapping[NodeKey, int],
) -> tuple[dict[NodeKey, int], dict[NodeKey, int]]:
    """Compute the times of all nodes from the transit times of the messages.

    Args:
        nodes: The nodes.
        send_of_receive: The send of each receive.
        order: The nodes, each after its dependencies.
        transit_ticks: Transit time of the message of each send, in ticks.

    Returns:
        The tick at which each node is done, and the tick at which each send starts.
    """
    done_ticks: dict[NodeKey, int] = {}
    starts: dict[NodeKey, int] = {}
    for key in order:
        node = nodes[key]
        rank, _ = key
        ready = max((done_ticks[rank, node_id] for node_id in node.after), default=0)
        if node.kind == "COMM_SEND":
            starts[key] = ready
        elif key in send_of_receive:
            send = send_of_receive[key]
            ready = max(ready, starts[send] + transit_ticks[send])
        done_ticks[key] = ready + round(node.duration_s * TICKS_PER_S)
    return done_ticks, starts


def _messages(
    nodes: Mapping[NodeKey, TraceNode],
    sends: Sequence[NodeKey],
    starts: Mapping[NodeKey, int],
    hosts: Sequence[str],
) -> list[Json]:
    """Return the messages of the sends, as in a traffic file."""
    messages: list[Json] = []
    for key in sends:
        source, destination = nodes[key].ends
        messages.append(
            {
                "source": hosts[source],
                "destination": hosts[destination],
                "time_s": starts[key] / TICKS_PER_S,
                "bytes": nodes[key].size_bytes,
            }
        )
    return messages


def _arrivals(
    messages: Sequence[Json], model: NetworkModel, parameters: SimulationParameters
) -> list[int]:
    """Simulate the network, and return the tick at which each message has arrived completely."""
    injections = read_messages({"messages": list(messages)}, model.network, parameters)
    run = simulate(model, injections, parameters)
    if (run.delivered < 0).any():
        raise InputError(
            "trace: messages never arrive; take a routing without deadlock, or --deadlock-avoidance"
        )
    # The packets of a host are in the order in which its messages start. Messages that start at the
    # same time are in the order of the trace.
    packets_of_host: dict[int, deque[int]] = {}
    for packet, host in enumerate(injections.source.tolist()):
        packets_of_host.setdefault(host, deque()).append(packet)
    host_index = {host.id: index for index, host in enumerate(model.network.hosts)}
    delivered = np.asarray(run.delivered)

    def start_tick(message: int) -> int:
        return int(round(messages[message]["time_s"] * TICKS_PER_S))

    arrivals = [0] * len(messages)
    for message in sorted(range(len(messages)), key=start_tick):
        host = host_index[messages[message]["source"]]
        packet_count = -(-messages[message]["bytes"] // parameters.packet_bytes)
        packets = [packets_of_host[host].popleft() for _ in range(packet_count)]
        arrivals[message] = int(delivered[packets].max())
    return arrivals
