"""The hosts that compute and the hosts that store the subfiles, and the paths between them.

Hosts with a role only send (compute) or only receive (store subfiles), such as the two processors
of a Swiss-T1 node. Other hosts may do both.
"""

import hashlib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from testbed.bulk.plan import Pair, Path
from testbed.errors import InputError
from testbed.striping.options import Order
from topologies import Network, label_of, reverse_of
from topologies.routing_tables import static_routing

# A file name has at most 255 bytes, and encoding makes a name up to three times as long.
_MAX_NAME_BYTES = 80


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The nodes of a striped file.

    Attributes:
        network: The network.
        compute: The node of each compute process, by rank.
        io: The node of each listener, in the order of the subfiles.
        paths: For each pair of a compute and an I/O node, the directed links from the compute node
            to the I/O node. Empty if both are the same host.
    """

    network: Network
    compute: tuple[str, ...]
    io: tuple[str, ...]
    paths: Mapping[Pair, Path]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The I/O nodes by ``p1``, ``p2``, ..., their names in the papers' programs.

        If a node has such a name itself, the name is no alias.
        """
        nodes = set(self.io)
        return {f"p{j}": node for j, node in enumerate(self.io, 1) if f"p{j}" not in nodes}

    @cached_property
    def names(self) -> dict[str, str]:
        """The I/O nodes by every name that a file name may use."""
        return {**{node: node for node in self.io}, **self.aliases}

    @property
    def remote(self) -> dict[Pair, Path]:
        """The paths of the pairs whose bytes cross the network."""
        return {pair: path for pair, path in self.paths.items() if path}

    def file_name(self, path: str = "data") -> str:
        """Return the name of a striped file with one subfile on every I/O node.

        >>> from topologies import load_network
        >>> place(load_network("crossbar:2"), 1, 2).file_name("a.dat")
        'r0/a.dat;r1/a.dat;'
        """
        return "".join(f"{encoded_node_name(node)}/{path};" for node in self.io)


def encoded_node_name(node: str) -> str:
    """Return the name of an I/O node in file names, SFIO_LISTENERS and folders.

    It is the id of the node, with characters that these names cannot have written as %XX. Long ids
    are replaced by a hash.

    >>> [encoded_node_name(name) for name in ("r0", "a b;c", "../x", "..")]
    ['r0', 'a%20b%3Bc', '..%2Fx', '%2E%2E']
    """
    encoded = node.encode("utf-8", "surrogatepass")
    if len(encoded) > _MAX_NAME_BYTES:
        return f"%{hashlib.sha256(encoded).hexdigest()}"
    return re.sub(r"[\s\0/;,=%\ud800-\udfff]|^\.{1,2}$", _as_hexadecimal, node)


def _as_hexadecimal(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def place(
    network: Network,
    compute_nodes: int,
    io_nodes: int,
    *,
    routing: str | None = None,
    order: Order = "first",
    seed: int = 1,
) -> Placement:
    """Choose the compute and the I/O nodes, and the paths between them.

    Args:
        network: The network.
        compute_nodes: The number of compute nodes.
        io_nodes: The number of I/O nodes.
        routing: The static routing. None: the network's own.
        order: ``first``: compute nodes are the first hosts. I/O nodes are the first receivers, or
            the last hosts if hosts have no roles. ``random``: any hosts, as a job launcher would
            choose. If hosts are processors of nodes, pairs of a compute and an I/O process are
            assigned to nodes (Gabrielyan 2007, figures 17 and 21).
        seed: The seed of the random order.

    Raises:
        InputError: A number is below 1 or above the number of hosts, or a path has no reverse path.
    """
    senders = [n.id for n in network.hosts if n.attributes.get("role") != "receiver"]
    receivers = [n.id for n in network.hosts if n.attributes.get("role") != "sender"]
    if senders == receivers:
        receivers = receivers[::-1]
    _check_count("--compute-nodes", compute_nodes, len(senders), network)
    _check_count("--io-nodes", io_nodes, len(receivers), network)
    if order == "random":
        senders, receivers = _shuffled(network, senders, receivers, random.Random(seed))
    compute = tuple(senders[:compute_nodes])
    io = tuple(receivers[:io_nodes])
    paths = _paths(network, compute, io, routing)
    return Placement(network=network, compute=compute, io=io, paths=paths)


def _paths(
    network: Network, compute: tuple[str, ...], io: tuple[str, ...], routing: str | None
) -> dict[Pair, Path]:
    route = static_routing(network, routing)
    paths: dict[Pair, Path] = {}
    for source in compute:
        for sink in io:
            paths[source, sink] = tuple(route(source, sink)) if source != sink else ()
    for pair, path in paths.items():
        _check_reverse_path(network, pair, path)
    return paths


def _shuffled(
    network: Network, senders: list[str], receivers: list[str], generator: random.Random
) -> tuple[list[str], list[str]]:
    """Return the hosts in random order; hosts of the same node have the same position in both."""
    nodes = {host.id: host.attributes.get("node") for host in network.hosts}
    if None in nodes.values():
        return generator.sample(senders, len(senders)), generator.sample(receivers, len(receivers))
    # The order before shuffling must not depend on the order of the hosts: n2 is before n10.
    names = sorted({str(node) for node in nodes.values()}, key=lambda name: (len(name), name))
    shuffled = generator.sample(names, len(names))
    position_of_node = {name: position for position, name in enumerate(shuffled)}

    def position(host: str) -> int:
        return position_of_node[str(nodes[host])]

    return sorted(senders, key=position), sorted(receivers, key=position)


def _check_count(option: str, count: int, limit: int, network: Network) -> None:
    if not 1 <= count <= limit:
        raise InputError(
            f"{option} {count}: give 1 to {limit}, the number of suitable hosts of {network.name!r}"
        )


def _check_reverse_path(network: Network, pair: Pair, path: Path) -> None:
    """Raise InputError if the answers of the I/O node cannot take the reverse path."""
    for link in path:
        if reverse_of(link) not in network.link_index:
            raise InputError(
                f"link {label_of(link)} has no reverse link, which the answers of {pair[1]} to"
                f" {pair[0]} need; add it"
            )
