"""An emulated network: hosts in namespaces, Open vSwitch bridges and shaped veth cables.

A wiring (``testbed.model.wiring``) has decided every name and number. Mininet walks it as a
topology of its own (``mininet_network``). The classes of its hosts, switches and links record what
they request of the kernel. Each step takes a fraction of a second, because it is one batch and not
one command per interface:

1. *Hosts*: each host has a sleeping thread that keeps its network namespace alive
   (``kernel.host_namespaces``). At the same time the private switch daemons start
   (``open_vswitch.switches``) and Mininet creates its objects. There is one daemon, or several that
   share the bridges of a large network.
2. *Cables*: when Mininet configures its hosts, all veth pairs, addresses and permanent neighbours
   go to the kernel as rtnetlink messages, hundreds per system call (``kernel.rtnetlink``). No ARP
   packet is ever needed.
3. *Bridges*: when Mininet starts all its switches at once, they and their ports are one transaction
   of the switch database (``open_vswitch.bridges``). Bridges forward only packets that a rule
   matches, and keep their rules when their controller dies.
4. *Shaping*: each sending end of a link gets its delay (netem, or a detour through a process), and
   behind it its capacity (tbf). This comes after the bridges, because a bridge that takes over an
   interface removes its queues (``links``).
5. *Hooks for faults*: each sending end gets an empty hook, unless the network is large, so that the
   first blackhole is as fast as later ones. Impaired links get a detour through a process
   (``impairments``).

A fault is one system call. Either an interface is set down (the carrier is lost, and the controller
is notified), or a drop rule is added to the hook (nothing is notified).

To take the network down, the group of the interfaces is deleted and the namespaces are released;
the kernel does the rest. The shell of a Mininet node starts with its first command.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.emulation.network.addresses import HostAddresses
from testbed.emulation.network.cables import CablePlan
from testbed.emulation.network.kernel.host_namespaces import argv_inside, packet_socket_drops
from testbed.emulation.network.kernel.packet_capture import Capture
from testbed.emulation.network.kernel.rtnetlink import (
    Message,
    Netlink,
    NetlinkError,
    VethEnd,
    packet_gate,
)
from testbed.emulation.network.kernel.tunnels import make_tunnel, remove_guard, tunnel_guard
from testbed.emulation.network.links import NOT_RUNNING, LinkControl
from testbed.emulation.network.mininet_network.batch import Batch, refusals
from testbed.emulation.network.open_vswitch.bridges import ports_of_bridges
from testbed.emulation.network.open_vswitch.switch_daemon import Datapath
from testbed.emulation.network.open_vswitch.switches import choose_datapath
from testbed.emulation.sandbox.forked_process import prepare_processes
from testbed.emulation.sandbox.program_start import start_program
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError, InputError
from testbed.model.naming.device_names import interface_name
from testbed.model.wiring import Tunnel, WiredHost, Wiring, WiringPart, wiring_document
from topologies import JsonObject, LinkId, label_of, nearest

if TYPE_CHECKING:
    from testbed.emulation.network.mininet_network.requests import MakeInterfaces
    from testbed.emulation.network.mininet_network.wired import WiredMininet

#: Smallest and largest MTU of a cable, in bytes.
MTU_RANGE = (576, 9216)


class EmulatedNetwork(LinkControl):
    """A wiring as real switches, cables and hosts; a context manager, inside the sandbox only.

        with EmulatedNetwork(wire(load_network("ring:4"))) as net:
            net.run_in_host("h0", ["ip", "address"])

    Args:
        wiring: The wiring.
        mtu: MTU of every cable, in bytes.
        shape: Limit every link to its capacity, and delay its packets. The cables of outside hosts
            are never shaped.
        controller_port: TCP port on 127.0.0.1 of the OpenFlow controller. Without one, bridges
            forward only what their rules say (fail mode secure). In both cases they keep their
            rules when a controller dies.
        before_bridges: Called when hosts and cables exist, before the first bridge connects to its
            controller.
        first_udp_port: Datagrams to this port go before all other packets in the queue of every
            link; None for one queue for all.
        talking: End points whose hosts know each other's addresses; None for all. Other hosts can
            send nothing.
        part: Build only these devices, and cables to other devices as tunnels. A request for any
            other device is an InputError.

    Attributes:
        wiring: The wiring.
        controller_port: TCP port of the OpenFlow controller, or None.
        switch_names: Names of the switches that are built on this machine.
        addresses: The addresses and routes of the hosts; None while the network is down.

    Raises:
        CapabilityError: The machine cannot build the network; for instance, it lacks htb for
            priority queues.
        InputError: The MTU is out of range.
    """

    def __init__(
        self,
        wiring: Wiring,
        *,
        mtu: int = 1500,
        shape: bool = True,
        controller_port: int | None = None,
        before_bridges: Callable[[], None] | None = None,
        first_udp_port: int | None = None,
        talking: Collection[str] | None = None,
        part: WiringPart | None = None,
    ) -> None:
        min_mtu, max_mtu = MTU_RANGE
        if not min_mtu <= mtu <= max_mtu:
            raise InputError(f"MTU {mtu} bytes; give {min_mtu} to {max_mtu}")
        require_sandbox()
        self.wiring = wiring
        super().__init__(shape=shape, mtu=mtu, first_udp_port=first_udp_port)
        self.controller_port = controller_port
        self._before_bridges = before_bridges
        self._talking = tuple(
            host for host in wiring.hosts if talking is None or host.node in talking
        )
        self._part = part
        self._hosts = {host.name: host for host in wiring.hosts if self._is_here(host.name)}
        self.switch_names = frozenset(
            switch.name for switch in wiring.switches if self._is_here(switch.name)
        )
        self._underlay_index = 0
        self._batch: Batch | None = None
        self.addresses: HostAddresses | None = None
        self._captures: list[Capture] = []
        self._mininet: WiredMininet | None = None

    def _is_here(self, device: str) -> bool:
        """Return whether a device is built on this machine."""
        return self._part is None or device in self._part.devices

    @property
    def datapath(self) -> Datapath:
        """The part that switches packets: ``"user"`` for a daemon or ``"kernel"``."""
        return choose_datapath() if self._batch is None else self._batch.datapath

    def __enter__(self) -> EmulatedNetwork:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._stop_after(error)

    def start(self) -> None:
        """Build the network; if a step fails, take down what was built."""
        try:
            with refusals():
                self._build()
        except BaseException as error:
            self._stop_after(error)
            raise

    def _stop_after(self, error: BaseException | None) -> None:
        """Take the network down after an error or without one.

        Raises:
            CapabilityError: A program of Open vSwitch had ended by itself before the error.
        """
        # Ask before ``stop``, which ends the programs itself.
        ended = self.ended() if isinstance(error, Exception) else None
        self.stop()
        if ended is not None and ended not in str(error):
            raise CapabilityError(f"{ended}; therefore: {error}") from error

    def ended(self) -> str | None:
        """Return which program of Open vSwitch has ended by itself, and how, or None."""
        return None if self._batch is None else self._batch.ended()

    def _build(self) -> None:
        """Build the network in the order that the module's docstring describes."""
        devices_here = self._hosts.keys() | self.switch_names
        require_resources(NetworkSize.of(self.wiring, devices_here, self._talking))
        # The network starts threads, and a process with threads must not fork.
        prepare_processes()
        batch = Batch(mtu=self.mtu, seed=self.impairment_seed)
        self._batch = batch
        batch.begin(list(self._hosts), ports_of_bridges(self.wiring, self._part))
        # The guard must be active before the first tunnel accepts packets.
        batch.namespaces.netlink_of(None).apply(self._guard())
        # Mininet is loaded now, while namespaces and switch daemons start, which takes longer.
        net = batch.timed("objects", partial(self._wired_mininet, batch))
        self._mininet = net
        cables = net.cable_plan(self.wiring)
        self.lay(cables, batch.namespaces, batch.detours)
        addresses = HostAddresses(cables, batch.namespaces, self._talking, self.reapplied)
        self.addresses = addresses
        batch.timed("addresses", partial(addresses.set_up, self._hosts.values()))
        batch.host_names.write({host.ip: (host.name, host.node) for host in self.wiring.hosts})
        if self._before_bridges is not None:
            batch.timed("controller", self._before_bridges)
        net.start()
        # Bridges that take over an interface remove its queues and hooks, so these come last.
        batch.timed("shaping", self._shape_and_prepare_faults)

    def _wired_mininet(self, batch: Batch) -> WiredMininet:
        """Return Mininet's network of the devices on this machine, with hosts and cables built."""
        from testbed.emulation.network.mininet_network.wired import WiredMininet

        local_nodes = None if self._part is None else self._part.devices
        return WiredMininet(
            wiring_document(self.wiring, cables=True),
            batch,
            set_cables=self._set_cables,
            local_nodes=local_nodes,
            outgoing=self._outgoing(),
            controller_port=self.controller_port,
        )

    def _shape_and_prepare_faults(self) -> None:
        self.shape_all()
        self.prepare_faults()
        impaired = [link.id for link in self.wiring.network.links if link.impairments]
        if impaired and self._part is not None:
            raise CapabilityError(
                f"{label_of(impaired[0])} is impaired: links are on one machine only, or on the "
                "simulator"
            )
        self.impair_always(impaired)

    def _outgoing(self) -> list[tuple[str, int, MakeInterfaces]]:
        """Return the cables to other machines: device and port on this machine, and its tunnel."""
        if self._part is None:
            return []
        outgoing: list[tuple[str, int, MakeInterfaces]] = []
        for number, tunnel in self._part.tunnels.items():
            cable = self.wiring.cables[number]
            make_interfaces = partial(self._tunnel, tunnel)
            if cable.a in self._part.devices:
                outgoing.append((cable.a, cable.a_port, make_interfaces))
            else:
                outgoing.append((cable.b, cable.b_port, make_interfaces))
        return outgoing

    def _tunnel(self, tunnel: Tunnel, end: VethEnd) -> list[Message]:
        """Return the message that creates a tunnel to another machine."""
        assert self._part is not None
        message = make_tunnel(
            end,
            tunnel,
            self._part,
            underlay_index=self._underlay_index,
            mtu=self.mtu,
            group=CablePlan.GROUP,
        )
        return [message]

    def _guard(self) -> list[Message]:
        """Return the messages that protect the tunnels; none if there are no other machines."""
        if self._part is None:
            return []
        with Netlink() as netlink:
            index = netlink.interfaces().get(self._part.underlay)
        if index is None:
            raise CapabilityError(
                f"this machine has no interface {self._part.underlay} towards the others"
            )
        self._underlay_index = index
        tunnels = self._part.tunnels.values()
        return [
            packet_gate(index),
            tunnel_guard(index, self._part.port, tunnels, framed=self._part.framed),
        ]

    def stop(self) -> None:
        """Take everything down.

        The kernel deletes what belongs to namespaces and groups later, in its own time.
        """
        for capture in self._captures:
            capture.stop()
        self._captures.clear()
        self.leave()
        self.addresses = None
        if self._mininet is not None:
            self._mininet.stop()
            self._mininet = None
        if self._batch is not None:
            self._batch.close()
            self._batch = None
        if self._underlay_index:
            # The guard is removed after the tunnels that it protects. It is missing if the network
            # was stopped before or never built completely.
            with Netlink() as netlink, contextlib.suppress(NetlinkError):
                netlink.apply([remove_guard(self._underlay_index)])

    @property
    def mininet(self) -> WiredMininet:
        """The network as Mininet has it: ``net.mininet["h0"].cmd("ip route")``."""
        if self._mininet is None:
            raise InputError(NOT_RUNNING)
        return self._mininet

    @property
    def setup_seconds(self) -> dict[str, float]:
        """Seconds that each step of building the network took, by the step's name."""
        return {} if self._batch is None else dict(self._batch.steps)

    def built_by(self) -> JsonObject:
        """Return Mininet's version, the number of its objects by class, and seconds per step."""
        return {**self.mininet.composition(), "setup_seconds": self.setup_seconds}

    def words_at(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in a node, without machine privileges.

        Args:
            name: The host in which, or the switch next to which, the program runs.
            argv: The program and its arguments.

        Raises:
            InputError: There is no such node.
        """
        net = self.mininet
        node = net[name] if name in net else net[self.host(name).name]
        return net.requests.words_at(node, argv)

    def _set_cables(self, a: str, b: str, up: bool) -> None:
        """Cut or restore all cables between two devices."""
        for cable in self.wiring.cables:
            link = cable.forward or cable.backward
            if link is not None and {cable.a, cable.b} == {a, b}:
                self.set_link(link, up)

    def host(self, name: str) -> WiredHost:
        """Return a host of the wiring by its name.

        Raises:
            InputError: There is no such host on this machine.
        """
        host = self._hosts.get(name)
        if host is None:
            raise InputError(f"no host {name!r} in this network; {nearest(name, self._hosts)}")
        return host

    def host_pid(self, name: str) -> int:
        """Return the id of a thread that sleeps in the host's namespaces; /proc/ID/ns has them."""
        # An unknown host is reported as such even if the network is not running.
        wired_name = self.host(name).name
        return self.namespaces.pids[wired_name]

    def interface_of(self, host: str, port: int | None = None) -> str:
        """Return the name of a host's interface: of a port, or of its first cable for None."""
        wired = self.host(host)
        if port is None:
            port = self.wiring.first_port(wired.name)
        return interface_name(wired.device, port)

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Open a socket in the host's network, which belongs to this process."""
        return self.namespaces.open_socket(self.host(host).name, family, kind, protocol)

    def run_in_host(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program in the host's network; ``options`` are those of subprocess.Popen."""
        return start_program(argv_inside(self.host_pid(host), argv), **options)

    def switch_drops(self) -> int:
        """Return the number of frames that user-space switches lost since the network was built.

        The socket of a port is full if the switch waits for a processor. Frames that a capture
        (``start_capture``) loses are counted too.
        """
        return packet_socket_drops() if self.datapath == "user" else 0

    def start_capture(self, link: LinkId, path: str | Path) -> Capture:
        """Record in a pcap file what arrives over the link, in this direction only, until stopped.

        Raises:
            InputError: The file cannot be written.
        """
        end = self._cables.receiving[link]
        sock = self.namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        capture = Capture(sock, end.interface, Path(path))
        self._captures.append(capture)
        return capture


# Memory of a network in bytes, measured with 1000 switches, 4048 cables and 1000 hosts: a
# namespace; a veth pair, with what daemons and databases store for its ports; a bridge's own port
# and its connection to the controller; a permanent neighbour; the command itself.
_HOST_BYTES = 240_000
_CABLE_BYTES = 235_000
_SWITCH_BYTES = 170_000
_NEIGHBOUR_BYTES = 522
_OTHER_BYTES = 150_000_000

# A host needs a descriptor of its namespace and a netlink socket in it.
_FILES_A_HOST = 2
_OTHER_FILES = 256


class NetworkSize(NamedTuple):
    """The number of things that are built on this machine.

    Attributes:
        hosts: Hosts.
        switches: Switches.
        cables: Cables with at least one end on this machine.
        pairs: Neighbours that all hosts on this machine know together.
    """

    hosts: int
    switches: int
    cables: int
    pairs: int

    @classmethod
    def of(
        cls, wiring: Wiring, devices: Collection[str], talking: Sequence[WiredHost]
    ) -> NetworkSize:
        """Return the size of a part of a wiring.

        Args:
            wiring: The wiring.
            devices: Names of the devices of the part.
            talking: All hosts that know each other, in the part or not.
        """
        hosts_here = [host for host in wiring.hosts if host.name in devices]
        switches_here = [switch for switch in wiring.switches if switch.name in devices]
        talking_here = [host for host in talking if host.name in devices]
        cables_here = [cable for cable in wiring.cables if cable.a in devices or cable.b in devices]
        pairs = len(talking_here) * len(talking)
        return cls(len(hosts_here), len(switches_here), len(cables_here), pairs)

    def needed_bytes(self) -> int:
        """Return the memory of all processes and of the kernel in bytes, without rules."""
        return (
            _OTHER_BYTES
            + self.hosts * _HOST_BYTES
            + self.switches * _SWITCH_BYTES
            + self.cables * _CABLE_BYTES
            + self.pairs * _NEIGHBOUR_BYTES
        )


def require_resources(
    size: NetworkSize, *, available_bytes: int | None = None, most_files: int | None = None
) -> None:
    """Check that this machine has enough memory and open files for a network.

    Args:
        size: Size of the network.
        available_bytes: Available memory in bytes; None to read MemAvailable.
        most_files: Largest number of open files of a process; None to read RLIMIT_NOFILE.

    Raises:
        CapabilityError: The network needs more.
    """
    available = _available_bytes() if available_bytes is None else available_bytes
    needed = size.needed_bytes()
    network = f"a network of {size.switches} switches, {size.hosts} hosts and {size.cables} cables"
    if available is not None and needed > available:
        raise CapabilityError(
            f"{network} needs about {needed / 1e9:.1f} GB of memory, "
            f"{available / 1e9:.1f} GB available; "
            "take several machines (--machines), or a smaller network"
        )
    files = size.hosts * _FILES_A_HOST + _OTHER_FILES
    if most_files is None:
        _, file_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    else:
        file_limit = most_files
    if file_limit != resource.RLIM_INFINITY and files > file_limit:
        raise CapabilityError(
            f"{network} needs {files} open files, and this process may have {file_limit}; "
            "raise the limit (ulimit -Hn)"
        )


def _available_bytes() -> int | None:
    """Return the memory that the kernel says is available, in bytes, or None if it does not say."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
