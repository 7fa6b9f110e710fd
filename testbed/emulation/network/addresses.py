"""Gives the hosts their addresses, and ways to everybody: neighbours, and routes where a host has to choose.

No ARP packet is ever needed. Where all hosts have one cable, everybody is a permanent neighbour on it. Else a host has
its address on all its interfaces and the loopback (so that it survives an interface that is taken down), the same MAC
address on all of them (so that a path may end at either), and for every address a route out of the interface where the
way begins, with the next IP node as permanent neighbour (``testbed.openflow.shortest_paths``).
"""

import socket
from collections.abc import Collection, Iterable

from testbed.emulation.network.cables import CablePlan
from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.routes import add_route, hold_back, table_rule
from testbed.emulation.network.kernel.rtnetlink import Message, add_address, add_neighbour
from testbed.model.label_split import LABELS
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import HostRoute
from testbed.openflow.shortest_paths import ShortestPaths, Step, forwards
from topologies.text.addresses import packed_mac

_LOOPBACK, _PREFIX = 1, 8
_FIRST_TABLE, _LABELS_FIRST, _OTHERS = 1000, 1000, 2000
"""Of rules: those of labels are looked at before those of all other packets of a pair."""
_EITHER_WAY = ("rp_filter", "send_redirects")
"""A packet may come by another interface than the way back takes, and is sent on by the one that it came by."""


class HostAddresses:
    """Sets the hosts of a network up and changes their routes. ``talking``: hosts that know each other; hosts that
    forward know them too. ``forgotten``: as of ``LinkControl``."""

    def __init__(
        self,
        cables: CablePlan,
        namespaces: HostNamespaces,
        talking: Collection[WiredHost],
        forgotten: dict[str, dict[Message, None]],
    ) -> None:
        self._cables, self._namespaces, self._forgotten = cables, namespaces, forgotten
        self._wiring: Wiring = cables.wiring
        self._talking = tuple(talking)
        self._known = {host.name: host for host in self._wiring.hosts}
        self._tables: dict[tuple[str, Step], int] = {}
        self._addresses = {
            host.name: (*(() if host.outside else self._wiring.network.node(host.node).addresses),)
            or ((host.ip, 32),)
            for host in self._wiring.hosts
        }

    def set_up(self, hosts: Iterable[WiredHost]) -> None:
        """One batch a host, whose interfaces are up: addresses, neighbours, routes."""
        steps = self._all_steps() if self._wiring.routed else None
        for host in hosts:
            ends = self._cables.ends_of(host.name)
            messages: list[Message] = []
            if steps is not None:
                messages += self._routed(host, steps.get(host.name, {}))
            elif ends:
                messages.append(add_address(ends[0].index, host.ip, _PREFIX))
                messages += self._keep(
                    host.name, self._wiring.first_port(host.name), self._all_neighbours(host)
                )
            self._namespaces.netlink_of(host.name).apply(messages)
            if steps is not None:
                self._let_pass(host)

    def change(self, routes: Iterable[HostRoute], *, add: bool) -> None:
        """Put a plan's routes into the hosts that are here, or take them away."""
        here = [route for route in routes if route.host in self._cables.hosts]
        self._namespaces.apply(
            (route.host, message) for route in here for message in self._route(route, add)
        )

    def _all_steps(self) -> dict[str, dict[str, Step]]:
        """Host -> whom it reaches -> its step."""
        paths, found = ShortestPaths(self._wiring), dict[str, dict[str, Step]]()
        talking = {host.name for host in self._talking}
        for sink in self._talking:
            for name, step in paths.steps_to(sink.name).items():
                if name in talking or forwards(self._wiring, self._known[name]):
                    found.setdefault(name, {})[sink.name] = step
        return found

    def _all_neighbours(self, host: WiredHost) -> list[Message]:
        """Of a host with one cable; none where it does not talk itself."""
        if host not in self._talking:
            return []
        index = self._index(host.name, self._wiring.first_port(host.name))
        return [
            self._neighbour(index, other, other.ip)
            for other in self._talking
            if other.name != host.name
        ]

    def _routed(self, host: WiredHost, steps: dict[str, Step]) -> list[Message]:
        """Addresses of the file with their prefixes on the interfaces in their order; the first on all others too."""
        ends, own = self._cables.ends_of(host.name), self._addresses[host.name]
        messages = [add_address(_LOOPBACK, host.ip, 32)]
        for place, end in enumerate(ends):
            here = own[place : place + 1] if place < len(ends) - 1 else own[place:]
            messages += [add_address(end.index, ip, prefix) for ip, prefix in here]
            if place or not here:
                messages.append(add_address(end.index, host.ip, 32))
        for name, step in steps.items():
            index, sink = self._index(host.name, step.port), self._known[name]
            for address, _ in self._addresses[name]:
                direct = step.node == name
                to = (
                    [self._neighbour(index, sink, address)] if direct else [self._next(index, step)]
                )
                via = None if direct else self._known[step.node].ip
                to.append(add_route(address, index=index, source=host.ip, via=via))
                messages += self._keep(host.name, step.port, to)
        return messages

    def _let_pass(self, host: WiredHost) -> None:
        """What the kernel would else hold against packets that come and go by several interfaces."""
        scopes = ["all", "default", *(end.interface for end in self._cables.ends_of(host.name))]
        off = {f"ipv4/conf/{scope}/{name}": 0 for scope in scopes for name in _EITHER_WAY}
        forwarding = {
            "ipv4/ip_forward": int(forwards(self._wiring, host))
        }  # a new namespace has the machine's own
        self._namespaces.set_sysctls(host.name, off | forwarding)

    def _route(self, route: HostRoute, add: bool) -> list[Message]:
        step, index = Step(route.port, route.node), self._index(route.host, route.port)
        table = self._tables.setdefault((route.host, step), _FIRST_TABLE + len(self._tables))
        messages: list[Message] = []
        if add:
            via, own = self._known[route.node].ip, self._known[route.host].ip
            to = [
                self._next(index, step),
                add_route(None, index=index, source=own, via=via, table=table),
            ]
            messages += [*self._keep(route.host, route.port, to), hold_back(table)]
        labels = None
        if (
            route.labels is not None
        ):  # the kernel knows no rule for ports 0 and 65535, which go with label 0's
            labels = max(1, route.labels[0]), min(LABELS - 2, route.labels[1] - 1)
            if labels[0] > labels[1]:
                return messages
        source = None if route.begins else route.source_ip
        priority = _OTHERS if labels is None else _LABELS_FIRST
        rule = table_rule(
            table,
            priority,
            sink=route.sink_ip,
            source=source,
            udp_port=route.udp_port,
            labels=labels,
            add=add,
        )
        return [*messages, rule]

    def _next(self, index: int, step: Step) -> Message:
        node = self._known[step.node]
        return self._neighbour(index, node, node.ip)

    def _neighbour(self, index: int, node: WiredHost, ip: str) -> Message:
        return add_neighbour(index, socket.inet_aton(ip), packed_mac(node.mac))

    def _index(self, host: str, port: int) -> int:
        return self._cables.hosts[host][port].index

    def _keep(self, host: str, port: int, messages: list[Message]) -> list[Message]:
        """The messages, which are said again when the interface has been down."""
        stored = self._forgotten.setdefault(self._cables.hosts[host][port].interface, {})
        stored.update(dict.fromkeys(messages))
        return messages
