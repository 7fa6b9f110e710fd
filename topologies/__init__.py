"""What a network is, the networks of the papers, and static single-path routing over them."""

from topologies.catalog import CatalogueEntry, catalogue, load_network
from topologies.errors import NoPathError, TopologyError
from topologies.network import Link, LinkId, Network, Node

__all__ = [
    "CatalogueEntry",
    "Link",
    "LinkId",
    "Network",
    "NoPathError",
    "Node",
    "TopologyError",
    "catalogue",
    "load_network",
]
