"""Shortest-path forwarding between all hosts of a wiring, for switches and for hosts.

No plan is needed. Every two hosts that the network connects can communicate over its cables, in
both directions of each cable.

Theory of operation. A host is an IP node: packets begin there, end there or, if it forwards, pass
there. Two hosts are neighbours if a cable connects them, or a sequence of cables over switches
alone.

*Switches* look at the destination MAC address, which names the next IP node. For each host, each
switch has the port of a shortest path over switches: one rule for each switch and host. *Hosts*
look at the destination IP address. For each destination, a search over the graph of neighbours
finds the port of each host and its next IP node. Its paths lead through hosts that forward and
through no others.

Packets are never forwarded in a cycle. The ports of the switches form a tree towards the next IP
node, and each IP node on a path is nearer to the destination than the one before. If the rules of
switches matched the destination IP address instead, a packet that must pass a router first would
bypass it.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from testbed.model.wiring import WiredHost, Wiring

# The cost in hops of a cable in a direction in which the model has no link. It is larger than the
# length of any other path, so that such a direction is used only if there is no other path.
AGAINST_THE_MODEL = 1_000
# The priority of these rules. It is lower than the priorities of all rules of plans.
PRIORITY = 1


class Step(NamedTuple):
    """The step of a host for a packet.

    Attributes:
        port: The port by which it sends the packet.
        node: The next IP node (``WiredHost.name``).
    """

    port: int
    node: str


# Returns the conditions, in the notation of ovs-ofctl, of the packets that switches send to a host.
Matches = Callable[[WiredHost], Iterable[str]]


def ipv4_matches(host: WiredHost) -> tuple[str, ...]:
    """Return the conditions of IPv4 packets to the MAC address of a host, and of ARP requests."""
    return f"ip,dl_dst={host.mac}", f"arp,arp_tpa={host.ip}"


class ShortestPaths:
    """The shortest paths of one wiring.

    A path has the fewest hops. A cable that is used against the only direction of the model counts
    as AGAINST_THE_MODEL hops. Of equal paths, the one over the cable that comes first in the wiring
    is taken. The computation takes O(hosts * cables * log cables).

    Attributes:
        wiring: The wiring.
        ports: For each switch and each host, the port of the switch on a path over switches.
        neighbours: For each host and each of its neighbours, the number of hops to the neighbour
            and the port towards it. Empty if the wiring is not ``routed``.
    """

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.ports: dict[str, dict[str, int]] = {switch.name: {} for switch in wiring.switches}
        self.neighbours: dict[str, dict[str, tuple[int, int]]] = {}
        for host in wiring.hosts:
            self.neighbours[host.name] = {}
        edges = _edges_by_end(wiring)
        for name in self.neighbours:
            for device, hops, port in _distances(name, edges, self.neighbours):
                if device in self.ports:
                    self.ports[device][name] = port
                elif wiring.routed:
                    self.neighbours[device][name] = (hops, port)
        self._forwarding = {host.name for host in wiring.hosts if forwards(wiring, host)}
        # For each host that forwards: its neighbours, and the number of hops from there to it.
        self._hops_to: dict[str, list[tuple[str, int]]] = {name: [] for name in self._forwarding}
        for other, steps in self.neighbours.items():
            for name, (hops, _) in steps.items():
                if name in self._forwarding:
                    self._hops_to[name].append((other, hops))

    def steps_to(self, host: str) -> dict[str, Step]:
        """Return the step towards a host, for every host that reaches it.

        The search is Dijkstra's, from the destination. It takes O(hosts * forwarding hosts).
        """
        best: dict[str, tuple[int, Step]] = {}
        queue: list[tuple[int, str]] = []
        for other, steps in self.neighbours.items():
            if host in steps:
                hops, port = steps[host]
                best[other] = (hops, Step(port, host))
                if other in self._forwarding:
                    queue.append((hops, other))
        heapq.heapify(queue)
        while queue:
            hops, node = heapq.heappop(queue)
            # An entry that has been replaced by a shorter one.
            if hops > best[node][0]:
                continue
            for other, hops_to_node in self._hops_to[node]:
                total = hops + hops_to_node
                if other != host and (other not in best or total < best[other][0]):
                    _, port = self.neighbours[other][node]
                    best[other] = (total, Step(port, node))
                    if other in self._forwarding:
                        heapq.heappush(queue, (total, other))
        return {other: step for other, (_, step) in best.items()}

    def flow_texts(self, matches: Matches = ipv4_matches) -> Mapping[str, tuple[str, ...]]:
        """Return the rules of each switch in the notation of ovs-ofctl.

        Args:
            matches: Returns the conditions of the packets to a host.
        """
        hosts = {host.name: host for host in self.wiring.hosts}
        rules_by_switch = {}
        for switch, ports in self.ports.items():
            # In the order of the hosts in the wiring.
            rules: list[str] = []
            for host, port in ports.items():
                for match in matches(hosts[host]):
                    rules.append(f"priority={PRIORITY},{match},actions=output:{port}")
            rules_by_switch[switch] = tuple(rules)
        return rules_by_switch


def forwards(wiring: Wiring, host: WiredHost) -> bool:
    """Return whether a host forwards packets of others; the host of a switch does not."""
    return not host.outside and wiring.network.node(host.node).forwards


@dataclass(frozen=True, slots=True)
class _Edge:
    """A cable as seen from one of its ends.

    Attributes:
        number: Index of the cable in the wiring.
        neighbour: The device at the other end.
        port: Port of the neighbour.
        hops: Cost of a packet from the neighbour to this end.
    """

    number: int
    neighbour: str
    port: int
    hops: int


def _distances(
    host: str, edges: Mapping[str, list[_Edge]], hosts: Mapping[str, object]
) -> Iterator[tuple[str, int, int]]:
    """Find the shortest paths over switches to a host, by Dijkstra's search from the host.

    Args:
        host: Name of the host.
        edges: The cables at each device.
        hosts: All hosts; paths do not lead through them.

    Yields:
        Every device with a path, the number of hops, and the port of the device.
    """
    # The cost, the number of the cable and the port of each device. Of paths with equal costs, the
    # smallest number of a cable wins.
    best: dict[str, tuple[int, int, int]] = {host: (0, 0, 0)}
    queue = [(0, host)]
    while queue:
        cost, device = heapq.heappop(queue)
        if cost > best[device][0] or (device in hosts and device != host):
            continue
        for edge in edges.get(device, ()):
            neighbour = edge.neighbour
            candidate = (cost + edge.hops, edge.number, edge.port)
            if neighbour not in best or candidate < best[neighbour]:
                is_shorter = neighbour not in best or candidate[0] < best[neighbour][0]
                best[neighbour] = candidate
                if is_shorter:
                    heapq.heappush(queue, (candidate[0], neighbour))
    del best[host]
    for device, (hops, _, port) in best.items():
        yield device, hops, port


def _edges_by_end(wiring: Wiring) -> dict[str, list[_Edge]]:
    """Return the cables at each device."""
    edges: dict[str, list[_Edge]] = {}
    for number, cable in enumerate(wiring.cables):
        # The cable of an outside host has no link in the model.
        is_outside = cable.forward is None and cable.backward is None
        hops_forward = 1 if is_outside or cable.forward is not None else AGAINST_THE_MODEL
        hops_backward = 1 if is_outside or cable.backward is not None else AGAINST_THE_MODEL
        edge_at_b = _Edge(number, cable.a, cable.a_port, hops_forward)
        edge_at_a = _Edge(number, cable.b, cable.b_port, hops_backward)
        edges.setdefault(cable.b, []).append(edge_at_b)
        edges.setdefault(cable.a, []).append(edge_at_a)
    return edges
