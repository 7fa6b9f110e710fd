"""From the logs of a plain stream to what each fault did to it: packets lost, who noticed when, latency before, during,
after."""

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
from topologies import JsonObject, label_of
from topologies.routing_tables import static_routing

# Beside propagation, a packet sent this long before a fault may still meet it.
UNDER_WAY_S = 0.05
BIN_S, BEFORE_S, AFTER_S = 0.02, 0.3, 0.5
"""Of a fault's timeline, which is so much longer than the fault on either side."""
Latency = tuple[float, float] | None
"""(median, 95th percentile) in milliseconds; None without packets."""


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """What one fault did. Times in seconds after the fault was in force (``returned_s``: after it was repaired); None:
    never.

    ``lost``: messages of which nothing arrived, of ``sent`` during the fault; ``lost_s``: the time that they are worth
    at the stream's rate. ``lost_after_reroute``: those sent after the source or the controller had reconfigured. ``escaped``:
    packets that left their path at the dead link, the first sent at ``first_escape_s``. ``detected_s``: when each cause
    was first learned of, of this cable (``marked_by`` too). ``reconfigured_s``: from then on packets kept off the link.
    ``probes``: packets that tried it meanwhile.
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
        """Whether each message never arrived."""
        return np.isnan(self.arrived_s)

    @property
    def latency_ms(self) -> FloatArray:
        """The time from sending to arrival; nan if it never arrived."""
        return np.asarray((self.arrived_s - self.sent_s) * 1e3)

    def sent_in(self, start_s: float, stop_s: float) -> BoolArray:
        """Those sent from ``start_s`` on and before ``stop_s``."""
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
        """The propagation of the longest path that packets may take."""
        plan = self.plan
        network = plan.network
        if self.known is not None:
            paths = [[network.link(*link) for link in path] for path in self.known.paths]
        elif plan.routing == "recomputed":
            _, forward, _ = splits_of(network, plan.source, plan.sink)
            paths = [[network.links[index] for index in path.links] for path in forward.paths]
        else:
            route = static_routing(network)(plan.source, plan.sink)
            paths = [[network.link(*link) for link in route]]
        return max(sum(link.delay_s for link in path) for path in paths)

    def meeting(self, faults: Iterable[FaultTimes]) -> BoolArray:
        """Return a mask of the messages that one of the faults may have affected."""
        sent_s = self.deliveries.sent_s
        before_s = UNDER_WAY_S + self.longest_path_s
        return near_faults(sent_s, faults, before_s=before_s, after_s=UNDER_WAY_S)

    @cached_property
    def faults(self) -> tuple[FaultOutcome, ...]:
        """The figures of every fault; each counts until the next one begins that does not overlap it."""
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


def message_deliveries(run: MetapathRun) -> MessageDeliveries:
    """Return the fate of every message.

    Raises:
        ValueError: A datagram carries a message that was never sent.
    """
    sent, received = run.sent, run.received
    original = sent.copy == 0
    messages = np.arange(int(original.sum()))
    if not np.isin(sent.message, messages).all():
        raise ValueError("a datagram carries a message that was never sent")
    known = np.isin(received.number, np.arange(len(sent.time_s)))
    number = received.number[known]
    escaped = np.zeros(len(sent.time_s), dtype=np.bool_)
    escaped[number[received.dead_link[known] >= 0]] = True
    sent_s = sent.time_s[original]
    fates = packet_deliveries(messages, sent_s, sent.message[number], received.time_s[known])
    return MessageDeliveries(
        sent_s=sent_s,
        arrived_s=fates.arrived_s,
        path=sent.path[original],
        escaped=escaped[original],
    )


def episode_of(times: FaultTimes, faults: Sequence[FaultTimes]) -> tuple[FaultTimes, ...]:
    """The faults that are joined to this one by overlaps, itself included, by their beginning.

    >>> from testbed.stream.plan import Fault
    >>> made = [FaultTimes(fault=Fault(link=("a", "b", 0), start_s=a, stop_s=b), start_s=a, stop_s=b)
    ...         for a, b in ((1, 2), (1.5, 3), (2.5, 4), (5, 6))]
    >>> len(episode_of(made[0], made)), len(episode_of(made[3], made))
    (3, 1)
    """
    joined: list[FaultTimes] = []
    for each in sorted(faults, key=lambda t: t.start_s):
        if joined and each.start_s >= max(t.stop_s for t in joined):
            if times in joined:
                break
            joined = []
        joined.append(each)
    return tuple(joined)


def _outcome(facts: MetapathFacts, times: FaultTimes) -> FaultOutcome:
    plan, run, deliveries = facts.plan, facts.run, facts.deliveries
    start, stop = times.start_s, times.stop_s
    episode = episode_of(times, run.faults)
    end_s = min(
        (t.start_s for t in run.faults if t.start_s >= max(e.stop_s for e in episode)),
        default=plan.duration_s,
    )
    meets, during = facts.meeting([times]), deliveries.sent_in(start, stop)
    for other in episode:
        if (other.start_s, other.fault.link) > (start, times.fault.link):
            meets &= ~facts.meeting([other])
    cable = cable_number(plan.network, times.fault.link)
    back_s = _off_the_cable_at(facts, times, len(episode) > 1)
    later = during & (deliveries.sent_s >= (np.inf if back_s is None else back_s))
    if len(episode) > 1:
        later &= meets & _settled(facts, episode)
    returned = _changed_at(run, stop, end_s, lambda paths: paths[:1] == (0,))
    own = [e for e in run.events if start - UNDER_WAY_S <= e.at_s < stop and e.cable == cable]
    escaping = deliveries.escaped & deliveries.sent_in(start - UNDER_WAY_S, end_s)
    detected_s = {
        e.cause: e.at_s - start for e in reversed(own) if e.kind == "notified"
    }  # the first of each cause
    on_cable = _probing(facts, cable, back_s, stop)
    lost = int((deliveries.lost & meets).sum())

    def latency_ms(of: BoolArray) -> Latency:
        return latency_of(deliveries.latency_ms[of])

    return FaultOutcome(
        link=label_of(times.fault.link),
        kind=times.fault.kind,
        start_s=start,
        stop_s=stop,
        port_status_s=None if times.port_status_s is None else times.port_status_s - start,
        sent=int(during.sum()),
        lost=lost,
        lost_s=lost / plan.rate_pps,
        lost_after_reroute=int((deliveries.lost & later).sum()),
        escaped=int(escaping.sum()),
        first_escape_s=float(deliveries.sent_s[escaping].min() - start) if escaping.any() else None,
        detected_s=detected_s,
        marked_by=next((e.cause for e in own if e.kind == "marked"), None),
        reconfigured_s=None if back_s is None else back_s - start,
        returned_s=None if returned is None else returned - stop,
        probes=on_cable,
        latency_before_ms=latency_ms(deliveries.sent_in(start - 1.0, start)),
        latency_escaped_ms=latency_ms(escaping),
        latency_during_ms=latency_ms((during if back_s is None else later) & ~deliveries.escaped),
        latency_after_ms=latency_ms(
            deliveries.sent_in(stop if returned is None else returned, end_s)
        ),
    )


def _off_the_cable_at(facts: MetapathFacts, times: FaultTimes, overlapped: bool) -> float | None:
    """When packets began to keep off the fault's cable; where faults overlap, its beginning if the paths in use did
    already."""
    cable = cable_number(facts.plan.network, times.fault.link)
    known, run = facts.known, facts.run

    def keep_off(paths: Sequence[int]) -> bool:
        return known is not None and not any(cable in known.cables[k] for k in paths)

    if overlapped:
        used = [e.paths for e in run.events if e.kind == "configured" and e.at_s < times.start_s]
        if keep_off(used[-1] if used else (0,)):
            return times.start_s
    return _changed_at(run, times.start_s, times.stop_s, keep_off)


def _settled(facts: MetapathFacts, episode: Sequence[FaultTimes]) -> BoolArray:
    """Return a mask of the messages that were sent when packets kept off the cables of all active faults."""
    deliveries = facts.deliveries
    settled = np.ones(len(deliveries.sent_s), dtype=np.bool_)
    for times in episode:
        back_s = _off_the_cable_at(facts, times, True)
        settled &= ~deliveries.sent_in(times.start_s, times.stop_s if back_s is None else back_s)
    return settled


def _changed_at(
    run: MetapathRun, since_s: float, until_s: float, is_so: Callable[[tuple[int, ...]], bool]
) -> float | None:
    """When new rules were in force, or a metapath was configured of which that is so."""
    for change in run.rerouted:
        if since_s <= change.notified_s < until_s:
            return change.done_s
    configured = (e for e in run.events if e.kind == "configured" and since_s <= e.at_s < until_s)
    return next((event.at_s for event in configured if is_so(event.paths)), None)


def _probing(facts: MetapathFacts, cable: int, since_s: float | None, stop_s: float) -> int:
    """Return how many packets were sent over the cable on purpose while it was known to be dead."""
    known, run = facts.known, facts.run
    if known is None or since_s is None:
        return 0
    over = np.array([cable in cables for cables in known.cables])
    while_dead = (run.sent.time_s > since_s) & (run.sent.time_s < stop_s)
    return int((over[run.sent.path] & while_dead).sum())


def latency_of(latency_ms: FloatArray) -> Latency:
    """Median and 95th percentile of those that are no nan, to the microsecond."""
    there = latency_ms[~np.isnan(latency_ms)]
    if not len(there):
        return None
    return round(float(np.median(there)), 3), round(float(np.percentile(there, 95)), 3)


def fault_timeline(
    messages: MessageDeliveries, start_s: float, end_s: float
) -> dict[str, list[float] | list[int] | list[float | None]]:
    """Bins of 20 ms from 0.3 s before a fault that began at ``start_s``. ``t_s``: begin of each after the fault;
    ``sent``, ``lost``, ``escaped``, ``diverted`` (not on the first path): messages; ``latency_ms``: the median,
    ``slow_ms`` the 95th percentile of what arrived (None: nothing)."""
    count = int((end_s - start_s + BEFORE_S) / BIN_S + 1e-9)
    begin_s = start_s - BEFORE_S - 1e-9 * BIN_S
    bins = TimeBins(messages.sent_s, start_s=begin_s, bin_s=BIN_S, count=count)
    latencies = [
        latency_of(messages.latency_ms[bins.index == k]) or (None, None) for k in range(count)
    ]
    return {
        "t_s": [round(k * BIN_S - BEFORE_S, 6) for k in range(count)],
        "sent": bins.counts(),
        "lost": bins.counts(messages.lost),
        "escaped": bins.counts(messages.escaped),
        "diverted": bins.counts(messages.path != 0),
        "latency_ms": [middle for middle, _ in latencies],
        "slow_ms": [slow for _, slow in latencies],
    }


def path_shares(run: MetapathRun, since_s: float) -> list[JsonObject]:
    """Of the packets sent from ``since_s`` on, by path number: how many went that way, their mean latency, and the
    share that Zarza 2011, eq. 3.8, gives such latencies; empty where none arrived."""
    late = run.sent.time_s >= since_s
    latency_ms = run.deliveries.transit_s * 1e3
    arrived = late & ~np.isnan(latency_ms)
    used = {
        int(path): float(latency_ms[arrived & (run.sent.path == path)].mean())
        for path in np.unique(run.sent.path[arrived])
    }
    predicted = metapath_bandwidth(list(used.values())) if used else ()
    return [
        {
            "path": path,
            "share": float((late & (run.sent.path == path)).sum() / late.sum()),
            "latency_ms": latency,
            "predicted_share": share,
        }
        for (path, latency), share in zip(used.items(), predicted, strict=True)
    ]
