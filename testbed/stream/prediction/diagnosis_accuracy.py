"""What a sender that diagnoses told of failures that overlap while nodes move, held against what was broken; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.model.label_split import LABELS
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import Epoch
from testbed.stream.prediction.failure_candidates import DIAGNOSES, is_diagnosing

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
