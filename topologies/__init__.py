"""What a network is, the networks of the papers, and static single-path routing over them."""

from topologies.errors import NoPathError, TopologyError
from topologies.network import Link, LinkId, Network, Node

__all__ = ["Link", "LinkId", "Network", "NoPathError", "Node", "TopologyError"]
