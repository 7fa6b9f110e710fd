"""Converts Mininet's Topo objects to node-link documents; no network is built for that.

A Topo is recognised by its methods; Mininet is not imported.
"""

import operator
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from topologies.errors import TopologyError
from topologies.mininet.parameters import with_tc_unit
from topologies.text.json_types import Json, JsonObject

_METHODS = ("addHost", "addSwitch", "addLink", "hosts", "switches", "iterLinks", "nodeInfo")
# Parameters that have no effect here and are not noted, or that are noted in another way.
_SILENT = frozenset(
    {"isSwitch", "batch", "cls", "cls1", "cls2", "intf", "fast", "use_htb", "lo", "inNamespace"}
)
# Values of ``ip`` of a host that gets its addresses later, from a script; MiniEdit's routers have
# the second one.
_NO_ADDRESS = ("", "0.0.0.0", "no ip defined")
# The kernel's settings of IPv4 forwarding, as sysctl and the files of /proc name them.
_SETTING = r"(?:net[./]ipv4[./])?(?:ip_forward|conf[./][\w.-]+?[./]forwarding)"
_FORWARDING = re.compile(rf"(?<!ipv6[./]){_SETTING}\b")
# A value that a command assigns to the setting, or writes into its file.
_FORWARDING_VALUE = re.compile(
    rf"(?<!ipv6[./]){_SETTING}['\"]?\s*=\s*['\"]?([01])\b"
    rf"|\b(?:echo|printf)\b[^;&\n]*?\b([01])\b[^;&\n]*(?:>|\btee\b)[^;&\n]*ipv4/{_SETTING}\b"
)
# Classes of Mininet that do nothing that the testbed does not do.
_STANDARD_CLASSES = (
    "Host",
    "Node",
    "OVSSwitch",
    "OVSKernelSwitch",
    "OVSBridge",
    "Link",
    "TCLink",
    "Intf",
    "TCIntf",
)


# The names of parameters that are left out, in the order in which they are met.
_LeftOut = dict[str, None]


def is_topo(value: object) -> bool:
    """Return whether a value is an object with the methods of ``mininet.topo.Topo``."""
    if isinstance(value, type):
        return False
    return all(callable(getattr(value, name, None)) for name in _METHODS)


def topo_document(value: object, notes: list[str]) -> JsonObject:
    """Return the node-link document of a Topo.

    Hosts come first, then switches, each in Mininet's order; links are in the order in which they
    were added. Delays without a unit are in microseconds, as tc reads them. A host whose class
    enables forwarding (as LinuxRouter in Mininet's examples) forwards.

    Args:
        value: The Topo.
        notes: The list to which notes are appended: about delays without a unit, and about classes
            of nodes and links that do more than Mininet's own.

    Raises:
        TopologyError: The Topo cannot list its nodes and links.
    """
    topo: Any = value
    try:
        hosts = list(topo.hosts())
        switches = list(topo.switches())
        links = [dict(info) for *_, info in topo.iterLinks(withKeys=True, withInfo=True)]
        nodes = [(name, "host", topo.nodeInfo(name)) for name in hosts]
        nodes += [(name, "switch", topo.nodeInfo(name)) for name in switches]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        name = type(topo).__name__
        raise TopologyError(
            f"{name}: no Topo that can be read ({type(error).__name__}: {error}); call build()"
        ) from error
    left_out: _LeftOut = {}
    node_entries = [_node(name, kind, info, notes, left_out) for name, kind, info in nodes]
    link_entries = [
        link_entry(link["node1"], link["node2"], link, notes, left_out) for link in links
    ]
    return ported_document(node_entries, link_entries, left_out, notes)


def ported_document(
    nodes: list[JsonObject], links: list[JsonObject], left_out: _LeftOut, notes: list[str]
) -> JsonObject:
    """Return the document of nodes and of links that have port numbers.

    Args:
        nodes: The entries of the nodes.
        links: The entries of the links.
        left_out: The names of parameters that are left out, for the notes.
        notes: The list to which notes are appended.
    """
    note_rest(left_out, links, notes)
    links = _in_port_order(links)
    _drop_default_ports(nodes, links)
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}


def _node(name: Any, kind: str, info: Json, notes: list[str], left_out: _LeftOut) -> JsonObject:
    """Return the entry of a node.

    Args:
        name: Name of the node.
        kind: "host" or "switch".
        info: Its parameters in the Topo.
        notes: The list to which notes about its class are appended.
        left_out: Takes the names of parameters that are left out.
    """
    node_class = info.get("cls")
    if any(base.__name__ == "NAT" for base in getattr(node_class, "__mro__", ())):
        notes.append(f"{name} forwards, and translates no addresses (NAT)")
    entry: JsonObject = {"id": name, "kind": kind}
    if kind == "host" and forwards(node_class):
        entry["forwarding"] = True
    elif node_class is not None and _name_of(node_class) not in _STANDARD_CLASSES:
        notes.append(f"{name} is made as any {kind}, not by {_name_of(node_class)}")
    return entry | parameters(info, left_out)


def _name_of(factory: Any) -> str:
    """Return the name of a class, of a function, or of the function inside a partial object."""
    name = getattr(factory, "__name__", None)
    if not name:
        name = getattr(getattr(factory, "func", None), "__name__", factory)
    return str(name)[:40]


def forwards(factory: object) -> bool:
    """Return whether a class of hosts, or a function that creates hosts, enables forwarding.

    Nothing is run. Forwarding is enabled if the kernel's setting appears in a text in one of its
    methods, in a function that they call, or in a constant of their module.
    """
    factory = getattr(factory, "func", factory)
    methods = [factory]
    for base in getattr(factory, "__mro__", ()):
        methods += vars(base).values()
    for method in methods:
        if any(_enables_forwarding(text) for text in _texts(method)):
            return True
    return False


def _enables_forwarding(text: str) -> bool:
    """Return whether a text names the setting of forwarding and does not read or disable it."""
    if not _FORWARDING.search(text):
        return False
    reads_only = re.search(r"sysctl\s+-n\b", text) is not None
    return not reads_only and forwarding_of_command(text) is not False


def _texts(function: object, depth: int = 2) -> Iterator[str]:
    """Yield the texts in a function.

    These are its own texts, the constants of its module that it names, and the texts in functions
    that it calls.

    Args:
        function: A function or a method; other objects have no texts.
        depth: Number of levels of functions; 1 leaves out the functions that it calls.
    """
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None or not depth:
        return
    module = getattr(function, "__globals__", {})
    waiting = [code]
    while waiting:
        code = waiting.pop()
        for constant in code.co_consts:
            if isinstance(constant, str):
                yield constant
            # A function inside the function.
            elif isinstance(constant, CodeType):
                waiting.append(constant)
        for name in code.co_names:
            value = module.get(name)
            if isinstance(value, str):
                yield value
            else:
                yield from _texts(value, depth - 1)


def forwarding_of_command(command: str) -> bool | None:
    """Return whether a shell command enables or disables forwarding of IPv4.

    Returns:
        None if the command does neither.

    >>> forwarding_of_command("sysctl -w net.ipv4.conf.all.forwarding=1")
    True
    >>> forwarding_of_command("echo 0 > /proc/sys/net/ipv4/ip_forward")
    False
    >>> forwarding_of_command("cat /proc/sys/net/ipv4/ip_forward")
    """
    values = [groups[0] or groups[1] for groups in _FORWARDING_VALUE.findall(command)]
    return values[-1] == "1" if values else None


def parameters(info: Json, left_out: _LeftOut) -> JsonObject:
    """Return the parameters of a node or link that a file can hold.

    Args:
        info: The parameters in the Topo.
        left_out: Takes the names of the other parameters, whose values are objects.
    """
    entry: JsonObject = {}
    for name, value in info.items():
        if name in _SILENT or value is None or name in ("node1", "node2"):
            continue
        if name == "ip" and str(value).partition("/")[0] in _NO_ADDRESS:
            continue
        if isinstance(value, str | int | float | bool | list | dict):
            key = "default_route" if name == "defaultRoute" else name
            entry[key] = value
        else:
            left_out[name] = None
    return entry


def link_entry(
    source: object, target: object, info: Json, notes: list[str], left_out: _LeftOut
) -> JsonObject:
    """Return the entry of a link; times without a unit get the unit that tc assumes.

    Args:
        source: Name of the first node.
        target: Name of the second node.
        info: The parameters of the link.
        notes: The list to which notes about times without a unit are appended.
        left_out: Takes the names of parameters that are left out.
    """
    entry = parameters(info, left_out)
    tables = [entry]
    for name in ("params1", "params2"):
        if isinstance(entry.get(name), dict):
            tables.append(entry[name])
    for fields in tables:
        for name in ("delay", "jitter"):
            value = fields.get(name)
            with_unit = with_tc_unit(value)
            if with_unit != value:
                fields[name] = with_unit
                line = (
                    f"{name}={value!r} has no unit: Mininet's tc reads microseconds;"
                    f" write '{value}ms' if so meant"
                )
                if line not in notes:
                    notes.append(line)
    return {**entry, "source": source, "target": target}


def note_rest(left_out: _LeftOut, links: list[JsonObject], notes: list[str]) -> None:
    """Note the parameters that are left out, and the number of links without a capacity."""
    if left_out:
        notes.append(f"left out, as no text or number: {', '.join(left_out)}")
    count = len([link for link in links if not _has_bandwidth(link)])
    if count:
        notes.append(
            f"{count} of {len(links)} links have no bw, which Mininet does not limit;"
            " here they have 10 Mbit/s"
        )


def _has_bandwidth(link: JsonObject) -> bool:
    """Return whether a link has a bandwidth, at least for one of its directions."""
    tables = (link, link.get("params1") or {}, link.get("params2") or {})
    return any("bw" in fields for fields in tables)


def _in_port_order(links: list[JsonObject]) -> list[JsonObject]:
    """Return the links in an order in which the ports of every node ascend.

    Mininet numbers ports in the order in which links are added, but it lists links by nodes. If
    several orders are possible, the names of the nodes decide. If none is possible, or a link has
    no port number, the links are returned unchanged.
    """
    import networkx as nx

    ports_by_node: dict[Any, dict[int, Any]] = {}
    for number, link in enumerate(links):
        for end, port in (("target", "port2"), ("source", "port1")):
            ports_by_node.setdefault(link[end], {})[number] = link.get(port)
    order = nx.DiGraph()
    names = [(str(link["source"]), str(link["target"]), link.get("port1")) for link in links]
    try:
        for ports in ports_by_node.values():
            # operator.index raises TypeError for a port that is missing.
            nx.add_path(order, sorted(ports, key=lambda number: operator.index(ports[number])))
        numbers = list(nx.lexicographical_topological_sort(order, key=names.__getitem__))
    except (TypeError, nx.NetworkXUnfeasible):
        return links
    return [links[number] for number in numbers]


def _drop_default_ports(nodes: list[JsonObject], links: list[JsonObject]) -> None:
    """Remove all port numbers, if they are those that links in this order get anyway.

    Ports of hosts count from 0, those of switches from 1.
    """
    next_port = {}
    for node in nodes:
        next_port[node["id"]] = 0 if node["kind"] == "host" else 1
    for link in links:
        for end, port in (("source", "port1"), ("target", "port2")):
            if link.get(port) not in (None, next_port[link[end]]):
                return
            next_port[link[end]] += 1
    for link in links:
        link.pop("port1", None)
        link.pop("port2", None)
