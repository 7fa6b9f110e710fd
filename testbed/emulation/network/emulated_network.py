"""The emulated network: hosts in namespaces, Open vSwitch bridges and shaped veth cables, built by Mininet from a
wiring.

Theory of operation
------------------- A wiring (``testbed.model.wiring``) has decided everything that has a name or a number. Mininet
walks it as a topology of its own (``mininet_network``), with hosts, switches and links that note what they request of
the kernel; each of five steps takes a fraction of a second, because it is one batch and not a command an interface:

1. *Hosts*: a sleeping thread a host holds a network namespace (``kernel.host_namespaces``); meanwhile the private
   switch daemons start (``open_vswitch.switches``): one, or several that share a large network's bridges out; and
   meanwhile Mininet makes its objects.
2. *Cables*: where Mininet configures its hosts, all veth pairs, addresses and permanent neighbours go to the kernel as
   rtnetlink messages, hundreds in a system call (``kernel.rtnetlink``). No ARP packet is ever needed.
3. *Bridges*: where Mininet starts its switches all at once, they and all their ports are one transaction of the switch
   database (``open_vswitch.bridges``). They forward nothing that no rule asks for, and keep their rules when their
   controller dies.
4. *Shaping*: each sending end of a link gets its delay (netem, else a detour through a process) and behind it its
   capacity (tbf); only now, because a bridge that takes an interface over removes the queues found there (``links``).
5. *Hooks for faults*: an empty hook at each sending end of all but large networks, so that the first blackhole is as
   quick as the next. Impaired links get a detour through a process (``impairments``).

A fault is one system call: an interface taken down (the carrier is lost, the controller is notified), or a drop rule at
the hook (nobody is). Taking the network down deletes the interfaces' group and lets go of the namespaces; the kernel
does the rest. Shells of Mininet's nodes start with their first command.
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

MTU_RANGE = (576, 9216)


class EmulatedNetwork(LinkControl):
    """A wiring as real switches, cables and hosts; a context manager, inside the sandbox only.

    ``mtu`` in bytes, of every cable. ``shape``: hold every link to its capacity and delay (outside hosts' cables are
    never held). ``controller_port``: TCP port on 127.0.0.1 of the OpenFlow controller, None for none: bridges then
    forward nothing but what their rules say (fail mode secure: they keep their rules when a controller dies).
    ``before_bridges``: called when hosts and cables stand, before the first bridge looks for its controller.
    ``first_udp_port``: datagrams to it go before everything else in every link's queue; None: one queue for all.
    ``talking``: end points whose hosts know each other's addresses, None for all; others can send nothing.
    ``part``: build only these devices, and cables to others as tunnels; what is asked of the rest is an InputError.

        with EmulatedNetwork(wire(load_network("ring:4"))) as net:
            net.run_in_host("h0", ["ip", "address"])

    Raises CapabilityError where this machine cannot do what the network asks (priority queues without htb), InputError
    for an MTU out of range.
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
        if not MTU_RANGE[0] <= mtu <= MTU_RANGE[1]:
            raise InputError(f"MTU {mtu} bytes; give {MTU_RANGE[0]} to {MTU_RANGE[1]}")
        require_sandbox()
        self.wiring = wiring
        super().__init__(shape=shape, mtu=mtu, first_udp_port=first_udp_port)
        self.controller_port = controller_port
        self._before_bridges = before_bridges
        self._talking = tuple(h for h in wiring.hosts if talking is None or h.node in talking)
        self._part = part
        self._hosts = {h.name: h for h in wiring.hosts if part is None or h.name in part.devices}
        self.switch_names = frozenset(
            s.name for s in wiring.switches if part is None or s.name in part.devices
        )
        """Of the switches that are built here."""
        self._underlay_index = 0
        self._batch: Batch | None = None
        self.addresses: HostAddresses | None = None
        self._captures: list[Capture] = []
        self._mininet: WiredMininet | None = None

    @property
    def datapath(self) -> Datapath:
        """Where packets are switched: "user" or "kernel"."""
        return choose_datapath() if self._batch is None else self._batch.datapath

    def __enter__(self) -> EmulatedNetwork:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._stop_after(error)

    def start(self) -> None:
        """Build everything. What was built is taken down again where a step fails."""
        try:
            with refusals():
                self._build()
        except BaseException as error:
            self._stop_after(error)
            raise

    def _stop_after(self, error: BaseException | None) -> None:
        """Take the network down.

        Raises:
            CapabilityError: The error came while a program of Open vSwitch had ended by itself.
        """
        ended = None
        if isinstance(error, Exception):
            ended = self.ended()
        self.stop()
        if ended is not None and ended not in str(error):
            raise CapabilityError(f"{ended}; therefore: {error}") from error

    def ended(self) -> str | None:
        """Return which program of Open vSwitch has ended by itself, and how, or None."""
        return None if self._batch is None else self._batch.ended()

    def _build(self) -> None:
        require_resources(
            NetworkSize.of(self.wiring, self._hosts.keys() | self.switch_names, self._talking)
        )
        prepare_processes()  # Threads start with the network.
        batch = self._batch = Batch(mtu=self.mtu, seed=self.impairment_seed)
        batch.begin(list(self._hosts), ports_of_bridges(self.wiring, self._part))
        batch.namespaces.netlink_of(None).apply(self._guard())
        # Mininet is loaded only now, while namespaces and switch daemons start, which takes longer.
        net = self._mininet = batch.timed("objects", lambda: self._wired_mininet(batch))
        cables = net.cable_plan(self.wiring)
        self.lay(cables, batch.namespaces, batch.detours)
        addresses = self.addresses = HostAddresses(
            cables, batch.namespaces, self._talking, self.forgotten
        )
        batch.timed("addresses", lambda: addresses.set_up(self._hosts.values()))
        batch.host_names.write({h.ip: (h.name, h.node) for h in self.wiring.hosts})
        if self._before_bridges is not None:
            batch.timed("controller", self._before_bridges)
        net.start()
        batch.timed("shaping", self._hold)

    def _wired_mininet(self, batch: Batch) -> WiredMininet:
        """Mininet's network of what is here, whose hosts and cables are made."""
        from testbed.emulation.network.mininet_network.wired import WiredMininet

        return WiredMininet(
            wiring_document(self.wiring, cables=True),
            batch,
            set_cables=self._set_cables,
            here=None if self._part is None else self._part.devices,
            outgoing=self._outgoing(),
            controller_port=self.controller_port,
        )

    def _hold(self) -> None:
        """Only now: a bridge that takes an interface over removes the queues and hooks that it finds there."""
        self.shape_all()
        self.prepare_faults()
        always = [link.id for link in self.wiring.network.links if link.impairments]
        if always and self._part is not None:
            raise CapabilityError(
                f"{label_of(always[0])} is impaired: links are on one machine only, or on the simulator"
            )
        self.impair_always(always)

    def _outgoing(self) -> list[tuple[str, int, MakeInterfaces]]:
        """Of each cable to another machine the end that is here, as a tunnel."""
        found: list[tuple[str, int, MakeInterfaces]] = []
        part = self._part
        for number, tunnel in part.tunnels.items() if part is not None else ():
            cable = self.wiring.cables[number]
            here = (
                (cable.a, cable.a_port)
                if part and cable.a in part.devices
                else (cable.b, cable.b_port)
            )
            found.append((*here, partial(self._tunnel, tunnel)))
        return found

    def _tunnel(self, tunnel: Tunnel, end: VethEnd) -> list[Message]:
        assert self._part is not None
        group = CablePlan.GROUP
        return [
            make_tunnel(
                end,
                tunnel,
                self._part,
                underlay_index=self._underlay_index,
                mtu=self.mtu,
                group=group,
            )
        ]

    def _guard(self) -> list[Message]:
        """What goes before the tunnels' interfaces: nothing where there are none."""
        if self._part is None:
            return []
        with Netlink() as netlink:
            found = netlink.interfaces().get(self._part.underlay)
        if found is None:
            raise CapabilityError(
                f"this machine has no interface {self._part.underlay} towards the others"
            )
        self._underlay_index = found
        known = self._part.tunnels.values()
        return [
            packet_gate(found),
            tunnel_guard(found, self._part.port, known, framed=self._part.framed),
        ]

    def stop(self) -> None:
        """Take everything down; the kernel removes what is attached to namespaces and groups in its own time."""
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
        """Step -> seconds that it took, of the network that is up."""
        return {} if self._batch is None else dict(self._batch.steps)

    def built_by(self) -> JsonObject:
        """Mininet's version, how many objects of which of its classes it made, and seconds a step."""
        return {**self.mininet.made(), "setup_seconds": self.setup_seconds}

    def words_at(self, name: str, argv: Sequence[str]) -> list[str]:
        """The words that run a program in that host, or next to that switch, without rights over the machine.

        Raises InputError where there is neither.
        """
        net = self.mininet
        return net.requests.words_at(net[name] if name in net else net[self.host(name).name], argv)

    def _set_cables(self, a: str, b: str, up: bool) -> None:
        for cable in self.wiring.cables:
            link = cable.forward or cable.backward
            if link is not None and {cable.a, cable.b} == {a, b}:
                self.set_link(link, up)

    def host(self, name: str) -> WiredHost:
        """The wired host of that name; InputError where there is none."""
        found = self._hosts.get(name)
        if found is None:
            raise InputError(f"no host {name!r} in this network; {nearest(name, self._hosts)}")
        return found

    def host_pid(self, name: str) -> int:
        """The id of a thread that sleeps in the host's namespaces: /proc/ID/ns has them, as of a process."""
        known = self.host(name).name
        return self.namespaces.pids[known]

    def interface_of(self, host: str, port: int | None = None) -> str:
        """Name of the host's interface of that port; None: of its first cable."""
        own = self.host(host)
        return interface_name(
            own.device, self.wiring.first_port(own.name) if port is None else port
        )

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the host's network, owned by this process."""
        return self.namespaces.open_socket(self.host(host).name, family, kind, protocol)

    def run_in_host(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program in the host's network; ``options`` are subprocess.Popen's."""
        return start_program(argv_inside(self.host_pid(host), argv), **options)

    def switch_drops(self) -> int:
        """Frames that found the socket of a user-space switch's port full (it waited for a processor), since the
        network was built. Those of a recording (``start_capture``) count as well."""
        return packet_socket_drops() if self.datapath == "user" else 0

    def start_capture(self, link: LinkId, path: str | Path) -> Capture:
        """Record into a pcap file what arrives over the link (that direction only) until ``stop``."""
        end = self._cables.receiving[link]
        sock = self.namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        capture = Capture(sock, end.interface, Path(path))
        self._captures.append(capture)
        return capture


_HOST_BYTES, _CABLE_BYTES, _SWITCH_BYTES, _NEIGHBOUR_BYTES = 240_000, 235_000, 170_000, 522
_OTHER_BYTES = 150_000_000
"""Measured on a network of 1000 switches, 4048 cables and 1000 hosts: a namespace; a veth pair with what daemons and
databases hold for its ports; a bridge's own port and its controller's connection; a permanent neighbour; the command
itself."""
_FILES_A_HOST, _OTHER_FILES = 2, 256


class NetworkSize(NamedTuple):
    """What is built on this machine; ``pairs``: how many neighbours all hosts here know together."""

    hosts: int
    switches: int
    cables: int
    pairs: int

    @classmethod
    def of(cls, wiring: Wiring, here: Collection[str], talking: Sequence[WiredHost]) -> NetworkSize:
        """Of the devices ``here`` of a wiring; a cable is counted with one end here too."""
        hosts, switches, speaking = (
            sum(one.name in here for one in listed)
            for listed in (wiring.hosts, wiring.switches, talking)
        )
        cables = sum(cable.a in here or cable.b in here for cable in wiring.cables)
        return cls(hosts, switches, cables, speaking * len(talking))

    def needed_bytes(self) -> int:
        """Of processes and kernel, without rules."""
        each = _HOST_BYTES, _SWITCH_BYTES, _CABLE_BYTES, _NEIGHBOUR_BYTES
        return _OTHER_BYTES + sum(count * size for count, size in zip(self, each, strict=True))


def require_resources(
    size: NetworkSize, *, available_bytes: int | None = None, most_files: int | None = None
) -> None:
    """CapabilityError where the network needs more memory than the machine could give, or more open files than a
    process may have.

    ``available_bytes``, ``most_files``: None to ask the kernel (MemAvailable, RLIMIT_NOFILE).
    """
    available = _available_bytes() if available_bytes is None else available_bytes
    needed = size.needed_bytes()
    what = f"a network of {size.switches} switches, {size.hosts} hosts and {size.cables} cables"
    if available is not None and needed > available:
        raise CapabilityError(
            f"{what} needs about {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB available; "
            "take several machines (--machines), or a smaller network"
        )
    files = size.hosts * _FILES_A_HOST + _OTHER_FILES
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if most_files is None else most_files
    if most != resource.RLIM_INFINITY and files > most:
        raise CapabilityError(
            f"{what} needs {files} open files, and this process may have {most}; raise the limit (ulimit -Hn)"
        )


def _available_bytes() -> int | None:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
