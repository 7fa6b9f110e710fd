"""Shortest-path forwarding between all hosts of a wiring, one rule a switch and destination; no plan needed.

For the prompt: every pair can talk at once, over the cables of the network, whatever directions its model uses.
"""

import heapq
from collections.abc import Mapping

from testbed.model.wiring import WiredHost, Wiring

AGAINST_THE_MODEL = 1_000
"""Hops that a cable costs in a direction in which the model has no link."""
PRIORITY = 1
"""Below every rule of a plan."""


def shortest_path_ports(wiring: Wiring) -> Mapping[str, Mapping[str, int]]:
    """Switch name -> host name -> port towards that host, for every host that can be reached.

    Fewest hops; a cable used against the model's only direction counts as AGAINST_THE_MODEL; ties go to the cable that
    comes first in the wiring. Hosts pass nothing on. Complexity O(hosts * cables * log cables).
    """
    towards = _arrivals(wiring)
    hosts = {host.name for host in wiring.hosts}
    ports: dict[str, dict[str, int]] = {switch.name: {} for switch in wiring.switches}
    for host in wiring.hosts:
        best: dict[str, tuple[int, int]] = {host.name: (0, 0)}
        queue = [(0, host.name)]
        while queue:
            cost, device = heapq.heappop(queue)
            if cost > best[device][0] or (device in hosts and device != host.name):
                continue
            for number, (neighbour, port, hops) in towards.get(device, ()):
                found = (cost + hops, number)
                if neighbour not in best or found < best[neighbour]:
                    shorter = neighbour not in best or found[0] < best[neighbour][0]
                    best[neighbour] = found
                    if neighbour in ports:
                        ports[neighbour][host.name] = port
                    if shorter:
                        heapq.heappush(queue, (found[0], neighbour))
    return ports


def _arrivals(wiring: Wiring) -> dict[str, list[tuple[int, tuple[str, int, int]]]]:
    """Device -> (cable number, (neighbour, the neighbour's port towards the device, hops that counts))."""
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


def flow_texts(wiring: Wiring) -> Mapping[str, tuple[str, ...]]:
    """Switch name -> its rules in ovs-ofctl's notation: IPv4 and ARP by destination address."""
    addresses: dict[str, WiredHost] = {host.name: host for host in wiring.hosts}
    return {
        switch: tuple(
            f"priority={PRIORITY},{match}={addresses[host].ip},actions=output:{port}"
            for host, port in towards.items()  # in the order of the wiring's hosts, as they were found
            for match in ("ip,nw_dst", "arp,arp_tpa")
        )
        for switch, towards in shortest_path_ports(wiring).items()
    }
