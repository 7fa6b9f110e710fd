"""Derives the effect of each fault from the packet logs of an uncoded stream.

The figures of a fault are the packets lost, the times of detection and reaction, and the latency
before, during and after it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testbed.faults.fault import FaultTimes
from testbed.judgement.bins import TimeBins
from testbed.judgement.deliveries import packet_deliveries
from testbed.judgement.quiet_times import near_faults
from testbed.metapath.labelled_paths import LabelledPaths, cable_number, labelled_paths
from testbed.metapath.plan import MetapathPlan, MetapathRun
from testbed.metapath.source import metapath_bandwidth
from testbed.stream.measurements import BoolArray, FloatArray, IntArray
from testbed.stream.mobility import splits_of
from topologies import JsonObject, LinkId, Network, label_of
from topologies.routing_tables import static_routing

# A packet sent this long before a fault, in addition to the propagation delay, may still meet it.
UNDER_WAY_S = 0.05
# Length of the bins of a fault's timeline.
BIN_S = 0.02
# How long the timeline begins before the fault, and goes on after it.
BEFORE_S = 0.3
AFTER_S = 0.5
# The latency before a fault is measured over this time.
_BASELINE_S = 1.0
# Median and 95th percentile in milliseconds; None without packets.
Latency = tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """The effect of one fault.

    Times of detection and reaction are in seconds after the fault became active; None for never.

    Attributes:
        link: The name of the link.
        kind: The kind of the fault.
        start_s: When the fault became active, since the stream's start.
        stop_s: When it was repaired, since the stream's start.
        port_status_s: When the controller was notified.
        sent: Number of messages sent during the fault.
        lost: Number of messages of which no copy arrived.
        lost_s: The time in which the stream sends this number of messages.
        lost_after_reroute: Number of lost messages sent after the source or the controller had
            reconfigured.
        escaped: Number of packets that left their path at the dead link.
        first_escape_s: When the first of these was sent.
        detected_s: When the source was first notified of the failed cable, by the cause.
        marked_by: The cause that made the source mark the cable as failed.
        reconfigured_s: When packets began to avoid the link.
        returned_s: When packets returned to the minimal path, in seconds after the repair.
        probes: Number of packets that were sent over the link to test it.
        latency_before_ms: Latency in the second before the fault.
        latency_escaped_ms: Latency of the packets that escaped.
        latency_during_ms: Latency during the fault, after the reaction if there was one.
        latency_after_ms: Latency after the return to the minimal path.
    """

    link: str
    kind: str
    start_s: float
    stop_s: float
    port_status_s: float | None
    sent: int
    lost: int
    lost_s: float
    lost_after_reroute: int
    escaped: int
    first_escape_s: float | None
    detected_s: dict[str, float]
    marked_by: str | None
    reconfigured_s: float | None
    returned_s: float | None
    probes: int
    latency_before_ms: Latency
    latency_escaped_ms: Latency
    latency_during_ms: Latency
    latency_after_ms: Latency


@dataclass(frozen=True, kw_only=True)
class MessageDeliveries:
    """The fate of every message, whichever copy of it arrived, shape (messages,).

    Attributes:
        sent_s: When each was sent.
        arrived_s: When it first arrived; nan if it never did.
        path: The number of the path over which it was sent.
        escaped: Whether it left this path at a dead link.
    """

    sent_s: FloatArray
    arrived_s: FloatArray
    path: IntArray
    escaped: BoolArray

    @property
    def lost(self) -> BoolArray:
        """A mask of the messages that never arrived."""
        return np.isnan(self.arrived_s)

    @property
    def latency_ms(self) -> FloatArray:
        """The time from sending to arrival; nan if the message never arrived."""
        return np.asarray((self.arrived_s - self.sent_s) * 1e3)

    def sent_in(self, start_s: float, stop_s: float) -> BoolArray:
        """Return a mask of the messages sent from ``start_s`` on and before ``stop_s``."""
        return np.asarray((self.sent_s >= start_s) & (self.sent_s < stop_s))


class MetapathFacts:
    """Facts of one run of one plan, each computed once.

    While several faults are active, a lost packet is counted for the one that began last.
    """

    def __init__(self, plan: MetapathPlan, run: MetapathRun) -> None:
        self.plan = plan
        self.run = run

    @cached_property
    def deliveries(self) -> MessageDeliveries:
        """The fate of every message."""
        return message_deliveries(self.run)

    @property
    def messages(self) -> int:
        """The number of messages that were sent."""
        return len(self.deliveries.sent_s)

    @cached_property
    def known(self) -> LabelledPaths | None:
        """The paths of FT-DRB; None for another routing."""
        if self.plan.routing != "ft-drb":
            return None
        return labelled_paths(self.plan.network, self.plan.source, self.plan.sink)

    @cached_property
    def longest_path_s(self) -> float:
        """The propagation delay of the longest path that packets may take."""
        plan = self.plan
        network = plan.network
        if plan.routing == "recomputed":
            _, forward, _ = splits_of(network, plan.source, plan.sink)
            return max(path_delay_s(network, path.links) for path in forward.paths)
        paths: Sequence[Sequence[LinkId]] = [static_routing(network)(plan.source, plan.sink)]
        if self.known is not None:
            paths = self.known.paths
        delays_s = []
        for path in paths:
            delays_s.append(path_delay_s(network, [network.link_index[link] for link in path]))
        return max(delays_s)

    def meeting(self, faults: Iterable[FaultTimes]) -> BoolArray:
        """Return a mask of the messages that one of the faults may have affected."""
        sent_s = self.deliveries.sent_s
        before_s = UNDER_WAY_S + self.longest_path_s
        return near_faults(sent_s, faults, before_s=before_s, after_s=UNDER_WAY_S)

    @cached_property
    def faults(self) -> tuple[FaultOutcome, ...]:
        """The effect of every fault; it lasts until the next fault after its episode begins."""
        return tuple(_outcome(self, times) for times in self.run.faults)

    @cached_property
    def _outside(self) -> BoolArray:
        """A mask of the messages that no fault can have affected."""
        return ~self.meeting(self.run.faults)

    @property
    def sent_outside(self) -> int:
        """The number of messages that no fault can have affected."""
        return int(self._outside.sum())

    @property
    def lost_outside(self) -> int:
        """The number of these that were lost."""
        return int((self.deliveries.lost & self._outside).sum())


def path_delay_s(network: Network, links: Iterable[int]) -> float:
    """Return the propagation delay of a path, given the indices of its links."""
    return sum(network.links[index].delay_s for index in links)


def message_deliveries(run: MetapathRun) -> MessageDeliveries:
    """Return the fate of every message.

    Raises:
        ValueError: A datagram carries a message that was never sent.
    """
    sent = run.sent
    received = run.received
    original = sent.copy == 0
    messages = np.arange(int(original.sum()))
    if not np.isin(sent.message, messages).all():
        raise ValueError("a datagram carries a message that was never sent")
    was_sent = np.isin(received.number, np.arange(len(sent.time_s)))
    number = received.number[was_sent]
    escaped = np.zeros(len(sent.time_s), dtype=np.bool_)
    escaped[number[received.dead_link[was_sent] >= 0]] = True
    sent_s = sent.time_s[original]
    fates = packet_deliveries(messages, sent_s, sent.message[number], received.time_s[was_sent])
    return MessageDeliveries(
        sent_s=sent_s,
        arrived_s=fates.arrived_s,
        path=sent.path[original],
        escaped=escaped[original],
    )


def episode_of(times: FaultTimes, faults: Sequence[FaultTimes]) -> tuple[FaultTimes, ...]:
    """Return the faults that are connected to this one by overlaps, in the order of their start.

    >>> from testbed.stream.plan import Fault
    >>> faults = []
    >>> for a, b in ((1, 2), (1.5, 3), (2.5, 4), (5, 6)):
    ...     fault = Fault(link=("a", "b", 0), start_s=a, stop_s=b)
    ...     faults.append(FaultTimes(fault=fault, start_s=a, stop_s=b))
    >>> len(episode_of(faults[0], faults)), len(episode_of(faults[3], faults))
    (3, 1)
    """
    episode: list[FaultTimes] = []
    for fault_times in sorted(faults, key=lambda fault_times: fault_times.start_s):
        if episode and fault_times.start_s >= max(member.stop_s for member in episode):
            if times in episode:
                break
            episode = []
        episode.append(fault_times)
    return tuple(episode)


def _outcome(facts: MetapathFacts, times: FaultTimes) -> FaultOutcome:
    """Return the effect of a fault."""
    episode = episode_of(times, facts.run.faults)
    return _OutcomeOfFault(facts, times, episode).outcome()


class _OutcomeOfFault:
    """Computes the effect of one fault of an episode."""

    def __init__(
        self,
        facts: MetapathFacts,
        times: FaultTimes,
        episode: Sequence[FaultTimes],
    ) -> None:
        self._facts = facts
        self._times = times
        self._deliveries = facts.deliveries
        run = facts.run
        start_s = times.start_s
        stop_s = times.stop_s
        cable = cable_number(facts.plan.network, times.fault.link)
        episode_stop_s = max(member.stop_s for member in episode)
        # The start of the next fault after the episode.
        self._end_s = facts.plan.duration_s
        for other in run.faults:
            if other.start_s >= episode_stop_s:
                self._end_s = min(self._end_s, other.start_s)
        self._during = self._deliveries.sent_in(start_s, stop_s)
        # A packet that two faults may have affected counts for the one that began later.
        self._affected = facts.meeting([times])
        for other in episode:
            if (other.start_s, other.fault.link) > (start_s, times.fault.link):
                self._affected &= ~facts.meeting([other])
        overlapped = len(episode) > 1
        self._reconfigured_at_s = _avoids_cable_from(facts, times, overlapped)
        self._probes = _probes(facts, cable, self._reconfigured_at_s, stop_s)
        self._after_reroute = np.zeros_like(self._during)
        if self._reconfigured_at_s is not None:
            self._after_reroute = self._during & (
                self._deliveries.sent_s >= self._reconfigured_at_s
            )
        if overlapped:
            self._after_reroute &= self._affected & _avoiding_all(facts, episode)
        self._returned_at_s = _changed_at(run, stop_s, self._end_s, _begins_with_minimal_path)
        self._escaped = self._deliveries.escaped & self._deliveries.sent_in(
            start_s - UNDER_WAY_S, self._end_s
        )
        self._events = [
            event
            for event in run.events
            if event.cable == cable and start_s - UNDER_WAY_S <= event.at_s < stop_s
        ]

    def outcome(self) -> FaultOutcome:
        """Return the figures of the fault."""
        times = self._times
        start_s = times.start_s
        deliveries = self._deliveries
        lost = int((deliveries.lost & self._affected).sum())
        first_escape_s = None
        if self._escaped.any():
            first_escape_s = float(deliveries.sent_s[self._escaped].min() - start_s)
        during = self._during
        if self._reconfigured_at_s is not None:
            during = self._after_reroute
        return_s = times.stop_s
        if self._returned_at_s is not None:
            return_s = self._returned_at_s
        before = deliveries.sent_in(start_s - _BASELINE_S, start_s)
        return FaultOutcome(
            link=label_of(times.fault.link),
            kind=times.fault.kind,
            start_s=start_s,
            stop_s=times.stop_s,
            port_status_s=_after(times.port_status_s, start_s),
            sent=int(self._during.sum()),
            lost=lost,
            lost_s=lost / self._facts.plan.rate_pps,
            lost_after_reroute=int((deliveries.lost & self._after_reroute).sum()),
            escaped=int(self._escaped.sum()),
            first_escape_s=first_escape_s,
            detected_s=self._detected_s(),
            marked_by=self._marked_by(),
            reconfigured_s=_after(self._reconfigured_at_s, start_s),
            returned_s=_after(self._returned_at_s, times.stop_s),
            probes=self._probes,
            latency_before_ms=self._latency_ms(before),
            latency_escaped_ms=self._latency_ms(self._escaped),
            latency_during_ms=self._latency_ms(during & ~deliveries.escaped),
            latency_after_ms=self._latency_ms(deliveries.sent_in(return_s, self._end_s)),
        )

    def _detected_s(self) -> dict[str, float]:
        """Return the time of the first notification by each cause, after the start of the fault."""
        detected_s: dict[str, float] = {}
        # Backwards, so that the first notification of a cause remains.
        for event in reversed(self._events):
            if event.kind == "notified":
                detected_s[event.cause] = event.at_s - self._times.start_s
        return detected_s

    def _marked_by(self) -> str | None:
        for event in self._events:
            if event.kind == "marked":
                return event.cause
        return None

    def _latency_ms(self, messages: BoolArray) -> Latency:
        return latency_of(self._deliveries.latency_ms[messages])


def _after(at_s: float | None, start_s: float) -> float | None:
    """Return a time relative to a start, or None."""
    if at_s is None:
        return None
    return at_s - start_s


def _begins_with_minimal_path(paths: tuple[int, ...]) -> bool:
    return paths[:1] == (0,)


def _avoids_cable_from(facts: MetapathFacts, times: FaultTimes, overlapped: bool) -> float | None:
    """Return when packets began to avoid the fault's cable; None for never.

    If faults overlap, the paths in use may avoid the cable already when the fault begins. The
    result is then the start of the fault.
    """
    cable = cable_number(facts.plan.network, times.fault.link)
    known = facts.known

    def avoid_cable(paths: Sequence[int]) -> bool:
        return known is not None and not any(cable in known.cables[path] for path in paths)

    if overlapped:
        paths_in_use: tuple[int, ...] = (0,)
        for event in facts.run.events:
            if event.kind == "configured" and event.at_s < times.start_s:
                paths_in_use = event.paths
        if avoid_cable(paths_in_use):
            return times.start_s
    return _changed_at(facts.run, times.start_s, times.stop_s, avoid_cable)


def _avoiding_all(facts: MetapathFacts, episode: Sequence[FaultTimes]) -> BoolArray:
    """Return a mask of the messages sent while packets avoided the cables of all active faults."""
    deliveries = facts.deliveries
    avoiding = np.ones(len(deliveries.sent_s), dtype=np.bool_)
    for times in episode:
        avoided_from_s = _avoids_cable_from(facts, times, overlapped=True)
        if avoided_from_s is None:
            avoided_from_s = times.stop_s
        avoiding &= ~deliveries.sent_in(times.start_s, avoided_from_s)
    return avoiding


def _changed_at(
    run: MetapathRun,
    since_s: float,
    until_s: float,
    accepts: Callable[[tuple[int, ...]], bool],
) -> float | None:
    """Return when the routing changed in an interval; None for never.

    This is when switches had applied new rules, or when the source configured accepted paths.

    Args:
        run: The measurements.
        since_s: Start of the interval.
        until_s: End of the interval.
        accepts: Returns whether configured paths count.
    """
    for change in run.rerouted:
        if since_s <= change.notified_s < until_s:
            return change.done_s
    for event in run.events:
        in_time = since_s <= event.at_s < until_s
        if event.kind == "configured" and in_time and accepts(event.paths):
            return event.at_s
    return None


def _probes(facts: MetapathFacts, cable: int, since_s: float | None, stop_s: float) -> int:
    """Return the number of packets that tested a cable, after packets began to avoid it."""
    if facts.known is None or since_s is None:
        return 0
    sent = facts.run.sent
    crosses_cable = np.array([cable in cables for cables in facts.known.cables])
    while_avoided = (sent.time_s > since_s) & (sent.time_s < stop_s)
    return int((crosses_cable[sent.path] & while_avoided).sum())


def latency_of(latency_ms: FloatArray) -> Latency:
    """Return median and 95th percentile, rounded to microseconds; nan values are ignored."""
    arrived_ms = latency_ms[~np.isnan(latency_ms)]
    if not len(arrived_ms):
        return None
    return round(float(np.median(arrived_ms)), 3), round(float(np.percentile(arrived_ms, 95)), 3)


def fault_timeline(
    messages: MessageDeliveries,
    start_s: float,
    end_s: float,
) -> dict[str, list[float] | list[int] | list[float | None]]:
    """Return the figures of a stream around a fault, in bins of 20 ms.

    Args:
        messages: The fate of every message.
        start_s: When the fault became active; the first bin begins 0.3 s earlier.
        end_s: End of the last bin.

    Returns:
        Lists with one value per bin: ``t_s`` is the start of the bin after that of the fault;
        ``sent``, ``lost``, ``escaped`` and ``diverted`` (not on the first path) are numbers of
        messages; ``latency_ms`` is the median and ``slow_ms`` the 95th percentile of the latency,
        None if no message arrived.
    """
    # The small terms keep messages at the edge of a bin in the right bin despite rounding.
    count = int((end_s - start_s + BEFORE_S) / BIN_S + 1e-9)
    begin_s = start_s - BEFORE_S - 1e-9 * BIN_S
    bins = TimeBins(messages.sent_s, start_s=begin_s, bin_s=BIN_S, count=count)
    median_ms: list[float | None] = []
    slow_ms: list[float | None] = []
    for k in range(count):
        latency = latency_of(messages.latency_ms[bins.index == k])
        if latency is None:
            median_ms.append(None)
            slow_ms.append(None)
        else:
            median_ms.append(latency[0])
            slow_ms.append(latency[1])
    return {
        "t_s": [round(k * BIN_S - BEFORE_S, 6) for k in range(count)],
        "sent": bins.counts(),
        "lost": bins.counts(messages.lost),
        "escaped": bins.counts(messages.escaped),
        "diverted": bins.counts(messages.path != 0),
        "latency_ms": median_ms,
        "slow_ms": slow_ms,
    }


def path_shares(run: MetapathRun, since_s: float) -> list[JsonObject]:
    """Return the share and the mean latency of each path, for the packets sent from a time on.

    The predicted share follows from the latencies (Zarza 2011, equation 3.8).

    Args:
        run: The measurements.
        since_s: Packets sent earlier are not counted.

    Returns:
        One object per path on which packets arrived.
    """
    sent_path = run.sent.path
    counted = run.sent.time_s >= since_s
    latency_ms = run.deliveries.transit_s * 1e3
    arrived = counted & ~np.isnan(latency_ms)
    mean_ms: dict[int, float] = {}
    for path in np.unique(sent_path[arrived]):
        mean_ms[int(path)] = float(latency_ms[arrived & (sent_path == path)].mean())
    if not mean_ms:
        return []
    predicted = metapath_bandwidth(list(mean_ms.values()))
    rows: list[JsonObject] = []
    for (path, mean), predicted_share in zip(mean_ms.items(), predicted, strict=True):
        share = float((counted & (sent_path == path)).sum() / counted.sum())
        row = {"path": path, "share": share, "latency_ms": mean, "predicted_share": predicted_share}
        rows.append(row)
    return rows
