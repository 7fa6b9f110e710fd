"""Gives hosts their addresses, neighbours and routes.

No ARP packet is ever needed. If every host has one cable, all other hosts are permanent neighbours
on it. Otherwise, or if the network gives hosts their addresses, the wiring is *routed*:

- A host has its address on all its interfaces, and on the loopback interface, so that the address
  remains when an interface is set down.
- All interfaces of a host have the same MAC address, so that a path may end at any of them.
- A host has a route to each address through the interface at which the shortest path begins
  (``testbed.openflow.shortest_paths``). The next IP node is a permanent neighbour.
"""

import socket
from collections.abc import Collection, Iterable

from testbed.emulation.network.cables import CablePlan
from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.routes import RuleMatch, add_route, hold_back, table_rule
from testbed.emulation.network.kernel.rtnetlink import Message, add_address, add_neighbour
from testbed.model.label_split import LABELS
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import HostRoute
from testbed.openflow.shortest_paths import ShortestPaths, Step, forwards
from topologies.text.addresses import packed_mac

_LOOPBACK = 1

# All hosts are in one subnet, 10.0.0.0/8.
_PREFIX = 8

# The first routing table of plans. Its number must not be one of the kernel's own (253 to 255).
_FIRST_TABLE = 1000

# Priorities of rules. Rules for some labels of a pair come before the one for all other packets of
# the pair, and all of them before the kernel's main table (32766).
_LABELS_PRIORITY = 1000
_PAIR_PRIORITY = 2000

# Settings that are switched off in routed wirings. A packet may arrive at another interface than
# the path back takes, and it may be forwarded through the interface at which it arrived.
_SETTINGS_OFF = ("rp_filter", "send_redirects")


class HostAddresses:
    """Configures the hosts of a network, and changes their routes.

    Args:
        cables: The interfaces of the hosts.
        namespaces: The namespaces of the hosts.
        talking: Hosts that know each other's addresses. Hosts that forward know them too.
        reapplied: Interface -> messages to apply again after the interface was down
            (``LinkControl.reapplied``); they are added here.
    """

    def __init__(
        self,
        cables: CablePlan,
        namespaces: HostNamespaces,
        talking: Collection[WiredHost],
        reapplied: dict[str, dict[Message, None]],
    ) -> None:
        self._cables = cables
        self._namespaces = namespaces
        self._reapplied = reapplied
        self._wiring: Wiring = cables.wiring
        self._talking = tuple(talking)
        self._hosts = {host.name: host for host in self._wiring.hosts}
        self._tables: dict[tuple[str, Step], int] = {}
        self._addresses = {host.name: self._addresses_of(host) for host in self._wiring.hosts}

    def _addresses_of(self, host: WiredHost) -> tuple[tuple[str, int], ...]:
        """Return the addresses and prefix lengths of a host: those of the network, or its own."""
        if not host.outside:
            addresses = tuple(self._wiring.network.node(host.node).addresses)
            if addresses:
                return addresses
        return ((host.ip, 32),)

    def set_up(self, hosts: Iterable[WiredHost]) -> None:
        """Add addresses, neighbours and routes, in one batch per host.

        Args:
            hosts: The hosts, whose interfaces must be up: the kernel refuses routes through an
                interface that is down.
        """
        routed = self._wiring.routed
        steps = self._all_steps() if routed else {}
        for host in hosts:
            ends = self._cables.ends_of(host.name)
            messages: list[Message] = []
            if routed:
                messages += self._routed_messages(host, steps.get(host.name, {}))
            elif ends:
                messages.append(add_address(ends[0].index, host.ip, _PREFIX))
                neighbours = self._neighbours(host)
                self._reapply_later(host.name, self._wiring.first_port(host.name), neighbours)
                messages += neighbours
            self._namespaces.netlink_of(host.name).apply(messages)
            if routed:
                self._allow_forwarding(host)

    def change(self, routes: Iterable[HostRoute], *, add: bool) -> None:
        """Add a plan's routes to the hosts on this machine, or remove them.

        Args:
            routes: The routes; those of hosts on other machines are ignored.
            add: Add if true, and remove if not.
        """
        messages: list[tuple[str | None, Message]] = []
        for route in routes:
            if route.host in self._cables.hosts:
                for message in self._route_messages(route, add):
                    messages.append((route.host, message))
        self._namespaces.apply(messages)

    def _all_steps(self) -> dict[str, dict[str, Step]]:
        """Return host -> destination -> the host's step on the shortest path there."""
        paths = ShortestPaths(self._wiring)
        talking_names = {host.name for host in self._talking}
        steps_by_host: dict[str, dict[str, Step]] = {}
        for sink in self._talking:
            for name, step in paths.steps_to(sink.name).items():
                if name in talking_names or forwards(self._wiring, self._hosts[name]):
                    steps_by_host.setdefault(name, {})[sink.name] = step
        return steps_by_host

    def _neighbours(self, host: WiredHost) -> list[Message]:
        """Return all other hosts as neighbours of a host with one cable, if it communicates."""
        if host not in self._talking:
            return []
        index = self._index(host.name, self._wiring.first_port(host.name))
        return [
            self._neighbour(index, other, other.ip)
            for other in self._talking
            if other.name != host.name
        ]

    def _routed_messages(self, host: WiredHost, steps: dict[str, Step]) -> list[Message]:
        """Return the addresses and routes of a host in a routed wiring.

        The k-th interface gets the k-th address of the host, and the last interface all remaining
        ones. Every interface but the first also gets the host's first address.

        Args:
            host: The host.
            steps: Destination -> the host's step on the shortest path there.
        """
        ends = self._cables.ends_of(host.name)
        addresses = self._addresses[host.name]
        messages = [add_address(_LOOPBACK, host.ip, 32)]
        last = len(ends) - 1
        for number, end in enumerate(ends):
            addresses_here = addresses[number : number + 1] if number < last else addresses[number:]
            for ip, prefix in addresses_here:
                messages.append(add_address(end.index, ip, prefix))
            if number or not addresses_here:
                messages.append(add_address(end.index, host.ip, 32))
        for name, step in steps.items():
            for address, _ in self._addresses[name]:
                route = self._shortest_route(host, name, step, address)
                self._reapply_later(host.name, step.port, route)
                messages += route
        return messages

    def _shortest_route(
        self, host: WiredHost, sink: str, step: Step, address: str
    ) -> list[Message]:
        """Return the neighbour and the route that a host needs to reach an address.

        Args:
            host: The host.
            sink: Name of the destination.
            step: The host's step towards the destination.
            address: The address of the destination.
        """
        index = self._index(host.name, step.port)
        if step.node == sink:
            neighbour = self._neighbour(index, self._hosts[sink], address)
            return [neighbour, add_route(address, index=index, source=host.ip, via=None)]
        via = self._hosts[step.node].ip
        return [
            self._next_node(index, step),
            add_route(address, index=index, source=host.ip, via=via),
        ]

    def _allow_forwarding(self, host: WiredHost) -> None:
        """Let packets of one connection use several interfaces of the host.

        Forwarding is switched on or off explicitly, because a new namespace inherits the machine's
        setting.
        """
        interfaces = [end.interface for end in self._cables.ends_of(host.name)]
        settings: dict[str, object] = {}
        for scope in ("all", "default", *interfaces):
            for name in _SETTINGS_OFF:
                settings[f"ipv4/conf/{scope}/{name}"] = 0
        settings["ipv4/ip_forward"] = int(forwards(self._wiring, host))
        self._namespaces.set_sysctls(host.name, settings)

    def _route_messages(self, route: HostRoute, add: bool) -> list[Message]:
        """Return the messages that add or remove one route of a plan.

        Each step of a host has a routing table, which stays when the rules for it are removed.
        """
        step = Step(route.port, route.node)
        table = self._tables.setdefault((route.host, step), _FIRST_TABLE + len(self._tables))
        messages: list[Message] = []
        if add:
            messages += self._table_messages(route, step, table)
        labels = None
        if route.labels is not None:
            # Labels are UDP source ports. The kernel has no rule for the ports 0 and 65535, so
            # their packets take the route for all other packets of the pair.
            first = max(1, route.labels[0])
            last = min(LABELS - 2, route.labels[1] - 1)
            if first > last:
                return messages
            labels = (first, last)
        source = None if route.begins else route.source_ip
        match = RuleMatch(
            sink=route.sink_ip,
            source=source,
            udp_port=route.udp_port,
            labels=labels,
        )
        priority = _PAIR_PRIORITY if labels is None else _LABELS_PRIORITY
        return [*messages, table_rule(table, priority, match, add=add)]

    def _table_messages(self, route: HostRoute, step: Step, table: int) -> list[Message]:
        """Return the messages that fill the routing table of a host's step."""
        index = self._index(route.host, route.port)
        via = self._hosts[route.node].ip
        source = self._hosts[route.host].ip
        messages = [
            self._next_node(index, step),
            add_route(None, index=index, source=source, via=via, table=table),
        ]
        self._reapply_later(route.host, route.port, messages)
        return [*messages, hold_back(table)]

    def _next_node(self, index: int, step: Step) -> Message:
        """Return the next IP node of a step as a neighbour."""
        node = self._hosts[step.node]
        return self._neighbour(index, node, node.ip)

    def _neighbour(self, index: int, node: WiredHost, ip: str) -> Message:
        return add_neighbour(index, socket.inet_aton(ip), packed_mac(node.mac))

    def _index(self, host: str, port: int) -> int:
        return self._cables.hosts[host][port].index

    def _reapply_later(self, host: str, port: int, messages: list[Message]) -> None:
        """Have these messages applied again whenever the interface comes up after it was down.

        The kernel forgets the neighbours and routes of an interface that is set down.
        """
        interface = self._cables.hosts[host][port].interface
        stored = self._reapplied.setdefault(interface, {})
        stored.update(dict.fromkeys(messages))
