"""What Mininet's objects request of the kernel and of Open vSwitch while Mininet walks a topology: noted, not made.

These requests alone are how a topology is read that is never built, and how a network is described that stands in
another process. ``batch.Batch`` carries them out.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from testbed.emulation.network.kernel.rtnetlink import Message, VethEnd
from testbed.emulation.network.open_vswitch.bridges import PortsOfBridges
from testbed.errors import InputError, SessionClosedError
from topologies.text.addresses import packed_mac
from topologies.text.json_types import Json

if TYPE_CHECKING:
    from mininet.link import Intf
    from mininet.node import Node, OVSSwitch

_FIRST_INDEX, _FIRST_HOST_INDEX = 10_000, 2  # loopback is 1
_MOST_BYTES, _NO_DEVICES = 15, ("", ".", "..", "lo")
_FIRST_DATAPATH_ID = 0x7E57_0001
"""Of switches whose names have no digits that could be their number."""


MakeInterfaces = Callable[..., list[Message]]
"""The messages that make these interfaces (``VethEnd``s)."""


class Requests:
    """The parts of a network that were requested and are not made yet.

    ``addressed``: nodes with an address, by name; ``owner``: the network (Mininet) that made the
    requests, or None if the program has dropped it. ``devices``: node's name -> what its interfaces are called after, where
    that is not the name; ``takes_settings``: of interfaces and routes, which are commands otherwise; ``running``: each
    request is carried out at once; ``closed``: nothing is, any more.

    ``words``: of a network that stands in another process, how programs begin there (node's name, program and
    arguments). ``queues``: interface (Mininet's Intf) -> Mininet's parameters of it; ``bridges``: Mininet's switches
    with the targets of their controllers; ``reported``: parameters that are not carried out; ``messages``: host (None:
    next to the switches) and a setting of its interfaces.
    """

    current: ClassVar[Requests | None] = None
    """Of nodes that Mininet makes now."""
    takes_settings = True
    makes_devices = True
    """Of which the kernel takes not every name."""

    def __init__(self, words: Callable[[str, Sequence[str]], list[str]] | None = None) -> None:
        self._words = words
        self.devices: dict[str, str] = {}
        self.hosts: list[str] = []
        self.interfaces: list[tuple[MakeInterfaces | None, tuple[VethEnd, ...]]] = []
        # Interfaces of hosts outside namespaces of their own.
        self.senders_next_to_switches: list[str] = []
        self.bridges: list[tuple[OVSSwitch, Sequence[str]]] = []
        self.queues: dict[Intf, Json] = {}
        self.messages: list[tuple[str | None, Message]] = []
        self.sysctls: list[tuple[str, str, str]] = []
        self.directories: list[tuple[str, str, str]] = []
        self.indices: dict[tuple[str | None, str], int] = {}
        self.reported: set[str] = set()
        self.addressed: dict[str, Node] = {}
        self.owner: Callable[[], object] = lambda: self
        self.datapath_ids = itertools.count(_FIRST_DATAPATH_ID)
        self.running = self.closed = False
        self._next: dict[str | None, int] = {None: _FIRST_INDEX}

    def begin(self, hosts: Sequence[str], ports: PortsOfBridges) -> None:
        """These hosts and bridges will be requested: what takes time of its own may begin."""

    def flush(self) -> None:
        """Carry out what was requested meanwhile."""

    def close(self) -> None:
        """Take everything down."""
        self.closed = True

    def pid(self, host: str) -> int | None:
        """A process that has the host's namespaces; None where that is not known here."""
        return None

    def words_at(self, node: Node, argv: Sequence[str]) -> list[str]:
        """The words that run a program in a host, or next to a switch."""
        if self._words is None:
            raise SessionClosedError(
                f"{node.given}: the network is described, not built; nothing runs there"
            )
        return self._words(node.given, argv)

    def answer(self, node: Node, command: str) -> str | None:
        """What a command says that is not to be run; None for one that is."""
        return None

    def database_words(self, node: Node) -> list[str]:
        """How ovs-vsctl finds the database that has the switch's bridge."""
        return []

    def connected(self) -> set[str]:
        """Bridges that are connected to a controller now."""
        return set()

    def add_host(self, name: str) -> None:
        """A host with namespaces of its own."""
        self.hosts.append(name)
        self._request()

    def add_interfaces(
        self, *ends: tuple[str, str | None, str | None], make: MakeInterfaces | None = None
    ) -> None:
        """Interfaces as (name, host or None, MAC or None), made by one batch of messages: a veth pair unless ``make``
        says otherwise. InputError for a name that none can have."""
        made = []
        for name, host, mac in ends:
            self._require_device(name, "an interface")
            index = self._next.setdefault(host, _FIRST_HOST_INDEX)
            self._next[host] = index + 1
            self.indices[host, name] = index
            made.append(
                VethEnd(
                    name=name, index=index, host=host, mac=None if mac is None else packed_mac(mac)
                )
            )
        self.interfaces.append((make, tuple(made)))
        self._request()

    def add_bridge(self, switch: OVSSwitch, targets: Sequence[str]) -> None:
        """The switch's bridge, with the interfaces that it has when that is made. InputError for a name that no bridge
        can have."""
        self._require_device(switch.device, "a switch")
        self.bridges.append((switch, targets))
        self._request()

    def withdraw_bridge(self, switch: OVSSwitch) -> bool:
        """Withdraw the request for the switch's bridge, and return whether there was one."""
        pending = [request for request in self.bridges if request[0] is not switch]
        withdrawn = len(pending) < len(self.bridges)
        self.bridges = pending
        return withdrawn

    def add_port(self, switch: OVSSwitch, interface: Intf) -> None:
        """Another port of a bridge that is there."""

    def set_queue(self, interface: Intf, values: Json) -> None:
        """Shape what the interface sends (``messages.queue_messages``)."""
        self.queues[interface] = values
        self._request()

    def restore_queues(self, interfaces: Collection[str]) -> None:
        """Shape interfaces again that a command of the script's made ports of a bridge."""

    def apply(self, host: str | None, *messages: Message) -> None:
        """Settings of interfaces."""
        self.messages += [(host, message) for message in messages]
        self._request()

    def add_directory(self, host: str, seen: str, source: str) -> None:
        """A directory that the host sees there and others do not: ``source``, or an empty one that goes with it."""
        self.directories.append((host, seen, source))
        self._request()

    def set_sysctl(self, host: str, name: str, value: str) -> None:
        """A setting of the host's network."""
        self.sysctls.append((host, name, value))
        self._request()

    def _require_device(self, name: str, what: str) -> None:
        """InputError where the kernel takes no such name."""
        if self.makes_devices and len(name.encode()) > _MOST_BYTES:
            raise InputError(
                f"{what} called {name!r}: {_MOST_BYTES} bytes at most; give its node a shorter name"
            )
        if self.makes_devices and (name in _NO_DEVICES or re.search(r"[\s/:]", name)):
            raise InputError(
                f"{what} called {name!r}: give its node a name without spaces, / and :, and not lo"
            )

    def _request(self) -> None:
        if self.running:
            self.flush()
