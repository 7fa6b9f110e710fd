"""Mobile networks of the chapter 4 studies, and pairs of end points with two separate paths."""

from testbed.campaigns.rows import drawn_pair
from testbed.routing.baselines import are_disjoint
from topologies import Network, Node, load_network

# The fifteen static tolerances of Gabrielyan 2007, section 4.4: 3.6 % to 7.8 %.
TOLERANCES = tuple(round(0.036 + 0.003 * k, 3) for k in range(15))


def mobile_pair(nodes: int, seed: int) -> tuple[Network, str, str]:
    """Return the first frame of a random walk, and a random pair of its switches.

    Args:
        nodes: Number of nodes.
        seed: Seed of the walk and of the pair.

    Returns:
        The network, the source and the sink.
    """
    network = load_network(f"manet:nodes={nodes},seed={seed},frame=0")
    source, sink = joined(network, drawn_pair(network, seed, 0, minimum_paths=2))
    return network, source, sink


def outermost_pair(network: Network) -> tuple[str, str] | None:
    """Return the topmost and the bottommost switch between which there are two separate paths.

    If the extreme switches have no two such paths, the result is the pair that is nearest to them
    in rank; of equally near pairs, the one with the higher source.

    Returns:
        The source and the sink, or None if no pair has two separate paths.
    """
    by_height = sorted(network.switches, key=_height, reverse=True)
    order = [node.id for node in by_height]
    for ranks in range(len(order)):
        for source_rank in range(ranks + 1):
            source = order[source_rank]
            sink = order[-1 - (ranks - source_rank)]
            if source != sink and are_disjoint(network, source, sink, 2):
                return source, sink
    return None


def _height(node: Node) -> float:
    return node.position[1] if node.position else 0.0


def joined(network: Network, pair: tuple[str, str] | None) -> tuple[str, str]:
    """Return the pair, which must not be None.

    Raises:
        RuntimeError: The pair is None, because no two switches have two separate paths.
    """
    if pair is None:
        raise RuntimeError(f"{network.name}: no two switches with two separate paths between them")
    return pair
