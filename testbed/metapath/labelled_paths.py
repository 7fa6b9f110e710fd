"""The paths of one pair that FT-DRB may use on switches, each with a label interval of its own, and the way from label
to path.

A multistep path goes by one or two intermediate routers, each segment by the network's static routing (Zarza 2011,
equation 3.1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from testbed.errors import InputError
from testbed.model.label_split import LABELS, Interval
from topologies import LinkId, Network, reverse_of
from topologies.routing_tables import StaticRouting, static_routing

ESCAPED = LABELS // 2
"""The escape bit: labels from here on belong to packets that have left their path; the other bits name the dead
link."""
PATH_LABELS = 1024
MAX_PATHS = ESCAPED // PATH_LABELS


@dataclass(frozen=True, kw_only=True)
class LabelledPaths:
    """Paths from ``source`` to ``sink`` as links in order; the first is the minimal static one, the others by length.

    Packets on path k carry a label of [1024 k, 1024 (k + 1)).
    """

    network: Network
    source: str
    sink: str
    paths: tuple[tuple[LinkId, ...], ...]
    routing: StaticRouting = field(repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the routing, which is a function: the source's process needs the paths only."""
        return {name: value for name, value in vars(self).items() if name != "routing"}

    @property
    def exit(self) -> str:
        """The last switch."""
        return self.sink if _is_switch(self.network, self.sink) else self.paths[0][-1][0]

    @cached_property
    def inner(self) -> tuple[tuple[LinkId, ...], ...]:
        """Each path's links between switches."""
        return tuple(
            tuple(link for link in path if _is_inner(self.network, link)) for path in self.paths
        )

    @cached_property
    def cables(self) -> tuple[frozenset[int], ...]:
        """Each path's cables between switches, by ``cable_number``."""
        return tuple(
            frozenset(cable_number(self.network, link) for link in path) for path in self.inner
        )

    def most_disjoint(self) -> int:
        """The shortest of those paths that share the fewest cables with the first (0 where there is no other)."""
        first = self.cables[0]
        return min(
            range(1, len(self.paths)), key=lambda k: (len(first & self.cables[k]), k), default=0
        )


@dataclass(frozen=True, kw_only=True)
class LabelledPathPair:
    """FT-DRB's known paths there and back."""

    forward: LabelledPaths
    backward: LabelledPaths

    @property
    def return_labels(self) -> tuple[int, ...]:
        """Reports go over the minimal path back and over one that shares the fewest cables with it."""
        return tuple(dict.fromkeys((path_label(0), path_label(self.backward.most_disjoint()))))


def path_label(path: int) -> int:
    """The label of packets on path number ``path``."""
    return path * PATH_LABELS


def path_interval(path: int) -> Interval:
    """All labels of that path."""
    return path * PATH_LABELS, (path + 1) * PATH_LABELS


def dead_link_of(label: int) -> int | None:
    """Which link (index) a packet with this label escaped from last; None where it came by its path."""
    return label - ESCAPED if label >= ESCAPED else None


def cable_number(network: Network, link: LinkId) -> int:
    """One number for both directions of a cable: the lower of the links' indices."""
    back = network.link_index.get(reverse_of(link))
    own = network.link_index[link]
    return own if back is None else min(own, back)


def labelled_paths(
    network: Network, source: str, sink: str, *, most: int = MAX_PATHS
) -> LabelledPaths:
    """The minimal path and up to ``most`` - 1 others, by intermediates near the ends (one hop, then two), shortest
    first.

    The shortest path that shares no cable with the minimal one is kept whatever its length. No path comes to a switch
    twice. Raises InputError where the ends are the same or have no switches, NoPathError where the static routing finds
    no way.
    """
    if not 1 <= most <= MAX_PATHS:
        raise InputError(f"ft-drb: {most} paths; give 1 to {MAX_PATHS}")
    if len(network.links) > ESCAPED:
        raise InputError(
            f"ft-drb: {network.name} has {len(network.links)} links; an escape label names {ESCAPED} at most"
        )
    routing = static_routing(network)
    minimal = routing(source, sink)
    if not any(_is_inner(network, link) for link in minimal):
        raise InputError(
            f"ft-drb: {source!r} and {sink!r} share a switch; at least one link between switches is required"
        )
    inner = [link for link in minimal if _is_inner(network, link)]
    before, after = minimal[: minimal.index(inner[0])], minimal[minimal.index(inner[-1]) + 1 :]
    found = {minimal: len(minimal)}
    for way in _multistep(network, routing, inner[0][0], inner[-1][1]):
        found.setdefault((*before, *way, *after), len(before) + len(way) + len(after))
    ranked = sorted(found, key=lambda path: (path != minimal, found[path]))
    retained = ranked[:most]
    own = {cable_number(network, link) for link in inner}
    apart = next(
        (
            p
            for p in ranked
            if not own & {cable_number(network, x) for x in p if _is_inner(network, x)}
        ),
        None,
    )
    if apart is not None and apart not in retained and most > 1:
        retained[-1] = apart
    return LabelledPaths(
        network=network, source=source, sink=sink, paths=tuple(retained), routing=routing
    )


def labelled_path_pair(network: Network, source: str, sink: str) -> LabelledPathPair:
    """``labelled_paths`` there and back."""
    return LabelledPathPair(
        forward=labelled_paths(network, source, sink),
        backward=labelled_paths(network, sink, source),
    )


def one_and_two_hop_switches(
    network: Network, switch: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The switches one hop away in the order of the links, and those two hops away."""
    ones = _neighbours(network, switch)
    twos = dict.fromkeys(n for one in ones for n in _neighbours(network, one))
    return ones, tuple(n for n in twos if n != switch and n not in ones)


def _neighbours(network: Network, switch: str) -> tuple[str, ...]:
    ends = (network.links[i].target for i in network.out_links(switch))
    return tuple(dict.fromkeys(n for n in ends if _is_switch(network, n)))


def _multistep(
    network: Network, routing: StaticRouting, start: str, end: str
) -> Iterator[tuple[LinkId, ...]]:
    """Ways between two switches by one or two intermediates that come to no switch twice."""
    firsts = [start, *(n for hop in one_and_two_hop_switches(network, start) for n in hop)]
    seconds = [end, *(n for hop in one_and_two_hop_switches(network, end) for n in hop)]
    for first in firsts:
        for second in seconds:
            way = (*routing(start, first), *routing(first, second), *routing(second, end))
            if way and _simple(start, way):
                yield way


def _simple(start: str, way: Sequence[LinkId]) -> bool:
    nodes = [start, *(link[1] for link in way)]
    return len(set(nodes)) == len(nodes)


def _is_switch(network: Network, node: str) -> bool:
    return network.node(node).kind == "switch"


def _is_inner(network: Network, link: LinkId) -> bool:
    return _is_switch(network, link[0]) and _is_switch(network, link[1])
