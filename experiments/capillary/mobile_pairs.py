"""The mobile networks of the chapter 4 studies, each with one pair of end points that two separate paths join."""

from testbed.campaigns.rows import drawn_pair
from testbed.routing.baselines import are_disjoint
from topologies import Network, load_network

TOLERANCES = tuple(round(0.036 + 0.003 * k, 3) for k in range(15))
"""The fifteen static tolerances of Gabrielyan 2007, section 4.4: 3.6 % to 7.8 %."""


def mobile_pair(nodes: int, seed: int) -> tuple[Network, str, str]:
    """The first frame of a walk of ``nodes`` nodes and a random pair of its switches; the same for the same seed."""
    network = load_network(f"manet:nodes={nodes},seed={seed},frame=0")
    return network, *joined(network, drawn_pair(network, seed, 0, minimum_paths=2))


def outermost_pair(network: Network) -> tuple[str, str] | None:
    """The topmost switch and the bottommost one that two separate paths join; None where no such pair is.

    Where the extreme ones are not joined so, the pair that is least far from them in rank, the topmost first.
    """
    by_height = sorted(
        network.switches, key=lambda node: (node.position or (0.0, 0.0))[1], reverse=True
    )
    order = [node.id for node in by_height]
    for ranks in range(len(order)):
        for down in range(ranks + 1):
            source, sink = order[down], order[-1 - (ranks - down)]
            if source != sink and are_disjoint(network, source, sink, 2):
                return source, sink
    return None


def joined(network: Network, pair: tuple[str, str] | None) -> tuple[str, str]:
    """The pair. Raises RuntimeError where there is none that two separate paths join."""
    if pair is None:
        raise RuntimeError(f"{network.name}: no two switches with two separate paths between them")
    return pair
