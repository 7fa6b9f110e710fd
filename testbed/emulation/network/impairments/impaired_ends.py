"""Which ends of cables are impaired or delayed, and by what means: a netem queue of the kernel's where it can, else a
detour through the relay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.impairments.redirects import ImpairedEnd, Redirects
from testbed.emulation.network.impairments.relay import LaneReport
from testbed.emulation.network.impairments.tc_messages import NetemOptions, netem_line, netem_options
from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.rtnetlink import Message, NetlinkError, delete_queue
from testbed.errors import CapabilityError
from testbed.faults.fault import Direction
from testbed.faults.impaired_link import queue_bytes
from topologies.impairments import Impairments
from topologies.network import Link, LinkId, label_of, reverse_of

_LOOPBACK = 1


class ImpairedEnds:
    """The impaired and delayed links of one network. ``behind``: the messages that shape an end behind a netem queue
    (1:1); ``link_of``: what the link that an end sends is now."""

    def __init__(
        self,
        cables: CablePlan,
        detours: Redirects,
        namespaces: HostNamespaces,
        behind: Callable[[CableEnd], list[Message]],
        link_of: Callable[[CableEnd], Link | None],
    ) -> None:
        self.means: Literal["untried", "netem", "relay"] = "untried"
        self._cables = cables
        self._detours = detours
        self._namespaces = namespaces
        self._behind = behind
        self._link_of = link_of
        self._queued: set[str] = set()
        self._added: dict[LinkId, Impairments] = {}

    def delay(self, ends: Mapping[LinkId, CableEnd]) -> None:
        """Have the links' own delays made, by queues that stand already where the kernel has netem."""
        if self.has_netem():
            self._queued |= {end.interface for end in ends.values()}
            return
        self.prepare([(link, (), "forward") for link in ends])
        for link in ends:
            self.set(link, (), "forward")

    def has_netem(self) -> bool:
        """Whether the kernel can delay packets; tried once, when it is first needed."""
        if self.means == "untried":
            self.means = "netem" if self._tried() else "relay"
        return self.means == "netem"

    def has_queue(self, end: CableEnd) -> bool:
        """Whether a netem queue stands before the end's shaping one."""
        return end.interface in self._queued

    def again(self, link: LinkId) -> None:
        """The link's own delay has changed: what happens to its packets besides stays."""
        self.set(link, self._added.get(link, ()), "forward")

    def prepare(self, required: Sequence[tuple[LinkId, Impairments, Direction]]) -> None:
        """Make all detours ready that these will need."""
        ends = [one for link, words, way in required for one in self._required(link, words, way)]
        self._detours.prepare([self._left_to_relay(one) for one in ends if not self._by_netem(one)])

    def set(self, link: LinkId, impairments: Impairments, direction: Direction) -> None:
        """What the link is impaired by all the time, and these behind it. Raises CapabilityError where the kernel
        refuses."""
        for required in self._required(link, impairments, direction):
            self._added[required.link] = impairments
            try:
                if self._by_netem(required):
                    self._queue(required)
                else:
                    if required.end.interface in self._queued:
                        self._queue(replace(required, impairments=()))
                    self._detours.switch(self._left_to_relay(required))
            except NetlinkError as error:
                raise CapabilityError(
                    f"the kernel refused to impair or delay {label_of(required.link)} ({error.strerror}); "
                    "sudo modprobe cls_bpf act_mirred, or sch_netem, or use the simulated fabric"
                ) from error

    def reports(self) -> Mapping[str, LaneReport]:
        """Of the relay's links."""
        return self._detours.reports()

    def forget(self) -> None:
        """What the relay was late by until now."""
        self._detours.forget()

    def close(self) -> None:
        """End the relay; what it holds is lost."""
        self._detours.close()

    def _required(self, link: LinkId, impairments: Impairments, direction: Direction) -> list[ImpairedEnd]:
        """At each end that sends onto the link and is on this machine."""
        ends = [(link, self._cables.sending.get(link))]
        if direction == "both":
            ends.append((reverse_of(link), self._cables.receiving.get(link)))
        found = []
        for name, end in ends:
            if end is None:
                continue
            model = self._link_of(end) or Link(source=name[0], target=name[1], key=name[2])
            found.append(
                ImpairedEnd(
                    end=end,
                    link=name,
                    impairments=(*model.impaired_by, *impairments),
                    queue_bytes=queue_bytes(model.capacity_bps, packets=model.queue_packets),
                    delay_s=model.delay_s,
                )
            )
        return found

    def _left_to_relay(self, required: ImpairedEnd) -> ImpairedEnd:
        """What is left to the relay where a netem queue makes the delay."""
        return replace(required, delay_s=0.0) if required.end.interface in self._queued else required

    def _by_netem(self, required: ImpairedEnd) -> bool:
        """Whether one queue of the kernel's does it. An end that had a queue keeps it, if only to do nothing; a detour
        that is in use is left as it was taken."""
        if self.means == "relay" or netem_options(required.impairments, required.delay_s) is None:
            return False
        nothing = not required.key[1]  # what is not there need not be tried
        return (self.means == "netem" if nothing else self.has_netem()) and not self._detours.in_use(required.end)

    def _tried(self) -> bool:
        """Tried on the loopback interface of the switches' namespace: a queue that does nothing, taken away again."""
        try:
            self._namespaces.netlink_of(None).apply([netem_line(_LOOPBACK, NetemOptions()), delete_queue(_LOOPBACK)])
        except NetlinkError:
            return False
        return True

    def _queue(self, required: ImpairedEnd) -> None:
        """A netem queue before the shaping one, or what is there changed in place, so that nothing that waits is
        lost."""
        end = required.end
        options = netem_options(required.impairments, required.delay_s)
        assert options is not None
        shaping = self._behind(end) if end.interface not in self._queued else []
        self._namespaces.netlink_of(end.host).apply([netem_line(end.index, options), *shaping])
        self._queued.add(end.interface)
