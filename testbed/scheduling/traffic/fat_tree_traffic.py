"""All-to-all traffic of ``clos:k`` by d-mod-k, by arithmetic on arrays: a million transfers in a fraction of a second.

Gives the paths of ``topologies.routing_tables.d_mod_k_routing`` (a test compares them), a host to itself over its
switch.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.model.traffic import Traffic
from topologies.network import Network

Grid = npt.NDArray[np.int32]


def clos_traffic(network: Network, pairs: Sequence[tuple[str, str]]) -> Traffic:
    """Every host to every host, which is what ``pairs`` lists."""
    half = int(network.attributes["k"]) // 2
    hosts = len(network.hosts)
    source, sink = (grid.reshape(-1) for grid in np.meshgrid(np.arange(hosts), np.arange(hosts), indexing="ij"))
    first, second = sink % half, sink // half % half
    edge, goal = source // half, sink // half
    pod, goal_pod = edge // half, goal // half
    far, other = pod != goal_pod, edge != goal
    links = _LinkNumbers(network, hosts, half)
    middle, goal_middle = pod * half + first, goal_pod * half + first
    top = first * half + second
    hops: Grid = np.full((hosts * hosts, 6), -1, dtype=np.int32)
    hops[:, 0] = links.host_up[source]
    hops[:, 1] = np.where(other, links.up0[edge, first], -1)
    hops[:, 2] = np.where(far, links.up1[middle, second], -1)
    hops[:, 3] = np.where(far, links.down2[top, goal_pod], -1)
    hops[:, 4] = np.where(other, links.down1[goal_middle, goal % half], -1)
    hops[:, 5] = links.host_down[sink]
    used = hops >= 0
    offsets = np.zeros(hosts * hosts + 1, dtype=np.int64)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return Traffic(
        links=links.names,
        offsets=offsets,
        indices=hops[used],
        ends=pairs,
        first_node=edge.astype(np.int32),
        last_node=goal.astype(np.int32),
    )


class _LinkNumbers:
    """Numbers of a ``clos:k`` network's links by the places of their switches."""

    def __init__(self, network: Network, hosts: int, half: int) -> None:
        self.names: tuple[str, ...] = tuple(link.label for link in network.links)
        edges, tops, pods = hosts // half, half * half, hosts // (half * half)
        at: Any = network.link_index
        self.host_up = np.array([at[(f"h{h}", f"s0_{h // half}", 0)] for h in range(hosts)])
        self.host_down = np.array([at[(f"s0_{h // half}", f"h{h}", 0)] for h in range(hosts)])
        self.up0 = np.array(
            [[at[(f"s0_{e}", f"s1_{e // half * half + j}", 0)] for j in range(half)] for e in range(edges)]
        )
        self.down1 = np.array(
            [[at[(f"s1_{m}", f"s0_{m // half * half + j}", 0)] for j in range(half)] for m in range(edges)]
        )
        self.up1 = np.array(
            [[at[(f"s1_{m}", f"s2_{m % half * half + j}", 0)] for j in range(half)] for m in range(edges)]
        )
        self.down2 = np.array(
            [[at[(f"s2_{t}", f"s1_{p * half + t // half}", 0)] for p in range(pods)] for t in range(tops)]
        )
