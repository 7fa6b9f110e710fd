"""FT-DRB's multistep paths in the reference engine, and the escape paths of routers (Zarza 2011, section 3.2).

Written apart from ``testbed/interconnect/ft_drb``, from the same definition: a path is a tuple of links here, and a
choice a minimum over candidates. The definition includes its draws (``draw``), so that both engines draw alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

from testbed.interconnect.static_paths import NONE, Paths

Middles = tuple[int, int]
"""The two intermediate routers of a multistep path; NONE: left out."""
MINIMAL: Middles = (NONE, NONE)

NEAR_ESCAPES = 6
"""So many escapes of a packet look for their second intermediate among neighbours first."""
DRAWN_ROUTERS = 16
"""So many routers are drawn as second intermediates for a packet that escapes again, where neighbours lead nowhere."""
MODULUS = 2**31


def draw(first: int, second: int) -> int:
    """The draw of two numbers: two steps of a linear congruential generator over their products with two primes."""

    def step(x: int, shift: int) -> int:
        x = (x * 1103515245 + 12345) % MODULUS
        return x ^ x >> shift

    seed = (first % MODULUS * 73856093) ^ (second % MODULUS * 19349663)
    return step(step(seed % MODULUS, 15), 13)


class RoutingMap:
    """The network's static routing, asked in routers, cables and links."""

    def __init__(self, paths: Paths) -> None:
        self.routers, self.diameter = paths.routers, paths.diameter
        self.radix, self.width = paths.radix, paths.width
        self.link_cable: list[int] = paths.cable.tolist()
        self.link_end: list[int] = paths.link_target.tolist()
        self.host_router: list[int] = paths.host_router.tolist()
        self._next = paths.next_link
        out, near = (
            (paths.out_link.tolist(), paths.out_first),
            (paths.near.tolist(), paths.near_first),
        )
        self.out_links = [out[0][out[1][r] : out[1][r + 1]] for r in range(paths.routers)]
        self.supernode = [near[0][near[1][r] : near[1][r + 1]] for r in range(paths.routers)]
        self.neighbours = [
            list(dict.fromkeys(self.link_end[link] for link in links)) for links in self.out_links
        ]

    def target_of(self, host: int) -> int:
        """What stands for the host in the tables."""
        return self.routers + host

    def multistep(self, start: int, middles: Middles, target: int) -> tuple[int, ...]:
        """The links of a multistep path: each segment by static routing (Zarza 2011, eq. 3.1)."""
        links, at = [], start
        for goal in (*middles, target):
            while goal not in (NONE, at) and (link := int(self._next[at, goal])) != NONE:
                links.append(link)
                at = self.link_end[link]
        return tuple(links)

    def cables(self, links: Sequence[int]) -> list[int]:
        """The cables of the links, in order."""
        return [self.link_cable[link] for link in links]

    def is_usable(self, links: Sequence[int], avoided: Collection[int]) -> bool:
        """Whether a path avoids these cables, nowhere turns round on one, and ends in time."""
        cables = self.cables(links)
        turns = any(a == b for a, b in pairwise(cables))
        return (
            not turns
            and len(cables) <= 3 * self.diameter + 3
            and not any(cable in avoided for cable in cables)
        )


@dataclass(frozen=True, kw_only=True)
class Escape:
    """A packet at a router whose next link is dead. ``dead``: the router's cables that are down; ``came_over``: the
    cable that the packet came over (NONE: from a host); ``target``: where it is bound in the end; ``earlier``: escapes
    that it has behind it.
    """

    router: int
    dead: frozenset[int]
    came_over: int
    target: int
    message: int
    earlier: int

    @property
    def turn(self) -> int:
        """The draw of this escape."""
        return draw(self.message, self.earlier * 977 + self.router)

    def choose(self, network: RoutingMap) -> Middles | None:
        """The intermediates of the best path round the dead links; None where no path leads on.

        The first of these sorts with a usable path decides: over a live neighbour and a neighbour of that, without
        turning back; the same, back over the cable that the packet came over; over a live neighbour and any router,
        without turning back; the same, back. The shortest wins, but for a noise of up to one link for each earlier
        escape; equals are drawn.
        """
        for far in (False, True) if self.earlier < NEAR_ESCAPES else (True,):
            for back in (False, True):
                ranked = [
                    (self._rank(links), middles)
                    for middles in self._candidates(network, far, back)
                    if network.is_usable(
                        links := network.multistep(self.router, middles, self.target), self.dead
                    )
                ]
                if ranked:
                    return min(ranked, key=lambda item: item[0])[1]
        return None

    def live_neighbour(self, network: RoutingMap) -> int:
        """A neighbour over a live link, the first from a drawn one on; NONE where all are dead."""
        out = network.out_links[self.router]
        start = self.turn % len(out)
        live = [
            link for link in out[start:] + out[:start] if network.link_cable[link] not in self.dead
        ]
        return network.link_end[live[0]] if live else NONE

    def _rank(self, links: Sequence[int]) -> tuple[int, int]:
        signature = reduce(lambda known, link: draw(known, link + 1), links, self.router + 1)
        return len(links) + draw(signature, self.turn) % (1 + self.earlier), draw(
            self.turn, signature
        )

    def _candidates(self, network: RoutingMap, far: bool, back: bool) -> Iterator[Middles]:
        for link in network.out_links[self.router]:
            cable, first = network.link_cable[link], network.link_end[link]
            if cable in self.dead or (cable == self.came_over) != back:
                continue
            seconds = self._far_routers(network) if far else network.neighbours[first]
            yield from (
                (first, second) for second in (NONE, *seconds) if second not in (self.router, first)
            )

    def _far_routers(self, network: RoutingMap) -> list[int]:
        """All routers; for a packet that has escaped before, drawn ones: in turn from all, and from around its
        target."""
        if self.earlier == 0:
            return list(range(network.routers))
        target = (
            self.target
            if self.target < network.routers
            else network.host_router[self.target - network.routers]
        )
        around, found = network.supernode[target], []
        for number in range(min(DRAWN_ROUTERS, network.routers)):
            drawn = draw(self.turn, number)
            found.append(
                drawn % network.routers if number % 2 == 0 else around[drawn % len(around)]
            )
        return found
