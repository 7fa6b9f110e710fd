"""The emulated network: hosts in namespaces, Open vSwitch bridges and shaped veth cables, built in batches from a
wiring.

Theory of operation
------------------- A wiring (``testbed.model.wiring``) has decided everything that has a name or a number; here it is
built literally, in five steps that take a fraction of a second each, because every step is one batch and not a command
an interface:

1. *Hosts*: a sleeping thread a host holds a network namespace (``kernel.host_namespaces``); meanwhile the private
   switch daemons start (``open_vswitch.switches``): one, or several that share a large network's bridges out.
2. *Cables*: all veth pairs, addresses and permanent neighbours go to the kernel as rtnetlink messages, hundreds in a
   system call (``cables``, ``kernel.rtnetlink``). No ARP packet is ever needed.
3. *Bridges*: all of them with all their ports are one transaction of the switch database (``open_vswitch.bridges``).
   They forward nothing that no rule asks for, and keep their rules when their controller dies.
4. *Shaping*: each sending end of a link gets its delay (netem) and behind it its capacity (tbf); only now, because a
   bridge that takes an interface over removes the queues that it finds there (``links``).
5. *Hooks for faults*: an empty hook at each sending end of all but large networks, so that the first blackhole is as
   quick as the next. Impaired links get a netem queue before their shaping one or, where the kernel has none, a detour
   through a process (``impairments``).

A fault is one system call: an interface taken down (the carrier is lost, the controller is notified), or a drop rule at
the hook (nobody is). Taking the network down deletes the interfaces' group and lets go of the namespaces; the kernel
does the rest. Mininet's objects are made only when somebody asks for them (``mininet_objects``).
"""

from __future__ import annotations

import contextlib
import errno
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.emulation.network.addresses import HostAddresses
from testbed.emulation.network.cables import mark_for_removal, plan_cables, remove_marked
from testbed.emulation.network.impairments.relay import LaneReport
from testbed.emulation.network.kernel.host_namespaces import (
    HostNamespaces,
    argv_inside,
    packet_socket_drops,
    raise_open_file_limit,
    words_called,
)
from testbed.emulation.network.kernel.packet_capture import Capture
from testbed.emulation.network.kernel.resource_check import NetworkSize, require_resources
from testbed.emulation.network.kernel.rtnetlink import Message, Netlink, NetlinkError, packet_gate
from testbed.emulation.network.kernel.tunnels import remove_guard, tunnel_guard
from testbed.emulation.network.links import LinkControl, LinkMeter
from testbed.emulation.network.open_vswitch.bridges import (
    bridge_operations,
    ports_of_bridges,
    shares_of,
)
from testbed.emulation.network.open_vswitch.switch_daemon import Datapath
from testbed.emulation.network.open_vswitch.switches import (
    MOST_PORTS,
    SHARE_PORTS,
    PrivateSwitches,
    choose_datapath,
)
from testbed.emulation.sandbox.process_lifetime import confined
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError, InputError, InvalidRunError
from testbed.faults.fault import Direction, Fault
from testbed.model.naming.device_names import interface_name
from testbed.model.wiring import WiredHost, Wiring, WiringPart, wiring_document
from topologies.errors import nearest
from topologies.impairments import Impairments
from topologies.network import LinkId, label_of

if TYPE_CHECKING:
    from testbed.emulation.network.mininet_objects.nodes import BuiltMininet

MTU_RANGE = (576, 9216)


class EmulatedNetwork:
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

    Raises CapabilityError where this machine cannot do what the network asks (a link delay without netem), InputError
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
        self.mtu = mtu
        self.shape = shape
        self.controller_port = controller_port
        self._before_bridges = before_bridges
        self.setup_seconds: dict[str, float] = {}
        self._datapath: Datapath | None = None
        self._first_udp_port = first_udp_port
        self._talking = tuple(h for h in wiring.hosts if talking is None or h.node in talking)
        self._part = part
        self._hosts = {h.name: h for h in wiring.hosts if part is None or h.name in part.devices}
        self._switch_names = {s.name for s in wiring.switches if part is None or s.name in part.devices}
        self._underlay_index = 0
        self._switches: PrivateSwitches | None = None
        self._namespaces: HostNamespaces | None = None
        self._links: LinkControl | None = None
        self.addresses: HostAddresses | None = None
        self._captures: list[Capture] = []
        self._mininet: BuiltMininet | None = None
        self.impairment_seed = 1

    @property
    def datapath(self) -> Datapath:
        """Where packets are switched: "user" or "kernel"."""
        if self._datapath is None:
            self._datapath = choose_datapath()
        return self._datapath

    def __enter__(self) -> EmulatedNetwork:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Build everything. What was built is taken down again where a step fails."""
        try:
            self._build()
        except NetlinkError as error:
            self.stop()
            if error.errno == errno.ETIMEDOUT:
                raise InvalidRunError(
                    f"the kernel did not set the network up: {error.strerror}; the machine is too busy"
                ) from error
            raise CapabilityError(f"the kernel refused a setting of the network: {error.strerror}") from error
        except BaseException:
            self.stop()
            raise

    def _build(self) -> None:
        began = time.monotonic()
        require_resources(NetworkSize.of(self.wiring, self._hosts.keys() | self._switch_names, self._talking))
        self._namespaces = HostNamespaces(list(self._hosts))
        ports = ports_of_bridges(self.wiring, self._part)
        one = self.datapath == "kernel"  # its datapath is one for all
        self._switches = PrivateSwitches(
            self.datapath, (tuple(ports),) if one else shares_of(ports, MOST_PORTS, SHARE_PORTS)
        )
        raise_open_file_limit()  # for the daemons too, which open a file or two a port
        self._switches.start()
        began = self._note("switch daemons", began)
        self._namespaces.wait()
        began = self._note("host namespaces", began)
        with Netlink() as netlink:
            guard = self._guard(netlink)
            cables = plan_cables(
                self.wiring, self._namespaces, mtu=self.mtu, part=self._part, underlay_index=self._underlay_index
            )
            netlink.apply([*guard, *cables.messages])
        self._links = LinkControl(
            cables,
            self._namespaces,
            shape=self.shape,
            mtu=self.mtu,
            first_udp_port=self._first_udp_port,
            impairment_seed=self.impairment_seed,
        )
        self.addresses = HostAddresses(self._links, cables, self._namespaces, self._talking)
        self.addresses.set_up(self._hosts.values(), without_checksums=self.datapath == "user")
        began = self._note("cables", began)
        if self._before_bridges is not None:
            self._before_bridges()
            began = self._note("controller", began)
        wired = {switch.name: switch for switch in self.wiring.switches}
        self._switches.set_up(
            lambda names, kind: bridge_operations([wired[n] for n in names], ports, kind, self.controller_port)
        )
        self._mark_bridge_interfaces()
        began = self._note("bridges", began)
        # Only now: a bridge that takes an interface over removes the queues and hooks that it finds there.
        self._links.shape_all()
        self._links.prepare_faults()
        self._impair_links(self._links)
        self._note("shaping", began)

    def _guard(self, netlink: Netlink) -> list[Message]:
        """What goes before the tunnels' interfaces: nothing where there are none."""
        if self._part is None:
            return []
        found = netlink.interfaces().get(self._part.underlay)
        if found is None:
            raise CapabilityError(f"this machine has no interface {self._part.underlay} towards the others")
        self._underlay_index = found
        known = self._part.tunnels.values()
        return [packet_gate(found), tunnel_guard(found, self._part.port, known, framed=self._part.framed)]

    def _impair_links(self, links: LinkControl) -> None:
        """Put in force what the network says that its links always do to packets."""
        always = [link.id for link in self.wiring.network.links if link.impairments]
        if always and self._part is not None:
            raise CapabilityError(
                f"{label_of(always[0])} is impaired: links are on one machine only, or on the simulator"
            )
        links.prepare_impairments([(link, (), "forward") for link in always])
        for link in always:
            links.set_impairments(link, (), "forward")

    def _mark_bridge_interfaces(self) -> None:
        """User-space bridges' own interfaces go into the group that ``stop`` removes (the kernel's go with its
        datapath)."""
        if self.datapath == "user":
            mark_for_removal({s.device for s in self.wiring.switches if s.name in self._switch_names} | {"ovs-netdev"})

    def _note(self, step: str, began: float) -> float:
        now = time.monotonic()
        self.setup_seconds[step] = now - began
        return now

    def stop(self) -> None:
        """Take everything down; the kernel removes what is attached to namespaces and groups in its own time."""
        if self._mininet is not None:
            for node in (*self._mininet.hosts, *self._mininet.switches):
                node.terminate()
            self._mininet = None
        for capture in self._captures:
            capture.stop()
        self._captures.clear()
        if self._links is not None:
            self._links.close()
            self._links = self.addresses = None
        if self._switches is not None:
            self._switches.pause()
            if self._switches.releases_ports_first:
                self._stop_switches()
        with contextlib.suppress(NetlinkError):  # ENODEV: nothing was made yet
            remove_marked(len(self.wiring.cables))
        if self._underlay_index:
            with Netlink() as netlink, contextlib.suppress(NetlinkError):
                netlink.apply([remove_guard(self._underlay_index)])
        self._stop_switches()
        if self._namespaces is not None:
            self._namespaces.close()
            self._namespaces = None

    def _stop_switches(self) -> None:
        if self._switches is not None:
            self._switches.stop()
            self._switches = None

    @property
    def mininet(self) -> BuiltMininet:
        """The network as a Mininet object: ``net.mininet["h0"].cmd("ip route")``."""
        if self._mininet is None:
            from testbed.emulation.network.mininet_objects.nodes import mininet_view

            self._mininet = mininet_view(wiring_document(self.wiring, cables=True), self.words_at, self._set_cables)
        return self._mininet

    def words_at(self, name: str, argv: Sequence[str]) -> list[str]:
        """The words that run a program in that host, or next to that switch, without rights over the machine.

        Raises InputError where there is neither.
        """
        bounded = confined(argv)
        return words_called(name, bounded) if name in self._switch_names else argv_inside(self.host_pid(name), bounded)

    def _set_cables(self, a: str, b: str, up: bool) -> None:
        for cable in self.wiring.cables:
            link = cable.forward or cable.backward
            if link is not None and {cable.a, cable.b} == {a, b}:
                self.set_link(link, up)

    @property
    def switch_names(self) -> frozenset[str]:
        """Of the switches that are built here."""
        return frozenset(self._switch_names)

    def host(self, name: str) -> WiredHost:
        """The wired host of that name; InputError where there is none."""
        found = self._hosts.get(name)
        if found is None:
            raise InputError(f"no host {name!r} in this network; {nearest(name, self._hosts)}")
        return found

    def host_pid(self, name: str) -> int:
        """The id of a thread that sleeps in the host's namespaces: /proc/ID/ns has them, as of a process."""
        known = self.host(name).name
        return self._running_namespaces.pids[known]

    def interface_of(self, host: str, port: int = 0) -> str:
        """Name of the host's interface of that port."""
        return interface_name(self.host(host).device, port)

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the host's network, owned by this process."""
        return self._running_namespaces.open_socket(self.host(host).name, family, kind, protocol)

    def run_in_host(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program in the host's network; ``options`` are subprocess.Popen's."""
        return subprocess.Popen(argv_inside(self.host_pid(host), argv), **options)

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        """Cut the link or bring it back; the monotonic time at which that was in force.

        ``both``: the cable loses its carrier, as when it is pulled. ``forward``: a carrier is lost both ways or not at
        all, so that a cut of one direction is a blackhole of that direction.
        """
        return self._running_links.set_up(link, up, direction)

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        """Lose each packet that enters the link with that probability (0: none); returns when that was in force."""
        if not 0 <= fraction <= 1:
            raise InputError(f"loss of {fraction} on {label_of(link)}; give 0 to 1")
        return self._running_links.set_loss(link, fraction, direction)

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Make ready what the impairing ones among these faults will need, so that each begins as quickly as a
        blackhole."""
        self._running_links.prepare_impairments([(f.link, f.impaired_by, f.direction) for f in faults if f.impairments])

    def set_impairments(self, link: LinkId, impairments: Impairments, direction: Direction = "both") -> float:
        """Impair the packets that enter the link, next to what the network says that it always does (none: that alone);
        returns when that was in force. Held packets of before still go their way. The kernel's netem does it where
        there is one that can, else a relay."""
        return self._running_links.set_impairments(link, impairments, direction)

    def impairment_reports(self) -> Mapping[str, LaneReport]:
        """Link and words -> what the relay did with its packets, and how late it was; nothing of links that netem
        impairs."""
        return self._running_links.impairment_reports()

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """Link -> (packets, bytes, drops): sent onto the cable in that direction; dropped by a full queue (what a fault
        takes is counted nowhere)."""
        return self._running_links.counters()

    def switch_drops(self) -> int:
        """Frames that found the socket of a user-space switch's port full, since the network was built: the switch
        waited for a processor. Those of a recording (``start_capture``) count as well."""
        return packet_socket_drops() if self.datapath == "user" else 0

    def link_meter(self) -> LinkMeter:
        """Reads the links' bytes and carriers without touching anything that the run uses, in a forked process too."""
        return self._running_links.meter()

    def links_down(self) -> tuple[LinkId, ...]:
        """Links without a carrier, but for those between two hosts."""
        return self.link_meter().without_carrier()

    def arrival_counters(self) -> Mapping[LinkId, int]:
        """Link -> packets that came over it, as its receiving interface counts them."""
        return self._running_links.arrivals()

    def host_counters(self) -> Mapping[str, int]:
        """Host's name -> packets that it has sent into the network, over all its interfaces."""
        return self._running_links.host_counters()

    def start_capture(self, link: LinkId, path: str | Path) -> Capture:
        """Record into a pcap file what arrives over the link (that direction only) until ``stop``."""
        capture = Capture(*self._running_links.receiving_end(link), Path(path))
        self._captures.append(capture)
        return capture

    @property
    def _running_links(self) -> LinkControl:
        if self._links is None:
            raise InputError("the network is not running: use it inside its with block")
        return self._links

    @property
    def _running_namespaces(self) -> HostNamespaces:
        if self._namespaces is None:
            raise InputError("the network is not running: use it inside its with block")
        return self._namespaces
