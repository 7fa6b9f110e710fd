"""When each message of an execution trace starts: as soon as all that it depends on is done, on the network itself.

Rules. A node is done its duration after all that it depends on; a send is done when it starts; a receive when its
message (the k-th of that source, destination and tag) has arrived besides. How long a message is in transit depends on
all others, so starts and arrivals are found together: the network is simulated with the starts known so far, which
gives arrivals, which give starts. What happens before a moment does not depend on what starts after it, so each turn
makes at least the next start final, and starts that no longer change are those of the trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.errors import InputError
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.simulation import read_messages, simulate
from testbed_chakra.trace_files import TraceNode
from topologies import Network
from topologies.text.json_types import Json

Key = tuple[int, int]
"""Rank, id of a node."""
TURNS = 10_000


@dataclass(frozen=True, kw_only=True)
class TracedRun:
    """``document``: the messages with their starts, as a traffic file has them. ``finished_s``: when the last node is
    done."""

    document: Json
    starts_s: Mapping[Key, float]
    finished_s: float
    turns: int


def trace_starts(
    ranks: Sequence[Sequence[TraceNode]], network: Network, parameters: SimulationParameters
) -> TracedRun:
    """Rank k is the network's k-th host. Without faults.

    Raises InputError for more ranks than hosts, a receive without a send or the other way round, nodes that wait for
    each other in a cycle, a trace without messages, and messages that never arrive.
    """
    hosts = [host.id for host in network.hosts]
    if len(ranks) > len(hosts):
        raise InputError(
            f"trace: {len(ranks)} ranks, and network {network.name!r} has {len(hosts)} hosts; take a larger one"
        )
    nodes = {(rank, node.id): node for rank, own in enumerate(ranks) for node in own}
    receives = _matched(nodes)
    order = _order(nodes, receives)
    sends = [key for key in order if nodes[key].kind == "COMM_SEND"]
    model = build_model(network, parameters, frozenset())
    under_way = dict.fromkeys(sends, 0)
    for turn in range(1, TURNS):
        done, starts = _times(nodes, receives, order, under_way)
        messages = [
            {
                "source": hosts[nodes[key].ends[0]], "destination": hosts[nodes[key].ends[1]],
                "time_s": starts[key] / TICKS_PER_S, "bytes": nodes[key].size_bytes,
            }
            for key in sends
        ]  # fmt: skip
        arrived = _arrivals(messages, model, parameters)
        found = {key: tick - starts[key] for key, tick in zip(sends, arrived, strict=True)}
        if found == under_way:
            return TracedRun(
                document={"messages": messages},
                starts_s={key: tick / TICKS_PER_S for key, tick in starts.items()},
                finished_s=max(done.values()) / TICKS_PER_S,
                turns=turn,
            )
        under_way = found
    raise InputError(f"trace: starts still change after {TURNS} turns")


def _matched(nodes: Mapping[Key, TraceNode]) -> dict[Key, Key]:
    """Each receive's send."""
    ways: dict[tuple[int, int, int], tuple[list[Key], list[Key]]] = {}
    for key, node in nodes.items():
        if node.kind in ("COMM_SEND", "COMM_RECV"):
            ways.setdefault((*node.ends, node.tag), ([], []))[node.kind == "COMM_RECV"].append(key)
    if not ways:
        raise InputError("trace: no rank sends anything")
    found: dict[Key, Key] = {}
    for (source, sink, tag), (sent, received) in ways.items():
        if len(sent) != len(received):
            raise InputError(
                f"trace: {len(sent)} sends and {len(received)} receives from rank {source} to {sink} with tag "
                f"{tag}; give as many"
            )
        found |= dict(zip(received, sent, strict=True))
    return found


def _before(key: Key, nodes: Mapping[Key, TraceNode], receives: Mapping[Key, Key]) -> list[Key]:
    own = [(key[0], other) for other in nodes[key].after]
    return [*own, receives[key]] if key in receives else own


def _order(nodes: Mapping[Key, TraceNode], receives: Mapping[Key, Key]) -> list[Key]:
    """Every node after all that it waits for (Kahn 1962)."""
    waits = {key: len(_before(key, nodes, receives)) for key in nodes}
    followers: dict[Key, list[Key]] = {}
    for key in nodes:
        for other in _before(key, nodes, receives):
            followers.setdefault(other, []).append(key)
    ready = deque(key for key, count in waits.items() if not count)
    found = []
    while ready:
        key = ready.popleft()
        found.append(key)
        for other in followers.get(key, ()):
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    if len(found) < len(nodes):
        rank, number = next(key for key, count in waits.items() if count)
        raise InputError(
            f"trace: node {number} of rank {rank} waits for itself, over others; break the cycle"
        )
    return found


def _times(
    nodes: Mapping[Key, TraceNode],
    receives: Mapping[Key, Key],
    order: Sequence[Key],
    under_way: Mapping[Key, int],
) -> tuple[dict[Key, int], dict[Key, int]]:
    """(when each node is done, when each send starts), in ticks."""
    done: dict[Key, int] = {}
    starts: dict[Key, int] = {}
    for key in order:
        node = nodes[key]
        ready = max((done[key[0], other] for other in node.after), default=0)
        if node.kind == "COMM_SEND":
            starts[key] = ready
        elif key in receives:
            ready = max(ready, starts[receives[key]] + under_way[receives[key]])
        done[key] = ready + round(node.duration_s * TICKS_PER_S)
    return done, starts


def _arrivals(
    messages: Sequence[Json], model: NetworkModel, parameters: SimulationParameters
) -> list[int]:
    """The tick at which the last packet of each message has arrived."""
    injections = read_messages({"messages": list(messages)}, model.network, parameters)
    run = simulate(model, injections, parameters)
    if (run.delivered < 0).any():
        raise InputError(
            "trace: messages never arrive; take a routing without deadlock, or --deadlock-avoidance"
        )
    hosts = {host.id: n for n, host in enumerate(model.network.hosts)}
    # packets of a host stand in the order in which its messages start; those of one moment in the order of the trace
    packets: dict[int, deque[int]] = {}
    for at, source in enumerate(injections.source.tolist()):
        packets.setdefault(source, deque()).append(at)
    order = sorted(range(len(messages)), key=lambda i: round(messages[i]["time_s"] * TICKS_PER_S))
    arrived = [0] * len(messages)
    delivered = np.asarray(run.delivered)
    for i in order:
        count = -(-messages[i]["bytes"] // parameters.packet_bytes)
        own = [packets[hosts[messages[i]["source"]]].popleft() for _ in range(count)]
        arrived[i] = int(delivered[own].max())
    return arrived
