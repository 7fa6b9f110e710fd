"""The networks and end points that the streaming experiments share."""

from collections.abc import Iterable

from testbed.model.studies import Points, grid

Ends = tuple[str, str, str]
"""Network, source, sink."""
NETWORKS: tuple[Ends, ...] = (
    ("swiss-t1", "s1", "s6"),
    ("optical-cloud", "x1", "x14"),
    ("manet:nodes=40,seed=3", "n0", "n39"),
)
"""Swiss-T1, NSFNET's optical cloud and a mobile network."""


def points_over(networks: Iterable[Ends], **fields: object) -> Points:
    """Every combination of values (``grid``) over each network, from its source to its sink; networks vary slowest."""
    return [
        {"network": name, "source": source, "sink": sink} | point
        for name, source, sink in networks
        for point in grid(**fields)
    ]
