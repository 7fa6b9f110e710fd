"""What a link does while the network runs: capacity and delay, impairments, cuts, blackholes, random loss, counters.

Packets are dropped at the sending end, before the shaping queue: a user-space switch reads packets from its interfaces
before any hook at the receiving end would see them.
"""

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.impairments.redirects import ImpairedEnd, Redirects
from testbed.emulation.network.impairments.relay import LaneReport
from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.link_meter import LinkMeter
from testbed.emulation.network.kernel.queues import link_queues, netem_line
from testbed.errors import CapabilityError, InputError
from testbed.faults.fault import Direction, Fault
from testbed.faults.impaired_link import queue_bytes
from testbed.faults.link_settings import LinkSettings, settings_text
from topologies.impairments import Impairments
from topologies.network import Link, LinkId, label_of, reverse_of

NOT_RUNNING = "the network is not running: use it inside its with block"
MOST_HOOKS = 1024
_CARRIER_LIMIT_S = 1.0
_MISSING = 2  # ENOENT: "Specified qdisc kind is unknown", "TC classifier not found"


class LinkControl:
    """Shapes, breaks and counts the links of one network. Thread-safe; every change is one system call."""

    def __init__(self, *, shape: bool, mtu: int, first_udp_port: int | None) -> None:
        self.mtu, self.shape, self._first_udp_port = mtu, shape, first_udp_port
        self.impairment_seed = 1
        self._lock = threading.Lock()
        self._laid: tuple[CablePlan, HostNamespaces] | None = None

    def lay(self, cables: CablePlan, namespaces: HostNamespaces, detours: Redirects) -> None:
        """The cables are there; nothing of them is shaped or lost yet. ``detours``: of impaired and delayed links."""
        self._laid = cables, namespaces
        self.forgotten: dict[str, dict[rtnl.Message, None]] = {}
        """Interface of a host -> what it has to be told again when it was down: its neighbours and routes."""
        self._losing: dict[str, float] = {}
        self._always_lost: dict[str, float] = {}
        self._requested_loss: dict[str, float] = {}
        self._changed: dict[LinkId, Link] = {}
        self._detours = detours
        self._delayed_by_netem: set[str] = set()
        self._added: dict[LinkId, Impairments] = {}

    def leave(self) -> None:
        """End the relay; what impaired links hold is lost."""
        if self._laid is not None:
            self._detours.close()
            self._laid = None

    def _there(self) -> tuple[CablePlan, HostNamespaces]:
        if self._laid is None:
            raise InputError(NOT_RUNNING)
        return self._laid

    @property
    def _cables(self) -> CablePlan:
        return self._there()[0]

    @property
    def namespaces(self) -> HostNamespaces:
        """The hosts' networks."""
        return self._there()[1]

    def shape_all(self) -> None:
        """Hold every link to its capacity and delay: packets meet the delay first, made by netem or, where the kernel
        has none, by the relay. Raises CapabilityError where neither can: a delay is never silently left out.
        """
        if not self.shape:
            return
        ends = self._cables.sending
        delayed = {
            link: end for link, end in ends.items() if end.link is not None and end.link.delay_s
        }
        if delayed and self._detours.has_netem:
            self._delayed_by_netem |= {end.interface for end in delayed.values()}
        held = [(end, link) for end in ends.values() if (link := self._link_of(end)) is not None]
        try:
            self.namespaces.apply(
                (end.host, one) for end, link in held for one in self._queues(end, link)
            )
        except rtnl.NetlinkError as error:
            if error.errno == _MISSING and self._first_udp_port is not None:
                raise CapabilityError(
                    "this kernel has no priority queues; load them (sudo modprobe sch_htb cls_bpf)"
                ) from error
            raise _shaping_refused(error) from error
        if delayed and not self._delayed_by_netem:
            self.impair_always(list(delayed))

    def prepare_faults(self) -> None:
        """Put the hook for drop rules at every sending end, so that the first fault is as quick as the next.

        Where there are more than ``MOST_HOOKS``, at the first end only, and at others when they are first to lose: for
        each hook the kernel searches a list of all that the machine has.
        """
        ends = list(self._cables.sending.values())
        ends = ends if len(ends) <= MOST_HOOKS else ends[:1]
        with contextlib.suppress(rtnl.NetlinkError):  # the first fault will say what is missing
            self.namespaces.apply((end.host, rtnl.packet_gate(end.index)) for end in ends)

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        """Cut the link or bring it back; the monotonic time at which that was in force.

        ``both``: the cable loses its carrier, as when it is pulled. ``forward``: a carrier is lost both ways or not at
        all, so that a cut of one direction is a blackhole of that direction.
        """
        if direction == "forward":
            return self.set_loss(link, 0.0 if up else 1.0, direction)
        near, far = self._ends_here(link)
        # A host that is taken down forgets its routes and neighbours: the switch's end is pulled where there is one.
        end = far if near.host is not None and far.host is None else near
        messages = [rtnl.set_up(end.index, up)]
        if up:
            messages += self.forgotten.get(end.interface, ())
        with self._lock:
            self.namespaces.netlink_of(end.host).apply(messages)
            if up and near is not far:
                self._await_carrier(far if end is near else near)
            return time.monotonic()

    def _ends_here(self, link: LinkId) -> tuple[CableEnd, CableEnd]:
        """Sending and receiving end; a tunnel's only end on this machine twice."""
        near, far = self._cables.sending.get(link), self._cables.receiving.get(link)
        one = near or far
        if one is None:
            raise InputError(f"{label_of(link)}: neither end of that cable is on this machine")
        return near or one, far or one

    def _await_carrier(self, end: CableEnd) -> None:
        """The end whose carrier comes back sends nothing until the kernel, in its own time, has noticed."""
        netlink, limit = self.namespaces.netlink_of(end.host), time.monotonic() + _CARRIER_LIMIT_S
        while not netlink.is_operational(end.index) and time.monotonic() < limit:
            time.sleep(0.0002)

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Make ready what the impairing ones among these faults will need, so that each begins as quickly as a
        blackhole."""
        self._prepare(
            [
                (fault.link, fault.impaired_by, fault.direction)
                for fault in faults
                if fault.impairments
            ]
        )

    def _prepare(self, required: Sequence[tuple[LinkId, Impairments, Direction]]) -> None:
        """All detours that these, and what the links are impaired by all the time, will need."""
        with self._lock:
            self._detours.prepare([end for one in required for end in self._impaired_ends(*one)])

    def impair_always(self, links: Sequence[LinkId]) -> None:
        """Put in force what the network says that these links always do to packets, and their delays."""
        self._prepare([(link, (), "forward") for link in links])
        for link in links:
            self.set_impairments(link, (), "forward")

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float:
        """Impair the packets that enter the link, next to what the network says that it always does (none: that alone);
        returns when that was in force. Held packets of before still go their way."""
        with self._lock:
            self._impair(link, impairments, direction)
        return time.monotonic()

    def _impair(self, link: LinkId, impairments: Impairments, direction: Direction) -> None:
        """What the link is impaired by all the time, and these behind it."""
        for required in self._impaired_ends(link, impairments, direction):
            self._added[required.link] = impairments
            try:
                self._detours.switch(required)
            except rtnl.NetlinkError as error:
                raise CapabilityError(
                    f"the kernel refused to impair or delay {label_of(required.link)} ({error.strerror}); "
                    "sudo modprobe cls_bpf act_mirred, or use the simulated fabric"
                ) from error

    def _impaired_ends(
        self, link: LinkId, impairments: Impairments, direction: Direction
    ) -> list[ImpairedEnd]:
        """At each end that sends onto the link and is on this machine."""
        ends = {link: self._cables.sending.get(link)}
        if direction == "both":
            ends[reverse_of(link)] = self._cables.receiving.get(link)
        found = []
        for name, end in ends.items():
            if end is None:
                continue
            model = self._link_of(end) or Link(source=name[0], target=name[1], key=name[2])
            found.append(
                ImpairedEnd(
                    end=end,
                    link=name,
                    impairments=(*model.impaired_by, *impairments),
                    queue_bytes=queue_bytes(model.capacity_bps, packets=model.queue_packets),
                    delay_s=0.0 if end.interface in self._delayed_by_netem else model.delay_s,
                )
            )
        return found

    def impairment_reports(self) -> Mapping[str, LaneReport]:
        """Link and words -> what the relay did with its packets, and how late it was."""
        with self._lock:
            return self._detours.reports()

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        """Lose each packet that enters the link with that probability (0: none, 1: a blackhole); returns when that was
        in force."""
        if not 0 <= fraction <= 1:
            raise InputError(f"loss of {fraction} on {label_of(link)}; give 0 to 1")
        near, far = self._cables.sending.get(link), self._cables.receiving.get(link)
        ends = [end for end in (near, far if direction == "both" else None) if end is not None]
        if not ends:
            raise InputError(f"{label_of(link)}: no sender of it is on this machine")
        return max(self._lose_at(end, fraction) for end in ends)

    def _lose_at(self, end: CableEnd, requested: float) -> float:
        """Lose that share of the packets of faults' sake, next to what is lost always."""
        self._requested_loss[end.interface] = requested
        fraction = 1 - (1 - requested) * (1 - self._always_lost.get(end.interface, 0.0))
        netlink = self.namespaces.netlink_of(end.host)
        with self._lock:
            try:
                if fraction > 0:  # a bridge that was configured again has removed the hook
                    netlink.apply(
                        [rtnl.packet_gate(end.index), rtnl.drop_rule(end.index, fraction)]
                    )
                elif self._losing.get(end.interface, 0.0) > 0:
                    with contextlib.suppress(
                        rtnl.NetlinkError
                    ):  # gone with its hook: what was requested
                        netlink.apply([rtnl.drop_rule(end.index, 1.0, "remove")])
            except rtnl.NetlinkError as error:
                missing = "; sudo modprobe cls_bpf sch_ingress" if error.errno == _MISSING else ""
                refused = f"the kernel refused a loss on {end.interface}: {error.strerror}{missing}"
                raise CapabilityError(refused) from error
            self._losing[end.interface] = fraction
            return time.monotonic()

    def _link_of(self, end: CableEnd) -> Link | None:
        """What the link that the end sends is now; without shaping it has no delay."""
        if end.link is None or self.shape:
            return None if end.link is None else self._changed.get(end.link.id, end.link)
        return replace(end.link, delay_s=0.0)

    def _queues(self, end: CableEnd, link: Link) -> list[rtnl.Message]:
        """All queues of the end, as the link is now."""
        delayed = end.interface in self._delayed_by_netem
        return link_queues(
            end.index,
            rate_bps=link.capacity_bps,
            mtu=self.mtu,
            packets=link.queue_packets,
            netem=netem_line(end.index, delay_s=link.delay_s) if delayed else None,
            first_udp_port=self._first_udp_port,
        )

    def configure(self, link: LinkId, settings: LinkSettings) -> float:
        """Give the link, and unless one way its reverse, another capacity, delay or loss, next to faults and
        impairments; the monotonic time at which all was in force. Packets on their way go it as it was.

        Raises InputError where links are held to nothing, or an end of the cable is not here.
        """
        if not self.shape:
            raise InputError(
                f"{label_of(link)}: this network holds links to nothing (--no-shaping)"
            )
        links = (link,) if settings.one_way else (link, reverse_of(link))
        ends = {
            one: end
            for one in links
            if (end := self._cables.sending.get(one)) is not None and end.link is not None
        }
        if link not in ends:
            raise InputError(
                f"{label_of(link)}: its sender is not on this machine, or not held to a capacity"
            )
        for one, end in ends.items():
            before = self._link_of(end)
            assert before is not None and end.link is not None
            now = end.link if settings.reset else settings.applied_to(before)
            lost = 0.0 if settings.reset else settings.loss_fraction
            relayed = now.delay_s != before.delay_s and not self._detours.has_netem
            with self._lock:
                self._changed[one] = now
                if now.delay_s != before.delay_s and not relayed:
                    self._delayed_by_netem.add(end.interface)
                try:
                    self.namespaces.netlink_of(end.host).apply(
                        self._queues(end, now) if now != before else []
                    )
                except rtnl.NetlinkError as error:
                    raise _shaping_refused(error) from error
                if relayed:  # what else happens to its packets stays
                    self._impair(one, self._added.get(one, ()), "forward")
            if lost is not None and lost != self._always_lost.get(end.interface, 0.0):
                self._always_lost[end.interface] = lost
                self._lose_at(end, self._requested_loss.get(end.interface, 0.0))
            if now == end.link and not self._always_lost.get(end.interface):
                self._changed.pop(one)
        return time.monotonic()

    def configured(self) -> Mapping[LinkId, str]:
        """Links that are no longer what the network says -> what they are."""
        ends = {link: self._cables.sending[link].interface for link in self._changed}
        return {
            link: settings_text(now, self._always_lost.get(ends[link], 0.0))
            for link, now in self._changed.items()
        }

    def forget_lateness(self) -> None:
        """What the relay was late by or missed until now is in no later report: a run begins."""
        with self._lock:
            self._detours.forget()

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """Link -> (packets, bytes, drops): sent onto the cable that way; dropped by a full queue, not by a fault."""
        found = self._counted(self._cables.sending)
        return {
            link: (one.sent_packets, one.sent_bytes, one.queue_drops) for link, one in found.items()
        }

    def arrival_counters(self) -> Mapping[LinkId, int]:
        """Link -> packets that came over it, as its receiving interface counts them."""
        return {
            link: one.received_packets
            for link, one in self._counted(self._cables.receiving).items()
        }

    def _counted(self, ends: Mapping[LinkId, CableEnd]) -> dict[LinkId, rtnl.InterfaceCounters]:
        with self._lock:
            hosts = sorted({end.host for end in ends.values()}, key=str)
            found = {host: self.namespaces.netlink_of(host).counters() for host in hosts}
        return {link: found[end.host][end.interface] for link, end in ends.items()}

    def link_meter(self) -> LinkMeter:
        """Reads the links' bytes and carriers without touching what the run uses, in a forked process too."""
        sent = {
            link: near.interface for link, near in self._cables.sending.items() if near.host is None
        }
        # a host's interface is not seen from here, and a tunnel's near end may lie on another machine
        arrived = {
            link: far.interface for link, far in self._cables.receiving.items() if far.host is None
        }
        return LinkMeter(
            sent=sent, received={link: name for link, name in arrived.items() if link not in sent}
        )

    def links_down(self) -> tuple[LinkId, ...]:
        """Links without a carrier, but for those between two hosts."""
        return self.link_meter().without_carrier()


def _shaping_refused(error: rtnl.NetlinkError) -> CapabilityError:
    if error.errno == _MISSING:
        return CapabilityError(
            "this kernel cannot shape links: it has no tbf queue; sudo modprobe sch_tbf"
        )
    return CapabilityError(f"the kernel refused to shape a link: {error.strerror}")
