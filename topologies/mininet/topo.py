"""Mininet's Topo objects, before any network is built of them, as node-link documents.

A Topo is known by its methods; Mininet is not imported.
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
_SILENT = frozenset(
    {"isSwitch", "batch", "cls", "cls1", "cls2", "intf", "fast", "use_htb", "lo", "inNamespace"}
)
"""What is not noted: ours do without, or it is noted as what it is."""
_NO_ADDRESS = ("", "0.0.0.0", "no ip defined")
"""Of a host that a script gives its addresses later: MiniEdit's routers have the second."""
_SETTING = r"(?:net[./]ipv4[./])?(?:ip_forward|conf[./][\w.-]+?[./]forwarding)"
_FORWARDING = re.compile(rf"(?<!ipv6[./]){_SETTING}\b")
# The value behind the setting, or the one that is written into its file.
_FORWARDING_VALUE = re.compile(
    rf"(?<!ipv6[./]){_SETTING}['\"]?\s*=\s*['\"]?([01])\b"
    rf"|\b(?:echo|printf)\b[^;&\n]*?\b([01])\b[^;&\n]*(?:>|\btee\b)[^;&\n]*ipv4/{_SETTING}\b"
)
_HARMLESS = (
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


def is_topo(value: object) -> bool:
    """Whether it has the methods of ``mininet.topo.Topo``, and is no class."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in _METHODS
    )


def topo_document(value: object, notes: list[str]) -> JsonObject:
    """The node-link document of a Topo: hosts, then switches, each in Mininet's order; links as they were added.

    Bare delays are microseconds, as tc reads them, and noted; so are classes of nodes and links that do more than
    Mininet's own. A host whose class switches forwarding on (LinuxRouter of Mininet's examples) forwards.

    Raises TopologyError where the Topo cannot say what it is made of.
    """
    topo: Any = value
    try:
        hosts, switches = list(topo.hosts()), list(topo.switches())
        links = [dict(info) for *_, info in topo.iterLinks(withKeys=True, withInfo=True)]
        nodes = [(name, "host", topo.nodeInfo(name)) for name in hosts]
        nodes += [(name, "switch", topo.nodeInfo(name)) for name in switches]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        name = type(topo).__name__
        raise TopologyError(
            f"{name}: no Topo that can be read ({type(error).__name__}: {error}); call build()"
        ) from error
    given: dict[str, None] = {}
    entries = [_node(name, kind, info, notes, given) for name, kind, info in nodes]
    ends = [link_entry(link["node1"], link["node2"], link, notes, given) for link in links]
    return ported_document(entries, ends, given, notes)


def ported_document(
    nodes: list[JsonObject], links: list[JsonObject], given: dict[str, None], notes: list[str]
) -> JsonObject:
    """The document of nodes and of links that say their ports, and what of their parameters is left out."""
    note_rest(given, links, notes)
    links = _in_port_order(links)
    _drop_usual_ports(nodes, links)
    return {"directed": False, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}


def _node(name: Any, kind: str, info: Json, notes: list[str], given: dict[str, None]) -> JsonObject:
    made = info.get("cls")
    if any(base.__name__ == "NAT" for base in getattr(made, "__mro__", ())):
        notes.append(f"{name} forwards, and translates no addresses (NAT)")
    entry: JsonObject = {"id": name, "kind": kind}
    if kind == "host" and forwards(made):
        entry["forwarding"] = True
    elif made is not None and _name_of(made) not in _HARMLESS:
        notes.append(f"{name} is made as any {kind}, not by {_name_of(made)}")
    return entry | parameters(info, given)


def _name_of(made: Any) -> str:
    return str(
        getattr(made, "__name__", None) or getattr(getattr(made, "func", None), "__name__", made)
    )[:40]


def forwards(made: object) -> bool:
    """Return whether a class of hosts, or a function that makes one, switches forwarding on.

    Its class is not run: a text in its methods, in a function that they call, or in a constant of
    their module names the kernel's setting.
    """
    made = getattr(made, "func", made)
    methods = [made]
    for base in getattr(made, "__mro__", ()):
        methods += vars(base).values()
    for method in methods:
        for text in _texts(method):
            reads_only = re.search(r"sysctl\s+-n\b", text) is not None
            if _FORWARDING.search(text) and not reads_only:
                if forwarding_of_command(text) is not False:
                    return True
    return False


def _texts(function: object, depth: int = 2) -> Iterator[str]:
    """Yield the texts in a function, in the constants that it names and in functions that it calls."""
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
            elif isinstance(constant, CodeType):
                waiting.append(constant)
        for name in code.co_names:
            value = module.get(name)
            if isinstance(value, str):
                yield value
            else:
                yield from _texts(value, depth - 1)


def forwarding_of_command(command: str) -> bool | None:
    """Return whether a shell command switches forwarding of IPv4 on or off; None if it does neither.

    >>> forwarding_of_command("sysctl -w net.ipv4.conf.all.forwarding=1")
    True
    >>> forwarding_of_command("echo 0 > /proc/sys/net/ipv4/ip_forward")
    False
    >>> forwarding_of_command("cat /proc/sys/net/ipv4/ip_forward")
    """
    values = [groups[0] or groups[1] for groups in _FORWARDING_VALUE.findall(command)]
    return values[-1] == "1" if values else None


def parameters(info: Json, given: dict[str, None]) -> JsonObject:
    """The parameters of a node that a file can hold; names of all others into ``given``."""
    found: JsonObject = {}
    for name, value in info.items():
        key = {"defaultRoute": "default_route"}.get(name, name)
        if name in _SILENT or value is None or name in ("node1", "node2"):
            continue
        if name == "ip" and str(value).partition("/")[0] in _NO_ADDRESS:
            continue
        if isinstance(value, str | int | float | bool | list | dict):
            found[key] = value
        else:
            given[name] = None
    return found


def link_entry(
    source: object, target: object, info: Json, notes: list[str], given: dict[str, None]
) -> JsonObject:
    """The link's parameters; bare delays get the unit that tc reads."""
    entry = parameters(info, given)
    for fields in (
        entry,
        *(entry[name] for name in ("params1", "params2") if isinstance(entry.get(name), dict)),
    ):
        for name in ("delay", "jitter"):
            value = fields.get(name)
            with_unit = with_tc_unit(value)
            if with_unit != value:
                fields[name] = with_unit
                line = f"{name}={value!r} has no unit: Mininet's tc reads microseconds; write '{value}ms' if so meant"
                if line not in notes:
                    notes.append(line)
    return {**entry, "source": source, "target": target}


def note_rest(given: dict[str, None], links: list[JsonObject], notes: list[str]) -> None:
    """Notes of parameters that are no values, and of links without a capacity."""
    if given:
        notes.append(f"left out, as no text or number: {', '.join(given)}")
    bare = sum(
        "bw" not in link and not any("bw" in (link.get(f"params{end}") or {}) for end in (1, 2))
        for link in links
    )
    if bare:
        notes.append(
            f"{bare} of {len(links)} links have no bw, which Mininet does not limit; here they have 10 Mbit/s"
        )


def _in_port_order(links: list[JsonObject]) -> list[JsonObject]:
    """The links so that at every node ports ascend, by names where that leaves a choice; unchanged where no order does
    that. (Mininet numbers ports as links are added, and lists links by nodes.)"""
    import networkx as nx

    at_node: dict[Any, dict[int, Any]] = {}
    for number, link in enumerate(links):
        for end, port in (("target", "port2"), ("source", "port1")):
            at_node.setdefault(link[end], {})[number] = link.get(port)
    order, named = (
        nx.DiGraph(),
        [(str(link["source"]), str(link["target"]), link.get("port1")) for link in links],
    )
    try:
        for ports in at_node.values():
            nx.add_path(order, sorted(ports, key=lambda number: operator.index(ports[number])))
        return [
            links[number]
            for number in nx.lexicographical_topological_sort(order, key=named.__getitem__)
        ]
    except (TypeError, nx.NetworkXUnfeasible):  # TypeError: a port that is not said
        return links


def _drop_usual_ports(nodes: list[JsonObject], links: list[JsonObject]) -> None:
    """Take out port numbers that links in this order have anyway: hosts count from 0, switches from 1."""
    following = {node["id"]: 0 if node["kind"] == "host" else 1 for node in nodes}
    usual = True
    for link in links:
        for end, port in (("source", "port1"), ("target", "port2")):
            usual = usual and link.get(port) in (None, following[link[end]])
            following[link[end]] += 1
    for link in links if usual else ():
        for port in ("port1", "port2"):
            link.pop(port, None)
