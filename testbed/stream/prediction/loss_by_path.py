"""Loss by path: the paths of a label split with the numbers that packets carry, and prediction, logs and reports side
by side; pure.

A split says which links each label takes, so that it is a set of paths already; labels on one sequence of links are one
path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fec.protocol.loss_report import MAX_PATH
from testbed.model.label_split import LABELS, LabelSplit
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.epoch_analysis import LossBounds
from topologies import JsonObject

REPORTS = "path_reports"
"""Name of the sender's counter that holds what reports told: number of the path -> [lost, came]."""


@dataclass(frozen=True, kw_only=True)
class NumberedPath:
    """Number 1 to 255 (0: all paths that have none), its links as indices in order, how many of the 65,536 labels take
    it."""

    number: int
    links: tuple[int, ...]
    labels: int


@dataclass(frozen=True, kw_only=True)
class PathResult:
    """One path of a run. Losses are fractions over the ``certain`` packets, those under way at no change.

    ``sent`` and ``arrived`` are of all packets; ``reported_lost`` and ``reported_came`` what loss reports had told the
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
    reported_came: int | None

    @property
    def agrees(self) -> bool:
        lost, came = self.reported_lost or 0, self.reported_came or 0
        if min(lost, came, self.arrived - came, self.sent - came - lost) < 0:
            return False
        if self.predicted_loss is None or self.measured_loss is None or self.tolerance is None:
            return True
        return abs(self.predicted_loss - self.measured_loss) <= self.tolerance

    def to_json(self) -> JsonObject:
        """The keys of ``testbed stream --json``'s ``per_path``."""
        return {**self.__dict__, "links": list(self.links)}


def number_paths(split: LabelSplit) -> tuple[NumberedPath, ...]:
    """The split's paths in the order of their first labels, numbered from 1.

    Where there are more than 255, those with the most labels have numbers, and the rest are one entry, number 0, of no
    links.

    >>> from topologies import load_network
    >>> from testbed.routing import route_by_name
    >>> from testbed.routing.label_split.spraying import spray
    >>> split = spray(route_by_name(load_network("ring:4"), "s0", "s2", "capillary"))
    >>> [(path.number, path.labels) for path in number_paths(split)]
    [(1, 32768), (2, 32768)]
    """
    labels: dict[tuple[int, ...], int] = {}
    for path in split.paths:
        labels[path.links] = labels.get(path.links, 0) + path.stop - path.start
    most = set(sorted(labels, key=lambda links: -labels[links])[:MAX_PATH])
    chosen = [links for links in labels if links in most]
    found = [
        NumberedPath(number=k, links=links, labels=labels[links])
        for k, links in enumerate(chosen, start=1)
    ]
    rest = LABELS - sum(path.labels for path in found)
    return (*found, NumberedPath(number=0, links=(), labels=rest)) if rest else tuple(found)


def path_of_label(split: LabelSplit) -> bytes:
    """65,536 bytes: the number of each label's path, 0 where it has none."""
    numbers = {path.links: path.number for path in number_paths(split)}
    return b"".join(
        bytes([numbers.get(path.links, 0)]) * (path.stop - path.start) for path in split.paths
    )


def is_numbered(plan: StreamPlan) -> bool:
    """Whether packets carry the numbers of their paths: not where nodes move, since paths then come and go."""
    return not plan.changes


def path_results(
    plan: StreamPlan, run: StreamMeasurements, deliveries: LossBounds
) -> tuple[PathResult, ...]:
    """Every path of the plan's split, in the order of numbers. Cost: a few passes over the packet log."""
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
            arrived=int((own & ~deliveries.lost).sum()),
            **deliveries.share(own)._asdict(),
            reported_lost=lost,
            reported_came=came,
        )
        found.append(one)
    return tuple(found)
