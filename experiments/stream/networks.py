"""Networks and end points that the studies of streams share."""

from collections.abc import Iterable

from testbed.model.studies import Points, grid

# Network, source and sink.
Ends = tuple[str, str, str]

# Swiss-T1, NSFNET's optical cloud and a mobile network.
NETWORKS: tuple[Ends, ...] = (
    ("swiss-t1", "s1", "s6"),
    ("optical-cloud", "x1", "x14"),
    ("manet:nodes=40,seed=3", "n0", "n39"),
)


def points_over(networks: Iterable[Ends], **fields: object) -> Points:
    """Return a point for each network and combination of values. The network varies slowest.

    Args:
        networks: The networks with their end points.
        **fields: The values of each field, as for ``grid``.
    """
    result: Points = []
    for network, source, sink in networks:
        for point in grid(**fields):
            result.append({"network": network, "source": source, "sink": sink, **point})
    return result
