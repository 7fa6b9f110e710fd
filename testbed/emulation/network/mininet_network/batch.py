"""Carries out what Mininet's objects request, in batches: namespaces, cables, addresses, bridges, queues.

Nothing is made before ``flush``: when Mininet starts its switches all at once (``OVSSwitch.batchStartup``), or when a
node first needs what was requested (a command). Once the network runs each request is a small batch of its own.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.impairments.redirects import ImpairedEnd, Redirects
from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.host_namespaces import (
    HostNamespaces,
    argv_inside,
    raise_open_file_limit,
    words_called,
)
from testbed.emulation.network.mininet_network.messages import queue_messages, relayed
from testbed.emulation.network.mininet_network.requests import Requests
from testbed.emulation.network.open_vswitch import bridges as ovs
from testbed.emulation.network.open_vswitch.switch_daemon import Datapath
from testbed.emulation.network.open_vswitch.switches import MOST_PORTS, SHARE_PORTS, PrivateSwitches, choose_datapath
from testbed.emulation.sandbox.process_lifetime import confined
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError, InputError, InvalidRunError
from topologies.text.json_types import Json

if TYPE_CHECKING:
    from mininet.link import Intf
    from mininet.node import Node, OVSSwitch

_LOOPBACK = 1
_Made = TypeVar("_Made")
_CONNECTED_S = 0.25
_DELETE_LIMIT_S, _DELETE_CABLE_S = 60.0, 0.05


class Batch(Requests):
    """Requests that are carried out. ``mtu`` in bytes, of every cable; ``seed``: of what chance decides; ``steps``:
    step -> seconds that it took.

    CapabilityError where the kernel or Open vSwitch refuses.
    """

    def __init__(self, *, mtu: int = 1500, seed: int = 1) -> None:
        super().__init__()
        require_sandbox()
        self.mtu = mtu
        self.namespaces = HostNamespaces()
        self.steps: dict[str, float] = {}
        self._begun: set[str] = set()
        self._switches: PrivateSwitches | None = None
        self._starting: Future[None] | None = None
        self._flushing, self._within = False, 0.0
        self._connected: tuple[float, set[str]] = (0.0, set())
        self._made = 0
        self._shaped: set[Intf] = set()
        self.detours = Redirects(self.namespaces, mtu=mtu, seed=seed)

    @cached_property
    def datapath(self) -> Datapath:
        """Where packets are switched; the trial takes some hundredths of a second, while namespaces begin."""
        return choose_datapath()

    def begin(self, hosts: Sequence[str], ports: ovs.PortsOfBridges) -> None:
        """Namespaces and switch daemons start meanwhile."""
        self.namespaces.add([name for name in hosts if name not in self._begun])
        self._begun.update(hosts)
        if ports and self._switches is None:
            self._start_switches(ports)

    def _start_switches(self, ports: ovs.PortsOfBridges) -> None:
        one = self.datapath == "kernel"  # its datapath is one for all
        self._switches = PrivateSwitches(
            self.datapath, (tuple(ports),) if one else ovs.shares_of(ports, MOST_PORTS, SHARE_PORTS)
        )
        raise_open_file_limit()  # for the daemons too, which open a file or two a port
        starting = ThreadPoolExecutor(1, "switch daemons")
        self._starting = starting.submit(self._switches.start)
        starting.shutdown(wait=False)

    def _await_daemons(self) -> None:
        if self._starting is not None:
            self._starting.result()

    def flush(self) -> None:
        """Carry out what was requested meanwhile, each kind in one batch."""
        if self._flushing or self.closed:
            return
        self._flushing = True
        try:
            self.timed("host namespaces", self._make_hosts)
            if self._switches is not None and self._switches.releases_ports_first:
                # Several sleep once they have started: every interface that is made would be news to each of them.
                self.timed("switch daemons", self._await_daemons)
            fresh = self.timed("cables", self._make_interfaces)
            self.timed("addresses", lambda: self._set_hosts(fresh))
            if self.bridges:
                self.timed("bridges", self._make_bridges)
            # Only now: a bridge that takes an interface over removes the queues that it finds there.
            self.timed("shaping", self._shape)
        finally:
            self._flushing = False

    def timed(self, step: str, work: Callable[[], _Made]) -> _Made:
        """What the work returns; its time counts as the step's, but for that of steps within it."""
        began, outer, self._within = time.monotonic(), self._within, 0.0
        result = work()
        took = time.monotonic() - began
        self.steps[step] = self.steps.get(step, 0.0) + took - self._within
        self._within = outer + took
        return result

    def _make_hosts(self) -> None:
        names, self.hosts = self.hosts, []
        self.begin(names, {})
        self.namespaces.wait()
        self.namespaces.apply((name, rtnl.set_up(_LOOPBACK, True)) for name in names)
        directories, self.directories = self.directories, []
        for name, seen, source in directories:
            if why := self.namespaces.mount_directory(name, seen, source):
                from mininet.log import warn

                warn(f"*** {name}: {seen} is not private, it sees that of all ({why})\n")

    def _make_interfaces(self) -> list[rtnl.VethEnd]:
        requested, self.interfaces = self.interfaces, []
        messages: list[rtnl.Message] = []
        for make, ends in requested:
            messages += (make or self._veth)(*map(self._placed, ends))
        if messages:
            self.namespaces.netlink_of(None).apply(messages)
        self._made += len(requested)
        return [end for _, ends in requested for end in ends]

    def _placed(self, end: rtnl.VethEnd) -> rtnl.VethEnd:
        return end if end.host is None else replace(end, namespace=self.namespaces.descriptor(end.host))

    def _veth(self, a: rtnl.VethEnd, b: rtnl.VethEnd) -> list[rtnl.Message]:
        """The end next to the switches comes first, because the first one is up at once."""
        first, second = (b, a) if a.namespace is not None else (a, b)
        made = [rtnl.make_veth(first, second, mtu=self.mtu, group=CablePlan.GROUP)]
        return made if second.namespace is not None else [*made, rtnl.set_up(second.index, True)]

    def _set_hosts(self, fresh: Sequence[rtnl.VethEnd]) -> None:
        of_hosts = [(end.host, end) for end in fresh if end.host is not None]
        messages, self.messages = self.messages, []
        self.namespaces.apply([*((host, rtnl.set_up(end.index, True)) for host, end in of_hosts), *messages])
        sysctls, self.sysctls = self.sysctls, []
        for name, setting, value in sysctls:
            with contextlib.suppress(OSError):
                self.namespaces.set_sysctls(name, {setting.replace(".", "/").removeprefix("net/"): value})
        for host, end in of_hosts if self.datapath == "user" else ():
            # a user-space switch passes on packets whose checksum is still missing
            with self.namespaces.open_socket(host, socket.AF_INET, socket.SOCK_DGRAM) as sock:
                rtnl.compute_checksums(end.name, sock)

    def _make_bridges(self) -> None:
        requested, self.bridges = self.bridges, []
        bridges = {one.given: as_bridge(one, targets) for one, targets in requested}
        if self._switches is None:
            self._start_switches({name: bridge.ports for name, bridge in bridges.items()})
        self.timed("switch daemons", self._await_daemons)
        assert self._switches is not None
        self._switches.set_up(
            lambda names, kind: ovs.bridge_operations([bridges[name] for name in names], kind), list(bridges)
        )
        if self.datapath == "user":
            # User-space bridges' own interfaces go with the cables, the kernel's with its datapath.
            netlink = self.namespaces.netlink_of(None)
            found, own = netlink.interfaces(), {bridge.device for bridge in bridges.values()} | {"ovs-netdev"}
            netlink.apply([rtnl.set_group(found[name], CablePlan.GROUP) for name in sorted(own & found.keys())])

    def _shape(self) -> None:
        queues, self.queues = self.queues, {}
        for one in queues.keys() & self._shaped:
            with contextlib.suppress(rtnl.NetlinkError):  # a bridge that took the interface over has removed it
                self.namespaces.netlink_of(one.host).apply([rtnl.delete_queue(one.index)])
        self._shaped |= queues.keys()
        netem = not queues or self.detours.has_netem
        self.namespaces.apply(
            (one.host, message)
            for one, values in queues.items()
            for message in queue_messages(one.index, values, self.mtu, netem=netem)
        )
        if not netem:
            ends = [_relayed_end(one, values) for one, values in queues.items()]
            self.detours.prepare(ends)
            for end in ends:
                self.detours.switch(end)

    def add_port(self, switch: OVSSwitch, interface: Intf) -> None:
        """The daemon that has the bridge takes the interface."""
        self.flush()
        if self._switches is not None and not self.closed:
            operations = ovs.port_operations(switch.device, interface.name, switch.ports[interface])
            self._switches.set_up(lambda names, _: operations if names else [], [switch.given])
            self.set_queue(interface, interface.values)

    def pid(self, host: str) -> int | None:
        """A thread that sleeps in the host's namespaces: /proc/ID/ns has them, as of a process."""
        self.flush()
        return self.namespaces.pids.get(host)

    def words_at(self, node: Node, argv: Sequence[str]) -> list[str]:
        """Without rights over the machine."""
        self.flush()
        bounded = confined(argv)
        pid = self.namespaces.pids.get(node.given) if node.inNamespace else None
        return words_called(node.given, bounded) if pid is None else argv_inside(pid, bounded)

    def database_words(self, node: Node) -> list[str]:
        """Several daemons have a database each."""
        return [] if self._switches is None else [f"--db=unix:{self._switches.database_of(node.given)}"]

    def connected(self) -> set[str]:
        """As the daemons report it; again after a quarter of a second."""
        self.flush()
        at_s, found = self._connected
        if self._switches is not None and time.monotonic() > at_s + _CONNECTED_S:
            found = self._switches.connected()
            self._connected = time.monotonic(), found
        return found

    def close(self) -> None:
        """Take everything down; the kernel removes what is attached to namespaces and groups in its own time."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(BaseException):
            self._await_daemons()
        self.detours.close()
        switches, self._switches = self._switches, None
        if switches is not None:
            switches.pause()
            if switches.releases_ports_first:
                switches.stop()
        with contextlib.suppress(rtnl.NetlinkError):  # ENODEV: nothing was made yet
            limit_s = _DELETE_LIMIT_S + _DELETE_CABLE_S * self._made
            self.namespaces.netlink_of(None).apply([rtnl.delete_group(CablePlan.GROUP)], limit_s=limit_s)
        if switches is not None and not switches.releases_ports_first:
            switches.stop()
        self.namespaces.close()


def _relayed_end(interface: Intf, values: Json) -> ImpairedEnd:
    """Where the kernel has no netem: what a process does to the packets that the interface sends."""
    impairments, delay_s = relayed(values)
    end = CableEnd(interface=interface.name, index=interface.index, host=interface.host, link=None)
    link = (str(interface.node), interface.name, 0)
    return ImpairedEnd(end=end, link=link, impairments=impairments, delay_s=delay_s)


def as_bridge(switch: OVSSwitch, targets: Sequence[str]) -> ovs.Bridge:
    """What the bridge of Mininet's switch is to be."""
    ports = [(one.name, port) for port, one in sorted(switch.intfs.items()) if port and one.name != "lo" and not one.ip]
    return ovs.Bridge(
        name=switch.given,
        device=switch.device,
        dpid=int(switch.dpid, 16),
        ports=ports,
        controllers=targets,
        protocols=tuple((switch.protocols or "").replace(",", " ").split()),
        learns=switch.failMode == "standalone",
        spanning_tree=bool(switch.stp and switch.failMode == "standalone"),
    )


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What the kernel refuses in the block is a CapabilityError, an InvalidRunError where it was too busy or
    an InputError where a name is used twice."""
    try:
        yield
    except rtnl.NetlinkError as error:
        if error.errno == errno.ETIMEDOUT:
            raise InvalidRunError(
                f"the kernel did not set the network up: {error.strerror}; the machine is too busy"
            ) from error
        if error.errno == errno.EEXIST:
            raise InputError(
                "two interfaces, or a switch and another, have one name; call each node otherwise"
            ) from error
        raise CapabilityError(f"the kernel refused a setting of the network: {error.strerror}") from error
