"""Networks of Python's own values: networkx graphs, Mininet's Topo objects, node-link documents and plain dictionaries.

Mininet's parameters of nodes and links count in all of them (``topologies.mininet.parameters``). Nothing is imported
for it: a graph and a Topo are known by what they can do.
"""

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from topologies.errors import TopologyError, located
from topologies.files.foreign import (
    NetworkNote,
    adapted,
    note_host_paths,
    refuse_programs,
    without_loops,
)
from topologies.files.node_link import parse_document
from topologies.mininet.miniedit import is_miniedit, miniedit_document
from topologies.mininet.topo import is_topo, topo_document
from topologies.network import Network
from topologies.text.json_types import JsonObject
from topologies.text.units import is_bare

# Sections of nodes in Mininet's parts of a network, and what each node of a section is.
_SECTION_FIELDS: dict[str, JsonObject] = {
    "hosts": {"kind": "host"},
    "switches": {"kind": "switch"},
    "routers": {"kind": "host", "forwarding": True},
}
_SECTIONS = _SECTION_FIELDS.keys()
_P4_TABLES = ("auto_arp_tables", "auto_gw_arp")
_AT_PORT = re.compile(r"(.+)-p(\d{1,5})")
_TAKEN = "a networkx graph, a Mininet Topo, a node-link document, or a dictionary of each node's neighbours"


def network_of(value: object) -> Network | None:
    """The network of a value; None where it is none of those that are taken.

    A graph that ``Network.to_networkx`` made gives that network back. Edges without a direction stand for both; nodes
    are switches unless their ``kind`` is "host" (or others say ``isSwitch``). A dictionary is a node-link document
    (``nodes`` with ``links`` or ``edges``), or Mininet's parts (``hosts``, ``switches``, ``links``), or gives the
    neighbours of each node. Nodes may be names alone, and links pairs. Warns with a NetworkNote of what is stored
    without being read. Raises TopologyError, which names the entry, for what makes no network.

    >>> net = network_of({"hosts": ["h1", "h2"], "switches": ["s1"], "links": [("h1", "s1", {"bw": 5}), ("h2", "s1")]})
    >>> [(link.label, link.capacity_bps) for link in net.links[:3]]
    [('h1->s1', 5000000.0), ('s1->h1', 5000000.0), ('h2->s1', 10000000.0)]
    >>> [node.kind for node in network_of({"a": ["b"]}).nodes]
    ['switch', 'switch']
    """
    notes: list[str] = []
    document, name = _document(value, notes)
    if document is None:
        return None
    with located(name):
        if _is_own_graph(value):
            return parse_document(document, name)
        one_way = without_loops(
            document["links"], [document["directed"]] * len(document["links"]), notes
        )
        # A dictionary is written for the testbed; a graph may come from any file.
        strict = isinstance(value, Mapping) and not hasattr(value, "edges")
        ours = adapted(document, notes, note_units=False, strict=strict)
        network = parse_document(ours, name, one_way)
        note_host_paths(network, notes)
        if not network.nodes:
            raise TopologyError("no node is in it; give at least one")
    if notes:
        warnings.warn(NetworkNote(f"{name}: {'; '.join(notes)}"), stacklevel=4)
    return network


def _document(value: Any, notes: list[str]) -> tuple[JsonObject | None, str]:
    """The value as a node-link document, and what it is called where it has no name."""
    if is_topo(value):
        return topo_document(value, notes), type(value).__name__
    if all(hasattr(value, part) for part in ("is_directed", "is_multigraph", "adj", "edges")):
        return _of_graph(value), "graph"
    if not isinstance(value, Mapping):
        return None, ""
    if (document := other_document(value, notes)) is not None:
        return document, "network"
    if "nodes" in value and {"links", "edges"} & value.keys():
        return _of_lists(
            value, [_node(i, one, "nodes") for i, one in _numbered(value, "nodes")]
        ), "document"
    refuse_programs(value)
    return _of_neighbours(value), "network"


def other_document(value: object, notes: list[str]) -> JsonObject | None:
    """The document of MiniEdit's file, or of what lists links, and hosts or switches, as Mininet's parts of a network,
    by itself or as its ``topology`` (p4-utils); None of anything else."""
    if not isinstance(value, Mapping) or "nodes" in value:
        return None
    if is_miniedit(value):
        return miniedit_document(value, notes)
    inner = value.get("topology")
    for parts in (value, inner):
        if isinstance(parts, Mapping) and "links" in parts and _SECTIONS & parts.keys():
            document = _of_parts(parts, notes)
            if parts is inner:
                _read_p4_utils_delays(document["links"], notes)
            return document
    return None


def _of_parts(value: Mapping[Any, Any], notes: list[str]) -> JsonObject:
    """Return the document of Mininet's parts of a network.

    P4 tutorials have links [A, B, delay, Mbit/s], and an end may be a switch with its port, as
    s1-p2. p4-utils has parameters of all links in ``default``, and ``routers``, which forward.
    """
    nodes = []
    for section, fields in _SECTION_FIELDS.items():
        for i, entry in _numbered(value, section):
            nodes.append(dict(fields) | _node(i, entry, section))
    if any(node.get("forwarding") for node in nodes):
        notes.append("routers forward over shortest paths, without their daemons' configuration")
    others = {key: part for key, part in value.items() if key not in _SECTION_FIELDS}
    defaults = _p4_defaults(others, notes)
    document = _of_lists({"multigraph": True, **others}, nodes)
    names = {node["id"] for node in nodes if isinstance(node.get("id"), str)}
    for link in document["links"]:
        for key, default in defaults.items():
            link.setdefault(key, default)
        for number, end in enumerate(("source", "target"), start=1):
            at_port = _AT_PORT.fullmatch(str(link.get(end)))
            if at_port and link[end] not in names and at_port[1] in names:
                link |= {end: at_port[1], f"port{number}": int(at_port[2])}
    return document


def _p4_defaults(others: dict[Any, Any], notes: list[str]) -> JsonObject:
    """Take the settings of p4-utils out of the rest, and return the parameters of all links."""
    strategy = others.pop("assignment_strategy", None)
    if strategy is not None:
        notes.append(
            f"assignment_strategy {str(strategy)[:40]!r} is not followed: hosts without an address"
            " of their own get one of one subnet"
        )
    found = others.get("default")
    if not isinstance(found, Mapping):
        return {}
    others.pop("default")
    tables = {**found, **others}
    ignored = [key for key in _P4_TABLES if tables.get(key) is not None]
    if ignored:
        notes.append(
            f"not done: {', '.join(ignored)} (hosts find their neighbours' addresses as usual)"
        )
    for key in _P4_TABLES:
        others.pop(key, None)
    return {
        str(key): part for key, part in found.items() if key not in _P4_TABLES and part is not None
    }


def _read_p4_utils_delays(links: list[JsonObject], notes: list[str]) -> None:
    """Give delays that are numbers the unit that p4-utils documents for its links."""
    is_changed = False
    for link in links:
        for fields in (link, link.get("params1"), link.get("params2")):
            if isinstance(fields, dict) and _is_number(fields.get("delay")):
                fields["delay"] = f"{fields['delay']}ms"
                is_changed = True
    if is_changed:
        notes.append(
            "delays without a unit are in milliseconds, as p4-utils documents (its p4run passes the"
            " number to tc, which reads microseconds)"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbered(value: Mapping[Any, Any], where: str) -> Iterable[tuple[int, Any]]:
    found = value.get(where, ())
    if isinstance(found, Mapping):
        return enumerate(found.items())
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise TopologyError(f"{where}: give a list, not {type(found).__name__}")
    return enumerate(found)


def _of_lists(value: Mapping[Any, Any], nodes: list[JsonObject]) -> JsonObject:
    """The document of lists of nodes and links, which may be names and pairs."""
    name = "links" if "links" in value else "edges"
    if "links" in value and "edges" in value:
        raise TopologyError("document: both 'links' and 'edges' are there; keep one")
    others = {str(key): one for key, one in value.items() if key not in ("nodes", "links", "edges")}
    links = [_link(i, one, name) for i, one in _numbered(value, name)]
    directed = others.get("directed", False)
    if not isinstance(directed, bool):
        raise TopologyError(f"document: 'directed' must be true or false, not {directed!r}")
    return {**others, "directed": directed, "nodes": nodes, "links": links}


def _node(number: int, one: object, where: str) -> JsonObject:
    """The entry of a node: itself, its name alone, or its name with its parameters."""
    if isinstance(one, Mapping):
        return _plain(one)
    if isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[1], Mapping | None):
        return {"id": _id(one[0])} | _plain(one[1] or {})
    if isinstance(one, str | int | tuple):
        return {"id": _id(one)}
    raise TopologyError(
        f"{where}[{number}]: {str(one)[:60]!r} is no node; give a name, or (name, parameters)"
    )


def _link(number: int, one: object, where: str) -> JsonObject:
    """The entry of a link: itself, or its two nodes, with its parameters or without."""
    if isinstance(one, Mapping):
        return _plain(one)
    if isinstance(one, tuple | list) and 2 <= len(one) <= 4:
        source, target, *rest = one
        ends = {"source": _id(source), "target": _id(target)}
        if not rest or (len(rest) == 1 and isinstance(rest[0], Mapping)):
            return ends | _plain(rest[0] if rest else {})
        if not any(isinstance(word, Mapping) for word in rest):
            delay, rate = [*rest, None][
                :2
            ]  # of a P4 tutorial: a number is in milliseconds, text as tc reads it
            unit = "us" if isinstance(delay, str) else "ms"
            return (
                ends
                | {"delay": f"{delay}{unit * is_bare(str(delay))}"}
                | ({} if rate is None else {"bw": rate})
            )
    raise TopologyError(
        f"{where}[{number}]: {str(one)[:60]!r} is no link; give two nodes, or two and parameters"
    )


def _of_neighbours(value: Mapping[Any, Any]) -> JsonObject:
    """The document of node -> neighbours, or node -> {neighbour: parameters}. What stands in both directions is one
    cable; with parameters that differ, each direction has its own."""
    entries: dict[tuple[Any, Any], JsonObject] = {}
    for node, near in value.items():
        if isinstance(near, str | int | float | None) or not isinstance(near, Iterable):
            raise TopologyError(f"{node!r}: {str(near)[:60]!r} are no neighbours; give {_TAKEN}")
        pairs: Iterable[Any] = (
            near.items() if isinstance(near, Mapping) else ((other, {}) for other in near)
        )
        for other, parameters in pairs:
            if not isinstance(other, Hashable):
                raise TopologyError(f"{node!r}: {str(other)[:60]!r} is the name of no node")
            if not isinstance(parameters, Mapping):
                raise TopologyError(
                    f"{node!r} -> {other!r}: {str(parameters)[:60]!r} are no parameters of a link"
                )
            entries[node, other] = {"source": _id(node), "target": _id(other)} | _plain(parameters)
    links = []
    for (node, other), entry in entries.items():
        back = entries.get((other, node))
        if back is None:
            links += [entry, {**entry, "source": entry["target"], "target": entry["source"]}]
        else:
            ends = {end: entry[end] for end in ("source", "target")}
            links.append((entry if entry.keys() - ends.keys() else back) | ends)
    nodes = dict.fromkeys([*value, *(other for _, other in entries)])
    return {
        "directed": True,
        "multigraph": False,
        "nodes": [{"id": _id(one)} for one in nodes],
        "links": links,
    }


def _of_graph(graph: Any) -> JsonObject:
    """The document of a networkx graph, of any of its four classes."""
    multigraph = bool(graph.is_multigraph())
    nodes = [{**_plain(data), "id": _id(node)} for node, data in graph.nodes(data=True)]
    edges: Iterable[Any] = (
        graph.edges(keys=True, data=True) if multigraph else graph.edges(data=True)
    )
    links = []
    for source, target, *key, data in edges:
        keyed = {"key": key[0] if isinstance(key[0], int | str) else str(key[0])} if key else {}
        keyed = {} if {"node1", "port1"} <= data.keys() else keyed  # of a Topo, which counts from 1
        links.append({**_plain(data), "source": _id(source), "target": _id(target), **keyed})
    indices = [link.get("index") for link in links]
    in_order = set(range(len(links)))
    if all(isinstance(index, int) for index in indices) and set(indices) == in_order:
        links.sort(key=lambda link: int(link["index"]))  # the order of ``Network.to_networkx``
        links = [{key: one for key, one in link.items() if key != "index"} for link in links]
    document = {
        "directed": bool(graph.is_directed()),
        "multigraph": multigraph,
        "graph": _plain(graph.graph),
    }
    return {**document, "nodes": nodes, "links": links}


def _is_own_graph(value: Any) -> bool:
    """Whether ``Network.to_networkx`` may have made the graph: nothing in it is another program's."""
    if not hasattr(value, "is_multigraph") or not (value.is_directed() and value.is_multigraph()):
        return False
    return all({"kind", "position"} <= data.keys() for _, data in value.nodes(data=True)) and all(
        {"index", "capacity_bps", "delay_s"} <= data.keys() for *_, data in value.edges(data=True)
    )


def _id(value: Any) -> Any:
    """An id as documents have it: parts that are no list in JSON become one, any other value its text."""
    if isinstance(value, tuple):
        return [_id(one) for one in value]
    return (
        value
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else str(value)
    )


def _plain(fields: Mapping[Any, Any]) -> JsonObject:
    """Names as text, numbers and positions of numpy as Python's."""
    return {str(name): _value(str(name), one) for name, one in fields.items()}


def _value(name: str, value: Any) -> Any:
    plain: Callable[[], Any] | None = getattr(value, "tolist", None)
    found = value if plain is None else plain()
    return list(found) if name in ("position", "pos") and isinstance(found, tuple) else found
