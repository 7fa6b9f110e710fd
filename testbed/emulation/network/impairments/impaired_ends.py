"""Which ends of cables are impaired, and by what means: a netem queue of the kernel's where it can, else a detour
through the relay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.impairments.redirects import ImpairedEnd, Redirects
from testbed.emulation.network.impairments.relay import LaneReport
from testbed.emulation.network.impairments.tc_messages import NetemOptions, netem_line, netem_options
from testbed.emulation.network.kernel.rtnetlink import Message, Netlink, NetlinkError, delete_queue
from testbed.errors import CapabilityError
from testbed.faults.fault import Direction
from topologies.impairments import Impairments
from topologies.network import DEFAULT_CAPACITY_BPS, LinkId, label_of, reverse_of

_LOOPBACK = 1


class ImpairedEnds:
    """The impaired links of one network. ``behind``: the messages that shape an end behind a netem queue (1:1)."""

    def __init__(
        self,
        cables: CablePlan,
        detours: Redirects,
        netlink_of: Callable[[str | None], Netlink],
        behind: Callable[[CableEnd], list[Message]],
    ) -> None:
        self.means: Literal["untried", "netem", "relay"] = "untried"
        self._cables = cables
        self._detours = detours
        self._netlink_of = netlink_of
        self._behind = behind
        self._queued: set[str] = set()

    def prepare(self, required: Sequence[tuple[LinkId, Impairments, Direction]]) -> None:
        """Make all detours ready that these will need."""
        ends = [one for link, words, way in required for one in self._required(link, words, way)]
        self._detours.prepare([one for one in ends if not self._by_netem(one)])

    def set(self, link: LinkId, impairments: Impairments, direction: Direction) -> None:
        """What the link is impaired by all the time, and these behind it. Raises CapabilityError where the kernel
        refuses."""
        for required in self._required(link, impairments, direction):
            try:
                if self._by_netem(required):
                    self._queue(required)
                else:
                    if required.end.interface in self._queued:
                        self._queue(replace(required, impairments=()))
                    self._detours.switch(required)
            except NetlinkError as error:
                raise CapabilityError(
                    f"the kernel refused to impair {label_of(required.link)} ({error.strerror}); "
                    "sudo modprobe cls_bpf act_mirred, or use the simulated fabric"
                ) from error

    def reports(self) -> Mapping[str, LaneReport]:
        """Of the relay's links."""
        return self._detours.reports()

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
            own = end.link.impaired_by if end.link is not None else ()
            rate = end.link.capacity_bps if end.link is not None else DEFAULT_CAPACITY_BPS
            found.append(ImpairedEnd(end=end, link=name, impairments=(*own, *impairments), capacity_bps=rate))
        return found

    def _by_netem(self, required: ImpairedEnd) -> bool:
        """Whether one queue of the kernel's does it. An end that had a queue keeps it, if only to do nothing; a detour
        that is in use is left as it was taken."""
        delay_s = required.end.link.delay_s if required.end.link is not None else 0.0
        if self.means == "relay" or netem_options(required.impairments, delay_s) is None:
            return False
        if self.means == "untried" and required.impairments:
            self.means = "netem" if self._has_netem() else "relay"
        return self.means == "netem" and not self._detours.in_use(required.end)

    def _has_netem(self) -> bool:
        """Tried on the loopback interface of the switches' namespace: a queue that does nothing, taken away again."""
        try:
            self._netlink_of(None).apply([netem_line(_LOOPBACK, NetemOptions()), delete_queue(_LOOPBACK)])
        except NetlinkError:
            return False
        return True

    def _queue(self, required: ImpairedEnd) -> None:
        """A netem queue before the shaping one, or what is there changed in place, so that nothing that waits is
        lost."""
        end = required.end
        delay_s = end.link.delay_s if end.link is not None else 0.0
        options = netem_options(required.impairments, delay_s)
        assert options is not None
        fresh = end.interface not in self._queued and delay_s == 0
        shaping = self._behind(end) if fresh else []
        self._netlink_of(end.host).apply([netem_line(end.index, options), *shaping])
        self._queued.add(end.interface)
