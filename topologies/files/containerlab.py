"""Networks of containerlab's topology files (YAML): nodes of kind ``linux`` are hosts, all others switches; links have both directions.

What is kept: nodes, kinds (also by group or default), links. Images, configurations and addresses are not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topologies.errors import TopologyError
from topologies.network import Link, Network, Node

HOST_KIND = "linux"


def read_containerlab(text: str, name: str) -> Network:
    """The network of a file whose ``topology`` has ``nodes`` and ``links``; its ``name`` counts more than the file's.

    Raises TopologyError naming the entry; ModuleNotFoundError where PyYAML (the extra ``networks``) is not installed.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise TopologyError(f"not YAML ({' '.join(str(error).split())[:120]})") from error
    topology = _table(_table(document, "the file").get("topology"), "topology")
    declared = _table(topology.get("nodes"), "topology.nodes")
    nodes = tuple(Node(id=str(label), kind=_kind(topology, declared[label], str(label))) for label in declared)
    links: list[Link] = []
    keys: dict[tuple[str, str], int] = {}
    entries = topology.get("links", [])
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise TopologyError("topology.links: give a list")
    for number, entry in enumerate(entries):
        ends = _ends(entry, f"topology.links[{number}]", {node.id for node in nodes})
        first, second = sorted(ends)
        key = keys[first, second] = keys.get((first, second), -1) + 1
        links += [Link(source=ends[0], target=ends[1], key=key), Link(source=ends[1], target=ends[0], key=key)]
    return Network(name=str(document.get("name") or name), nodes=nodes, links=tuple(links))


def _table(value: Any, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TopologyError(f"{where}: give a table, as containerlab's topology files have")
    return value


def _kind(topology: Mapping[Any, Any], node: Any, label: str) -> Any:
    """The node's own kind, else its group's, else the default."""
    fields = {} if node is None else _table(node, f"topology.nodes.{label}")
    group = (topology.get("groups") or {}).get(fields.get("group")) or {}
    kind = fields.get("kind") or group.get("kind") or (topology.get("defaults") or {}).get("kind")
    return "host" if kind == HOST_KIND else "switch"


def _ends(entry: Any, where: str, nodes: set[str]) -> tuple[str, str]:
    """Nodes of a link in the short form (``"node:interface"``) or the long one (``{node:, interface:}``)."""
    ends = entry.get("endpoints") if isinstance(entry, Mapping) else None
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise TopologyError(f"{where}: give two endpoints")
    found = [str(end.get("node")) if isinstance(end, Mapping) else str(end).partition(":")[0] for end in ends]
    for end in found:
        if end not in nodes:
            raise TopologyError(f"{where}: {end!r} is none of the nodes; links out of the network cannot be built")
    return found[0], found[1]
