"""Adaptive routing as a relation between channels: which channel may follow which.

A channel is one virtual channel of a link. A packet may take any channel that brings it nearer to
its destination under the relation; the router chooses among them. A relation under which no
sequence of channels is a cycle cannot deadlock (Dally and Seitz 1987).

A relation that is built for a network with failed links leads around the failures. It raises
NoPathError if it has no path left.
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
# The index in ``Network.links`` of a link between switches, and the number of its virtual channel.
Channel = tuple[int, int]


def _every_channel(link: Link, lane: int) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class RoutingRelation:
    """A routing relation over the links between the switches of a network.

    The links of hosts have no virtual channels.

    Attributes:
        method: Name of the routing method.
        network: The network.
        lanes: Number of virtual channels of each link for one leg of the path.
        may_follow: Takes a link, the number of its virtual channel, a second link and its virtual
            channel. Returns whether a packet may take the second channel after the first.
        may_start: Takes a link and its virtual channel. Returns whether a packet may take this
            channel at its first switch.
        detour: "valiant" if each packet goes first to a random intermediate switch. "ugal" if it
            goes there or straight to its destination, whichever has the smaller product of queue
            length and hops at the switch of the source. The two legs of a detour have ``lanes``
            virtual channels each.
    """

    method: str
    network: Network
    lanes: int
    may_follow: Callable[[Link, int, Link, int], bool] = field(
        repr=False, hash=False, compare=False
    )
    may_start: Callable[[Link, int], bool] = field(
        default=_every_channel, repr=False, hash=False, compare=False
    )
    detour: Detour = ""

    @property
    def all_lanes(self) -> int:
        """The number of virtual channels of each link, for all legs of the path."""
        legs = 2 if self.detour else 1
        return legs * self.lanes

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels between switches."""
        channels: list[Channel] = []
        for link in self.network.core:
            channels += [(link, lane) for lane in range(self.lanes)]
        return tuple(channels)

    @cached_property
    def first(self) -> dict[str, tuple[int, ...]]:
        """The channels that a packet may take first at each switch, as indices in ``channels``."""
        first: dict[str, list[int]] = {switch.id: [] for switch in self.network.switches}
        for channel, (i, lane) in enumerate(self.channels):
            link = self.network.links[i]
            if self.may_start(link, lane):
                first[link.source].append(channel)
        return {switch: tuple(channels) for switch, channels in first.items()}

    @cached_property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """The channels that may follow each channel, as indices in ``channels``."""
        links = self.network.links
        channels = [(links[i], lane) for i, lane in self.channels]
        leaving = lists_by_key((link.source, c) for c, (link, _) in enumerate(channels))
        after = []
        for link, lane in channels:
            following = [
                c for c in leaving.get(link.target, ()) if self.may_follow(link, lane, *channels[c])
            ]
            after.append(tuple(following))
        return tuple(after)

    @property
    def may_deadlock(self) -> bool:
        """True if channels can follow one another in a cycle."""
        try:
            TopologicalSorter(dict(enumerate(self.after))).prepare()
        except CycleError:
            return True
        return False

    def path(self, source: str, destination: str) -> tuple[LinkId, ...]:
        """Return a shortest path under the relation, without a detour.

        Of several shortest paths, it is the first one in the order of ``channels``.

        Raises:
            NoPathError: The relation has no path between the two nodes.
        """
        head, start = self._link_and_switch(source, outwards=True)
        tail, goal = self._link_and_switch(destination, outwards=False)
        if start == goal:
            return (*head, *tail)
        links = self.network.links
        # Breadth-first search; the list grows while it is read.
        paths: list[tuple[int, ...]] = [(c,) for c in self.first[start]]
        reached = set(self.first[start])
        for path in paths:
            if links[self.channels[path[-1]][0]].target == goal:
                return (*head, *(links[self.channels[c][0]].id for c in path), *tail)
            for following in self.after[path[-1]]:
                if following not in reached:
                    reached.add(following)
                    paths.append((*path, following))
        raise NoPathError(
            f"{self.method} has no path from {source!r} to {destination!r} in {self.network.name!r}"
        )

    def _link_and_switch(self, node: str, *, outwards: bool) -> tuple[tuple[LinkId, ...], str]:
        """Return the link between a host and its switch, and the switch.

        Args:
            node: Id of the host or switch.
            outwards: Whether to return the link out of the host, or the link into it.

        Returns:
            No link and the node itself if it is a switch.
        """
        if self.network.node(node).kind == "switch":
            return (), node
        numbers = self.network.out_links(node) if outwards else self.network.in_links(node)
        if not numbers:
            direction = "out of" if outwards else "into"
            raise NoPathError(f"host {node!r} has no link {direction} it; connect it to a switch")
        link = self.network.links[numbers[0]]
        switch = link.target if outwards else link.source
        return (link.id,), switch


def minimal_adaptive(network: Network) -> RoutingRelation:
    """Return a relation that allows all shortest paths, with one channel on each link.

    It can deadlock unless something else prevents that.
    """
    return RoutingRelation(
        method="minimal-adaptive",
        network=network,
        lanes=1,
        # A packet does not go straight back.
        may_follow=lambda first, a, second, b: first.source != second.target,
    )


def up_down(network: Network) -> RoutingRelation:
    """Return up*/down* routing (Schroeder et al. 1991): links up, then links down, never up again.

    A link leads up if its target is nearer to the root than its source, or is equally near and
    comes earlier in the order of the network. On a fat tree it leads up if its target is on a
    higher level. The root is the switch with the most links. This relation has no deadlock on any
    connected network whose links go both ways, whatever has failed.
    """
    rank = _ranks(network)

    def is_up(link: Link) -> bool:
        return rank[link.target] < rank[link.source]

    return RoutingRelation(
        method="up-down",
        network=network,
        lanes=1,
        may_follow=lambda first, a, second, b: is_up(first) or not is_up(second),
    )


def _ranks(network: Network) -> dict[str, tuple[int, int]]:
    """Return the level and the order of each switch; links to a smaller pair lead up."""
    order = {switch.id: i for i, switch in enumerate(network.switches)}
    if network.attributes.get("family") in ("fat-tree", "clos"):
        ranks = {}
        for switch in network.switches:
            level = int(switch.attributes.get("level") or 0)
            ranks[switch.id] = (-level, order[switch.id])
        return ranks
    neighbours = switch_neighbours(network)
    root = max(order, key=lambda switch: (len(neighbours[switch]), -order[switch]))
    distance = _distances_from(neighbours, root)
    # Switches that the root does not reach come last.
    return {switch: (distance.get(switch, len(order)), order[switch]) for switch in order}


def switch_neighbours(network: Network) -> dict[str, list[str]]:
    """Return the switches to which the links of each switch lead, one entry for each link."""
    neighbours: dict[str, list[str]] = {switch: [] for switch in network.switch_ids}
    for i in network.core:
        neighbours[network.links[i].source].append(network.links[i].target)
    return neighbours


def _distances_from(neighbours: dict[str, list[str]], start: str) -> dict[str, int]:
    """Return the number of links from a switch to each switch that it reaches."""
    distance = {start: 0}
    reached = [start]
    for switch in reached:
        for neighbour in neighbours[switch]:
            if neighbour not in distance:
                distance[neighbour] = distance[switch] + 1
                reached.append(neighbour)
    return distance


def odd_even(network: Network) -> RoutingRelation:
    """Return the odd-even turn model (Chiu 2000) on a mesh or torus of two dimensions.

    At switches with an even first coordinate, a packet must not turn from the direction + of the
    first dimension into the second dimension. At switches with an odd one, it must not turn from
    the second dimension into the direction - of the first.

    On a torus, each dimension that wraps around adds a virtual channel. A packet begins on channel
    0 and moves to the next channel with every wrap-around link, after which it may turn freely.
    Since no channel is followed by one with a lower number, there is no deadlock.

    Raises:
        TopologyError: The network is no grid of two dimensions.
    """
    grid = _Grid(network)
    if len(grid.shape) != 2:
        raise TopologyError(
            f"odd-even: {network.name!r} has {len(grid.shape)} dimensions; it is for two"
        )

    def may_follow(first: Link, a: int, second: Link, b: int) -> bool:
        if first.source == second.target or b != a + grid.lane_step(second):
            return False
        if grid.crosses(first) or grid.crosses(second):
            return True
        first_dimension, first_sign = grid.direction(first)
        second_dimension, second_sign = grid.direction(second)
        if first_dimension == second_dimension:
            return first_sign == second_sign
        if grid.coordinates[first.target][0] % 2 == 0:
            is_forbidden = first_dimension == 0 and first_sign > 0
        else:
            is_forbidden = second_dimension == 0 and second_sign < 0
        return not is_forbidden

    return RoutingRelation(
        method="odd-even",
        network=network,
        lanes=1 + grid.wrapping_dimensions,
        may_start=lambda link, lane: lane == grid.lane_step(link),
        may_follow=may_follow,
    )


def dateline(network: Network, detour: Detour = "") -> RoutingRelation:
    """Return dimension-order routing with a dateline on each ring (Dally and Seitz 1987).

    Each link has two virtual channels. In each dimension a packet begins on the first one, and is
    on the second one from the wrap-around link on. Where both ways round have the same length, it
    may take either.

    Args:
        network: A torus, a mesh or a ring.
        detour: The detour of the relation.

    Raises:
        TopologyError: The network is no grid.
    """
    grid = _Grid(network)

    def may_follow(first: Link, a: int, second: Link, b: int) -> bool:
        first_dimension, first_sign = grid.direction(first)
        second_dimension, second_sign = grid.direction(second)
        if first_dimension == second_dimension:
            return first_sign == second_sign and b == a + grid.lane_step(second)
        return first_dimension < second_dimension and b == grid.lane_step(second)

    lanes = 2 if grid.wrapping_dimensions else 1
    return RoutingRelation(
        method=detour or "dateline",
        network=network,
        lanes=lanes,
        may_start=lambda link, lane: lane == grid.lane_step(link),
        may_follow=may_follow,
        detour=detour,
    )


def distance_classes(network: Network, detour: Detour = "") -> RoutingRelation:
    """Return a relation that allows all shortest paths, with distance classes (Guenther 1981).

    Each hop takes the virtual channel with the next number, so that there is no deadlock. The
    number of channels is the largest number of hops between two switches.

    Args:
        network: The network.
        detour: The detour of the relation.
    """
    return RoutingRelation(
        method=detour or "distance-classes",
        network=network,
        lanes=_diameter(network),
        may_start=lambda link, lane: lane == 0,
        may_follow=lambda first, a, second, b: b == a + 1,
        detour=detour,
    )


def detouring(network: Network, detour: Detour) -> RoutingRelation:
    """Return a relation with detours over a random intermediate switch.

    Both legs of a detour use dimension order with a dateline on grids, and distance classes on
    other networks.

    Args:
        network: The network.
        detour: "valiant" if each packet makes a detour (Valiant and Brebner 1981). "ugal" for
            UGAL-L (Singh 2005): each packet goes straight or makes a detour, by the product of
            queue length and hops that the switch of its source knows.
    """
    if network.attributes.get("family") in ("torus", "mesh", "ring"):
        return dateline(network, detour)
    return distance_classes(network, detour)


def _diameter(network: Network) -> int:
    """Return the largest number of links on a shortest path between two switches.

    Raises:
        NoPathError: A switch cannot be reached from another one.
    """
    neighbours = switch_neighbours(network)
    diameter = 1
    for start in neighbours:
        distance = _distances_from(neighbours, start)
        unreached = len(neighbours) - len(distance)
        if unreached:
            raise NoPathError(
                f"{network.name!r}: {unreached} switches cannot be reached from {start!r}"
            )
        diameter = max(diameter, *distance.values())
    return diameter


@dataclass(frozen=True)
class _Step:
    """The step that a link makes in a grid.

    Attributes:
        dimension: Index of the coordinate that changes.
        sign: 1 if the step is in the direction of +, else -1; a wrap-around link from the last
            switch of a row to the first one leads in the direction of +.
        crosses: Whether the link is a wrap-around link.
    """

    dimension: int
    sign: int
    crosses: bool


class _Grid:
    """The coordinates of the switches of a torus, mesh or ring, and the directions of its links.

    Attributes:
        shape: Number of switches in each dimension.
        wrapping_dimensions: Number of dimensions that have wrap-around links.
        coordinates: The coordinates of each switch.
    """

    def __init__(self, network: Network) -> None:
        shape: Any = network.attributes.get("shape")
        wraps = network.attributes.get("wraps")
        if not isinstance(shape, list) or not isinstance(wraps, bool):
            raise TopologyError(
                f"network {network.name!r} is not a torus, mesh or ring; use the routing up-down"
            )
        self.shape: Sequence[int] = shape
        # A dimension of two switches has one cable and no wrap-around link.
        self.wrapping_dimensions = len([size for size in shape if size > 2]) if wraps else 0
        self.coordinates: dict[str, list[int]] = {
            switch.id: switch.attributes["coordinates"] for switch in network.switches
        }
        self._steps: dict[tuple[str, str], _Step] = {}

    def _step(self, link: Link) -> _Step:
        step = self._steps.get((link.source, link.target))
        if step is None:
            source = self.coordinates[link.source]
            target = self.coordinates[link.target]
            dimension = next(d for d in range(len(source)) if source[d] != target[d])
            difference = target[dimension] - source[dimension]
            crosses = abs(difference) > 1
            # A wrap-around link leads up if it leads to a smaller coordinate.
            is_up = (difference > 0) != crosses
            step = _Step(dimension, 1 if is_up else -1, crosses)
            self._steps[link.source, link.target] = step
        return step

    def direction(self, link: Link) -> tuple[int, int]:
        """Return the dimension of a link, and 1 or -1 for its direction."""
        step = self._step(link)
        return step.dimension, step.sign

    def crosses(self, link: Link) -> bool:
        """Return whether a link is a wrap-around link."""
        return self._step(link).crosses

    def lane_step(self, link: Link) -> int:
        """Return by how much the number of the virtual channel rises when a packet takes a link."""
        return 1 if self._step(link).crosses else 0
