"""The beliefs of a diagnosing sender about what is broken, and their accuracy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fec.redundancy.candidates import CandidateTable
from fec.redundancy.labels import LABELS
from testbed.stream.measurements import BoolArray, SentPackets
from testbed.stream.prediction.active_faults import Epoch, candidate_table
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies import Json


@dataclass(frozen=True, kw_only=True)
class DiagnosisAccuracy:
    """Number of failures that a sender diagnosed, and number of right diagnoses.

    Attributes:
        spoke: Share of the run in which N followed from the diagnosis, not from the estimated loss.
        certain: Number of diagnoses in which the sender was certain which cables had failed.
        right: Number of certain diagnoses that were right.
        unsure: Number of diagnoses in which several sets of cables were possible.
    """

    spoke: float
    certain: int
    right: int
    unsure: int

    def __str__(self) -> str:
        certain = f"{self.right} of the {self.certain} failures that it was certain of were so"
        return f"the diagnosis decided in {self.spoke:.0%} of the time, {certain}"


def diagnosis_accuracy(
    beliefs: Sequence[Json], mistaken: int, duration_s: float
) -> DiagnosisAccuracy:
    """Return how accurate the beliefs were.

    Args:
        beliefs: All beliefs of a run, in order (``AnswerTimes.beliefs``).
        mistaken: Number of beliefs that were certain but wrong.
        duration_s: Duration of the run, in seconds.
    """
    spoke_s = 0.0
    for belief, after in pairwise([*beliefs, {"at_s": duration_s}]):
        if belief["speaker"] == "diagnosis":
            spoke_s += after["at_s"] - belief["at_s"]
    named = [belief for belief in beliefs if belief["names"]]
    certain = sum(belief["certain"] for belief in named)
    return DiagnosisAccuracy(
        spoke=round(spoke_s / duration_s, 4),
        certain=certain,
        right=certain - mistaken,
        unsure=len(named) - certain,
    )


def mistaken_beliefs(
    theory: StreamTheory,
    sent: SentPackets,
    arrived: BoolArray,
    epochs: Sequence[Epoch],
    beliefs: Sequence[Json],
    judged_until_s: float,
) -> Iterator[float]:
    """Yield the beginning (in seconds) of each belief that was certain but wrong.

    A belief is wrong in two cases:

    - The failure of the named cables loses another number of labels than the belief states.
    - Packets with labels that the belief calls lost arrived, and the sender kept the belief after
      the reports about them. The last packets of the stream are left out, because no report
      contains them.

    While nodes move, several splits may lose the stated number of labels. Then the belief is wrong
    if packets contradict it under all of these splits.

    Args:
        theory: The predictions for the plan.
        sent: All packets sent.
        arrived: A mask of the packets that arrived, as the plan determines with certainty, shape
            (packets,).
        epochs: All epochs of the run, in order.
        beliefs: All beliefs of the sender, in order.
        judged_until_s: The sender never judges packets that were sent after this time.
    """
    plan = theory.plan
    pairs = pairwise([*beliefs, {"at_s": plan.duration_s}])
    certain = [(belief, after) for belief, after in pairs if belief["names"] and belief["certain"]]
    if not certain:
        return
    tables = [candidate_table(split) for split in plan.splits]
    for belief, after in certain:
        candidates = list(_candidates(tables, belief))
        if not candidates:
            yield belief["at_s"]
            continue
        unheard = any(
            epoch.reports_cut and epoch.start_s < after["at_s"] and epoch.stop_s > belief["at_s"]
            for epoch in epochs
        )
        if unheard:
            continue
        known_s = after["at_s"] - theory.allowed_reaction_s
        contradicting = arrived & (sent.time_s >= belief["at_s"]) & (sent.time_s < known_s)
        contradicting &= sent.time_s < judged_until_s
        share = belief["lost_fraction"]
        for begin_s, end_s in _interruptions(epochs, share, theory.allowed_reaction_s):
            contradicting &= (sent.time_s < begin_s) | (sent.time_s >= end_s)
        arrived_labels = np.unique(sent.label[contradicting]).tolist()
        if all(_loses_one_of(arrived_labels, *candidate) for candidate in candidates):
            yield belief["at_s"]


def _loses_one_of(labels: Sequence[int], table: CandidateTable, lost_labels: int) -> bool:
    return any(table.bit_of(label) & lost_labels for label in labels)


def _interruptions(
    epochs: Sequence[Epoch], share: float, allowed_s: float
) -> list[tuple[float, float]]:
    """Return short times (begin, end) between two epochs that both lose this share of labels.

    These times are no longer than the allowed reaction. Packets that arrive in them do not
    contradict a belief, because the labels are lost again when the report about these packets
    arrives.

    Args:
        epochs: All epochs of the run, in order.
        share: The share of labels that the belief calls lost.
        allowed_s: The time that the sender may take to react, in seconds.
    """
    right = [epoch for epoch in epochs if abs(epoch.loss - share) < 1 / LABELS]
    gaps = [(before.stop_s, after.start_s) for before, after in pairwise(right)]
    return [(begin_s, end_s) for begin_s, end_s in gaps if 0 < end_s - begin_s <= allowed_s]


def _candidates(
    tables: Sequence[CandidateTable], belief: Json
) -> Iterator[tuple[CandidateTable, int]]:
    """Yield each table in which the named cables lose as many labels as the belief states.

    With each table comes a bit set of the labels that these cables lose.
    """
    for table in tables:
        labels = _lost_together(table, belief["names"])
        if table.labels_in(labels) == round(belief["lost_fraction"] * LABELS):
            yield table, labels


def _lost_together(table: CandidateTable, names: Sequence[str]) -> int:
    """Return a bit set of the labels that the candidates lose; 0 if a name is no candidate."""
    masks = {
        candidate.name: mask for candidate, mask in zip(table.candidates, table.masks, strict=True)
    }
    labels = 0
    for name in names:
        if name not in masks:
            return 0
        labels |= masks[name]
    return labels
