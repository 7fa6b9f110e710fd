"""Broken and impaired links, and the labels that they lose, between one change and the next.

Faults may overlap, and nodes may move. The prediction is exact for switches: a label is lost if its
path crosses a broken link, so that several failures lose the union of their labels. For a sender
that diagnoses, the module also lists everything that may break.
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from fec import fec_block_size
from fec.redundancy.block_size import block_size_of_order
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from fec.redundancy.labels import merge_intervals
from testbed.faults.fault import ChangeTimes, Fault, FaultTimes, overlapping
from testbed.model.label_split import LABELS, Interval, LabelSplit
from testbed.stream.measurements import FloatArray
from testbed.stream.plan import StreamPlan
from topologies import LinkId, Network, reverse_of
from topologies.impairments import Impairments, mean_loss

# One label in each half of the label space: every loss report is sent over both return paths.
RETURN_LABELS = (16384, 49152)
#: The links that lose packets: (link index, fraction of its packets that is lost).
Broken = frozenset[tuple[int, float]]
# A value for "no N is sufficient", because every label is lost.
NEVER = 1 << 30
# Name of the sender's counter that lists its diagnoses, each with its time.
DIAGNOSES = "diagnoses"

# The order of changes at one moment.
_LINKS_CHANGE = 0
_FAULT_ENDS = 1
_FAULT_BEGINS = 2
_RULES_CHANGE = 3
_PLAN_ENDS = 4


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """A time in which nothing changes.

    Attributes:
        start_s: Its beginning.
        stop_s: Its end.
        split: The index of the label split in ``StreamPlan.splits``.
        broken: The links that lose packets.
        loss: The fraction of the stream's packets that is lost.
        needed: The required N: the smallest with which M packets of every block arrive, or for
            random labels N by eq. 25. NEVER if no N is sufficient. A link that loses some packets
            at random counts as if it lost all.
        reports_cut: True if no loss report gets back.
        faults: How many faults are active on links that carry labels.
    """

    start_s: float
    stop_s: float
    split: int
    broken: Broken
    loss: float
    needed: int
    reports_cut: bool
    faults: int

    @property
    def lasts_s(self) -> float:
        """The duration in seconds."""
        return self.stop_s - self.start_s

    def continues(self, earlier: "Epoch") -> bool:
        """Return whether this epoch differs from an earlier one in its time only."""
        return replace(self, start_s=0.0, stop_s=0.0) == replace(earlier, start_s=0.0, stop_s=0.0)


def path_losses(split: LabelSplit, broken: Broken) -> FloatArray:
    """Return the probability that a packet on each path of the split is lost, shape (paths,)."""
    lost = dict(broken)
    retained = np.ones(len(split.paths))
    for number, path in enumerate(split.paths):
        for link in path.links:
            if link in lost:
                retained[number] *= 1 - lost[link]
    return 1 - retained


def share_lost(split: LabelSplit, broken: Broken) -> float:
    """Return the share of a split's packets that the broken links lose."""
    widths = np.array([path.stop - path.start for path in split.paths])
    return float((path_losses(split, broken) * widths).sum() / LABELS)


def mean_share_lost(split: LabelSplit, broken: Broken) -> float:
    """Return the mean share of a split's packets that broken and impaired links lose.

    Packets dropped at the full queue of a rate trace are not counted.
    """
    losses = dict(broken)
    for index, link in enumerate(split.network.links):
        impaired = mean_loss(link.impaired_by)
        if impaired > 0:
            losses[index] = 1 - (1 - losses.get(index, 0.0)) * (1 - impaired)
    return share_lost(split, frozenset(losses.items()))


def lost_intervals(split: LabelSplit, broken: Broken) -> tuple[Interval, ...]:
    """Return the label intervals of which packets are lost: the union over the broken links.

    Adjacent intervals are merged.

    >>> from topologies import load_network
    >>> from testbed.routing import route_by_name
    >>> from testbed.routing.label_split.spraying import spray
    >>> split = spray(route_by_name(load_network("ring:4"), "s0", "s2", "capillary"))
    >>> lost_intervals(split, frozenset())
    ()
    """
    losses = zip(split.paths, path_losses(split, broken), strict=True)
    return merge_intervals((path.start, path.stop) for path, loss in losses if loss > 0)


def _failed(links: Iterable[int]) -> Broken:
    """Return the links, each with a loss of 1."""
    return frozenset((link, 1.0) for link in links)


def planned_epochs(plan: StreamPlan) -> tuple[Epoch, ...]:
    """Return the epochs of the plan if faults and changes happen exactly at their planned times."""
    faults = []
    for fault in plan.faults:
        faults.append(FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s))
    changes = []
    for change in plan.changes:
        at_once = ChangeTimes(
            began_s=change.at_s,
            links_s=change.at_s,
            switch_start_s=change.at_s,
            switch_stop_s=change.at_s,
            done_s=change.at_s,
        )
        changes.append(at_once)
    return epochs(plan, faults, changes)


def joined_epochs(plan: StreamPlan, course: Sequence[Epoch], transit_s: float) -> tuple[Epoch, ...]:
    """Return additional epochs for packets that are in transit from one epoch to a later one.

    Such a packet may cross one link in the first epoch and another link in a later one. A joined
    epoch therefore has the broken links of all these epochs. It consists of the times at which such
    packets are sent.

    Args:
        plan: The plan of the stream.
        course: All epochs, in order.
        transit_s: The longest transit time.
    """
    state = _NetworkState(plan)
    joined = []
    for number, first in enumerate(course):
        broken = dict(first.broken)
        for last in course[number + 1 :]:
            start_s = max(first.start_s, last.start_s - transit_s)
            if start_s >= first.stop_s or last.split != first.split:
                break
            for link, loss in last.broken:
                broken[link] = max(loss, broken.get(link, 0.0))
            joined.append(state.joined(first, start_s, frozenset(broken.items())))
    return tuple(joined)


class _Moment(NamedTuple):
    """A change of the network at one time.

    Attributes:
        at_s: The time.
        order: Rank among changes at the same time; the lowest comes first.
        act: Applies the change to the state.
    """

    at_s: float
    order: int
    act: Callable[[], None]


def epochs(
    plan: StreamPlan,
    faults: Iterable[FaultTimes],
    changes: Sequence[ChangeTimes],
) -> tuple[Epoch, ...]:
    """Return all epochs of a run, in order, without gaps from 0 to the plan's end.

    Cost: for each epoch, one pass over the paths, and one over the labels if packets are lost.
    Equal states are computed once.
    """
    state = _NetworkState(plan)
    moments = _moments(plan, state, faults, changes)
    course: list[Epoch] = []
    at_s = 0.0
    for moment in sorted(moments, key=lambda moment: moment[:2]):
        until_s = min(max(moment.at_s, 0.0), plan.duration_s)
        if until_s > at_s:
            epoch = state.epoch(at_s, until_s)
            if course and epoch.continues(course[-1]):
                epoch = replace(epoch, start_s=course.pop().start_s)
            course.append(epoch)
            at_s = until_s
        moment.act()
    return tuple(course)


def _moments(
    plan: StreamPlan,
    state: "_NetworkState",
    faults: Iterable[FaultTimes],
    changes: Sequence[ChangeTimes],
) -> list[_Moment]:
    """Return everything that changes the state of the network, and the end of the plan."""
    moments = [_Moment(plan.duration_s, _PLAN_ENDS, lambda: None)]
    for times in faults:
        begin = partial(state.count_fault, times.fault, 1)
        end = partial(state.count_fault, times.fault, -1)
        moments.append(_Moment(times.start_s, _FAULT_BEGINS, begin))
        moments.append(_Moment(times.stop_s, _FAULT_ENDS, end))
    for number, (change, when) in enumerate(zip(plan.changes, changes, strict=False), start=1):
        vanish = partial(state.count_absent, change.vanished, 1)
        appear = partial(state.count_absent, change.appeared, -1)
        switch = partial(state.use_split, number)
        moments.append(_Moment(when.links_s, _LINKS_CHANGE, vanish))
        moments.append(_Moment(when.began_s, _LINKS_CHANGE, appear))
        moments.append(_Moment(when.switch_stop_s, _RULES_CHANGE, switch))
    return moments


class _NetworkState:
    """The split, the faults and the absent links at one moment.

    Faults are counted, so that those that overlap end one by one.
    """

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._index = plan.network.link_index
        self._split = 0
        self._failures: Counter[int] = Counter()
        self._partial_losses: Counter[tuple[int, float]] = Counter()
        self._faults: Counter[Fault] = Counter()
        self._described = cache(self._describe)
        self.count_absent(plan.absent, 1)

    def count_absent(self, links: Iterable[LinkId], step: int) -> None:
        """Add links that are absent, or with a step of -1 remove them."""
        for link in links:
            self._failures[self._index[link]] += step

    def count_fault(self, fault: Fault, step: int) -> None:
        """Add an active fault, or with a step of -1 remove it."""
        self._faults[fault] += step
        for link in faulty_links(self._plan.network, fault):
            if fault.partial:
                self._partial_losses[link, fault.loss_fraction] += step
            else:
                self._failures[link] += step

    def use_split(self, number: int) -> None:
        """Send by the split of this number from now on."""
        self._split = number

    def epoch(self, start_s: float, stop_s: float) -> Epoch:
        """Return the present state as an epoch."""
        broken = self._broken()
        loss, needed, reports_cut = self._described(self._split, broken)
        return Epoch(
            start_s=start_s,
            stop_s=stop_s,
            split=self._split,
            broken=broken,
            loss=loss,
            needed=needed,
            reports_cut=reports_cut,
            faults=self._active_faults(),
        )

    def joined(self, first: Epoch, start_s: float, broken: Broken) -> Epoch:
        """Return a copy of an epoch that begins at ``start_s`` and has these broken links.

        Loss reports are assumed to arrive, because the part is no longer than a transit time.
        """
        loss, needed, _ = self._described(first.split, broken)
        return replace(
            first, start_s=start_s, broken=broken, loss=loss, needed=needed, reports_cut=False
        )

    def _broken(self) -> Broken:
        """Return the links that lose packets now."""
        retained: dict[int, float] = {}
        for (link, fraction), count in self._partial_losses.items():
            if count > 0:
                retained[link] = retained.get(link, 1.0) * (1 - fraction) ** count
        losses = {link: 1 - share for link, share in retained.items()}
        for link, count in self._failures.items():
            if count > 0:
                losses[link] = 1.0
        return frozenset(losses.items())

    def _active_faults(self) -> int:
        """Return the number of active faults on links that carry labels."""
        loaded = set(self._plan.splits[self._split].loaded)
        active = 0
        for fault, count in self._faults.items():
            links = faulty_links(self._plan.network, fault)
            if count > 0 and loaded.intersection(links):
                active += 1
        return active

    def _describe(self, number: int, broken: Broken) -> tuple[float, int, bool]:
        """Return the loss, the N that is needed, and whether all reports are cut."""
        loss = share_lost(self._plan.splits[number], broken)
        needed = self._needed(number, broken, loss)
        change = self._plan.changes[number - 1] if number else self._plan
        backward = change.backward
        losses = path_losses(backward, broken)
        starts = [path.start for path in backward.paths]
        for label in RETURN_LABELS:
            if losses[bisect.bisect_right(starts, label) - 1] < 1:
                return loss, needed, False
        return loss, needed, True

    def _needed(self, number: int, broken: Broken, loss: float) -> int:
        stream = self._plan.stream
        m = stream.source_packets
        hit = lost_intervals(self._plan.splits[number], broken)
        if not hit:
            return m
        if labels_in(hit) == LABELS:
            return NEVER
        if stream.labels == "random":
            return fec_block_size(m, round(min(loss, 0.9), 4), stream.decoding_error_rate)
        return block_size_of_order(hit, m, stream.label_rule) or NEVER


def labels_in(intervals: Iterable[Interval]) -> int:
    """Return the number of labels in intervals that do not overlap."""
    return sum(stop - start for start, stop in intervals)


def faulty_links(network: Network, fault: Fault) -> list[int]:
    """Return the indices of the directed links that the fault breaks."""
    directions = [fault.link]
    if fault.direction == "both":
        directions.append(reverse_of(fault.link))
    return [network.link_index[link] for link in directions if link in network.link_index]


def fault_intervals(plan: StreamPlan, fault: Fault) -> tuple[Interval, ...]:
    """Return the label intervals that the fault breaks at the plan's start, in both directions."""
    return lost_intervals(plan.forward, _failed(faulty_links(plan.network, fault)))


def predicted_loss(plan: StreamPlan, fault: Fault) -> float:
    """Return the fraction of the stream's packets that the fault loses.

    This is the share of labels on the failed links, times the fraction that these links lose.
    """
    broken = set(faulty_links(plan.network, fault))
    labels = 0
    for path in plan.forward.paths:
        if broken.intersection(path.links):
            labels += path.stop - path.start
    return labels / LABELS * fault.loss_fraction


def is_campaign(plan: StreamPlan) -> bool:
    """Return whether faults overlap or nodes move, so that failures cannot be judged one by one."""
    return bool(plan.changes) or overlapping(plan.faults)


@dataclass(frozen=True, kw_only=True)
class ImpairedSpan:
    """One directed link, and the time for which it is impaired.

    Attributes:
        link: The index of the link.
        impairments: Its impairments.
        start_s: The beginning.
        stop_s: The end.
        fault: The number of the fault that impairs it; None if the network does.
    """

    link: int
    impairments: Impairments
    start_s: float = 0.0
    stop_s: float = math.inf
    fault: int | None = None


def impaired_spans(network: Network, faults: Sequence[Fault]) -> tuple[ImpairedSpan, ...]:
    """Return all impaired links, whether or not packets cross them.

    Links that the network impairs come first, then those that faults impair.
    """
    spans = []
    for number, link in enumerate(network.links):
        if link.impairments:
            spans.append(ImpairedSpan(link=number, impairments=link.impaired_by))
    for number, fault in enumerate(faults):
        if fault.kind != "impaired":
            continue
        for index in faulty_links(network, fault):
            span = ImpairedSpan(
                link=index,
                impairments=fault.impaired_by,
                start_s=fault.start_s,
                stop_s=fault.stop_s,
                fault=number,
            )
            spans.append(span)
    return tuple(spans)


def stream_spans(plan: StreamPlan) -> tuple[ImpairedSpan, ...]:
    """Return the impaired links that the stream, or a loss report on its way back, may cross."""
    crossed = set(plan.forward.loaded)
    for label in RETURN_LABELS:
        crossed.update(plan.backward.path_of(label).links)
    spans = impaired_spans(plan.network, plan.faults)
    return tuple(span for span in spans if span.link in crossed)


def is_impaired(plan: StreamPlan) -> bool:
    """Return whether the stream or its reports may meet an impairment."""
    return bool(stream_spans(plan))


def is_diagnosing(plan: StreamPlan) -> bool:
    """Return whether the plan's sender diagnoses: it is asked to, and it chooses N."""
    return plan.stream.diagnosis and plan.stream.block_size is None


def is_exact(plan: StreamPlan, *faults: Fault) -> bool:
    """Return whether the sender can know the lost labels while these faults are active.

    It can if it diagnoses, and each of the failed links loses all packets.
    """
    return is_diagnosing(plan) and not any(fault.partial for fault in faults)


def cable_name(link: LinkId) -> str:
    """Return the two ends of a cable in alphabetical order, with its key unless that is 0.

    >>> cable_name(("s2", "s1", 0)), cable_name(("s1", "s2", 1))
    ('s1-s2', 's1-s2#1')
    """
    a, b = sorted(link[:2])
    return f"{a}-{b}" + (f"#{link[2]}" if link[2] else "")


def candidate_table(split: LabelSplit) -> CandidateTable:
    """Return everything that may break on the split's links, with the labels that it would lose.

    These are the cables with the labels of both directions, then single directions if both carry
    labels, then nodes other than the two ends.
    """
    network = split.network
    links_of_cable: dict[str, set[int]] = {}
    cables_of_node: dict[str, set[str]] = {}
    for index in split.loaded:
        link = network.links[index]
        cable = cable_name(link.id)
        links_of_cable.setdefault(cable, set()).add(index)
        for node in (link.source, link.target):
            cables_of_node.setdefault(node, set()).add(cable)

    def candidate(name: str, links: Iterable[int], cables: int = 1) -> FailureCandidate:
        intervals = lost_intervals(split, _failed(links))
        return FailureCandidate(name=name, intervals=intervals, cables=cables)

    candidates = [candidate(name, links) for name, links in links_of_cable.items()]
    for name, links in links_of_cable.items():
        if len(links) > 1:
            for index in sorted(links):
                candidates.append(candidate(f"{name} ({network.links[index].label})", [index]))
    for node, cables in cables_of_node.items():
        if node not in (split.source, split.sink) and len(cables) > 1:
            links_of_node: set[int] = set()
            for name in cables:
                links_of_node |= links_of_cable[name]
            candidates.append(candidate(f"node {node}", links_of_node, len(cables)))
    return CandidateTable(candidates)


def exact_block_size(
    plan: StreamPlan,
) -> Callable[[tuple[Interval, ...]], int | None]:
    """Return a function from a set of lost labels to N, or None if all are lost.

    With stratified labels N is the worst window, with random ones FEC_p at exactly the lost share
    (Gabrielyan 2007, eq. 25).
    """
    stream = plan.stream
    m = stream.source_packets

    def size_of(lost: tuple[Interval, ...]) -> int | None:
        labels = labels_in(lost)
        if labels == LABELS:
            return None
        if stream.labels == "stratified":
            return block_size_of_order(lost, m, stream.label_rule) if lost else m
        return fec_block_size(m, labels / LABELS, stream.decoding_error_rate)

    return size_of
