"""Controls the links of a running network, and reads their counters.

A link has a capacity and delay. It can be impaired, cut, turned into a blackhole, or made to lose
packets at random.

Packets are dropped at the sending end, before the shaping queue. A hook at the receiving end would
be too late: a user-space switch reads packets from its interfaces before any hook sees them.
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

# Above this number of sending ends, hooks are created when they are first needed: the time for
# each grows with their number.
MAX_HOOKS = 1024

# The kernel usually notices a carrier within milliseconds.
_CARRIER_LIMIT_S = 1.0
_CARRIER_POLL_S = 0.0002

# The kernel's error for an unknown queue or classifier: "Specified qdisc kind is unknown", "TC
# classifier not found".
_ENOENT = 2


class LinkControl:
    """Shapes, breaks and counts the links of one network.

    It is thread-safe. Every change is one system call.

    Args:
        shape: Limit every link to its capacity, and delay its packets.
        mtu: MTU of every cable, in bytes.
        first_udp_port: Datagrams to this port go before all other packets in the queue of every
            link; None for one queue for all.

    Attributes:
        impairment_seed: Seed of random impairments.
        reapplied: Interface of a host -> the neighbours and routes that must be added again after
            the interface was down.
    """

    def __init__(self, *, shape: bool, mtu: int, first_udp_port: int | None) -> None:
        self.mtu = mtu
        self.shape = shape
        self._first_udp_port = first_udp_port
        self.impairment_seed = 1
        self._lock = threading.Lock()
        self._laid: tuple[CablePlan, HostNamespaces] | None = None

    def lay(self, cables: CablePlan, namespaces: HostNamespaces, detours: Redirects) -> None:
        """Take over the cables of a network, which are neither shaped nor impaired yet.

        Args:
            cables: The ends of the cables.
            namespaces: The namespaces of the hosts.
            detours: Redirects the packets of impaired and delayed links.
        """
        self._laid = (cables, namespaces)
        self.reapplied: dict[str, dict[rtnl.Message, None]] = {}
        self._detours = detours

        # Interface -> share of packets that it drops: in all, by configuration, and by faults.
        self._total_loss: dict[str, float] = {}
        self._configured_loss: dict[str, float] = {}
        self._fault_loss: dict[str, float] = {}

        # Links that differ from the network's model, as they are now.
        self._changed: dict[LinkId, Link] = {}

        # Interfaces whose delay netem makes; the relay delays the packets of all others.
        self._delayed_by_netem: set[str] = set()

        # Impairments of links in addition to those of the network's model.
        self._added_impairments: dict[LinkId, Impairments] = {}

    def leave(self) -> None:
        """End the relay; packets of impaired links that wait in it are lost."""
        if self._laid is not None:
            self._detours.close()
            self._laid = None

    def _cables_and_namespaces(self) -> tuple[CablePlan, HostNamespaces]:
        if self._laid is None:
            raise InputError(NOT_RUNNING)
        return self._laid

    @property
    def _cables(self) -> CablePlan:
        cables, _ = self._cables_and_namespaces()
        return cables

    @property
    def namespaces(self) -> HostNamespaces:
        """The namespaces of the hosts."""
        _, namespaces = self._cables_and_namespaces()
        return namespaces

    def shape_all(self) -> None:
        """Limit every link to its capacity, and delay its packets.

        Packets are delayed before they reach the queue. The delay is made by netem or, if the
        kernel has none, by the relay.

        Raises:
            CapabilityError: The kernel refuses; a delay is never silently left out.
        """
        if not self.shape:
            return
        delayed_ends = {}
        for link_id, end in self._cables.sending.items():
            if end.link is not None and end.link.delay_s:
                delayed_ends[link_id] = end
        if delayed_ends and self._detours.has_netem:
            self._delayed_by_netem |= {end.interface for end in delayed_ends.values()}
        messages: list[tuple[str | None, rtnl.Message]] = []
        for end in self._cables.sending.values():
            link = self._link_of(end)
            if link is not None:
                for message in self._queues(end, link):
                    messages.append((end.host, message))
        try:
            self.namespaces.apply(messages)
        except rtnl.NetlinkError as error:
            if error.errno == _ENOENT and self._first_udp_port is not None:
                raise CapabilityError(
                    "this kernel has no priority queues; load them (sudo modprobe sch_htb cls_bpf)"
                ) from error
            raise _shaping_refused(error) from error
        if delayed_ends and not self._delayed_by_netem:
            self.impair_always(list(delayed_ends))

    def prepare_faults(self) -> None:
        """Create the hook for drop rules at every sending end, so that the first fault is fast.

        If there are more than ``MAX_HOOKS`` ends, only the first end gets its hook now, and the
        others when they first lose packets. For each hook, the kernel searches a list of all hooks
        of the machine.
        """
        ends = list(self._cables.sending.values())
        if len(ends) > MAX_HOOKS:
            ends = ends[:1]
        # If the kernel has no such hooks, the first fault reports it.
        with contextlib.suppress(rtnl.NetlinkError):
            self.namespaces.apply((end.host, rtnl.packet_gate(end.index)) for end in ends)

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        """Cut a link or restore it.

        A cable has a carrier in both directions or in neither. So a cut of both directions takes
        the carrier away, as if the cable were pulled. A cut of one direction is a blackhole.

        Args:
            link: The link.
            up: Restore the link if true, and cut it if not.
            direction: ``"forward"`` for this link only, and ``"both"`` for its reverse as well.

        Returns:
            The monotonic time at which the change was active.
        """
        if direction == "forward":
            loss = 0.0 if up else 1.0
            return self.set_loss(link, loss, direction)
        near, far = self._ends_here(link)
        # A host forgets routes and neighbours of an interface that is set down. So the switch's
        # end is set down if there is one.
        end = near
        other_end = far
        if near.host is not None and far.host is None:
            end = far
            other_end = near
        messages = [rtnl.set_up(end.index, up)]
        if up:
            messages += self.reapplied.get(end.interface, ())
        with self._lock:
            self.namespaces.netlink_of(end.host).apply(messages)
            if up and near is not far:
                self._await_carrier(other_end)
            return time.monotonic()

    def _ends_here(self, link: LinkId) -> tuple[CableEnd, CableEnd]:
        """Return the sending and the receiving end of a link.

        A tunnel to another machine has one end here, which is returned twice.
        """
        near = self._cables.sending.get(link)
        far = self._cables.receiving.get(link)
        any_end = near or far
        if any_end is None:
            raise InputError(f"{label_of(link)}: neither end of that cable is on this machine")
        return near or any_end, far or any_end

    def _await_carrier(self, end: CableEnd) -> None:
        """Wait until the kernel has noticed the carrier; the interface sends nothing before."""
        netlink = self.namespaces.netlink_of(end.host)
        deadline_s = time.monotonic() + _CARRIER_LIMIT_S
        while not netlink.is_operational(end.index) and time.monotonic() < deadline_s:
            time.sleep(_CARRIER_POLL_S)

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Prepare the detours for faults that impair links, so that each begins at once."""
        impairing = []
        for fault in faults:
            if fault.impairments:
                impairing.append((fault.link, fault.impaired_by, fault.direction))
        self._prepare(impairing)

    def _prepare(self, required: Sequence[tuple[LinkId, Impairments, Direction]]) -> None:
        """Prepare the detours for these impairments and those that the links always have."""
        with self._lock:
            ends = []
            for link, impairments, direction in required:
                ends += self._impaired_ends(link, impairments, direction)
            self._detours.prepare(ends)

    def impair_always(self, links: Sequence[LinkId]) -> None:
        """Activate the impairments and delays that the network's model gives to these links."""
        self._prepare([(link, (), "forward") for link in links])
        for link in links:
            self.set_impairments(link, (), "forward")

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float:
        """Impair the packets that enter a link from now on.

        Packets that already wait are still treated as before.

        Args:
            link: The link.
            impairments: The impairments, in addition to those of the network's model; an empty
                tuple leaves only the latter.
            direction: ``"forward"`` for this link only, and ``"both"`` for its reverse as well.

        Returns:
            The monotonic time at which they were active.
        """
        with self._lock:
            self._impair(link, impairments, direction)
        return time.monotonic()

    def _impair(self, link: LinkId, impairments: Impairments, direction: Direction) -> None:
        """Impair a link as ``set_impairments`` does; the caller has the lock."""
        for required in self._impaired_ends(link, impairments, direction):
            self._added_impairments[required.link] = impairments
            try:
                self._detours.switch(required)
            except rtnl.NetlinkError as error:
                raise CapabilityError(
                    f"the kernel refused to impair or delay {label_of(required.link)} "
                    f"({error.strerror}); sudo modprobe cls_bpf act_mirred, or use the simulated "
                    "fabric"
                ) from error

    def _impaired_ends(
        self, link: LinkId, impairments: Impairments, direction: Direction
    ) -> list[ImpairedEnd]:
        """Return each end on this machine that sends onto the link, with all its impairments."""
        ends = {link: self._cables.sending.get(link)}
        if direction == "both":
            ends[reverse_of(link)] = self._cables.receiving.get(link)
        impaired_ends = []
        for link_id, end in ends.items():
            if end is None:
                continue
            source, target, key = link_id
            model = self._link_of(end) or Link(source=source, target=target, key=key)
            delay_s = model.delay_s
            if end.interface in self._delayed_by_netem:
                delay_s = 0.0
            impaired_ends.append(
                ImpairedEnd(
                    end=end,
                    link=link_id,
                    impairments=(*model.impaired_by, *impairments),
                    queue_bytes=queue_bytes(model.capacity_bps, packets=model.queue_packets),
                    delay_s=delay_s,
                )
            )
        return impaired_ends

    def impairment_reports(self) -> Mapping[str, LaneReport]:
        """Return what the relay did with the packets of each link, by link and impairments."""
        with self._lock:
            return self._detours.reports()

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        """Drop packets that enter a link at random.

        Args:
            link: The link.
            fraction: Probability that a packet is dropped: 0 for none, 1 for a blackhole.
            direction: ``"forward"`` for this link only, and ``"both"`` for its reverse as well.

        Returns:
            The monotonic time at which the loss was active.
        """
        if not 0 <= fraction <= 1:
            raise InputError(f"loss of {fraction} on {label_of(link)}; give 0 to 1")
        ends = [self._cables.sending.get(link)]
        if direction == "both":
            ends.append(self._cables.receiving.get(link))
        ends_here = [end for end in ends if end is not None]
        if not ends_here:
            raise InputError(f"{label_of(link)}: no sender of it is on this machine")
        return max(self._set_fault_loss(end, fraction) for end in ends_here)

    def _set_fault_loss(self, end: CableEnd, fault_loss: float) -> float:
        """Set the share of packets that faults drop, next to the configured loss of the link.

        Returns:
            The monotonic time at which the loss was active.
        """
        self._fault_loss[end.interface] = fault_loss
        configured_loss = self._configured_loss.get(end.interface, 0.0)
        total_loss = 1 - (1 - fault_loss) * (1 - configured_loss)
        netlink = self.namespaces.netlink_of(end.host)
        with self._lock:
            try:
                if total_loss > 0:
                    # The hook is created again, because a bridge that was reconfigured has
                    # removed it.
                    rule = rtnl.drop_rule(end.index, total_loss)
                    netlink.apply([rtnl.packet_gate(end.index), rule])
                elif self._total_loss.get(end.interface, 0.0) > 0:
                    # The rule may have been removed together with its hook.
                    with contextlib.suppress(rtnl.NetlinkError):
                        netlink.apply([rtnl.drop_rule(end.index, 1.0, "remove")])
            except rtnl.NetlinkError as error:
                hint = "; sudo modprobe cls_bpf sch_ingress" if error.errno == _ENOENT else ""
                raise CapabilityError(
                    f"the kernel refused a loss on {end.interface}: {error.strerror}{hint}"
                ) from error
            self._total_loss[end.interface] = total_loss
            return time.monotonic()

    def _link_of(self, end: CableEnd) -> Link | None:
        """Return the link that the end sends, as it is now; without shaping it has no delay."""
        if end.link is None:
            return None
        if self.shape:
            return self._changed.get(end.link.id, end.link)
        return replace(end.link, delay_s=0.0)

    def _queues(self, end: CableEnd, link: Link) -> list[rtnl.Message]:
        """Return the messages that create all queues of an end for this state of its link."""
        netem = None
        if end.interface in self._delayed_by_netem:
            netem = netem_line(end.index, delay_s=link.delay_s)
        return link_queues(
            end.index,
            rate_bps=link.capacity_bps,
            mtu=self.mtu,
            packets=link.queue_packets,
            netem=netem,
            first_udp_port=self._first_udp_port,
        )

    def configure(self, link: LinkId, settings: LinkSettings) -> float:
        """Change the capacity, delay or loss of a link, independently of faults and impairments.

        Packets in transit are not affected.

        Args:
            link: The link.
            settings: What to change, in one direction or both.

        Returns:
            The monotonic time at which all changes were active.

        Raises:
            InputError: Links are not shaped, or the link's sender is not on this machine.
        """
        if not self.shape:
            raise InputError(
                f"{label_of(link)}: links of this network are not shaped (--no-shaping)"
            )
        links = (link,) if settings.one_way else (link, reverse_of(link))
        ends = {}
        for link_id in links:
            end = self._cables.sending.get(link_id)
            if end is not None and end.link is not None:
                ends[link_id] = end
        if link not in ends:
            raise InputError(
                f"{label_of(link)}: its sender is not on this machine, or its cable is not shaped"
            )
        for link_id, end in ends.items():
            self._configure_end(link_id, end, settings)
        return time.monotonic()

    def _configure_end(self, link_id: LinkId, end: CableEnd, settings: LinkSettings) -> None:
        """Change the link that one end sends."""
        old = self._link_of(end)
        assert old is not None and end.link is not None
        if settings.reset:
            new = end.link
            loss: float | None = 0.0
        else:
            new = settings.applied_to(old)
            loss = settings.loss_fraction
        delay_changes = new.delay_s != old.delay_s
        delayed_by_relay = delay_changes and not self._detours.has_netem
        with self._lock:
            self._changed[link_id] = new
            if delay_changes and not delayed_by_relay:
                self._delayed_by_netem.add(end.interface)
            queues = self._queues(end, new) if new != old else []
            try:
                self.namespaces.netlink_of(end.host).apply(queues)
            except rtnl.NetlinkError as error:
                raise _shaping_refused(error) from error
            if delayed_by_relay:
                # The other impairments of the link remain.
                impairments = self._added_impairments.get(link_id, ())
                self._impair(link_id, impairments, "forward")
        if loss is not None and loss != self._configured_loss.get(end.interface, 0.0):
            self._configured_loss[end.interface] = loss
            self._set_fault_loss(end, self._fault_loss.get(end.interface, 0.0))
        if new == end.link and not self._configured_loss.get(end.interface):
            self._changed.pop(link_id)

    def configured(self) -> Mapping[LinkId, str]:
        """Return the links that differ from the network's model, with their settings as text."""
        texts = {}
        for link_id, link in self._changed.items():
            interface = self._cables.sending[link_id].interface
            texts[link_id] = settings_text(link, self._configured_loss.get(interface, 0.0))
        return texts

    def forget_lateness(self) -> None:
        """Leave lateness and losses of the relay until now out of later reports.

        This is done when a run begins.
        """
        with self._lock:
            self._detours.forget()

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """Return packets sent, bytes sent, and packets that a full queue dropped, for each link.

        Packets that a fault drops are not counted.
        """
        counters = self._counters_of(self._cables.sending)
        return {
            link: (count.sent_packets, count.sent_bytes, count.queue_drops)
            for link, count in counters.items()
        }

    def arrival_counters(self) -> Mapping[LinkId, int]:
        """Return the number of packets that the receiving interface of each link has counted."""
        counters = self._counters_of(self._cables.receiving)
        return {link: count.received_packets for link, count in counters.items()}

    def _counters_of(self, ends: Mapping[LinkId, CableEnd]) -> dict[LinkId, rtnl.InterfaceCounters]:
        """Return the counters of these ends, reading each namespace once."""
        with self._lock:
            hosts = sorted({end.host for end in ends.values()}, key=str)
            counters = {host: self.namespaces.netlink_of(host).counters() for host in hosts}
        return {link: counters[end.host][end.interface] for link, end in ends.items()}

    def link_meter(self) -> LinkMeter:
        """Return a reader of the links' bytes and carriers.

        It uses nothing that the run uses, and works in a forked process too.
        """
        # The reader is next to the switches, where the interfaces of hosts are not visible. The
        # sending end of a tunnel may be on another machine.
        sent = {}
        for link, end in self._cables.sending.items():
            if end.host is None:
                sent[link] = end.interface
        received = {}
        for link, end in self._cables.receiving.items():
            if end.host is None and link not in sent:
                received[link] = end.interface
        return LinkMeter(sent=sent, received=received)

    def links_down(self) -> tuple[LinkId, ...]:
        """Return the links without a carrier, except those between two hosts."""
        return self.link_meter().without_carrier()


def _shaping_refused(error: rtnl.NetlinkError) -> CapabilityError:
    if error.errno == _ENOENT:
        return CapabilityError(
            "this kernel cannot shape links: it has no tbf queue; sudo modprobe sch_tbf"
        )
    return CapabilityError(f"the kernel refused to shape a link: {error.strerror}")
