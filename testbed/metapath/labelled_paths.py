"""The paths that FT-DRB may use for one pair of nodes, each with its own interval of labels.

A multistep path goes through one or two intermediate routers. Each of its segments follows the
network's static routing (Zarza 2011, equation 3.1).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from testbed.errors import InputError
from testbed.model.label_split import LABELS, Interval
from topologies import LinkId, Network, reverse_of
from topologies.routing_tables import StaticRouting, static_routing

# The escape bit. Labels from here on belong to packets that have left their path; the other bits
# are the index of the dead link.
ESCAPED = LABELS // 2
# Number of labels of each path.
PATH_LABELS = 1024
MAX_PATHS = ESCAPED // PATH_LABELS


@dataclass(frozen=True, kw_only=True)
class LabelledPaths:
    """The known paths of one direction.

    Packets on path k carry a label of [1024 k, 1024 (k + 1)).

    Attributes:
        network: The network.
        source: The node that sends.
        sink: The node that receives.
        paths: The links of each path, in order. The first path is the minimal path of the static
            routing; the others are sorted by length.
        routing: The static routing.
    """

    network: Network
    source: str
    sink: str
    paths: tuple[tuple[LinkId, ...], ...]
    routing: StaticRouting = field(repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the routing, a function that cannot be pickled; processes need paths only."""
        return {name: value for name, value in vars(self).items() if name != "routing"}

    @property
    def exit(self) -> str:
        """The last switch of every path."""
        if _is_switch(self.network, self.sink):
            return self.sink
        return self.paths[0][-1][0]

    @cached_property
    def inner(self) -> tuple[tuple[LinkId, ...], ...]:
        """The links between switches of each path."""
        return tuple(inner_links(self.network, path) for path in self.paths)

    @cached_property
    def cables(self) -> tuple[frozenset[int], ...]:
        """The cables between switches of each path, by ``cable_number``."""
        return tuple(cables_of(self.network, path) for path in self.inner)

    def most_disjoint(self) -> int:
        """Return the path that shares the fewest cables with the first, or 0 if there is no other.

        The shortest of several such paths is returned.
        """
        if len(self.paths) == 1:
            return 0
        shared = [len(self.cables[0] & cables) for cables in self.cables[1:]]
        return 1 + shared.index(min(shared))


@dataclass(frozen=True, kw_only=True)
class LabelledPathPair:
    """FT-DRB's known paths in both directions."""

    forward: LabelledPaths
    backward: LabelledPaths

    @property
    def return_labels(self) -> tuple[int, ...]:
        """The labels of reports: the minimal path back, and the most disjoint path from it."""
        minimal = path_label(0)
        disjoint = path_label(self.backward.most_disjoint())
        if disjoint == minimal:
            return (minimal,)
        return minimal, disjoint


def path_label(path: int) -> int:
    """Return the label of packets on this path."""
    return path * PATH_LABELS


def path_interval(path: int) -> Interval:
    """Return the interval of the labels of this path."""
    return path * PATH_LABELS, (path + 1) * PATH_LABELS


def dead_link_of(label: int) -> int | None:
    """Return the link (index) that a packet escaped from last; None if it did not escape."""
    if label < ESCAPED:
        return None
    return label - ESCAPED


def cable_number(network: Network, link: LinkId) -> int:
    """Return one number for both directions of a cable: the lower index of its links."""
    index = network.link_index[link]
    return min(index, network.link_index.get(reverse_of(link), index))


def cables_of(network: Network, links: Iterable[LinkId]) -> frozenset[int]:
    """Return the numbers of the cables of these links."""
    return frozenset(cable_number(network, link) for link in links)


def inner_links(network: Network, path: Iterable[LinkId]) -> tuple[LinkId, ...]:
    """Return the links of a path that connect two switches."""
    return tuple(link for link in path if _is_inner(network, link))


def labelled_paths(
    network: Network,
    source: str,
    sink: str,
    *,
    max_paths: int = MAX_PATHS,
) -> LabelledPaths:
    """Return the minimal path and other paths between two nodes, the shortest first.

    The intermediates are one or two hops from the ends. No path visits a switch twice. The shortest
    path that shares no cable with the minimal path is always included.

    Args:
        network: The network.
        source: The node that sends.
        sink: The node that receives.
        max_paths: Maximum number of paths.

    Raises:
        InputError: No link between switches lies between the ends, or a number is out of range.
        NoPathError: The static routing finds no path.
    """
    if not 1 <= max_paths <= MAX_PATHS:
        raise InputError(f"ft-drb: {max_paths} paths; give 1 to {MAX_PATHS}")
    if len(network.links) > ESCAPED:
        raise InputError(
            f"ft-drb: {network.name} has {len(network.links)} links; an escape label names "
            f"{ESCAPED} at max_paths"
        )
    routing = static_routing(network)
    minimal = routing(source, sink)
    inner = inner_links(network, minimal)
    if not inner:
        raise InputError(
            f"ft-drb: {source!r} and {sink!r} share a switch; at least one link between switches "
            "is required"
        )
    before = minimal[: minimal.index(inner[0])]
    after = minimal[minimal.index(inner[-1]) + 1 :]
    candidates = {minimal}
    ranked = [minimal]
    for segment in _multistep(network, routing, inner[0][0], inner[-1][1]):
        path = (*before, *segment, *after)
        if path not in candidates:
            candidates.add(path)
            ranked.append(path)
    # Sorting keeps the order of paths of equal length.
    ranked[1:] = sorted(ranked[1:], key=len)
    paths = ranked[:max_paths]
    minimal_cables = cables_of(network, inner)
    for path in ranked:
        if not minimal_cables & cables_of(network, inner_links(network, path)):
            if path not in paths and max_paths > 1:
                paths[-1] = path
            break
    return LabelledPaths(
        network=network, source=source, sink=sink, paths=tuple(paths), routing=routing
    )


def labelled_path_pair(network: Network, source: str, sink: str) -> LabelledPathPair:
    """Return the known paths of both directions."""
    return LabelledPathPair(
        forward=labelled_paths(network, source, sink),
        backward=labelled_paths(network, sink, source),
    )


def one_and_two_hop_switches(
    network: Network, switch: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the switches one hop away, in the order of the links, and those two hops away."""
    one_hop = _neighbours(network, switch)
    two_hops: dict[str, None] = {}
    for neighbour in one_hop:
        for node in _neighbours(network, neighbour):
            if node != switch and node not in one_hop:
                two_hops[node] = None
    return one_hop, tuple(two_hops)


def _neighbours(network: Network, switch: str) -> tuple[str, ...]:
    """Return the switches that are connected to a switch, each once, in the order of the links."""
    ends = [network.links[i].target for i in network.out_links(switch)]
    return tuple(dict.fromkeys(node for node in ends if _is_switch(network, node)))


def _multistep(
    network: Network,
    routing: StaticRouting,
    start: str,
    end: str,
) -> Iterator[tuple[LinkId, ...]]:
    """Yield the paths between two switches through one or two intermediates, without cycles."""
    near_start, further_from_start = one_and_two_hop_switches(network, start)
    near_end, further_from_end = one_and_two_hop_switches(network, end)
    for first in (start, *near_start, *further_from_start):
        for second in (end, *near_end, *further_from_end):
            path = (*routing(start, first), *routing(first, second), *routing(second, end))
            if path and not _has_cycle(start, path):
                yield path


def _has_cycle(start: str, path: Sequence[LinkId]) -> bool:
    nodes = [start, *(link[1] for link in path)]
    return len(set(nodes)) < len(nodes)


def _is_switch(network: Network, node: str) -> bool:
    return network.node(node).kind == "switch"


def _is_inner(network: Network, link: LinkId) -> bool:
    return _is_switch(network, link[0]) and _is_switch(network, link[1])
