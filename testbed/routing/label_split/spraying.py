"""Conversion of a split route to a label split.

There are four steps:

1. Round the number of labels of each link, 65,536 times its load, to integers that still conserve
   flow.
2. Order each node's outgoing links so that few intervals of labels are divided.
3. Read off the path of each range of labels.
4. Merge ranges of one or two labels, which rounding leaves over, with their neighbours.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.model.label_split import LABELS, Interval, LabelPath, LabelSplit
from testbed.model.routes import SplitRoute
from testbed.routing.flows.min_cost import fewest_links_flow
from testbed.routing.label_split.interval_search import Cuts, IntervalSearch
from testbed.routing.label_split.rounding import round_to_labels
from topologies import Network, NoPathError

# Ranges of at most this number of labels are merged with a neighbouring range, and every link stays
# less than this number of labels off its load.
SLIVER = 2


def spray(route: SplitRoute, *, budget: int = 3000) -> LabelSplit:
    """Return a label split in which every link carries its load to within 2/65536.

    Args:
        route: The route.
        budget: Number of changes that the search for few intervals tries. The cost of each is
            linear in the number of intervals downstream of it.

    Raises:
        InputError: The flow has a directed cycle, in which a label could circulate. No routing
            method creates one.

    >>> from topologies.network import Link, Node
    >>> nodes = (Node(id="a", kind="switch"), Node(id="b", kind="switch"))
    >>> links = tuple(Link(source="a", target="b", key=k) for k in range(2))
    >>> net = Network(name="pair", nodes=nodes, links=links)
    >>> halves = SplitRoute(network=net, source="a", sink="b", method="halves",
    ...                     loads=(Fraction(1, 2), Fraction(1, 2)))
    >>> [spray(halves).intervals(i) for i in range(2)]
    [((0, 32768),), ((32768, 65536),)]
    """
    network = route.network
    units = round_to_labels(route)
    order = [node for node, _ in route.in_flow_order(units)]
    flow = tuple((i, units[i], *network.links[i].id[:2]) for i in units)
    cuts = _searched_cuts(flow, route.source, tuple(order), budget)
    paths = _without_slivers(route, _read_paths(route, cuts))
    return LabelSplit(
        network=network,
        source=route.source,
        sink=route.sink,
        paths=_with_last_as_first(network, paths),
    )


@functools.lru_cache(maxsize=128)
def _searched_cuts(
    flow: tuple[tuple[int, int, str, str], ...], source: str, order: tuple[str, ...], budget: int
) -> Cuts:
    """Return each link's intervals after the search; callers must not change them.

    The result is cached, because the same route is often split again for another stream or plan.
    The arguments are those of ``IntervalSearch`` and its method ``settle``.
    """
    search = IntervalSearch(flow, source, order)
    search.settle(budget)
    return search.cuts


def _with_last_as_first(network: Network, paths: Sequence[LabelPath]) -> tuple[LabelPath, ...]:
    """Give the last label the path of label 0, if any path leads through a host.

    A host forwards by port, and Linux's rules can name ranges of the ports 1 to 65534 only. Ports
    that are in no range follow the path of label 0.
    """
    first = paths[0]
    last = paths[-1]
    if first.links == last.links or not _any_through_host(network, paths):
        return tuple(paths)
    changed = list(paths[:-1])
    if last.start < LABELS - 1:
        changed.append(LabelPath(start=last.start, stop=LABELS - 1, links=last.links))
    changed.append(LabelPath(start=LABELS - 1, stop=LABELS, links=first.links))
    return tuple(changed)


def _any_through_host(network: Network, paths: Sequence[LabelPath]) -> bool:
    """Return whether one of the paths leads through a host."""
    for path in paths:
        for i in path.links[:-1]:
            if network.node(network.links[i].target).kind == "host":
                return True
    return False


def _read_paths(route: SplitRoute, cuts: Cuts) -> list[LabelPath]:
    """Return the path of each range of labels; adjacent ranges on one path are merged."""
    network = route.network
    # The labels at which any link's interval begins or ends.
    boundaries = {0, LABELS}
    # The intervals at each node: first label, end, and the link that they take.
    at_node: dict[str, list[tuple[int, int, int]]] = {}
    for link, intervals in cuts.items():
        links_at_node = at_node.setdefault(network.links[link].source, [])
        for start, stop in intervals:
            boundaries |= {start, stop}
            links_at_node.append((start, stop, link))
    paths: list[LabelPath] = []
    for start, stop in itertools.pairwise(sorted(boundaries)):
        node = route.source
        links = []
        while node != route.sink:
            link = _link_of_label(at_node[node], start)
            links.append(link)
            node = network.links[link].target
        if paths and paths[-1].links == tuple(links):
            paths[-1] = LabelPath(start=paths[-1].start, stop=stop, links=tuple(links))
        else:
            paths.append(LabelPath(start=start, stop=stop, links=tuple(links)))
    return paths


def _link_of_label(intervals: Sequence[tuple[int, int, int]], label: int) -> int:
    """Return the link of the interval that contains the label.

    Args:
        intervals: First label, end and link of each interval; one contains the label.
        label: The label.
    """
    return next(link for start, stop, link in intervals if start <= label < stop)


@dataclass
class _LinkLabels:
    """The number of labels of each link.

    Attributes:
        excess: Number of labels of each loaded link above its exact load.
        labels: Number of labels of each link.
    """

    excess: dict[int, Fraction]
    labels: Counter[int]

    def move(self, old: Sequence[int], new: Sequence[int], width: int) -> bool:
        """Move labels from one path to another, unless a link would be too far off its load.

        Args:
            old: Links of the path that loses the labels.
            new: Links of the path that gains them.
            width: Number of labels.

        Returns:
            Whether the labels were moved.
        """
        changes = dict.fromkeys(set(old).difference(new), -width)
        changes |= dict.fromkeys(set(new).difference(old), width)
        for i, change in changes.items():
            if abs(self.excess[i] + change) >= SLIVER or self.labels[i] + change <= 0:
                return False
        for i, change in changes.items():
            self.excess[i] += change
            self.labels[i] += change
        return True


def _without_slivers(route: SplitRoute, paths: list[LabelPath]) -> tuple[LabelPath, ...]:
    """Merge ranges of one or two labels, which rounding leaves over, with a neighbouring range.

    The narrowest range is first. Two links whose numbers of labels differ this little still need
    different block sizes, and no sender could find out which of them failed. A range remains if a
    link would lose its last label or would be ``SLIVER`` labels off its load.
    """
    link_labels = _count_labels(route, paths)
    unmovable: set[LabelPath] = set()
    while True:
        narrow = []
        for k, path in enumerate(paths):
            width = path.stop - path.start
            if width <= SLIVER and path not in unmovable:
                narrow.append((width, k))
        if not narrow:
            return tuple(paths)
        width, k = min(narrow)
        for other in (k - 1, k + 1):
            if not 0 <= other < len(paths):
                continue
            if link_labels.move(paths[k].links, paths[other].links, width):
                first = min(k, other)
                last = max(k, other)
                merged = LabelPath(
                    start=paths[first].start, stop=paths[last].stop, links=paths[other].links
                )
                paths[first : last + 1] = [merged]
                break
        else:
            unmovable.add(paths[k])


def _count_labels(route: SplitRoute, paths: Sequence[LabelPath]) -> _LinkLabels:
    """Return the number of labels of each link, and the difference to its exact load."""
    labels = Counter[int]()
    for path in paths:
        for i in path.links:
            labels[i] += path.stop - path.start
    excess = {}
    for i, load in enumerate(route.loads):
        if load:
            excess[i] = labels[i] - load * LABELS
    return _LinkLabels(excess, labels)


def paths_split(
    network: Network, source: str, sink: str, paths: Sequence[tuple[Sequence[int], Fraction]]
) -> LabelSplit:
    """Return a label split over given paths.

    Args:
        network: The network.
        source: Id of the source.
        sink: Id of the sink.
        paths: Each path as the indices of its links, and its weight. Weights are relative, and
            every path gets at least one label.
    """
    total = sum(weight for _, weight in paths)
    assigned = Fraction(0)
    start = 0
    label_paths = []
    for k, (links, weight) in enumerate(paths):
        assigned += weight
        paths_left = len(paths) - 1 - k
        stop = min(LABELS - paths_left, round(LABELS * assigned / total))
        stop = max(start + 1, stop)
        label_paths.append(LabelPath(start=start, stop=stop, links=tuple(links)))
        start = stop
    return LabelSplit(
        network=network,
        source=source,
        sink=sink,
        paths=_with_last_as_first(network, label_paths),
    )


def interval_groups(split: LabelSplit) -> tuple[tuple[tuple[Interval, ...], int], ...]:
    """Return the distinct sets of label intervals, with the number of links that carry each.

    Links that carry all labels are omitted.
    """
    groups = Counter(split.intervals(i) for i in split.loaded if split.load(i) < 1)
    return tuple(groups.items())


def disjoint_return_split(network: Network, source: str, sink: str) -> LabelSplit:
    """Return a label split from the sink back to the source, over two paths.

    The paths share as few nodes and cables as possible. A shared node costs less than a shared
    cable, and either costs more than any detour. Each path has half of the labels. If only one path
    exists, it has all of them.

    Raises:
        NoPathError: The sink cannot reach the source.
    """
    first, second = two_paths(network, sink, source)
    paths = [(first, Fraction(1))]
    if first != second:
        paths.append((second, Fraction(1)))
    return paths_split(network, sink, source, paths)


@dataclass(frozen=True)
class _Arc:
    """A use of a link or of a node in the flow problem of ``two_paths``.

    Attributes:
        tail: Node of the flow problem from which the arc leads.
        head: Node of the flow problem to which it leads.
        cost: Cost of the use.
        link: Index of the link; -1 for a node.
    """

    tail: int
    head: int
    cost: int
    link: int


def two_paths(network: Network, source: str, sink: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two paths that share as few cables and nodes as possible.

    Of all pairs of paths they share the fewest cables, then the fewest nodes, and then have the
    fewest links in total. A cable is a link together with the opposite link; both fail together.
    Hosts other than the ends do not forward unless they are marked so.

    The paths are a minimum-cost flow of two units, in which the first use of a cable or node is
    cheap and the second is expensive (Suurballe 1974, with reuse). No optimum uses a cable in both
    directions, because exchanging the paths' ends there would be cheaper. The cost is
    O(nodes * links) for each path length in practice.

    Returns:
        The paths as indices of links, the shorter one first; twice the same if only one exists.

    Raises:
        NoPathError: The sink cannot be reached.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> net = Network(name="trap", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...               links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> two_paths(net, "a", "d")
    ((0, 1), (2, 3))
    """
    index = network.node_index
    nodes = len(network.nodes)
    arcs = _arcs_with_reuse(network, source, sink, index)
    demand = [0] * (2 * nodes)
    demand[nodes + index[source]] = 2
    demand[index[sink]] = -2
    tails = []
    heads = []
    costs = []
    for arc in arcs:
        tails.append(arc.tail)
        heads.append(arc.head)
        costs.append(arc.cost)
    flow, unmet = fewest_links_flow(tails, heads, [1] * len(arcs), demand, costs)
    if any(unmet):
        raise NoPathError(
            f"network {network.name!r}: no path from {source!r} to {sink!r}; add links between them"
        )
    used_links = []
    for arc, amount in zip(arcs, flow, strict=True):
        if amount and arc.link >= 0:
            used_links.append(arc.link)
    path = _take_path(network, used_links, source, sink)
    other_path = _take_path(network, used_links, source, sink)
    first, second = sorted([path, other_path], key=lambda links: (len(links), links))
    return first, second


def _arcs_with_reuse(
    network: Network, source: str, sink: str, index: Mapping[str, int]
) -> list[_Arc]:
    """Return the arcs of ``two_paths``: two for each node and link, the second one expensive.

    In the flow problem, node n of the network is an arc from n to n + (number of nodes), so that
    its use has a cost.
    """
    nodes = len(network.nodes)
    # A shared node costs more than all links of two paths, and a shared cable more than all nodes.
    shared_node_cost = 2 * nodes + 1
    shared_cable_cost = shared_node_cost * (nodes + 1)
    arcs = []
    for node in network.nodes:
        if node.id not in (source, sink) and node.forwards:
            position = index[node.id]
            arcs.append(_Arc(position, nodes + position, 0, -1))
            arcs.append(_Arc(position, nodes + position, shared_node_cost, -1))
    for i, link in enumerate(network.links):
        if link.target != source and link.source != sink:
            tail = nodes + index[link.source]
            head = index[link.target]
            arcs.append(_Arc(tail, head, 1, i))
            arcs.append(_Arc(tail, head, 1 + shared_cable_cost, i))
    return arcs


def _take_path(network: Network, used_links: list[int], source: str, sink: str) -> tuple[int, ...]:
    """Return a path along the used links, and remove its links from them."""
    path = []
    node = source
    while node != sink:
        link = next(i for i in used_links if network.links[i].source == node)
        used_links.remove(link)
        path.append(link)
        node = network.links[link].target
    return tuple(path)
