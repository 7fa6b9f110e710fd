"""Records what Mininet's objects request of the kernel and of Open vSwitch.

Mininet's objects make requests while Mininet walks a topology. ``batch.Batch`` carries them out.
Alone, this module's ``Requests`` serve to read a topology that is never built, and to describe a
network that another process has built.
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

# Indices of interfaces next to the switches leave room for those that the sandbox has already.
_FIRST_INDEX = 10_000

# In a host, the loopback interface has the index 1.
_FIRST_HOST_INDEX = 2

# The kernel's limit on the name of an interface (IFNAMSIZ, with a zero byte), and names that it
# refuses or that exist already.
_MAX_NAME_BYTES = 15
_REFUSED_NAMES = ("", ".", "..", "lo")

# Datapath ids of switches whose names contain no digits that could be their number.
_FIRST_DATAPATH_ID = 0x7E57_0001

# Returns the messages that create interfaces, which are the arguments (``VethEnd``).
MakeInterfaces = Callable[..., list[Message]]


class Requests:
    """The parts of a network that were requested and are not built yet.

    Args:
        words: For a network that another process has built: returns the command line that runs a
            program, given the node's name and the program with its arguments.

    Attributes:
        current: The requests of the nodes that Mininet creates now.
        takes_settings: Settings of interfaces and routes are requested; if false, they are
            commands.
        makes_devices: The kernel will create the interfaces, and does not accept every name.
        devices: Node's name -> the name after which its interfaces are called, if it differs.
        hosts: Hosts with namespaces of their own.
        interfaces: Interfaces, and the function that returns the messages that create them (None
            for a veth pair).
        senders_next_to_switches: Interfaces of hosts that have no namespaces of their own.
        bridges: Mininet's switches, and the addresses of their controllers.
        queues: Mininet's interface -> its parameters.
        messages: Settings of interfaces, with their host (None for those next to the switches).
        sysctls: Host, name and value of network settings.
        directories: Host, mount point and source of private directories.
        indices: Host and name of an interface -> its index.
        reported: Parameters of links that are not supported, and of which the user was warned.
        addressed: Nodes with an address, by name.
        owner: Returns the network (Mininet) that makes the requests, or None if the program has
            dropped it.
        datapath_ids: The next datapath ids of switches without a number.
        running: Each request is carried out at once.
        closed: No request is carried out any more.
    """

    current: ClassVar[Requests | None] = None
    takes_settings = True
    makes_devices = True

    def __init__(self, words: Callable[[str, Sequence[str]], list[str]] | None = None) -> None:
        self._argv_at = words
        self.devices: dict[str, str] = {}
        self.hosts: list[str] = []
        self.interfaces: list[tuple[MakeInterfaces | None, tuple[VethEnd, ...]]] = []
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
        self.running = False
        self.closed = False
        self._next_index: dict[str | None, int] = {None: _FIRST_INDEX}

    def begin(self, hosts: Sequence[str], ports: PortsOfBridges) -> None:
        """Start what takes long, before it is requested.

        Args:
            hosts: Hosts that will be requested.
            ports: Bridges that will be requested, with their ports.
        """

    def flush(self) -> None:
        """Carry out all requests made since the last flush."""

    def close(self) -> None:
        """Take everything down."""
        self.closed = True

    def pid(self, host: str) -> int | None:
        """Return a process in the host's namespaces, or None if none is known here."""
        return None

    def words_at(self, node: Node, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in a host, or next to a switch.

        Raises:
            SessionClosedError: The network is only described.
        """
        if self._argv_at is None:
            raise SessionClosedError(
                f"{node.given}: the network is described, not built; nothing runs there"
            )
        return self._argv_at(node.given, argv)

    def answer(self, node: Node, command: str) -> str | None:
        """Return the output of a command that is not to be run, or None if it is to be run."""
        return None

    def database_words(self, node: Node) -> list[str]:
        """Return the option of ovs-vsctl that selects the database with the switch's bridge."""
        return []

    def connected(self) -> set[str]:
        """Return the bridges that are connected to a controller now."""
        return set()

    def add_host(self, name: str) -> None:
        """Request a host with namespaces of its own."""
        self.hosts.append(name)
        self._carry_out_if_running()

    def add_interfaces(
        self, *ends: tuple[str, str | None, str | None], make: MakeInterfaces | None = None
    ) -> None:
        """Request interfaces that belong together.

        Args:
            ends: Name, host (None for next to the switches) and MAC address (None for a random
                one) of each interface.
            make: Returns the messages that create them; None for a veth pair.

        Raises:
            InputError: The kernel does not accept a name.
        """
        requested = []
        for name, host, mac in ends:
            self._require_device(name, "an interface")
            index = self._next_index.setdefault(host, _FIRST_HOST_INDEX)
            self._next_index[host] = index + 1
            self.indices[host, name] = index
            packed = None if mac is None else packed_mac(mac)
            requested.append(VethEnd(name=name, index=index, host=host, mac=packed))
        self.interfaces.append((make, tuple(requested)))
        self._carry_out_if_running()

    def add_bridge(self, switch: OVSSwitch, targets: Sequence[str]) -> None:
        """Request the bridge of a switch, with the interfaces that it has when it is built.

        Args:
            switch: The switch.
            targets: Addresses of its controllers.

        Raises:
            InputError: The kernel does not accept its name.
        """
        self._require_device(switch.device, "a switch")
        self.bridges.append((switch, targets))
        self._carry_out_if_running()

    def withdraw_bridge(self, switch: OVSSwitch) -> bool:
        """Withdraw the request for the switch's bridge, and return whether there was one."""
        pending = [request for request in self.bridges if request[0] is not switch]
        withdrawn = len(pending) < len(self.bridges)
        self.bridges = pending
        return withdrawn

    def add_port(self, switch: OVSSwitch, interface: Intf) -> None:
        """Add an interface to a running bridge."""

    def set_queue(self, interface: Intf, values: Json) -> None:
        """Request the queues of an interface (``messages.queue_messages``)."""
        self.queues[interface] = values
        self._carry_out_if_running()

    def restore_queues(self, interfaces: Collection[str]) -> None:
        """Shape interfaces again that a command of a script has made ports of a bridge."""

    def apply(self, host: str | None, *messages: Message) -> None:
        """Request settings of interfaces of a host (None for those next to the switches)."""
        self.messages += [(host, message) for message in messages]
        self._carry_out_if_running()

    def add_directory(self, host: str, mount_point: str, source: str) -> None:
        """Request a directory that only one host sees.

        Args:
            host: The host.
            mount_point: Path at which the host sees it.
            source: The directory; if empty, an empty one that disappears with the host.
        """
        self.directories.append((host, mount_point, source))
        self._carry_out_if_running()

    def set_sysctl(self, host: str, name: str, value: str) -> None:
        """Request a network setting of a host."""
        self.sysctls.append((host, name, value))
        self._carry_out_if_running()

    def _require_device(self, name: str, device: str) -> None:
        """Check that the kernel accepts a name.

        Args:
            name: The name.
            device: The kind of device, for the message.

        Raises:
            InputError: It does not.
        """
        if not self.makes_devices:
            return
        if len(name.encode()) > _MAX_NAME_BYTES:
            raise InputError(
                f"{device} called {name!r}: {_MAX_NAME_BYTES} bytes at most; "
                "give its node a shorter name"
            )
        if name in _REFUSED_NAMES or re.search(r"[\s/:]", name):
            raise InputError(
                f"{device} called {name!r}: give its node a name without spaces, / and :, and not "
                "lo"
            )

    def _carry_out_if_running(self) -> None:
        if self.running:
            self.flush()
