"""What may break under a stream, for a sender that diagnoses: every loaded cable, its directions, and every node with
all its cables.

The sender is given a table from labels to suspects, not the network (``fec.redundancy.diagnosis``); what it told of
them is held against what was broken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fec.redundancy.block_size import Interval, fec_block_size, stratified_block_size
from fec.redundancy.candidates import CandidateTable, FailureCandidate
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS, LabelSplit
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import Epoch, lost_intervals
from topologies.network import LinkId

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

    candidates = [FailureCandidate(name=name, intervals=intervals(links)) for name, links in by_cable.items()]
    for name, links in by_cable.items():
        if len(links) > 1:
            candidates += [
                FailureCandidate(name=f"{name} ({network.links[i].label})", intervals=intervals({i}))
                for i in sorted(links)
            ]
    for node, cables in by_node.items():
        if node not in (split.source, split.sink) and len(cables) > 1:
            links = set().union(*(by_cable[name] for name in cables))
            candidates.append(FailureCandidate(name=f"node {node}", intervals=intervals(links), cables=len(cables)))
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
            return stratified_block_size(lost, m, stream.label_rule) if lost else m
        return fec_block_size(m, labels / LABELS, stream.decoding_error_rate)

    return size_of


_WITHIN_S = 0.5
"""So long before the sender said it, what it said may have been so: reports take their time."""


@dataclass(frozen=True, kw_only=True)
class DiagnosisAccuracy:
    """``spoke``: the share of the time in which the diagnosis decided, not the estimator. Of the ``certain`` sets of
    cables that it named, ``right`` lost just the labels that were lost within the last half second; ``unsure`` times it
    named several."""

    spoke: float
    certain: int
    right: int
    unsure: int

    def __str__(self) -> str:
        certain = f"{self.right} of the {self.certain} failures that it was certain of were so"
        return f"the diagnosis decided in {self.spoke:.0%} of the time, {certain}"


def diagnosis_accuracy(plan: StreamPlan, run: StreamMeasurements, found: Sequence[Epoch]) -> DiagnosisAccuracy | None:
    """From the sender's events and the run's epochs; None where the sender does not diagnose, or its log is not
    there."""
    events = run.counters.get(DIAGNOSES, ())
    if not is_diagnosing(plan) or not events:
        return None
    ends = [*(event["at_s"] for event in events[1:]), plan.duration_s]
    spoke = sum(end - e["at_s"] for e, end in zip(events, ends, strict=True) if e["speaker"] == "diagnosis")
    named = [event for event in events if event["names"]]
    certain = [event for event in named if event["certain"]]
    right = sum(
        any(
            epoch.start_s <= event["at_s"]
            and epoch.stop_s >= event["at_s"] - _WITHIN_S
            and abs(epoch.loss - event["lost_fraction"]) < 1 / LABELS
            for epoch in found
        )
        for event in certain
    )
    return DiagnosisAccuracy(
        spoke=round(spoke / plan.duration_s, 4), certain=len(certain), right=right, unsure=len(named) - len(certain)
    )
