"""Networks: their description, the networks of the papers, and static single-path routing."""

from topologies.catalog import CatalogueEntry, catalogue, load_network
from topologies.errors import NoPathError, TopologyError, nearest
from topologies.grouping import lists_by_key
from topologies.network import Link, LinkId, Network, Node, label_of, link_fields, reverse_of
from topologies.text.json_types import Json, JsonObject

__all__ = [
    "CatalogueEntry",
    "Json",
    "JsonObject",
    "Link",
    "LinkId",
    "Network",
    "NoPathError",
    "Node",
    "TopologyError",
    "catalogue",
    "label_of",
    "link_fields",
    "lists_by_key",
    "load_network",
    "nearest",
    "reverse_of",
]
