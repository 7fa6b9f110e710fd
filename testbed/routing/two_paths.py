"""Two paths that share as little as possible: a flow of two units of least cost, second use of anything dear.

Pure; ties are broken by the network's order of links.
"""

from collections import deque
from dataclasses import dataclass, field

from topologies.errors import NoPathError
from topologies.network import Network


def two_paths(network: Network, source: str, sink: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two paths (link indices) that share the fewest cables, of those the fewest nodes, of those the fewest links in
    sum.

    The shorter one first; the same twice where there is only one. A cable is a link and the one against it (both fail
    together); hosts other than the ends pass nothing on. Two augmentations of a least-cost flow in which the first use
    of a cable or node is cheap and the second dear (Suurballe's problem with reuse); no optimum uses a cable both ways,
    since exchanging the paths' ends there would save it. O(nodes * links) each in practice. Raises NoPathError.

    >>> from topologies.network import Link, Node
    >>> ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    >>> net = Network(name="trap", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"),
    ...               links=tuple(Link(source=s, target=t) for s, t in ends))
    >>> two_paths(net, "a", "d")
    ((0, 1), (2, 3))
    """
    arcs = _build_arcs(network, source, sink)
    for _ in range(2):
        if not _augment(arcs, f"{source}>", f">{sink}"):
            raise NoPathError(f"network {network.name!r}: no path from {source!r} to {sink!r}; add links between them")
    used = [arc.link for arc in arcs.forward if arc.used and arc.link is not None]
    first, second = sorted((_take_path(network, used, source, sink) for _ in range(2)), key=lambda p: (len(p), p))
    return first, second


@dataclass(eq=False, kw_only=True)
class _Arc:
    """One use of a link, or of a node (from its side of arrivals ``>n`` to that of departures ``n>``)."""

    tail: str
    head: str
    cost: int
    link: int | None
    used: bool = False


@dataclass(eq=False, kw_only=True)
class _Arcs:
    forward: list[_Arc] = field(default_factory=list)
    leaving: dict[str, list[_Arc]] = field(default_factory=dict)
    entering: dict[str, list[_Arc]] = field(default_factory=dict)

    def add(self, tail: str, head: str, costs: tuple[int, int], link: int | None = None) -> None:
        for cost in costs:
            arc = _Arc(tail=tail, head=head, cost=cost, link=link)
            self.forward.append(arc)
            self.leaving.setdefault(tail, []).append(arc)
            self.entering.setdefault(head, []).append(arc)


def _build_arcs(network: Network, source: str, sink: str) -> _Arcs:
    arcs = _Arcs()
    node_again = 2 * len(network.nodes) + 1  # more than all links of two paths
    cable_again = node_again * (len(network.nodes) + 1)
    for node in network.nodes:
        if node.id not in (source, sink) and node.kind == "switch":
            arcs.add(f">{node.id}", f"{node.id}>", (0, node_again))
    for i, link in enumerate(network.links):
        if link.target != source and link.source != sink:
            arcs.add(f"{link.source}>", f">{link.target}", (1, 1 + cable_again), i)
    return arcs


def _augment(arcs: _Arcs, start: str, goal: str) -> bool:
    """One more unit along a cheapest way through what is free and back along what is used (queue-based
    Bellman-Ford)."""
    cost, arrived = {start: 0}, dict[str, tuple[_Arc, bool]]()
    queue, queued = deque([start]), {start}
    while queue:
        here = queue.popleft()
        queued.discard(here)
        steps = [(a, True, a.head, a.cost) for a in arcs.leaving.get(here, ()) if not a.used]
        steps += [(a, False, a.tail, -a.cost) for a in arcs.entering.get(here, ()) if a.used]
        for arc, forward, there, price in steps:
            if there not in cost or cost[here] + price < cost[there]:
                cost[there], arrived[there] = cost[here] + price, (arc, forward)
                if there not in queued:
                    queue.append(there)
                    queued.add(there)
    if goal not in cost:
        return False
    while goal != start:
        arc, forward = arrived[goal]
        arc.used = forward
        goal = arc.tail if forward else arc.head
    return True


def _take_path(network: Network, used: list[int], source: str, sink: str) -> tuple[int, ...]:
    """One path along the used links, which it takes out of the list."""
    path = []
    while source != sink:
        link = next(i for i in used if network.links[i].source == source)
        used.remove(link)
        path.append(link)
        source = network.links[link].target
    return tuple(path)
