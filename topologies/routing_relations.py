"""Adaptive routing as a relation: which channel may follow which, a channel being a link and one of its virtual
channels.

A packet may take any channel that brings it nearer to its destination under the relation; the router chooses. Where no
circle of channels can follow one another nothing can deadlock (Dally and Seitz 1987). A relation made for what is left
of a network leads round its failures, or raises NoPathError where the relation has no way left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from topologies.errors import NoPathError, TopologyError
from topologies.grouping import lists_by_key
from topologies.network import Link, LinkId, Network

Detour = Literal["", "valiant", "ugal"]
Channel = tuple[int, int]
"""Number of a link between switches (as ``network.links``), and of its virtual channel."""


def _anywhere(link: Link, lane: int) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class RoutingRelation:
    """A relation over a network's links between switches with ``lanes`` virtual channels each; hosts' links have none
    of their own.

    ``may_start``: whether a packet may take the channel at its first switch. ``may_follow``: whether it may take the
    second channel after the first. ``detour``: "valiant", over a switch drawn at random first; "ugal", over it or
    straight, whichever has the smaller product of queue and hops at the source's switch; the way to that switch then
    has ``lanes`` of its own, and the way from it as many again.
    """

    method: str
    network: Network
    lanes: int
    may_follow: Callable[[Link, int, Link, int], bool] = field(
        repr=False, hash=False, compare=False
    )
    may_start: Callable[[Link, int], bool] = field(
        default=_anywhere, repr=False, hash=False, compare=False
    )
    detour: Detour = ""

    @property
    def all_lanes(self) -> int:
        """Virtual channels that a link needs."""
        return self.lanes * (2 if self.detour else 1)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels between switches."""
        return tuple((i, lane) for i in self.network.core for lane in range(self.lanes))

    @cached_property
    def first(self) -> dict[str, tuple[int, ...]]:
        """Switch -> the channels (by their place in ``channels``) that a packet may take there first."""
        found: dict[str, list[int]] = {switch.id: [] for switch in self.network.switches}
        for c, (i, lane) in enumerate(self.channels):
            link = self.network.links[i]
            if self.may_start(link, lane):
                found[link.source].append(c)
        return {switch: tuple(paths) for switch, paths in found.items()}

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Channel -> the channels that may follow it."""
        links = self.network.links
        leaving = lists_by_key((links[i].source, c) for c, (i, _) in enumerate(self.channels))
        return tuple(
            tuple(
                d
                for d in leaving.get(links[i].target, ())
                if self.may_follow(links[i], lane, links[self.channels[d][0]], self.channels[d][1])
            )
            for i, lane in self.channels
        )

    @property
    def may_deadlock(self) -> bool:
        """Whether channels can follow one another in a circle."""
        try:
            TopologicalSorter(dict(enumerate(self.after))).prepare()
        except CycleError:
            return True
        return False

    def path(self, source: str, destination: str) -> tuple[LinkId, ...]:
        """One of the shortest ways under the relation, straight; the first at every choice. NoPathError where it has
        none."""
        head, start = self._to_switch(source, outwards=True)
        tail, goal = self._to_switch(destination, outwards=False)
        if start == goal:
            return (*head, *tail)
        links = self.network.links
        paths: list[tuple[int, ...]] = [(c,) for c in self.first[start]]
        seen = set(self.first[start])
        for way in paths:
            if links[self.channels[way[-1]][0]].target == goal:
                return (*head, *(links[self.channels[c][0]].id for c in way), *tail)
            for d in self.after[way[-1]]:
                if d not in seen:
                    seen.add(d)
                    paths.append((*way, d))
        raise NoPathError(
            f"{self.method} has no way from {source!r} to {destination!r} in {self.network.name!r}"
        )

    def _to_switch(self, node: str, *, outwards: bool) -> tuple[tuple[LinkId, ...], str]:
        """The link between a host and its switch, and the switch."""
        if self.network.node(node).kind == "switch":
            return (), node
        numbers = self.network.out_links(node) if outwards else self.network.in_links(node)
        if not numbers:
            raise NoPathError(
                f"host {node!r} has no link {'out of' if outwards else 'into'} it; join it to a switch"
            )
        link = self.network.links[numbers[0]]
        return (link.id,), link.target if outwards else link.source


def minimal_adaptive(network: Network) -> RoutingRelation:
    """Any shortest path, free choice at every switch, one channel a link: it deadlocks unless something keeps it from
    that."""
    return RoutingRelation(
        method="minimal-adaptive",
        network=network,
        lanes=1,
        may_follow=lambda one, a, other, b: one.source != other.target,
    )


def up_down(network: Network) -> RoutingRelation:
    """Up*/down* (Schroeder et al. 1991): links up, then links down; never up again.

    Up is nearer to the root, or as near and earlier in the network's order; on a fat tree it is the level above. The
    root is the switch of most links. So it is free of deadlock on any network that is joined both ways, whatever has
    failed.
    """
    rank = _levels(network)

    def is_up(link: Link) -> bool:
        return rank[link.target] < rank[link.source]

    return RoutingRelation(
        method="up-down",
        network=network,
        lanes=1,
        may_follow=lambda one, a, other, b: is_up(one) or not is_up(other),
    )


def _levels(network: Network) -> dict[str, tuple[int, int]]:
    """Switch -> (level, order): links to smaller ones lead up."""
    order = {switch.id: i for i, switch in enumerate(network.switches)}
    levels = [switch.attributes.get("level") for switch in network.switches]
    if network.attributes.get("family") in ("fat-tree", "clos"):
        return {s: (-int(level or 0), order[s]) for s, level in zip(order, levels, strict=True)}
    near = switch_neighbours(network)
    depth = _depths(near, max(order, key=lambda s: (len(near[s]), -order[s])))
    return {s: (depth.get(s, len(order)), order[s]) for s in order}


def switch_neighbours(network: Network) -> dict[str, list[str]]:
    """Switch -> the switches that its links lead to, once a link."""
    near: dict[str, list[str]] = {switch: [] for switch in network.switch_ids}
    for i in network.core:
        near[network.links[i].source].append(network.links[i].target)
    return near


def _depths(near: dict[str, list[str]], start: str) -> dict[str, int]:
    """Switch -> the fewest links to it."""
    depth, reached = {start: 0}, [start]
    for at in reached:
        for other in near[at]:
            if other not in depth:
                depth[other] = depth[at] + 1
                reached.append(other)
    return depth


def odd_even(network: Network) -> RoutingRelation:
    """The odd-even turn model (Chiu 2000) on meshes of two dimensions, and on tori with a virtual channel a wrap-around
    crossed.

    Switches of an even first coordinate have no turn from + of the first dimension into the second, those of an odd one
    none from the second into - of the first. A packet begins on channel 0 and goes on to the next one with every
    wrap-around link, after which it may turn as it likes: no channel follows one of a higher number. TopologyError on
    other networks.
    """
    grid = _Grid(network)
    if len(grid.shape) != 2:
        raise TopologyError(
            f"odd-even: {network.name!r} has {len(grid.shape)} dimensions; it is for two"
        )
    wraps = grid.wrapping

    def may_follow(one: Link, a: int, other: Link, b: int) -> bool:
        if one.source == other.target or b != a + grid.crosses(other):
            return False
        if grid.crosses(one) or grid.crosses(other):
            return True
        (before, sign), (then, next_sign) = grid.way(one), grid.way(other)
        if before == then:
            return sign == next_sign
        even = grid.at[one.target][0] % 2 == 0
        return not (
            (even and before == 0 and sign > 0) or (not even and then == 0 and next_sign < 0)
        )

    return RoutingRelation(
        method="odd-even",
        network=network,
        lanes=1 + wraps,
        may_start=lambda link, lane: lane == grid.crosses(link),
        may_follow=may_follow,
    )


def dateline(network: Network, detour: Detour = "") -> RoutingRelation:
    """Dimension order with two channels a link, the second from the wrap-around link of a ring on (Dally and Seitz
    1987); either way round where both are as long. TopologyError on networks that are no grid.
    """
    grid = _Grid(network)

    def may_follow(one: Link, a: int, other: Link, b: int) -> bool:
        (before, sign), (then, next_sign) = grid.way(one), grid.way(other)
        if before == then:
            return sign == next_sign and b == a + grid.crosses(other)
        return before < then and b == grid.crosses(other)

    return RoutingRelation(
        method=detour or "dateline",
        network=network,
        lanes=2 if grid.wrapping else 1,
        may_start=lambda link, lane: lane == grid.crosses(link),
        may_follow=may_follow,
        detour=detour,
    )


def distance_classes(network: Network, detour: Detour = "") -> RoutingRelation:
    """Any shortest path, with a channel of the next number at every hop (Guenther 1981): as many as the most hops
    between switches."""
    return RoutingRelation(
        method=detour or "distance-classes",
        network=network,
        lanes=_diameter(network),
        may_start=lambda link, lane: lane == 0,
        may_follow=lambda one, a, other, b: b == a + 1,
        detour=detour,
    )


def detouring(network: Network, detour: Detour) -> RoutingRelation:
    """ "valiant": over a switch drawn at random, straight to it and straight on (Valiant and Brebner 1981). "ugal":
    UGAL-L (Singh 2005), straight or so, by queue times hops as the source's switch knows them. Both by dimension order
    with a dateline on grids, else by distance classes."""
    if network.attributes.get("family") in ("torus", "mesh", "ring"):
        return dateline(network, detour)
    return distance_classes(network, detour)


def _diameter(network: Network) -> int:
    """The most links between two switches on shortest paths; NoPathError where some are apart."""
    near, longest = switch_neighbours(network), 1
    for start in near:
        depth = _depths(near, start)
        if len(depth) < len(near):
            raise NoPathError(
                f"{network.name!r}: {len(near) - len(depth)} switches cannot be reached from {start!r}"
            )
        longest = max(longest, *depth.values())
    return longest


class _Grid:
    """Where the switches of a torus, mesh or ring are, and which way its links lead."""

    def __init__(self, network: Network) -> None:
        shape: Any = network.attributes.get("shape")
        if not isinstance(shape, list) or not isinstance(network.attributes.get("wraps"), bool):
            raise TopologyError(
                f"network {network.name!r} is no torus, mesh or ring; route it by up-down"
            )
        self.shape: Sequence[int] = shape
        self.wrapping = sum(size > 2 for size in shape) if network.attributes["wraps"] else 0
        self.at: dict[str, list[int]] = {
            s.id: s.attributes["coordinates"] for s in network.switches
        }
        self._paths: dict[tuple[str, str], tuple[int, int, bool]] = {}

    def _look(self, link: Link) -> tuple[int, int, bool]:
        """Dimension, direction, and whether it joins the two ends of its row."""
        known = self._paths.get((link.source, link.target))
        if known is None:
            one, other = self.at[link.source], self.at[link.target]
            dimension = next(d for d in range(len(one)) if one[d] != other[d])
            step = other[dimension] - one[dimension]
            crosses = abs(step) > 1
            known = (dimension, (1 if step > 0 else -1) * (-1 if crosses else 1), crosses)
            self._paths[link.source, link.target] = known
        return known

    def way(self, link: Link) -> tuple[int, int]:
        """Dimension and direction, 1 or -1."""
        return self._look(link)[:2]

    def crosses(self, link: Link) -> bool:
        """Whether it is a wrap-around link."""
        return self._look(link)[2]
