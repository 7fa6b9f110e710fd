"""Loss by path: the paths of a label split with the numbers that packets carry, and prediction, logs and reports side
by side; pure.

A split says which links each label takes, so that it is a set of paths already; labels on one sequence of links are one
path.
"""

from dataclasses import dataclass

from fec.protocol.loss_report import MAX_PATH
from testbed.model.label_split import LABELS, LabelSplit
from testbed.stream.plan import StreamPlan

REPORTS = "path_reports"
"""Name of the sender's counter that holds what reports told: number of the path -> [lost, came]."""


@dataclass(frozen=True, kw_only=True)
class NumberedPath:
    """Number 1 to 255 (0: all paths that have none), its links as indices in order, how many of the 65,536 labels take
    it."""

    number: int
    links: tuple[int, ...]
    labels: int


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
