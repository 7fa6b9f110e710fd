"""Numbers the paths of a stream.

Each packet carries the number of its path, so that both ends can count losses by path.

A label split says which links each label takes. Labels that take the same sequence of links are one
path.
"""

from dataclasses import dataclass

from fec.protocol.loss_report import MAX_PATH
from testbed.model.label_split import LABELS, LabelSplit
from testbed.stream.plan import StreamPlan

# Name of the sender's counter with the contents of the loss reports: number of the path -> packets
# [lost, received].
REPORTS = "path_reports"


@dataclass(frozen=True, kw_only=True)
class NumberedPath:
    """A path, or all paths without a number.

    Attributes:
        number: 1 to 255; 0 for all paths that have no number.
        links: The indices of its links in order; empty for the number 0.
        labels: How many of the 65,536 labels belong to it.
    """

    number: int
    links: tuple[int, ...]
    labels: int


def number_paths(split: LabelSplit) -> tuple[NumberedPath, ...]:
    """Return the split's paths in the order of their first labels, numbered from 1.

    If there are more than 255, those with the most labels have numbers. The others are one entry
    with the number 0.

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
    by_labels = sorted(labels, key=lambda links: -labels[links])
    with_number = set(by_labels[:MAX_PATH])
    paths: list[NumberedPath] = []
    without_number = LABELS
    for links, count in labels.items():
        if links in with_number:
            paths.append(NumberedPath(number=len(paths) + 1, links=links, labels=count))
            without_number -= count
    if without_number:
        paths.append(NumberedPath(number=0, links=(), labels=without_number))
    return tuple(paths)


def path_of_label(split: LabelSplit) -> bytes:
    """Return 65,536 bytes: the number of each label's path, 0 if it has none."""
    numbers = {path.links: path.number for path in number_paths(split)}
    of_labels = bytearray()
    for path in split.paths:
        of_labels += bytes([numbers.get(path.links, 0)]) * (path.stop - path.start)
    return bytes(of_labels)


def is_numbered(plan: StreamPlan) -> bool:
    """Return whether packets carry the numbers of their paths: not if paths change."""
    return not plan.changes
