"""Loss by path: the prediction, the logs and the loss reports side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.model.label_split import LABELS
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.prediction.loss_by_path import (
    REPORTS,
    is_numbered,
    number_paths,
    path_of_label,
)
from topologies import JsonObject


@dataclass(frozen=True, kw_only=True)
class PathResult:
    """One path of a run. Losses are fractions of the packets that were in transit during no change.

    Attributes:
        path: The number of the path.
        links: The names of its links.
        share: The share of labels that take it.
        sent: All packets sent.
        arrived: All packets that arrived.
        certain: The packets in transit during no change.
        predicted_loss: The share of these that theory says is lost.
        measured_loss: The share of these that was lost.
        tolerance: The largest allowed difference: four standard deviations if faults lose at
            random, and one packet and one in a thousand.
        reported_lost: Number of losses in the loss reports that the sender received; None if there
            were none. The losses of a failed path are reported when it carries packets again.
        reported_received: Number of arrivals in these reports.
    """

    path: int
    links: tuple[str, ...]
    share: float
    sent: int
    arrived: int
    certain: int
    predicted_loss: float | None
    measured_loss: float | None
    tolerance: float | None
    reported_lost: int | None
    reported_received: int | None

    @property
    def agrees(self) -> bool:
        """True if prediction, logs and reports are compatible."""
        lost = self.reported_lost or 0
        received = self.reported_received or 0
        unreported = self.sent - received - lost
        if min(lost, received, self.arrived - received, unreported) < 0:
            return False
        if self.predicted_loss is None or self.measured_loss is None or self.tolerance is None:
            return True
        return abs(self.predicted_loss - self.measured_loss) <= self.tolerance

    def to_json(self) -> JsonObject:
        """Return the keys of ``testbed stream --json``'s ``per_path``."""
        return {**self.__dict__, "links": list(self.links)}


def path_results(facts: RunFacts) -> tuple[PathResult, ...]:
    """Return every path of the plan's split, in the order of numbers.

    Cost: a few passes over the packet log.
    """
    plan = facts.plan
    if not is_numbered(plan):
        return ()
    bounds = facts.loss_bounds
    number_of_label = np.frombuffer(path_of_label(plan.forward), dtype=np.uint8)
    number_of_packet = number_of_label[facts.run.sent.label]
    reports: Mapping[Any, tuple[int | None, int | None]] = facts.run.counters.get(REPORTS, {})
    results = []
    for path in number_paths(plan.forward):
        on_path = number_of_packet == path.number
        lost, received = reports.get(path.number, (None, None))
        result = PathResult(
            path=path.number,
            links=tuple(plan.network.links[index].label for index in path.links),
            share=path.labels / LABELS,
            sent=int(on_path.sum()),
            arrived=int((on_path & ~bounds.lost).sum()),
            **vars(bounds.share(on_path)),
            reported_lost=lost,
            reported_received=received,
        )
        results.append(result)
    return tuple(results)
