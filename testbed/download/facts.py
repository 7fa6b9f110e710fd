"""Facts of a download: what follows from the plan and the measurements; without I/O.

``DownloadFacts`` computes each fact once, when it is first needed. None of them is a verdict:
``judgement`` compares them.
"""

from functools import cached_property

from testbed.download.plan import DownloadMeasurements, DownloadPlan
from testbed.download.prediction import (
    Alternatives,
    Prediction,
    alternatives,
    delays,
    predict,
    symbols_needed,
    tolerances,
)
from testbed.faults.impaired_link import queue_bytes


class DownloadFacts:
    """Facts of one run of one plan."""

    def __init__(self, plan: DownloadPlan, run: DownloadMeasurements) -> None:
        self.plan = plan
        self.run = run

    # Predictions.

    @cached_property
    def expected(self) -> Prediction:
        """The prediction for this download."""
        return predict(self.plan)

    @cached_property
    def rivals(self) -> Alternatives:
        """The predictions for other downloads of the same file."""
        return alternatives(self.plan)

    @cached_property
    def tolerance_s(self) -> float:
        """The tolerance of the duration."""
        return tolerances(self.plan)[0]

    @cached_property
    def tolerance_packets(self) -> float:
        """The tolerance of the number of packets sent."""
        return tolerances(self.plan)[1]

    # The run.

    @cached_property
    def duration_s(self) -> float:
        """The duration of the download, or the time limit if it did not complete."""
        return self.plan.limit_s if self.run.seconds is None else self.run.seconds

    @cached_property
    def plausible(self) -> bool:
        """True if the number of packets that arrived is possible.

        Impaired links may duplicate packets, so more may arrive than were sent.
        """
        return symbols_needed(self.plan) <= self.run.received <= 2 * self.run.sent

    @cached_property
    def arrived_bytes(self) -> float:
        """The size of the file if it arrived intact, or 0."""
        intact = self.run.verified and self.plausible
        return float(self.plan.file_bytes) if intact else 0.0

    @cached_property
    def goodput_bps(self) -> float:
        """Bits of the file per second; 0 if the download did not complete."""
        return self.plan.file_bytes * 8 / self.run.seconds if self.run.seconds else 0.0

    @cached_property
    def waited_s(self) -> float:
        """The longest time that a packet spent in switches, beside propagation and the queue.

        It is 0 if impaired links delay packets on purpose.
        """
        if any(fault.kind == "impaired" for fault in self.plan.faults):
            return 0.0
        forward_s, spread_s, _ = delays(self.plan)
        rate_bps = self.plan.last_mile_rate_bps
        queue_s = queue_bytes(rate_bps) * 8 / rate_bps
        return self.run.longest_s - forward_s - spread_s - queue_s
