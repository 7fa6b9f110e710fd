"""What is broken or impaired, and which labels are lost, between one change and the next: faults that overlap, nodes
that move; and what may break, for a sender that diagnoses.

Exact for switches: a label is lost when its path crosses a broken link, so several failures lose the union of their
labels.
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fec import fec_block_size
from fec.redundancy.block_size import block_size_of_order
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from fec.redundancy.labels import joined_intervals
from testbed.faults.fault import ChangeTimes, Fault, FaultTimes, overlapping
from testbed.model.label_split import LABELS, Interval, LabelSplit
from testbed.stream.measurements import FloatArray
from testbed.stream.plan import StreamPlan
from topologies import LinkId, Network, reverse_of
from topologies.impairments import Impairments, mean_loss

RETURN_LABELS = (16384, 49152)
"""One label in each half of the label space: every loss report goes over both return paths."""
Broken = frozenset[tuple[int, float]]
"""(link index, fraction of its packets that is lost), of the links that lose any."""
NEVER = 1 << 30
"""A block size that stands for none: every label is lost."""


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """A time in which nothing changes: ``split`` numbers ``StreamPlan.splits``, ``broken`` links lose packets.

    ``loss``: the fraction of the stream that is lost. ``needed``: the smallest N of which M packets arrive whatever the
    window, or of random labels by eq. 25 (NEVER: none does; random losses count as if all were lost). ``reports_cut``:
    no loss report gets back.
    ``faults``: how many faults are in force on links that carry labels.
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
        return self.stop_s - self.start_s


def path_losses(split: LabelSplit, broken: Broken) -> FloatArray:
    """Shape (paths,): the probability that a packet on each path of the split is lost."""
    lost = dict(broken)
    retained = np.ones(len(split.paths))
    for number, path in enumerate(split.paths):
        for link in path.links:
            if link in lost:
                retained[number] *= 1 - lost[link]
    return 1 - retained


def mean_share_lost(split: LabelSplit, broken: Broken) -> float:
    """Return the share of a split's packets that broken and impaired links lose in the long run.

    A full queue before a rate trace is left out.
    """
    losses = dict(broken)
    for index, link in enumerate(split.network.links):
        impaired = mean_loss(link.impaired_by)
        if impaired > 0:
            losses[index] = 1 - (1 - losses.get(index, 0.0)) * (1 - impaired)
    widths = np.array([path.stop - path.start for path in split.paths])
    return float((path_losses(split, frozenset(losses.items())) * widths).sum() / LABELS)


def lost_intervals(split: LabelSplit, broken: Broken) -> tuple[Interval, ...]:
    """Label intervals of which packets are lost: the union over the broken links, adjacent ones merged.

    >>> from topologies import load_network
    >>> from testbed.routing import route_by_name
    >>> from testbed.routing.label_split.spraying import spray
    >>> split = spray(route_by_name(load_network("ring:4"), "s0", "s2", "capillary"))
    >>> lost_intervals(split, frozenset())
    ()
    """
    losses = zip(split.paths, path_losses(split, broken), strict=True)
    return joined_intervals((path.start, path.stop) for path, loss in losses if loss > 0)


def planned_epochs(plan: StreamPlan) -> tuple[Epoch, ...]:
    """The plan as it would go if every change took no time."""
    faults = [FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s) for f in plan.faults]
    changes = [
        ChangeTimes(
            began_s=c.at_s,
            links_s=c.at_s,
            switch_start_s=c.at_s,
            switch_stop_s=c.at_s,
            done_s=c.at_s,
        )
        for c in plan.changes
    ]
    return epochs(plan, faults, changes)


def epochs(
    plan: StreamPlan, faults: Iterable[FaultTimes], changes: Sequence[ChangeTimes]
) -> tuple[Epoch, ...]:
    """All epochs of a run, in order, without gaps from 0 to the plan's end.

    Each costs one pass over the paths, and one over the labels where something is lost; equal ones are computed once.
    """
    ledger = _Ledger(plan)
    moments: list[tuple[float, int, Callable[[], None]]] = []
    for times in faults:
        moments.append((times.start_s, 2, lambda f=times.fault: ledger.fault(f, 1)))  # type: ignore[misc]
        moments.append((times.stop_s, 1, lambda f=times.fault: ledger.fault(f, -1)))  # type: ignore[misc]
    for number, (change, when) in enumerate(zip(plan.changes, changes, strict=False)):
        moments.append((when.links_s, 0, lambda c=change.vanished: ledger.absent(c, 1)))  # type: ignore[misc]
        moments.append((when.began_s, 0, lambda c=change.appeared: ledger.absent(c, -1)))  # type: ignore[misc]
        moments.append((when.switch_stop_s, 3, lambda n=number + 1: ledger.switch(n)))  # type: ignore[misc]
    moments.sort(key=lambda moment: moment[:2])
    found: list[Epoch] = []
    at_s = 0.0
    for time_s, _, act in [*moments, (plan.duration_s, 4, lambda: None)]:
        until = min(max(time_s, 0.0), plan.duration_s)
        if until > at_s:
            new = ledger.epoch(at_s, until)
            if found and replace(new, start_s=found[-1].start_s) == replace(
                found[-1], stop_s=until
            ):
                new = replace(new, start_s=found.pop().start_s)
            found.append(new)
            at_s = until
        act()
    return tuple(found)


class _Ledger:
    """Faults and absent links that are in force at the moment, counted, so that those that overlap end one by one."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._index = plan.network.link_index
        self._split = 0
        self._full: Counter[int] = Counter()
        self._partly: Counter[tuple[int, float]] = Counter()
        self._running: Counter[Fault] = Counter()
        self._described = lru_cache(maxsize=None)(self._describe)
        self.absent(plan.absent, 1)

    def absent(self, links: Iterable[LinkId], step: int) -> None:
        for link in links:
            self._full[self._index[link]] += step

    def fault(self, fault: Fault, step: int) -> None:
        self._running[fault] += step
        for link in faulty_links(self._plan.network, fault):
            if not fault.partial:
                self._full[link] += step
            else:
                self._partly[link, fault.loss_fraction] += step

    def switch(self, number: int) -> None:
        self._split = number

    def epoch(self, start_s: float, stop_s: float) -> Epoch:
        retained: dict[int, float] = {}
        for (link, fraction), count in self._partly.items():
            if count > 0:
                retained[link] = retained.get(link, 1.0) * (1 - fraction) ** count
        broken = {(link, 1 - share) for link, share in retained.items() if self._full[link] <= 0}
        broken |= {(link, 1.0) for link, count in self._full.items() if count > 0}
        split = self._plan.splits[self._split]
        loss, needed, cut = self._described(self._split, frozenset(broken))
        loaded = set(split.loaded)
        counted = sum(
            bool(loaded.intersection(faulty_links(self._plan.network, f)))
            for f, count in self._running.items()
            if count > 0
        )
        return Epoch(
            start_s=start_s, stop_s=stop_s, split=self._split, broken=frozenset(broken), loss=loss, needed=needed,
            reports_cut=cut, faults=counted,
        )  # fmt: skip

    def _describe(self, number: int, broken: Broken) -> tuple[float, int, bool]:
        split = self._plan.splits[number]
        widths = np.array([path.stop - path.start for path in split.paths])
        loss = float((path_losses(split, broken) * widths).sum() / LABELS)
        hit = lost_intervals(split, broken)
        stream, m = self._plan.stream, self._plan.stream.source_packets
        if not hit:
            needed = m
        elif sum(stop - start for start, stop in hit) == LABELS:
            needed = NEVER
        elif stream.labels == "random":
            needed = fec_block_size(m, round(min(loss, 0.9), 4), stream.decoding_error_rate)
        else:
            needed = block_size_of_order(hit, m, stream.label_rule) or NEVER
        backward = (self._plan.backward, *(c.backward for c in self._plan.changes))[number]
        losses = path_losses(backward, broken)
        starts = [path.start for path in backward.paths]
        cut = all(losses[bisect.bisect_right(starts, label) - 1] >= 1 for label in RETURN_LABELS)
        return loss, needed, cut


def faulty_links(network: Network, fault: Fault) -> list[int]:
    """Indices of the directed links that the fault breaks."""
    ids = (fault.link, reverse_of(fault.link)) if fault.direction == "both" else (fault.link,)
    return [network.link_index[i] for i in ids if i in network.link_index]


def fault_intervals(plan: StreamPlan, fault: Fault) -> tuple[Interval, ...]:
    """Label intervals that the fault breaks at the plan's start, whichever direction of the cable carries them."""
    return lost_intervals(
        plan.forward, frozenset((link, 1.0) for link in faulty_links(plan.network, fault))
    )


def is_campaign(plan: StreamPlan) -> bool:
    """Whether faults overlap or nodes move: then single failures cannot be distinguished, and epochs are judged
    instead."""
    return bool(plan.changes) or overlapping(plan.faults)


@dataclass(frozen=True, kw_only=True)
class ImpairedSpan:
    """One directed link (index), impaired from ``start_s`` to ``stop_s``; ``fault``: number of the fault, None where
    the network says so."""

    link: int
    impairments: Impairments
    start_s: float = 0.0
    stop_s: float = math.inf
    fault: int | None = None


def impaired_spans(network: Network, faults: Sequence[Fault]) -> tuple[ImpairedSpan, ...]:
    """All of a plan, whether or not its packets cross them: the network's own first, then those of faults, in order."""
    own = [
        ImpairedSpan(link=number, impairments=link.impaired_by)
        for number, link in enumerate(network.links)
        if link.impairments
    ]
    timed = [
        ImpairedSpan(
            link=index,
            impairments=fault.impaired_by,
            start_s=fault.start_s,
            stop_s=fault.stop_s,
            fault=number,
        )
        for number, fault in enumerate(faults)
        if fault.kind == "impaired"
        for index in faulty_links(network, fault)
    ]
    return (*own, *timed)


def stream_spans(plan: StreamPlan) -> tuple[ImpairedSpan, ...]:
    """Those on links that the stream, or its loss reports on their way back, may cross."""
    crossed = {
        *plan.forward.loaded,
        *(i for label in RETURN_LABELS for i in plan.backward.path_of(label).links),
    }
    return tuple(span for span in impaired_spans(plan.network, plan.faults) if span.link in crossed)


def is_impaired(plan: StreamPlan) -> bool:
    """Whether the stream or its reports may meet an impairment."""
    return bool(stream_spans(plan))


DIAGNOSES = "diagnoses"
"""Name of the sender's counter that holds what it believed was broken, and from when on."""


def is_diagnosing(plan: StreamPlan) -> bool:
    """Whether the plan's sender diagnoses: it is to, and it decides N."""
    return plan.stream.diagnosis and plan.stream.block_size is None


def is_exact(plan: StreamPlan, *faults: Fault) -> bool:
    """Whether the sender can know the labels that are lost while these are in force: it diagnoses, and each loses all
    that crosses it."""
    return is_diagnosing(plan) and not any(fault.partial for fault in faults)


def cable_name(link: LinkId) -> str:
    """A cable by its two ends in alphabetical order, and its key where there are parallel ones.

    >>> cable_name(("s2", "s1", 0)), cable_name(("s1", "s2", 1))
    ('s1-s2', 's1-s2#1')
    """
    a, b = sorted(link[:2])
    return f"{a}-{b}" + (f"#{link[2]}" if link[2] else "")


def candidate_table(split: LabelSplit) -> CandidateTable:
    """Cables first, each with the labels of both directions; single directions where both carry labels; nodes but for
    the ends."""
    network = split.network
    by_cable: dict[str, set[int]] = {}
    by_node: dict[str, set[str]] = {}
    for index in split.loaded:
        link = network.links[index]
        by_cable.setdefault(cable_name(link.id), set()).add(index)
        for node in (link.source, link.target):
            by_node.setdefault(node, set()).add(cable_name(link.id))

    def intervals(links: set[int]) -> tuple[Interval, ...]:
        return lost_intervals(split, frozenset((index, 1.0) for index in links))

    candidates = [
        FailureCandidate(name=name, intervals=intervals(links)) for name, links in by_cable.items()
    ]
    for name, links in by_cable.items():
        if len(links) > 1:
            candidates += [
                FailureCandidate(
                    name=f"{name} ({network.links[i].label})", intervals=intervals({i})
                )
                for i in sorted(links)
            ]
    for node, cables in by_node.items():
        if node not in (split.source, split.sink) and len(cables) > 1:
            links = set().union(*(by_cable[name] for name in cables))
            candidates.append(
                FailureCandidate(
                    name=f"node {node}", intervals=intervals(links), cables=len(cables)
                )
            )
    return CandidateTable(candidates)


def exact_block_size(plan: StreamPlan) -> Callable[[tuple[Interval, ...]], int | None]:
    """N for a set of lost labels, None where all are lost: the worst window of stratified labels, FEC_p at exactly the
    share of random ones (Gabrielyan 2007, eq. 25)."""
    m, stream = plan.stream.source_packets, plan.stream

    def size_of(lost: tuple[Interval, ...]) -> int | None:
        labels = sum(stop - start for start, stop in lost)
        if labels == LABELS:
            return None
        if stream.labels == "stratified":
            return block_size_of_order(lost, m, stream.label_rule) if lost else m
        return fec_block_size(m, labels / LABELS, stream.decoding_error_rate)

    return size_of
