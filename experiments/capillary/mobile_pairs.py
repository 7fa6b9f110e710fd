"""The mobile networks of the chapter 4 studies, each with one pair of end points that two separate paths join."""

from __future__ import annotations

from testbed.campaigns.rows import drawn_pair
from topologies import Network, load_network

TOLERANCES = tuple(round(0.036 + 0.003 * k, 3) for k in range(15))
"""The fifteen static tolerances of Gabrielyan 2007, section 4.4: 3.6 % to 7.8 %."""


def mobile_pair(nodes: int, seed: int) -> tuple[Network, str, str]:
    """The first frame of a walk of ``nodes`` nodes and a random pair of its switches; the same for the same seed."""
    network = load_network(f"manet:nodes={nodes},seed={seed},frame=0")
    pair = drawn_pair(network, seed, 0, minimum_paths=2)
    if pair is None:
        raise RuntimeError(f"{network.name}: no two switches with two separate paths between them")
    return network, *pair
