"""What a network is: frozen nodes and directed links, checked where they are built.

Everything else in the project is computed from this value; it knows no file format, routing or switch.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeGuard

from topologies.errors import TopologyError, located, nearest, python_number
from topologies.impairments import (
    Impairments,
    impairment_text,
    known_impairments,
    parse_impairments,
)
from topologies.text.addresses import datapath_id, ipv4_addresses, mac_address
from topologies.text.json_types import Json
from topologies.text.shown import Shown

if TYPE_CHECKING:
    import networkx as nx

NodeKind = Literal["host", "switch"]
LinkId = tuple[str, str, int]
"""(source, target, key): the name of one directed link; ``key`` tells parallel links apart, 0 where there is one."""

DEFAULT_CAPACITY_BPS = 1e7
MAX_CAPACITY_BPS = 1e15
MIN_CAPACITY_BPS = 1e-3
"""As of rates on the command line."""
MAX_DELAY_S = 86_400.0
"""A day."""


def reverse_of(link: LinkId) -> LinkId:
    """The id of the other direction of the link's cable; a network need not have it (see ``Network.link_index``).

    >>> reverse_of(("a", "b", 1))
    ('b', 'a', 1)
    """
    source, target, key = link
    return target, source, key


def link_fields(link: LinkId) -> dict[str, str | int]:
    """The link's id as rows and JSON objects have it.

    >>> link_fields(("a", "b", 1))
    {'source': 'a', 'target': 'b', 'key': 1}
    """
    return dict(zip(("source", "target", "key"), link, strict=True))


def quoted(node_id: str) -> str:
    """The id as a JSON text, which no sign of any grammar can be taken for.

    >>> quoted('a->b'), quoted('5" disk')
    ('"a->b"', '"5\\\\" disk"')
    """
    return json.dumps(node_id, ensure_ascii=False)


def node_name(node: object) -> object:
    """Return the id that a network gives to a node of a networkx graph; other values unchanged.

    >>> node_name(7), node_name((0, 1)), node_name("s1"), node_name(None)
    ('7', '0_1', 's1', None)
    """
    node = python_number(node)
    if isinstance(node, tuple | list):
        parts = [node_name(part) for part in node]
        texts = [part for part in parts if isinstance(part, str)]
        return "_".join(texts) if len(texts) == len(node) > 1 else node
    return str(node) if isinstance(node, int) and not isinstance(node, bool) else node


def label_of(link: LinkId) -> str:
    """``a->b``, with ``#key`` for a parallel link: how reports and commands name the link.

    No two links have one label: an id that has an arrow in it, ends as a key does, begins with a quote, or begins or
    ends with a space is quoted.

    >>> label_of(("s1", "s2", 1)), label_of(("a->b", "c,d", 0)), label_of(("a", "b#1", 0))
    ('s1->s2#1', '"a->b"->c,d', 'a->"b#1"')
    """
    source, target, key = (
        quoted(end) if isinstance(end, str) and _MISREAD.search(end) else end for end in link
    )
    return f"{source}->{target}" + (f"#{key}" if key else "")


_MISREAD = re.compile(r'->|#[0-9]+$|^[\s"]|\s$')
"""What in an id could be taken for a part of a label."""


_NODE_FIELDS = frozenset({"id", "kind", "position"})
_LINK_FIELDS = frozenset({"source", "target", "key", "capacity_bps", "delay_s", "impairments"})
_NETWORK_FIELDS = frozenset({"name"})


@dataclass(frozen=True, kw_only=True)
class Node:
    """One host or switch. ``position`` is (x, y) in drawing units (MANET: the unit square), or None.

    Attributes of a host that are read: ``forwarding`` (true: it passes others' packets on, as a router does), ``ip``
    and ``mac`` (see ``topologies.text.addresses``); of a switch ``dpid``. Raises TopologyError for a wrong one.
    """

    id: str
    kind: NodeKind
    position: tuple[float, float] | None = None
    attributes: Json = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise TopologyError(f"node id {self.id!r}: give every node a non-empty text as its id")
        if self.kind not in ("host", "switch"):
            raise TopologyError(
                f"node {self.id!r}: kind {self.kind!r} is neither 'host' nor 'switch'"
            )
        _refuse_reserved(f"node {self.id!r}", self.attributes, _NODE_FIELDS)
        if not isinstance(self.attributes.get("forwarding", False), bool):
            raise TopologyError(
                f"node {self.id!r}: forwarding {self.attributes['forwarding']!r} must be true or false"
            )
        with located(f"node {self.id!r}"):
            _ = self.addresses, self.mac, self.dpid

    @property
    def forwards(self) -> bool:
        """Whether packets of others pass through it: every switch, and a host that forwards."""
        return self.kind == "switch" or self.attributes.get("forwarding") is True

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """(IPv4 address, prefix length) of each address that the network gives this host, the main one first."""
        return (
            ipv4_addresses(self.attributes["ip"])
            if self.kind == "host" and "ip" in self.attributes
            else ()
        )

    @property
    def mac(self) -> str | None:
        """The MAC address that the network gives this host, None where it gives none."""
        return (
            mac_address(self.attributes["mac"])
            if self.kind == "host" and "mac" in self.attributes
            else None
        )

    @property
    def dpid(self) -> int | None:
        """The OpenFlow datapath id that the network gives this switch, None where it gives none."""
        return (
            datapath_id(self.attributes["dpid"])
            if self.kind == "switch" and "dpid" in self.attributes
            else None
        )


@dataclass(frozen=True, kw_only=True)
class Link:
    """One directed link. ``capacity_bps`` in bits a second, ``delay_s`` in seconds (propagation, one way).

    ``impairments``: what it does to packets besides, in the words of ``topologies.impairments`` ("" nothing).
    Attributes that are read where they are such: ``ports``, ``max_queue_size``.
    """

    source: str
    target: str
    key: int = 0
    capacity_bps: float = DEFAULT_CAPACITY_BPS
    delay_s: float = 0.0
    impairments: str = ""
    attributes: Json = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        name = f"link {self.source!r} -> {self.target!r}"
        if self.source == self.target:
            raise TopologyError(f"{name}: a link from a node to itself; remove it")
        for what, value, floor, most in (
            ("capacity_bps", self.capacity_bps, "positive", MAX_CAPACITY_BPS),
            ("delay_s", self.delay_s, "zero or more", MAX_DELAY_S),
        ):
            if not isinstance(value, int | float):
                object.__setattr__(self, what, value := python_number(value))
            if not is_finite(value):
                raise TopologyError(
                    f"{name}: {what} {value!r} is not a number; give one that is {floor}"
                )
            if value < 0 or (value == 0 and floor == "positive"):
                raise TopologyError(f"{name}: {what} {value!r} must be {floor}")
            if what == "capacity_bps" and value < MIN_CAPACITY_BPS:
                raise TopologyError(
                    f"{name}: {what} {value:g} must be at least {MIN_CAPACITY_BPS:g}"
                )
            if value > most:
                raise TopologyError(f"{name}: {what} {value:g} must be at most {most:g}")
        if not isinstance(self.impairments, str):
            raise TopologyError(
                f"{name}: impairments {self.impairments!r} must be text, as 'ge:p=0.01,r=0.3 jitter:0.005'"
            )
        if self.impairments:
            with located(name):
                object.__setattr__(
                    self, "impairments", impairment_text(parse_impairments(self.impairments))
                )
        _refuse_reserved(name, self.attributes, _LINK_FIELDS)

    @property
    def impaired_by(self) -> Impairments:
        """The impairments as values, in the order in which packets pass them."""
        return known_impairments(self.impairments)

    @property
    def impaired_attribute(self) -> dict[str, str]:
        """``impairments`` as an attribute, where there are any."""
        return {"impairments": self.impairments} if self.impairments else {}

    @property
    def ports(self) -> tuple[int | None, int | None]:
        """Port numbers that the network gives its cable, at the source and at the target; None where it gives none."""
        given = self.attributes.get("ports")
        if (
            isinstance(given, list)
            and len(given) == 2
            and all(one is None or type(one) is int for one in given)
        ):
            return given[0], given[1]
        return None, None

    @property
    def queue_packets(self) -> int | None:
        """How many packets wait before it at most (``max_queue_size``), None where the network does not say."""
        given = self.attributes.get("max_queue_size")
        return given if type(given) is int and given > 0 else None

    @property
    def id(self) -> LinkId:
        return (self.source, self.target, self.key)

    @property
    def label(self) -> str:
        """See ``label_of``."""
        return label_of(self.id)


@dataclass(frozen=True, kw_only=True)
class Network(Shown):
    """Nodes and directed links in a stated, deterministic order.

    Raises TopologyError for a duplicate node id, a duplicate link and a link whose end is no node.

    >>> net = Network(name="pair", nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
    ...               links=(Link(source="a", target="b"),))
    >>> net.link("a", "b").capacity_bps
    10000000.0
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    attributes: Json = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _refuse_reserved(f"network {self.name!r}", self.attributes, _NETWORK_FIELDS)
        seen: set[str] = set()
        for node in self.nodes:
            if node.id in seen:
                raise TopologyError(
                    f"network {self.name!r}: two nodes have the id {node.id!r}; rename one"
                )
            seen.add(node.id)
        links: set[LinkId] = set()
        for link in self.links:
            for end in (link.source, link.target):
                if end not in seen:
                    raise TopologyError(
                        f"network {self.name!r}: link {link.source!r} -> {link.target!r} names the unknown node"
                        f" {end!r}; add the node or correct the link"
                    )
            if link.id in links:
                raise TopologyError(
                    f"network {self.name!r}: link {link.label} is there twice; give parallel links keys of their own"
                )
            links.add(link.id)
        taken: dict[str, str] = {}
        for node in self.nodes:
            for address in (*(ip for ip, _ in node.addresses), *filter(None, (node.mac,))):
                if address in taken:
                    raise TopologyError(
                        f"network {self.name!r}: {taken[address]!r} and {node.id!r} have the address {address}; change"
                        " one"
                    )
                taken[address] = node.id

    @cached_property
    def node_index(self) -> Mapping[str, int]:
        """Node id -> position in ``nodes``."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def node_of_name(self) -> Mapping[str, str]:
        """Node id of each ``name`` or ``label`` that one node alone has, and that is no id."""
        ids: dict[str, str] = {}
        shared: set[str] = set()
        for node in self.nodes:
            for name in {str(node.attributes.get(key) or "").strip() for key in ("name", "label")}:
                if ids.setdefault(name, node.id) != node.id:
                    shared.add(name)
        return {
            name: node
            for name, node in ids.items()
            if name and name not in shared and name not in self.node_index
        }

    @cached_property
    def link_index(self) -> Mapping[LinkId, int]:
        """Link id -> position in ``links``."""
        return {link.id: i for i, link in enumerate(self.links)}

    @cached_property
    def link_of_label(self) -> Mapping[str, LinkId]:
        """Label -> link id; see ``label_of``."""
        return {link.label: link.id for link in self.links}

    @cached_property
    def id_lengths(self) -> tuple[int, ...]:
        """The lengths of ids and names of nodes, each once."""
        names = (*self.node_index, *self.node_of_name)
        return tuple(sorted({len(name) for name in names}))

    @cached_property
    def _out(self) -> Mapping[str, tuple[int, ...]]:
        return self._incident("source")

    @cached_property
    def _in(self) -> Mapping[str, tuple[int, ...]]:
        return self._incident("target")

    def _incident(self, end: Literal["source", "target"]) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {node.id: [] for node in self.nodes}
        for i, link in enumerate(self.links):
            found[link.source if end == "source" else link.target].append(i)
        return {k: tuple(v) for k, v in found.items()}

    def node(self, node_id: str) -> Node:
        """The node of that id; TopologyError, naming the nearest ids, where there is none."""
        index = self.node_index.get(node_id)
        if index is None:
            index = self.node_index.get(str(node_name(node_id)))
        if index is None:
            raise TopologyError(
                f"network {self.name!r} has no node {node_id!r}; {self._nearest_nodes(str(node_id))}"
            )
        return self.nodes[index]

    def _nearest_nodes(self, wrong: str) -> str:
        """Return which ids and names to give instead of a wrong one."""
        advice = nearest(wrong, [*self.node_index, *self.node_of_name])
        if not self.node_of_name or advice.startswith("did you mean"):
            return advice
        names = {node: name for name, node in self.node_of_name.items()}
        titles = [f"{node} ({names[node]})" if node in names else node for node in self.node_index]
        return nearest("", titles)

    def link(self, source: str, target: str, key: int = 0) -> Link:
        """The directed link of that name; TopologyError where there is none."""
        index = self.link_index.get((source, target, key))
        if index is None:
            ends = (str(node_name(source)), str(node_name(target)))
            index = self.link_index.get((*ends, key))
        if index is None:
            raise TopologyError(
                f"network {self.name!r} has no link {label_of((source, target, key))}"
            )
        return self.links[index]

    def out_links(self, node_id: str) -> tuple[int, ...]:
        """Indices into ``links`` of the links that leave the node."""
        return self._out[self.node(node_id).id]

    def in_links(self, node_id: str) -> tuple[int, ...]:
        """Indices into ``links`` of the links that enter the node."""
        return self._in[self.node(node_id).id]

    @property
    def end_points(self) -> tuple[Node, ...]:
        """Where traffic begins and ends: the hosts, or every switch where there is no host."""
        return self.hosts or self.nodes

    @property
    def hosts(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.kind == "host")

    @cached_property
    def silent_hosts(self) -> frozenset[str]:
        """Ids of the hosts that pass nothing on: paths begin or end there, and lead through none."""
        return frozenset(node.id for node in self.nodes if not node.forwards)

    @property
    def switches(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.kind == "switch")

    @cached_property
    def switch_ids(self) -> Mapping[str, None]:
        """Ids of the switches, in order."""
        return {node.id: None for node in self.switches}

    @cached_property
    def core(self) -> tuple[int, ...]:
        """Indices into ``links`` of the links between switches."""
        return tuple(
            i
            for i, link in enumerate(self.links)
            if {link.source, link.target} <= self.switch_ids.keys()
        )

    def without(self, *cables: str | LinkId | tuple[object, object]) -> "Network":
        """Return the network without these cables: both directions of each are removed.

        Args:
            cables: Each as ``a->b``, ``a-b``, a pair of nodes or the id of a link.

        Raises:
            TopologyError: A link is unknown.

        >>> from topologies import load_network
        >>> [link.label for link in load_network("crossbar:2").without("t0->s1").links][:3]
        ['s1->r0', 'r0->s1', 't1->s1']
        """
        gone: set[LinkId] = set()
        for cable in cables:
            link = self._link_of(cable)
            if link is None:
                raise TopologyError(
                    f"network {self.name!r} has no link {cable!r}; {nearest(str(cable), self.link_of_label)}"
                )
            gone |= {link, reverse_of(link)}
        return replace(self, links=tuple(link for link in self.links if link.id not in gone))

    def _link_of(self, cable: object) -> LinkId | None:
        """Return the link that the text, the pair of nodes or the id names, or None."""
        if isinstance(cable, str):
            undirected = (link.id for link in self.links if f"{link.source}-{link.target}" == cable)
            return self.link_of_label.get(cable) or next(undirected, None)
        if not isinstance(cable, tuple) or len(cable) not in (2, 3):
            return None
        key = cable[2] if len(cable) == 3 else 0
        link = (str(node_name(cable[0])), str(node_name(cable[1])), key)
        return link if link in self.link_index else None

    def __repr__(self) -> str:
        parts = (
            (len(self.switches), "switches"),
            (len(self.hosts), "hosts"),
            (len(self.links), "links"),
        )
        return f"Network({self.name!r}: {', '.join(f'{number} {what}' for number, what in parts)})"

    def to_networkx(self) -> "nx.MultiDiGraph":
        """A networkx view (a copy): node attribute ``kind``, link attributes ``capacity_bps``, ``delay_s``,
        ``index``."""
        import networkx as nx  # loaded when first requested: a fifth of a second that most commands need not spend

        graph = nx.MultiDiGraph(name=self.name, **dict(self.attributes))
        for node in self.nodes:
            graph.add_node(node.id, kind=node.kind, position=node.position, **dict(node.attributes))
        for i, link in enumerate(self.links):
            graph.add_edge(
                link.source,
                link.target,
                key=link.key,
                **{
                    **link.attributes,
                    **link.impaired_attribute,
                    "index": i,
                    "capacity_bps": link.capacity_bps,
                    "delay_s": link.delay_s,
                },
            )
        return graph


def is_finite(value: object) -> TypeGuard[float]:
    """Whether it is a number, neither infinite nor none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False


def _refuse_reserved(what: str, attributes: Json, reserved: frozenset[str]) -> None:
    taken = reserved.intersection(attributes)
    if taken:
        raise TopologyError(
            f"{what}: the attribute {min(taken)!r} has a field of its own; set that, or rename the attribute"
        )
