"""Shortest-path forwarding between all hosts of a wiring, for switches and hosts alike; no plan needed.

Every pair of hosts that the network connects can communicate over its cables, whatever directions its model uses.

Theory of operation. A host is an IP node: packets begin, end or, where it forwards, pass there. Two hosts are
neighbours where a cable, or cables over switches alone, join them. *Switches* look at the destination's MAC address,
which names the next IP node: for each host every switch has the port of a shortest way over switches (one rule a switch
and host). *Hosts* look at the destination's IP address: over the graph of neighbours a search for each destination,
which passes hosts that forward and no others, says which own port and which next IP node. Each switch's port is one of
a tree to the next IP node, and each IP node on the way is nearer to the destination than the one before, so that no
packet goes round. With destination addresses in the switches' rules, as long as no host forwards, a packet that has to
pass a router first would bypass it.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from testbed.model.wiring import WiredHost, Wiring

AGAINST_THE_MODEL = 1_000
"""Hops that a cable costs in a direction in which the model has no link."""
PRIORITY = 1
"""Below every rule of a plan."""


class Step(NamedTuple):
    """What a host does with a packet: out of its ``port``, to the IP node ``node`` (WiredHost.name) next."""

    port: int
    node: str


Matches = Callable[[WiredHost], Iterable[str]]
"""What matches the packets that a switch sends on to a host, in ovs-ofctl's notation."""


def ipv4_matches(host: WiredHost) -> tuple[str, ...]:
    """IPv4 by the next IP node's MAC address, ARP by the destination."""
    return f"ip,dl_dst={host.mac}", f"arp,arp_tpa={host.ip}"


class ShortestPaths:
    """The ways of one wiring. ``ports``: switch -> host -> port towards it over switches alone. ``neighbours``: host ->
    neighbour -> (hops, own port), of a wiring that is ``routed``; of others it is empty.

    Fewest hops; a cable used against the model's only direction counts as AGAINST_THE_MODEL; ties go to the cable that
    comes first in the wiring. Complexity O(hosts * cables * log cables).
    """

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        hosts, routed = [host.name for host in wiring.hosts], wiring.routed
        self.ports: dict[str, dict[str, int]] = {switch.name: {} for switch in wiring.switches}
        self.neighbours: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in hosts}
        arrivals = _arrivals(wiring)
        for host in hosts:
            for device, hops, port in _nearest(host, arrivals, self.neighbours):
                if device in self.ports:
                    self.ports[device][host] = port
                elif routed:
                    self.neighbours[device][host] = (hops, port)
        self._forwards = {host.name for host in wiring.hosts if forwards(wiring, host)}
        self._towards = {
            name: [
                (other, near[name][0]) for other, near in self.neighbours.items() if name in near
            ]
            for name in self._forwards
        }
        """Forwarding host -> (neighbour, hops from there to it)."""

    def steps_to(self, host: str) -> dict[str, Step]:
        """Host -> its step towards the given one, of all hosts that reach it. O(hosts * forwarding hosts)."""
        near_it = {other: near[host] for other, near in self.neighbours.items() if host in near}
        best = {other: (hops, Step(port, host)) for other, (hops, port) in near_it.items()}
        queue = [(hops, other) for other, (hops, _) in best.items() if other in self._forwards]
        heapq.heapify(queue)
        while queue:
            hops, node = heapq.heappop(queue)
            if hops > best[node][0]:
                continue
            for other, more in self._towards[node]:
                if other != host and (other not in best or hops + more < best[other][0]):
                    best[other] = (hops + more, Step(self.neighbours[other][node][1], node))
                    if other in self._forwards:
                        heapq.heappush(queue, (hops + more, other))
        return {other: step for other, (_, step) in best.items()}

    def flow_texts(self, matches: Matches = ipv4_matches) -> Mapping[str, tuple[str, ...]]:
        """Switch name -> its rules in ovs-ofctl's notation, for what ``matches`` says of each host."""
        known = {host.name: host for host in self.wiring.hosts}
        return {
            switch: tuple(
                f"priority={PRIORITY},{match},actions=output:{port}"
                for host, port in towards.items()  # in the order of the wiring's hosts, as they were found
                for match in matches(known[host])
            )
            for switch, towards in self.ports.items()
        }


def forwards(wiring: Wiring, host: WiredHost) -> bool:
    """Whether that host passes others' packets on; what stands for a switch does not."""
    return not host.outside and wiring.network.node(host.node).forwards


_Arrivals = Mapping[str, list[tuple[int, tuple[str, int, int]]]]
"""Device -> (cable number, (neighbour, the neighbour's port towards the device, hops that counts))."""


def _nearest(
    host: str, arrivals: _Arrivals, hosts: Mapping[str, object]
) -> Iterator[tuple[str, int, int]]:
    """(device, hops, its port towards the host) of all devices that reach it over switches alone."""
    best: dict[str, tuple[int, int, int]] = {host: (0, 0, 0)}
    queue = [(0, host)]
    while queue:
        cost, device = heapq.heappop(queue)
        if cost > best[device][0] or (device in hosts and device != host):
            continue
        for number, (neighbour, port, hops) in arrivals.get(device, ()):
            found = (cost + hops, number, port)
            if neighbour not in best or found < best[neighbour]:
                shorter = neighbour not in best or found[0] < best[neighbour][0]
                best[neighbour] = found
                if shorter:
                    heapq.heappush(queue, (found[0], neighbour))
    del best[host]
    return ((device, hops, port) for device, (hops, _, port) in best.items())


def _arrivals(wiring: Wiring) -> _Arrivals:
    found: dict[str, list[tuple[int, tuple[str, int, int]]]] = {}
    for number, cable in enumerate(wiring.cables):
        outside = cable.forward is None and cable.backward is None
        for here, there, port, link in (
            (cable.b, cable.a, cable.a_port, cable.forward),
            (cable.a, cable.b, cable.b_port, cable.backward),
        ):
            hops = 1 if link is not None or outside else AGAINST_THE_MODEL
            found.setdefault(here, []).append((number, (there, port, hops)))
    return found
