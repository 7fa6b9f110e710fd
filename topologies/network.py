"""The description of a network: immutable nodes and directed links, which are validated.

Everything else in the project is computed from it. This module knows nothing about file formats,
routing or switches.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeGuard

from topologies.errors import TopologyError, nearest, prefix_errors, python_number
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
#: Identifies a directed link: (source, target, key). The key tells parallel links apart; the first
#: one has the key 0.
LinkId = tuple[str, str, int]

#: The capacity of a link if none is given, in bits per second.
DEFAULT_CAPACITY_BPS = 1e7
#: The bounds of capacities are those of rates on the command line.
MAX_CAPACITY_BPS = 1e15
MIN_CAPACITY_BPS = 1e-3
#: The largest delay of a link: a day.
MAX_DELAY_S = 86_400.0


def reverse_of(link: LinkId) -> LinkId:
    """Return the id of the link in the opposite direction.

    The network may not have this link; see ``Network.link_index``.

    >>> reverse_of(("a", "b", 1))
    ('b', 'a', 1)
    """
    source, target, key = link
    return target, source, key


def link_fields(link: LinkId) -> dict[str, str | int]:
    """Return the id of a link as the fields of a JSON object.

    >>> link_fields(("a", "b", 1))
    {'source': 'a', 'target': 'b', 'key': 1}
    """
    return dict(zip(("source", "target", "key"), link, strict=True))


def quoted(node_id: str) -> str:
    r"""Return an id in JSON quotes, so that none of its characters is read as syntax.

    >>> quoted('a->b'), quoted('5" disk')
    ('"a->b"', '"5\\" disk"')
    """
    return json.dumps(node_id, ensure_ascii=False)


def node_name(node: object) -> object:
    """Return the id that a network gives to a node of a networkx graph.

    An integer becomes its text. A tuple of texts and integers becomes its parts with underscores
    between them. Any other value is returned unchanged.

    >>> node_name(7), node_name((0, 1)), node_name("s1"), node_name(None)
    ('7', '0_1', 's1', None)
    """
    node = python_number(node)
    if isinstance(node, tuple | list):
        parts = [node_name(part) for part in node]
        texts = [part for part in parts if isinstance(part, str)]
        is_composed = len(texts) == len(node) and len(node) > 1
        return "_".join(texts) if is_composed else node
    if isinstance(node, int) and not isinstance(node, bool):
        return str(node)
    return node


# The parts of an id that could be read as syntax of a label.
_NEEDS_QUOTES = re.compile(r'->|#[0-9]+$|^[\s"]|\s$')


def label_of(link: LinkId) -> str:
    """Return the name of a link in reports and commands: ``a->b``, with ``#key`` unless it is 0.

    Different links have different labels. An id is therefore quoted if it contains an arrow, ends
    like a key, begins with a quote, or begins or ends with a space.

    >>> label_of(("s1", "s2", 1)), label_of(("a->b", "c,d", 0)), label_of(("a", "b#1", 0))
    ('s1->s2#1', '"a->b"->c,d', 'a->"b#1"')
    """
    source, target, key = link
    label = f"{_quoted_if_needed(source)}->{_quoted_if_needed(target)}"
    return f"{label}#{key}" if key else label


def _quoted_if_needed(node_id: object) -> object:
    # An id that is not text appears in messages about links that do not exist.
    if isinstance(node_id, str) and _NEEDS_QUOTES.search(node_id):
        return quoted(node_id)
    return node_id


# The names of fields, which attributes must not have.
_NODE_FIELDS = frozenset({"id", "kind", "position"})
_LINK_FIELDS = frozenset({"source", "target", "key", "capacity_bps", "delay_s", "impairments"})
_NETWORK_FIELDS = frozenset({"name"})


@dataclass(frozen=True, kw_only=True)
class Node:
    """A host or a switch.

    Some attributes are read. A host may have ``ip`` and ``mac``, its addresses (see
    ``topologies.text.addresses``), and ``forwarding``: if it is true, the host forwards packets of
    others, as a router does. A switch may have ``dpid``, its datapath id.

    Attributes:
        id: The name of the node, which is unique in its network.
        kind: "host" or "switch".
        position: x and y in drawing units, or None. In a MANET the unit is the side of the unit
            square.
        attributes: All other values.

    Raises:
        TopologyError: A field or an attribute that is read is invalid.
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
                f"node {self.id!r}: forwarding {self.attributes['forwarding']!r}"
                " must be true or false"
            )
        # Reading the addresses validates them.
        with prefix_errors(f"node {self.id!r}"):
            _ = self.addresses
            _ = self.mac
            _ = self.dpid

    @property
    def forwards(self) -> bool:
        """True for every switch, and for a host that forwards packets of others."""
        return self.kind == "switch" or self.attributes.get("forwarding") is True

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The IPv4 addresses of the host with their prefix lengths; the main one comes first."""
        if self.kind == "host" and "ip" in self.attributes:
            return ipv4_addresses(self.attributes["ip"])
        return ()

    @property
    def mac(self) -> str | None:
        """The MAC address of the host, or None if the network does not set it."""
        if self.kind == "host" and "mac" in self.attributes:
            return mac_address(self.attributes["mac"])
        return None

    @property
    def dpid(self) -> int | None:
        """The OpenFlow datapath id of the switch, or None if the network does not set it."""
        if self.kind == "switch" and "dpid" in self.attributes:
            return datapath_id(self.attributes["dpid"])
        return None


@dataclass(frozen=True, kw_only=True)
class Link:
    """A directed link.

    Two attributes are read if they are valid: ``ports`` (see the property of this name) and
    ``max_queue_size`` (see ``queue_packets``).

    Attributes:
        source: Id of the node at which the link begins.
        target: Id of the node at which it ends.
        key: Number that tells parallel links apart.
        capacity_bps: Capacity in bits per second.
        delay_s: One-way propagation delay in seconds.
        impairments: What else the link does to packets, in the syntax of
            ``topologies.impairments``; empty if it does nothing.
        attributes: All other values.

    Raises:
        TopologyError: A field is invalid.
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
        # numpy numbers become Python's. A frozen dataclass can only be changed in this way.
        if not isinstance(self.capacity_bps, int | float):
            object.__setattr__(self, "capacity_bps", python_number(self.capacity_bps))
        _check_number(
            f"{name}: capacity_bps", self.capacity_bps, MIN_CAPACITY_BPS, MAX_CAPACITY_BPS
        )
        if not isinstance(self.delay_s, int | float):
            object.__setattr__(self, "delay_s", python_number(self.delay_s))
        _check_number(f"{name}: delay_s", self.delay_s, 0, MAX_DELAY_S)
        if not isinstance(self.impairments, str):
            raise TopologyError(
                f"{name}: impairments {self.impairments!r} must be text,"
                " as 'ge:p=0.01,r=0.3 jitter:0.005'"
            )
        if self.impairments:
            with prefix_errors(name):
                normal_form = impairment_text(parse_impairments(self.impairments))
            object.__setattr__(self, "impairments", normal_form)
        _refuse_reserved(name, self.attributes, _LINK_FIELDS)

    @property
    def impaired_by(self) -> Impairments:
        """The parsed impairments, in the order in which packets pass them."""
        return known_impairments(self.impairments)

    @property
    def impaired_attribute(self) -> dict[str, str]:
        """A dictionary with ``impairments``, or an empty one if there are none."""
        return {"impairments": self.impairments} if self.impairments else {}

    @property
    def ports(self) -> tuple[int | None, int | None]:
        """The port numbers at the source and at the target; None where the network sets none."""
        ports = self.attributes.get("ports")
        if not isinstance(ports, list) or len(ports) != 2:
            return None, None
        # The type is compared, because True and False are instances of int.
        if not all(port is None or type(port) is int for port in ports):
            return None, None
        return ports[0], ports[1]

    @property
    def queue_packets(self) -> int | None:
        """The size of the queue in packets (``max_queue_size``), or None if it is not set."""
        size = self.attributes.get("max_queue_size")
        # The type is compared, because True and False are instances of int.
        return size if type(size) is int and size > 0 else None

    @property
    def id(self) -> LinkId:
        """The source, the target and the key."""
        return (self.source, self.target, self.key)

    @property
    def label(self) -> str:
        """The name of the link in reports and commands; see ``label_of``."""
        return label_of(self.id)


@dataclass(frozen=True, kw_only=True)
class Network(Shown):
    """Nodes and directed links, in a fixed order.

    Attributes:
        name: The name of the network.
        nodes: The hosts and switches.
        links: The directed links.
        attributes: All other values.

    Raises:
        TopologyError: Two nodes have the same id or the same address, two links have the same id,
            or a link ends at an unknown node.

    >>> a = Node(id="a", kind="switch")
    >>> b = Node(id="b", kind="switch")
    >>> net = Network(name="pair", nodes=(a, b), links=(Link(source="a", target="b"),))
    >>> net.link("a", "b").capacity_bps
    10000000.0
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    attributes: Json = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _refuse_reserved(f"network {self.name!r}", self.attributes, _NETWORK_FIELDS)
        self._check_nodes()
        self._check_links()
        self._check_addresses()

    def _check_nodes(self) -> None:
        ids: set[str] = set()
        for node in self.nodes:
            if node.id in ids:
                raise TopologyError(
                    f"network {self.name!r}: two nodes have the id {node.id!r}; rename one"
                )
            ids.add(node.id)

    def _check_links(self) -> None:
        node_ids = {node.id for node in self.nodes}
        ids: set[LinkId] = set()
        for link in self.links:
            for end in (link.source, link.target):
                if end not in node_ids:
                    raise TopologyError(
                        f"network {self.name!r}: link {link.source!r} -> {link.target!r} names the"
                        f" unknown node {end!r}; add the node or correct the link"
                    )
            if link.id in ids:
                raise TopologyError(
                    f"network {self.name!r}: link {link.label} is there twice;"
                    " give parallel links keys of their own"
                )
            ids.add(link.id)

    def _check_addresses(self) -> None:
        owners: dict[str, str] = {}
        for node in self.nodes:
            addresses = [address for address, _ in node.addresses]
            if node.mac is not None:
                addresses.append(node.mac)
            for address in addresses:
                if address in owners:
                    raise TopologyError(
                        f"network {self.name!r}: {owners[address]!r} and {node.id!r} have the"
                        f" address {address}; change one"
                    )
                owners[address] = node.id

    @cached_property
    def node_index(self) -> Mapping[str, int]:
        """The index in ``nodes`` of each node id."""
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def node_of_name(self) -> Mapping[str, str]:
        """The node id of each ``name`` or ``label`` that only one node has, and that is no id."""
        ids: dict[str, str] = {}
        ambiguous: set[str] = set()
        for node in self.nodes:
            for name in {str(node.attributes.get(key) or "").strip() for key in ("name", "label")}:
                if ids.setdefault(name, node.id) != node.id:
                    ambiguous.add(name)
        # Nodes without a name.
        ids.pop("", None)
        return {
            name: node
            for name, node in ids.items()
            if name not in ambiguous and name not in self.node_index
        }

    @cached_property
    def link_index(self) -> Mapping[LinkId, int]:
        """The index in ``links`` of each link id."""
        return {link.id: i for i, link in enumerate(self.links)}

    @cached_property
    def link_of_label(self) -> Mapping[str, LinkId]:
        """The link id of each label; see ``label_of``."""
        return {link.label: link.id for link in self.links}

    @cached_property
    def id_lengths(self) -> tuple[int, ...]:
        """The different lengths of the ids and names of nodes, in ascending order.

        A parser of node names in a text tries only these lengths.
        """
        names = (*self.node_index, *self.node_of_name)
        return tuple(sorted({len(name) for name in names}))

    @cached_property
    def _out(self) -> Mapping[str, tuple[int, ...]]:
        return self._incident_links("source")

    @cached_property
    def _in(self) -> Mapping[str, tuple[int, ...]]:
        return self._incident_links("target")

    def _incident_links(self, end: Literal["source", "target"]) -> Mapping[str, tuple[int, ...]]:
        """Return, for each node, the indices of the links that have it at this end."""
        indices: dict[str, list[int]] = {node.id: [] for node in self.nodes}
        for i, link in enumerate(self.links):
            node_id = link.source if end == "source" else link.target
            indices[node_id].append(i)
        return {node_id: tuple(links) for node_id, links in indices.items()}

    def node(self, node_id: str) -> Node:
        """Return the node with an id.

        Raises:
            TopologyError: There is none. The message gives the nearest ids.
        """
        index = self.node_index.get(node_id)
        if index is None:
            index = self.node_index.get(str(node_name(node_id)))
        if index is None:
            raise TopologyError(
                f"network {self.name!r} has no node {node_id!r};"
                f" {self._nearest_nodes(str(node_id))}"
            )
        return self.nodes[index]

    def _nearest_nodes(self, wrong: str) -> str:
        """Return advice on which id or name to give instead of an unknown one."""
        advice = nearest(wrong, [*self.node_index, *self.node_of_name])
        if not self.node_of_name or advice.startswith("did you mean"):
            return advice
        names = {node: name for name, node in self.node_of_name.items()}
        titles = []
        for node in self.node_index:
            title = f"{node} ({names[node]})" if node in names else node
            titles.append(title)
        return nearest("", titles)

    def link(self, source: str, target: str, key: int = 0) -> Link:
        """Return the directed link with an id.

        Raises:
            TopologyError: There is none.
        """
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
        """Return the indices in ``links`` of the links that leave a node."""
        return self._out[self.node(node_id).id]

    def in_links(self, node_id: str) -> tuple[int, ...]:
        """Return the indices in ``links`` of the links that enter a node."""
        return self._in[self.node(node_id).id]

    @property
    def end_points(self) -> tuple[Node, ...]:
        """The nodes at which traffic begins and ends: the hosts, or all switches if none exist."""
        return self.hosts or self.nodes

    @property
    def hosts(self) -> tuple[Node, ...]:
        """The hosts, in order."""
        return tuple(n for n in self.nodes if n.kind == "host")

    @cached_property
    def silent_hosts(self) -> frozenset[str]:
        """The ids of the hosts that do not forward: no path leads through them."""
        return frozenset(node.id for node in self.nodes if not node.forwards)

    @property
    def switches(self) -> tuple[Node, ...]:
        """The switches, in order."""
        return tuple(n for n in self.nodes if n.kind == "switch")

    @cached_property
    def switch_ids(self) -> Mapping[str, None]:
        """The ids of the switches, in order: a dictionary without values."""
        return {node.id: None for node in self.switches}

    @cached_property
    def core(self) -> tuple[int, ...]:
        """The indices in ``links`` of the links between switches."""
        return tuple(
            i
            for i, link in enumerate(self.links)
            if link.source in self.switch_ids and link.target in self.switch_ids
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
        removed: set[LinkId] = set()
        for cable in cables:
            link = self._link_of_cable(cable)
            if link is None:
                raise TopologyError(
                    f"network {self.name!r} has no link {cable!r};"
                    f" {nearest(str(cable), self.link_of_label)}"
                )
            removed |= {link, reverse_of(link)}
        return replace(self, links=tuple(link for link in self.links if link.id not in removed))

    def _link_of_cable(self, cable: object) -> LinkId | None:
        """Return the link that a text, a pair of nodes or an id names, or None."""
        if isinstance(cable, str):
            undirected = (link.id for link in self.links if f"{link.source}-{link.target}" == cable)
            return self.link_of_label.get(cable) or next(undirected, None)
        if not isinstance(cable, tuple) or len(cable) not in (2, 3):
            return None
        key = cable[2] if len(cable) == 3 else 0
        link = (str(node_name(cable[0])), str(node_name(cable[1])), key)
        if link not in self.link_index:
            return None
        return link

    def __repr__(self) -> str:
        return (
            f"Network({self.name!r}: {len(self.switches)} switches, {len(self.hosts)} hosts,"
            f" {len(self.links)} links)"
        )

    def to_networkx(self) -> "nx.MultiDiGraph":
        """Return a copy as a graph of networkx.

        Nodes have the attributes ``kind`` and ``position``. Links have ``capacity_bps``,
        ``delay_s`` and ``index``. Other attributes are kept.
        """
        # Imported here because the import takes 0.2 s, which most commands need not spend.
        import networkx as nx

        graph = nx.MultiDiGraph(name=self.name, **dict(self.attributes))
        for node in self.nodes:
            graph.add_node(node.id, kind=node.kind, position=node.position, **dict(node.attributes))
        for i, link in enumerate(self.links):
            attributes = {
                **link.attributes,
                **link.impaired_attribute,
                "index": i,
                "capacity_bps": link.capacity_bps,
                "delay_s": link.delay_s,
            }
            graph.add_edge(link.source, link.target, key=link.key, **attributes)
        return graph


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number; True and False are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    # An int that is too large for a float.
    except OverflowError:
        return False


def _check_number(name: str, value: object, low: float, high: float) -> None:
    """Refuse a value of a link that is not a number from ``low`` to ``high``.

    Args:
        name: The link and the name of the value, for the message.
        value: The value.
        low: Smallest valid value; if it is above 0, the message says that the value is positive.
        high: Largest valid value.
    """
    sign = "positive" if low > 0 else "zero or more"
    if not is_finite(value):
        raise TopologyError(f"{name} {value!r} is not a number; give one that is {sign}")
    if value < 0 or (value == 0 and low > 0):
        raise TopologyError(f"{name} {value!r} must be {sign}")
    if value < low:
        raise TopologyError(f"{name} {value:g} must be at least {low:g}")
    if value > high:
        raise TopologyError(f"{name} {value:g} must be at most {high:g}")


def _refuse_reserved(where: str, attributes: Json, reserved: frozenset[str]) -> None:
    """Refuse attributes that have the name of a field.

    Args:
        where: The node, link or network, for the message.
        attributes: Its attributes.
        reserved: The names of its fields.
    """
    reserved_names = reserved.intersection(attributes)
    if reserved_names:
        raise TopologyError(
            f"{where}: the attribute {min(reserved_names)!r} has a field of its own;"
            " set that, or rename the attribute"
        )
