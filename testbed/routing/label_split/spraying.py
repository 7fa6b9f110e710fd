"""From a split route to a label split: whole numbers of labels on each link, in as few separate intervals as can be
found.

Four steps: round 65,536 r(l) to integers that still conserve flow, order each node's outgoing links so that intervals
stay whole, read off the path of each range of labels, join ranges of a label or two, which are rounding's, to those
next to them.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from testbed.model.label_split import LABELS, Interval, LabelPath, LabelSplit
from testbed.model.routes import SplitRoute
from testbed.routing.flows.min_cost import fewest_links_flow
from testbed.routing.label_split.interval_search import Cuts, IntervalSearch
from testbed.routing.label_split.rounding import round_to_labels
from topologies import Network, NoPathError

SLIVER = 2
"""Labels: ranges of so many or fewer are given to a path next to them, and every link stays less than so many off its
load."""


def spray(route: SplitRoute, *, budget: int = 3000) -> LabelSplit:
    """A label split in which every link carries its load to within 2/65536.

    ``budget`` bounds the search for an order with few intervals (changes tried; deterministic, no clock). Cost: each
    change is linear in the intervals downstream of it. Raises InputError where the flow has a directed cycle (no
    routing method makes one: a label could go round in it).

    >>> from topologies.network import Link, Node
    >>> net = Network(name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
    ...               links=tuple(Link(source="a", target="b", key=k) for k in range(2)))
    >>> halves = SplitRoute(network=net, source="a", sink="b", method="halves", loads=(Fraction(1, 2), Fraction(1, 2)))
    >>> [spray(halves).intervals(i) for i in range(2)]
    [((0, 32768),), ((32768, 65536),)]
    """
    units = round_to_labels(route)
    order = [node for node, _ in route.in_flow_order(units)]
    flow = tuple((i, units[i], *route.network.links[i].id[:2]) for i in units)
    cuts = _settled(flow, route.source, tuple(order), budget)
    return LabelSplit(
        network=route.network,
        source=route.source,
        sink=route.sink,
        paths=_with_last_as_first(route.network, _without_slivers(route, _read_paths(route, cuts))),
    )


@functools.lru_cache(maxsize=128)
def _settled(
    flow: tuple[tuple[int, int, str, str], ...], source: str, order: tuple[str, ...], budget: int
) -> Cuts:
    """Each link's intervals, which nobody may change: one route is often split again, for another stream or plan."""
    search = IntervalSearch(flow, source, order)
    search.settle(budget)
    return search.cuts


def _with_last_as_first(network: Network, paths: Sequence[LabelPath]) -> tuple[LabelPath, ...]:
    """The paths; where one leads through a host, which forwards by port, the last label goes with the first.

    Linux's rules name ranges of the ports 1 to 65534. What no range takes follows the path of label 0.
    """
    first, last = paths[0], paths[-1]
    through = any(
        network.node(network.links[i].target).kind == "host"
        for path in paths
        for i in path.links[:-1]
    )
    if first.links == last.links or not through:
        return tuple(paths)
    retained = (
        [LabelPath(start=last.start, stop=LABELS - 1, links=last.links)]
        if last.start < LABELS - 1
        else []
    )
    return (*paths[:-1], *retained, LabelPath(start=LABELS - 1, stop=LABELS, links=first.links))


def _read_paths(route: SplitRoute, cuts: Cuts) -> list[LabelPath]:
    """Elementary ranges of labels, each with the links it takes; neighbours on one path are joined."""
    network = route.network
    edges = sorted({0, LABELS, *(x for v in cuts.values() for interval in v for x in interval)})
    at_node: dict[str, list[tuple[int, int, int]]] = {}
    for link, intervals in cuts.items():
        at_node.setdefault(network.links[link].source, []).extend(
            (a, b, link) for a, b in intervals
        )
    paths: list[LabelPath] = []
    for start, stop in itertools.pairwise(edges):
        node, links = route.source, []
        while node != route.sink:
            link = next(i for a, b, i in at_node[node] if a <= start < b)
            links.append(link)
            node = network.links[link].target
        if paths and paths[-1].links == tuple(links):
            start = paths.pop().start
        paths.append(LabelPath(start=start, stop=stop, links=tuple(links)))
    return paths


def _without_slivers(route: SplitRoute, paths: list[LabelPath]) -> tuple[LabelPath, ...]:
    """The paths, but for ranges of one or two labels that rounding has left over: the narrowest first, each goes to a
    path next to it.

    Links whose labels differ by so few ask for other block sizes all the same, and no sender could tell which of them
    failed. A range stays where a link would lose its last label, or be ``SLIVER`` labels off its load.
    """
    off = {i: -load * LABELS for i, load in enumerate(route.loads) if load}
    labels = Counter[int]()
    for path in paths:
        labels.update(dict.fromkeys(path.links, path.stop - path.start))
    for i in off:
        off[i] += labels[i]
    retained: set[LabelPath] = set()
    while True:
        narrow = [
            (p.stop - p.start, k)
            for k, p in enumerate(paths)
            if p.stop - p.start <= SLIVER and p not in retained
        ]
        if not narrow:
            return tuple(paths)
        width, k = min(narrow)
        for other in (k - 1, k + 1):
            if 0 <= other < len(paths) and _moves(
                paths[k].links, paths[other].links, width, off, labels
            ):
                a, b = sorted((k, other))
                paths[a : b + 1] = [
                    LabelPath(start=paths[a].start, stop=paths[b].stop, links=paths[other].links)
                ]
                break
        else:
            retained.add(paths[k])


def _moves(
    old: Sequence[int],
    new: Sequence[int],
    width: int,
    off: dict[int, Fraction],
    labels: Counter[int],
) -> bool:
    """Take ``width`` labels from one path to another, unless a link would be too far off its load; ``off`` and
    ``labels`` follow."""
    change = {i: -width for i in old if i not in new} | {i: width for i in new if i not in old}
    if any(abs(off[i] + d) >= SLIVER or labels[i] + d <= 0 for i, d in change.items()):
        return False
    for i, d in change.items():
        off[i] += d
        labels[i] += d
    return True


def paths_split(
    network: Network, source: str, sink: str, paths: Sequence[tuple[Sequence[int], Fraction]]
) -> LabelSplit:
    """A label split of given paths (link indices, weight); weights are relative, every path gets a label at least."""
    total = sum(weight for _, weight in paths)
    done, at, split = Fraction(0), 0, []
    for k, (links, weight) in enumerate(paths):
        done += weight
        stop = max(at + 1, min(LABELS - (len(paths) - 1 - k), round(LABELS * done / total)))
        split.append(LabelPath(start=at, stop=stop, links=tuple(links)))
        at = stop
    return LabelSplit(
        network=network, source=source, sink=sink, paths=_with_last_as_first(network, split)
    )


def interval_groups(split: LabelSplit) -> tuple[tuple[tuple[Interval, ...], int], ...]:
    """The label intervals of the links that do not carry everything, and how many links carry just these."""
    return tuple(Counter(split.intervals(i) for i in split.loaded if split.load(i) < 1).items())


def disjoint_return_split(network: Network, source: str, sink: str) -> LabelSplit:
    """From sink back to source: half of the labels on each of two paths that share as few nodes and cables as can be.

    A shared node costs less than a shared cable, either more than any detour; one path where the two are the same.
    Raises NoPathError where the sink cannot reach the source.
    """
    first, second = two_paths(network, sink, source)
    halves = (
        [(first, Fraction(1))] if first == second else [(first, Fraction(1)), (second, Fraction(1))]
    )
    return paths_split(network, sink, source, halves)


def two_paths(network: Network, source: str, sink: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two paths (link indices) that share the fewest cables, of those the fewest nodes, of those the fewest links in
    sum.

    The shorter one first; the same twice where there is only one. A cable is a link and the one against it (both fail
    together); hosts other than the ends pass nothing on unless they forward. A least-cost flow of two units in which
    the first use of a cable or node is cheap and the second dear (Suurballe's problem with reuse); no optimum uses a
    cable both ways, since exchanging the paths' ends there would save it. O(nodes * links) each in practice. Raises
    NoPathError.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> net = Network(name="trap", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...               links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> two_paths(net, "a", "d")
    ((0, 1), (2, 3))
    """
    index, count = network.node_index, len(network.nodes)
    node_again = 2 * count + 1  # more than all links of two paths
    cable_again = node_again * (count + 1)
    arcs = [
        (index[node.id], count + index[node.id], (0, node_again), -1)
        for node in network.nodes
        if node.id not in (source, sink) and node.forwards
    ]
    arcs += [
        (count + index[link.source], index[link.target], (1, 1 + cable_again), i)
        for i, link in enumerate(network.links)
        if link.target != source and link.source != sink
    ]
    uses = [(tail, head, cost, link) for tail, head, costs, link in arcs for cost in costs]
    demand = [0] * (2 * count)
    demand[count + index[source]], demand[index[sink]] = 2, -2
    tail, head, cost = ([use[k] for use in uses] for k in range(3))
    flow, unmet = fewest_links_flow(tail, head, [1] * len(uses), demand, cost)
    if any(unmet):
        raise NoPathError(
            f"network {network.name!r}: no path from {source!r} to {sink!r}; add links between them"
        )
    used = [use[3] for use, amount in zip(uses, flow, strict=True) if amount and use[3] >= 0]
    first, second = sorted(
        (_take_path(network, used, source, sink) for _ in range(2)), key=lambda p: (len(p), p)
    )
    return first, second


def _take_path(network: Network, used: list[int], source: str, sink: str) -> tuple[int, ...]:
    """One path along the used links, which it takes out of the list."""
    path = []
    while source != sink:
        link = next(i for i in used if network.links[i].source == source)
        used.remove(link)
        path.append(link)
        source = network.links[link].target
    return tuple(path)
