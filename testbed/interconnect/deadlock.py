"""The circle of links of a deadlock: packets on each of which wait for the next, found from the last grants of those that are held.

A held packet sits behind the last link that was granted to it, and waits for the next link of its static path. In a deadlock some
of these waits close a circle; it is what a drawing shows of it. Routings that choose their ways (FT-DRB) have no such next link.
"""

from __future__ import annotations

from collections.abc import Mapping

from testbed.interconnect.results import Simulation
from testbed.interconnect.static_paths import NONE, build_paths
from topologies import Network


def waiting_links(network: Network, run: Simulation) -> dict[int, int]:
    """Link -> the link that most packets held behind it wait for; needs a run that recorded every grant."""
    paths, links = build_paths(network), len(network.links)
    last: dict[int, int] = {}
    for _, channel, message in run.trace.tolist():
        last[message] = channel % links
    waits: dict[tuple[int, int], int] = {}
    for message in set(run.held.tolist()):
        if message not in last or run.delivered[message] >= 0:
            continue
        link = last[message]
        router = int(paths.link_target[link])
        following = (
            NONE if router == NONE else int(paths.next_link[router, paths.routers + int(run.destination[message])])
        )
        if following != NONE:
            waits[link, following] = waits.get((link, following), 0) + 1
    found: dict[int, int] = {}
    for (link, following), _ in sorted(waits.items(), key=lambda item: (item[1], item[0])):
        found[link] = following
    return found


def circle_of(waits: Mapping[int, int]) -> list[int]:
    """A circle of links in which each waits for the next, from its smallest on; empty where the waits close none.

    >>> circle_of({0: 1, 1: 2, 2: 0, 7: 0})
    [0, 1, 2]
    """
    seen: set[int] = set()
    for start in sorted(waits):
        way: list[int] = []
        link = start
        while link in waits and link not in way and link not in seen:
            way.append(link)
            link = waits[link]
        if link in way:
            circle = way[way.index(link) :]
            first = circle.index(min(circle))
            return circle[first:] + circle[:first]
        seen.update(way)
    return []


def deadlock_circle(network: Network, run: Simulation) -> list[tuple[str, str]]:
    """The ends of the links of the circle, in order; empty where there is none to be found."""
    return [(network.links[i].source, network.links[i].target) for i in circle_of(waiting_links(network, run))]
