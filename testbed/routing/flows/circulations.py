"""Circulations of a flow, and how they are taken out."""

from typing import Any

from testbed.routing.flows.end_points import LinkEnds


def drop_circulations(problem: LinkEnds, flow: list[Any]) -> None:
    """Take circulations out of the flow (numbers of any kind, one a usable link; changed in place), link by link.

    Walk along loaded links; where the walk meets itself, take the least load off that circle and start again."""
    leaving: list[list[int]] = [[] for _ in range(problem.nodes)]
    for link, tail in enumerate(problem.tail):
        leaving[tail].append(link)
    clear: set[int] = set()  # nodes from which no circle can be reached
    for start in range(problem.nodes):
        walk: list[int] = []
        place = {start: 0}
        node = start
        while node not in clear:
            onward = [i for i in leaving[node] if flow[i] and problem.head[i] not in clear]
            if not onward:
                clear.add(node)
                del place[node]
                node = problem.tail[walk.pop()] if walk else node
                continue
            walk.append(onward[0])
            node = problem.head[onward[0]]
            if node in place:
                circle = walk[place[node] :]
                least = min(flow[i] for i in circle)
                for i in circle:
                    flow[i] -= least
                walk, place, node = [], {start: 0}, start
            else:
                place[node] = len(walk)
