"""Loss by path: prediction, logs and reports side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.model.label_split import LABELS
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.prediction.loss_by_path import REPORTS, is_numbered, number_paths, path_of_label
from topologies import JsonObject


@dataclass(frozen=True, kw_only=True)
class PathResult:
    """One path of a run. Losses are fractions over the ``certain`` packets, those under way at no change.

    ``sent`` and ``arrived`` are of all packets; ``reported_lost`` and ``reported_received`` what loss reports had told the
    sender by the end (None: nothing): what a silent path loses is told once it carries again. ``tolerance`` of the
    measured loss: four standard deviations where faults lose at random, one packet and one in a thousand.
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
        lost, came = self.reported_lost or 0, self.reported_received or 0
        if min(lost, came, self.arrived - came, self.sent - came - lost) < 0:
            return False
        if self.predicted_loss is None or self.measured_loss is None or self.tolerance is None:
            return True
        return abs(self.predicted_loss - self.measured_loss) <= self.tolerance

    def to_json(self) -> JsonObject:
        """The keys of ``testbed stream --json``'s ``per_path``."""
        return {**self.__dict__, "links": list(self.links)}


def path_results(facts: RunFacts) -> tuple[PathResult, ...]:
    """Every path of the plan's split, in the order of numbers. Cost: a few passes over the packet log."""
    plan, run, bounds = facts.plan, facts.run, facts.loss_bounds
    if not is_numbered(plan):
        return ()
    of_label = np.frombuffer(path_of_label(plan.forward), dtype=np.uint8)
    taken = of_label[run.sent.label]
    reports: Mapping[Any, tuple[int | None, int | None]] = run.counters.get(REPORTS, {})
    found = []
    for path in number_paths(plan.forward):
        own, (lost, came) = taken == path.number, reports.get(path.number, (None, None))
        one = PathResult(
            path=path.number,
            links=tuple(plan.network.links[i].label for i in path.links),
            share=path.labels / LABELS,
            sent=int(own.sum()),
            arrived=int((own & ~bounds.lost).sum()),
            **vars(bounds.share(own)),
            reported_lost=lost,
            reported_received=came,
        )
        found.append(one)
    return tuple(found)
