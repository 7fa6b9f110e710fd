"""Converts Python values to networks.

The values are networkx graphs, Mininet's Topo objects, node-link documents and plain dictionaries.
Mininet's parameters of nodes and links are read in all of them (``topologies.mininet.parameters``).
Neither networkx nor Mininet is imported: a graph and a Topo are recognised by their methods.
"""

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeGuard

from topologies.errors import TopologyError, prefix_errors
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

# The sections of nodes in a dictionary of Mininet's parts, and the fields of all nodes of each.
_SECTION_FIELDS: dict[str, JsonObject] = {
    "hosts": {"kind": "host"},
    "switches": {"kind": "switch"},
    "routers": {"kind": "host", "forwarding": True},
}
_SECTIONS = _SECTION_FIELDS.keys()
# Settings of p4-utils that have no effect here.
_P4_TABLES = ("auto_arp_tables", "auto_gw_arp")
# An end of a link in P4 tutorials: a switch with its port, such as s1-p2.
_SWITCH_AND_PORT = re.compile(r"(.+)-p(\d{1,5})")
_ACCEPTED = (
    "a networkx graph, a Mininet Topo, a node-link document, or a dictionary of each node's"
    " neighbours"
)


def network_of(value: object) -> Network | None:
    """Return the network that a value describes, or None if it is not of an accepted kind.

    A graph that ``Network.to_networkx`` returned gives an equal network. In other graphs, an edge
    without a direction stands for both, and nodes are switches unless their ``kind`` is "host" or
    other nodes have ``isSwitch``.

    A dictionary may be a node-link document (``nodes`` with ``links`` or ``edges``), consist of
    Mininet's parts (``hosts``, ``switches``, ``links``), or give the neighbours of each node. Nodes
    may be names alone, and links pairs. A NetworkNote warns of parts that are not read.

    Raises:
        TopologyError: The value is not a valid network. The message names the entry.

    >>> links = [("h1", "s1", {"bw": 5}), ("h2", "s1")]
    >>> net = network_of({"hosts": ["h1", "h2"], "switches": ["s1"], "links": links})
    >>> [(link.label, link.capacity_bps) for link in net.links[:3]]
    [('h1->s1', 5000000.0), ('s1->h1', 5000000.0), ('h2->s1', 10000000.0)]
    >>> [node.kind for node in network_of({"a": ["b"]}).nodes]
    ['switch', 'switch']
    """
    notes: list[str] = []
    document, name = _document_and_name(value, notes)
    if document is None:
        return None
    with prefix_errors(name):
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
            raise TopologyError("it has no node; give at least one")
    if notes:
        warnings.warn(NetworkNote(f"{name}: {'; '.join(notes)}"), stacklevel=4)
    return network


def _document_and_name(value: Any, notes: list[str]) -> tuple[JsonObject | None, str]:
    """Return the value as a node-link document, and its name in case the document has none."""
    if is_topo(value):
        return topo_document(value, notes), type(value).__name__
    if all(hasattr(value, part) for part in ("is_directed", "is_multigraph", "adj", "edges")):
        return _document_of_graph(value), "graph"
    if not isinstance(value, Mapping):
        return None, ""
    document = other_document(value, notes)
    if document is not None:
        return document, "network"
    if "nodes" in value and {"links", "edges"} & value.keys():
        nodes = [_node(i, entry, "nodes") for i, entry in _numbered_entries(value, "nodes")]
        return _document_of_lists(value, nodes), "document"
    refuse_programs(value)
    return _document_of_neighbours(value), "network"


def other_document(value: object, notes: list[str]) -> JsonObject | None:
    """Return the node-link document of a MiniEdit file or of a dictionary of Mininet's parts.

    Such a dictionary has ``links``, and ``hosts``, ``switches`` or ``routers``; p4-utils has it
    under ``topology``.

    Args:
        value: The value.
        notes: The list to which notes are appended.

    Returns:
        None if the value is something else.
    """
    if not isinstance(value, Mapping) or "nodes" in value:
        return None
    if is_miniedit(value):
        return miniedit_document(value, notes)
    if _has_mininet_parts(value):
        return _document_of_parts(value, notes)
    inner = value.get("topology")
    if _has_mininet_parts(inner):
        document = _document_of_parts(inner, notes)
        _read_p4_utils_delays(document["links"], notes)
        return document
    return None


def _has_mininet_parts(value: object) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping) and "links" in value and bool(_SECTIONS & value.keys())


def _document_of_parts(value: Mapping[Any, Any], notes: list[str]) -> JsonObject:
    """Return the document of a dictionary of Mininet's parts.

    P4 tutorials have links [A, B, delay, Mbit/s], and an end may be a switch with its port, such as
    s1-p2. p4-utils has parameters of all links in ``default``, and ``routers``, which forward.
    """
    nodes = []
    for section, fields in _SECTION_FIELDS.items():
        for i, entry in _numbered_entries(value, section):
            nodes.append(dict(fields) | _node(i, entry, section))
    if any(node.get("forwarding") for node in nodes):
        notes.append("routers forward over shortest paths, without their daemons' configuration")
    settings = dict(value)
    for section in _SECTION_FIELDS:
        settings.pop(section, None)
    defaults = _take_p4_settings(settings, notes)
    document = _document_of_lists({"multigraph": True, **settings}, nodes)
    names = {node["id"] for node in nodes if isinstance(node.get("id"), str)}
    for link in document["links"]:
        for key, default in defaults.items():
            link.setdefault(key, default)
        _split_port(link, "source", "port1", names)
        _split_port(link, "target", "port2", names)
    return document


def _split_port(link: JsonObject, end: str, port_key: str, names: set[str]) -> None:
    """Split an end of a link such as s1-p2 into the switch and its port.

    Args:
        link: The link.
        end: "source" or "target".
        port_key: The key under which the port is stored.
        names: The names of all nodes; an end that is one of them has no port.
    """
    match = _SWITCH_AND_PORT.fullmatch(str(link.get(end)))
    if match and link[end] not in names and match[1] in names:
        link[end] = match[1]
        link[port_key] = int(match[2])


def _take_p4_settings(document: dict[Any, Any], notes: list[str]) -> JsonObject:
    """Remove the settings of p4-utils from a document, and note those that have no effect.

    Args:
        document: The document without its nodes; the settings are removed from it.
        notes: The list to which notes are appended.

    Returns:
        The default parameters of all links.
    """
    strategy = document.pop("assignment_strategy", None)
    if strategy is not None:
        notes.append(
            f"assignment_strategy {str(strategy)[:40]!r} is not followed: hosts without an address"
            " of their own get one of one subnet"
        )
    defaults = document.get("default")
    if not isinstance(defaults, Mapping):
        return {}
    document.pop("default")
    settings = {**defaults, **document}
    ignored = [key for key in _P4_TABLES if settings.get(key) is not None]
    if ignored:
        notes.append(
            f"not done: {', '.join(ignored)} (hosts find their neighbours' addresses as usual)"
        )
    for key in _P4_TABLES:
        document.pop(key, None)
    return {
        str(key): value
        for key, value in defaults.items()
        if key not in _P4_TABLES and value is not None
    }


def _read_p4_utils_delays(links: list[JsonObject], notes: list[str]) -> None:
    """Add the unit that p4-utils documents to the delays of links that are numbers."""
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


def _numbered_entries(document: Mapping[Any, Any], name: str) -> Iterable[tuple[int, Any]]:
    """Return the entries of a list with their indices; those of a dictionary are (name, value)."""
    entries = document.get(name, ())
    if isinstance(entries, Mapping):
        return enumerate(entries.items())
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise TopologyError(f"{name}: give a list, not {type(entries).__name__}")
    return enumerate(entries)


def _document_of_lists(value: Mapping[Any, Any], nodes: list[JsonObject]) -> JsonObject:
    """Return the document of a dictionary with a list of links, which may be pairs of names.

    Args:
        value: The dictionary.
        nodes: The entries of the nodes.
    """
    if "links" in value and "edges" in value:
        raise TopologyError("document: both 'links' and 'edges' are there; keep one")
    links_key = "links" if "links" in value else "edges"
    document = {
        str(key): part for key, part in value.items() if key not in ("nodes", "links", "edges")
    }
    links = [_link(i, entry, links_key) for i, entry in _numbered_entries(value, links_key)]
    directed = document.get("directed", False)
    if not isinstance(directed, bool):
        raise TopologyError(f"document: 'directed' must be true or false, not {directed!r}")
    return {**document, "directed": directed, "nodes": nodes, "links": links}


def _node(number: int, entry: object, where: str) -> JsonObject:
    """Return the fields of a node, which is a dictionary, a name, or a name with parameters.

    Args:
        number: Index of the entry, for messages.
        entry: The entry.
        where: Name of the list, for messages.
    """
    if isinstance(entry, Mapping):
        return _plain_fields(entry)
    if isinstance(entry, tuple | list) and len(entry) == 2:
        name, parameters = entry
        if isinstance(parameters, Mapping | None):
            return {"id": _plain_id(name)} | _plain_fields(parameters or {})
    if isinstance(entry, str | int | tuple):
        return {"id": _plain_id(entry)}
    raise TopologyError(
        f"{where}[{number}]: {str(entry)[:60]!r} is not a node; give a name, or (name, parameters)"
    )


def _link(number: int, entry: object, where: str) -> JsonObject:
    """Return the fields of a link, which is a dictionary, or two nodes with or without parameters.

    Args:
        number: Index of the entry, for messages.
        entry: The entry.
        where: Name of the list, for messages.
    """
    if isinstance(entry, Mapping):
        return _plain_fields(entry)
    if isinstance(entry, tuple | list) and 2 <= len(entry) <= 4:
        source, target, *parameters = entry
        ends = {"source": _plain_id(source), "target": _plain_id(target)}
        if not parameters:
            return ends
        if len(parameters) == 1 and isinstance(parameters[0], Mapping):
            return ends | _plain_fields(parameters[0])
        if not any(isinstance(value, Mapping) for value in parameters):
            return ends | _p4_link_parameters(*parameters)
    raise TopologyError(
        f"{where}[{number}]: {str(entry)[:60]!r} is not a link; give two nodes, or two nodes and"
        " parameters"
    )


def _p4_link_parameters(delay: object, rate: object = None) -> JsonObject:
    """Return the parameters of a link in a P4 tutorial.

    Args:
        delay: The delay: a number is in milliseconds, a text without a unit in microseconds, as tc
            reads it.
        rate: The rate in Mbit/s, or None.
    """
    delay_text = str(delay)
    if is_bare(delay_text):
        delay_text += "us" if isinstance(delay, str) else "ms"
    parameters: JsonObject = {"delay": delay_text}
    if rate is not None:
        parameters["bw"] = rate
    return parameters


def _document_of_neighbours(value: Mapping[Any, Any]) -> JsonObject:
    """Return the document of a dictionary that gives the neighbours of each node.

    The neighbours are a list, or a dictionary with the parameters of each link. A link that is
    there in both directions is one cable. If the parameters differ, each direction has its own.
    """
    entries: dict[tuple[Any, Any], JsonObject] = {}
    for node, neighbours in value.items():
        for neighbour, parameters in _neighbours_with_parameters(node, neighbours):
            if not isinstance(neighbour, Hashable):
                raise TopologyError(f"{node!r}: {str(neighbour)[:60]!r} is not the name of a node")
            if not isinstance(parameters, Mapping):
                raise TopologyError(
                    f"{node!r} -> {neighbour!r}: {str(parameters)[:60]!r} are not parameters of a"
                    " link"
                )
            ends = {"source": _plain_id(node), "target": _plain_id(neighbour)}
            entries[node, neighbour] = ends | _plain_fields(parameters)
    links = []
    for (node, neighbour), entry in entries.items():
        ends = {"source": entry["source"], "target": entry["target"]}
        entry_back = entries.get((neighbour, node))
        if entry_back is None:
            links += [entry, {**entry, "source": ends["target"], "target": ends["source"]}]
        elif entry.keys() - ends.keys():
            links.append(entry)
        else:
            # Only the other direction has parameters, which count for both.
            links.append(entry_back | ends)
    nodes = dict.fromkeys(value)
    for _, neighbour in entries:
        nodes.setdefault(neighbour)
    return {
        "directed": True,
        "multigraph": False,
        "nodes": [{"id": _plain_id(node)} for node in nodes],
        "links": links,
    }


def _neighbours_with_parameters(node: object, neighbours: object) -> Iterable[tuple[Any, Any]]:
    """Return the neighbours of a node, each with the parameters of the link to it."""
    if isinstance(neighbours, Mapping):
        return neighbours.items()
    if isinstance(neighbours, str) or not isinstance(neighbours, Iterable):
        raise TopologyError(
            f"{node!r}: {str(neighbours)[:60]!r} are not neighbours; give {_ACCEPTED}"
        )
    return ((neighbour, {}) for neighbour in neighbours)


def _document_of_graph(graph: Any) -> JsonObject:
    """Return the document of a networkx graph of any class."""
    is_multigraph = bool(graph.is_multigraph())
    nodes = [
        {**_plain_fields(data), "id": _plain_id(node)} for node, data in graph.nodes(data=True)
    ]
    links = []
    if is_multigraph:
        for source, target, key, data in graph.edges(keys=True, data=True):
            link = _link_of_edge(source, target, data)
            # A graph of a Topo counts parallel links from 1; they get the usual keys instead.
            is_from_topo = {"node1", "port1"} <= data.keys()
            if not is_from_topo:
                link["key"] = key if isinstance(key, int | str) else str(key)
            links.append(link)
    else:
        for source, target, data in graph.edges(data=True):
            links.append(_link_of_edge(source, target, data))
    return {
        "directed": bool(graph.is_directed()),
        "multigraph": is_multigraph,
        "graph": _plain_fields(graph.graph),
        "nodes": nodes,
        "links": _in_order_of_index(links),
    }


def _link_of_edge(source: object, target: object, data: Mapping[Any, Any]) -> JsonObject:
    return {**_plain_fields(data), "source": _plain_id(source), "target": _plain_id(target)}


def _in_order_of_index(links: list[JsonObject]) -> list[JsonObject]:
    """Return the links in the order of ``index``, which ``Network.to_networkx`` sets.

    Links whose indices are not the numbers from 0 on are returned unchanged.
    """
    link_of_index: dict[int, JsonObject] = {}
    for link in links:
        index = link.get("index")
        if not isinstance(index, int):
            return links
        link_of_index[index] = link
    if link_of_index.keys() != set(range(len(links))):
        return links
    ordered = [link_of_index[index] for index in range(len(links))]
    for link in ordered:
        del link["index"]
    return ordered


def _is_own_graph(value: Any) -> bool:
    """Return whether a graph has the attributes of one that ``Network.to_networkx`` returned."""
    if not hasattr(value, "is_multigraph") or not (value.is_directed() and value.is_multigraph()):
        return False
    node_keys = {"kind", "position"}
    edge_keys = {"index", "capacity_bps", "delay_s"}
    have_node_keys = all(node_keys <= data.keys() for _, data in value.nodes(data=True))
    have_edge_keys = all(edge_keys <= data.keys() for *_, data in value.edges(data=True))
    return have_node_keys and have_edge_keys


def _plain_id(value: Any) -> Any:
    """Return an id as JSON has it: a tuple becomes a list, and other values become text."""
    if isinstance(value, tuple):
        return [_plain_id(part) for part in value]
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    return str(value)


def _plain_fields(fields: Mapping[Any, Any]) -> JsonObject:
    """Return fields with keys that are text, and with Python's values in place of numpy's."""
    return {str(name): _plain_value(str(name), value) for name, value in fields.items()}


def _plain_value(name: str, value: Any) -> Any:
    to_python: Callable[[], Any] | None = getattr(value, "tolist", None)
    if to_python is not None:
        value = to_python()
    if name in ("position", "pos") and isinstance(value, tuple):
        return list(value)
    return value
