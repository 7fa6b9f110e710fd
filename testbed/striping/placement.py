"""Which hosts of a network compute and which keep the subfiles, over which static paths their bytes travel.

Hosts with a role send (compute) or receive (keep subfiles), as Swiss-T1's two processors of a node; others may do both.
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


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Compute process ``k`` runs at the node ``compute[k]``, the listener ``j`` at ``io[j]``.

    ``paths``: of every pair (compute node, I/O node), the directed links from the compute to the I/O node; none where
    both are the same host.
    """

    network: Network
    compute: tuple[str, ...]
    io: tuple[str, ...]
    paths: Mapping[Pair, Path]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """``p1``, ``p2``, ... as the papers' programs call the I/O nodes -> node; a node of that name keeps its own."""
        own = set(self.io)
        return {f"p{j}": node for j, node in enumerate(self.io, 1) if f"p{j}" not in own}

    @cached_property
    def names(self) -> dict[str, str]:
        """Every name that file names may use -> node."""
        return {**{node: node for node in self.io}, **self.aliases}

    @property
    def remote(self) -> dict[Pair, Path]:
        """The pairs whose bytes cross the network."""
        return {pair: path for pair, path in self.paths.items() if path}

    def file_name(self, path: str = "data") -> str:
        """A striped file with one subfile on every I/O node.

        >>> from topologies import load_network
        >>> place(load_network("crossbar:2"), 1, 2).file_name("a.dat")
        'r0/a.dat;r1/a.dat;'
        """
        return "".join(f"{file_host(node)}/{path};" for node in self.io)


def file_host(node: str) -> str:
    """What file names, SFIO_LISTENERS and folders call an I/O node: its id, what they cannot have in it as %XX.

    >>> file_host("r0"), file_host("a b;c"), file_host("../x"), file_host("..")
    ('r0', 'a%20b%3Bc', '..%2Fx', '%2E%2E')
    """
    if (
        len(node.encode("utf-8", "surrogatepass")) > 80
    ):  # no name of a folder is three times as long
        return f"%{hashlib.sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return re.sub(r"[\s\0/;,=%\ud800-\udfff]|^\.{1,2}$", _as_hexadecimal, node)


def _as_hexadecimal(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def place(
    network: Network,
    compute_nodes: int,
    io_nodes: int,
    *,
    routing: str | None = None,
    order: Order = "first",
    seed: int = 1,
) -> Placement:
    """Take that many hosts for each part. "first": compute nodes from the beginning of the list of hosts; I/O nodes the
    first receivers, or, where hosts have no roles, from its end. "random": any, by the seed, as a job launcher would;
    where hosts are processors of nodes, pairs of a compute and an I/O process are assigned to nodes (Gabrielyan 2007,
    figures 17 and 21).

    Raises InputError for fewer than one node or more than there are, and for a path that has no way back.
    """
    senders = [n.id for n in network.hosts if n.attributes.get("role") != "receiver"]
    receivers = [n.id for n in network.hosts if n.attributes.get("role") != "sender"]
    if senders == receivers:
        receivers = receivers[::-1]
    _check_count("--compute-nodes", compute_nodes, len(senders), network)
    _check_count("--io-nodes", io_nodes, len(receivers), network)
    if order == "random":
        senders, receivers = _shuffled(network, senders, receivers, random.Random(seed))
    compute, io = tuple(senders[:compute_nodes]), tuple(receivers[:io_nodes])
    route = static_routing(network, routing)
    paths = {(a, b): tuple(route(a, b)) if a != b else () for a in compute for b in io}
    for pair, path in paths.items():
        _check_way_back(network, pair, path)
    return Placement(network=network, compute=compute, io=io, paths=paths)


def _shuffled(
    network: Network, senders: list[str], receivers: list[str], generator: random.Random
) -> tuple[list[str], list[str]]:
    nodes = {host.id: host.attributes.get("node") for host in network.hosts}
    if None in nodes.values():
        return generator.sample(senders, len(senders)), generator.sample(receivers, len(receivers))
    known = sorted({str(node) for node in nodes.values()}, key=lambda name: (len(name), name))
    place_of = {name: place for place, name in enumerate(generator.sample(known, len(known)))}
    return (
        sorted(senders, key=lambda host: place_of[str(nodes[host])]),
        sorted(receivers, key=lambda host: place_of[str(nodes[host])]),
    )


def _check_count(option: str, count: int, most: int, network: Network) -> None:
    if not 1 <= count <= most:
        raise InputError(
            f"{option} {count}: give 1 to {most}, the hosts of {network.name!r} that can do it"
        )


def _check_way_back(network: Network, pair: Pair, path: Path) -> None:
    for link in path:
        if reverse_of(link) not in network.link_index:
            raise InputError(
                f"link {label_of(link)}: no link leads back, so no answer of {pair[1]} to {pair[0]} can; add it"
            )
