"""From a split route to a label split: whole numbers of labels on each link, in as few separate intervals as can be found.

Three steps: round 65,536 r(l) to integers that still conserve flow, order each node's outgoing links so that intervals
stay whole, read off the path of each range of labels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

from testbed.errors import InputError
from testbed.model.label_split import LABELS, Interval, LabelPath, LabelSplit
from testbed.model.routes import SplitRoute
from topologies.network import Network

Units = dict[int, int]
"""Link index -> number of labels, loaded links only."""
Cuts = dict[int, list[Interval]]
"""Link index -> its label intervals, ascending."""


def spray(route: SplitRoute, *, budget: int = 400) -> LabelSplit:
    """A label split in which every link carries its load to within 1/65536.

    ``budget`` bounds the search for an order with few intervals (evaluations; deterministic, no clock). Cost: each
    evaluation is linear in the intervals. Raises InputError where the flow has a directed cycle.
    """
    units = round_to_labels(route)
    order = _topological(route.network, units, route.source)
    best = _fewest_intervals(route, units, order, budget)
    return LabelSplit(
        network=route.network, source=route.source, sink=route.sink, paths=tuple(_read_paths(route, best))
    )


def round_to_labels(route: SplitRoute) -> Units:
    """Integers u(l), each the floor or the ceiling of 65536 r(l), that conserve flow.

    While a link is fractional, a cycle of fractional links exists (ends of the flow included: they send whole labels);
    pushing around it makes at least one link whole. At most one round a link.
    """
    units = {i: load * LABELS for i, load in enumerate(route.loads) if load}
    network = route.network
    while True:
        cycle = _fractional_cycle(network, units)
        if cycle is None:
            break
        room = min(
            (_ceiling(units[i]) - units[i]) if forward else (units[i] - units[i].__floor__()) for i, forward in cycle
        )
        for i, forward in cycle:
            units[i] += room if forward else -room
    return {i: int(u) for i, u in units.items() if u}


def _ceiling(value: Fraction) -> int:
    return -((-value).__floor__())


def _fractional_cycle(network: Network, units: Mapping[int, Fraction]) -> list[tuple[int, bool]] | None:
    """A cycle of fractional links, walked without regard to direction: (link, walked forwards?) each."""
    around: dict[str, list[int]] = {}
    for i, u in units.items():
        if u.denominator != 1:
            around.setdefault(network.links[i].source, []).append(i)
            around.setdefault(network.links[i].target, []).append(i)
    if not around:
        return None
    node = min(around, key=lambda n: network.node_index[n])
    seen: dict[str, int] = {}
    walk: list[tuple[int, bool]] = []
    last = -1
    while node not in seen:
        seen[node] = len(walk)
        link = next(i for i in around[node] if i != last)
        forward = network.links[link].source == node
        walk.append((link, forward))
        node = network.links[link].target if forward else network.links[link].source
        last = link
    return walk[seen[node] :]


def _topological(network: Network, units: Units, source: str) -> list[str]:
    """Nodes of the flow in an order in which every loaded link points forwards."""
    waiting: dict[str, int] = {source: 0}
    out: dict[str, list[int]] = {}
    for i in units:
        link = network.links[i]
        waiting[link.target] = waiting.get(link.target, 0) + 1
        waiting.setdefault(link.source, 0)
        out.setdefault(link.source, []).append(i)
    ready = sorted((n for n, count in waiting.items() if not count), key=lambda n: network.node_index[n])
    order = []
    while ready:
        node = ready.pop(0)
        order.append(node)
        for i in out.get(node, ()):
            target = network.links[i].target
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    if len(order) != len(waiting):
        raise InputError("split route: its flow runs in a cycle; remove the cycle before splitting it over labels")
    return order


def _fewest_intervals(route: SplitRoute, units: Units, order: Sequence[str], budget: int) -> Cuts:
    """Hill climbing over the order of each node's outgoing links, from the network's order; ties keep the first found."""
    network = route.network
    out = {n: [i for i in network.out_links(n) if i in units] for n in order}
    branching = [n for n in order if len(out[n]) > 1]
    best = _cut(network, units, order, out, route.source)
    chance = random.Random(1)
    least = sum(len(v) for v in best.values())
    for _ in range(budget if branching else 0):
        if least == len(units):
            break
        node = branching[chance.randrange(len(branching))]
        a, b = chance.sample(range(len(out[node])), 2)
        out[node][a], out[node][b] = out[node][b], out[node][a]
        tried = _cut(network, units, order, out, route.source)
        count = sum(len(v) for v in tried.values())
        if count <= least:
            best, least = tried, count
        else:
            out[node][a], out[node][b] = out[node][b], out[node][a]
    return best


def _cut(network: Network, units: Units, order: Sequence[str], out: Mapping[str, Sequence[int]], source: str) -> Cuts:
    """Deal each node's labels, in ascending order, to its outgoing links in theirs."""
    held: dict[str, list[Interval]] = {source: [(0, LABELS)]}
    cuts: Cuts = {}
    for node in order:
        pieces = _merged(held.pop(node, []))
        at, used = 0, 0
        for link in out[node]:
            need, mine = units[link], []
            while need:
                start, stop = pieces[at]
                start += used
                take = min(need, stop - start)
                mine.append((start, start + take))
                need -= take
                used += take
                if start + take == stop:
                    at, used = at + 1, 0
            cuts[link] = mine
            held.setdefault(network.links[link].target, []).extend(mine)
    return cuts


def _merged(pieces: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for start, stop in sorted(pieces):
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return merged


def _read_paths(route: SplitRoute, cuts: Cuts) -> list[LabelPath]:
    """Elementary ranges of labels, each with the links it takes; neighbours on one path are joined."""
    network = route.network
    edges = sorted({0, LABELS, *(x for v in cuts.values() for interval in v for x in interval)})
    at_node: dict[str, list[tuple[int, int, int]]] = {}
    for link, intervals in cuts.items():
        at_node.setdefault(network.links[link].source, []).extend((a, b, link) for a, b in intervals)
    paths: list[LabelPath] = []
    for start, stop in zip(edges, edges[1:], strict=False):
        node, links = route.source, []
        while node != route.sink:
            link = next(i for a, b, i in at_node[node] if a <= start < b)
            links.append(link)
            node = network.links[link].target
        if paths and paths[-1].links == tuple(links):
            start = paths.pop().start
        paths.append(LabelPath(start=start, stop=stop, links=tuple(links)))
    return paths


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
    return LabelSplit(network=network, source=source, sink=sink, paths=tuple(split))


def disjoint_return_split(network: Network, source: str, sink: str) -> LabelSplit:
    """From sink back to source: half of the labels on each of two paths that share as few nodes and cables as can be.

    A shared node costs less than a shared cable, either more than any detour; one path where the two are the same.
    Raises NoPathError where the sink cannot reach the source.
    """
    from testbed.routing.two_paths import two_paths

    first, second = two_paths(network, sink, source)
    halves = [(first, Fraction(1))] if first == second else [(first, Fraction(1)), (second, Fraction(1))]
    return paths_split(network, sink, source, halves)
