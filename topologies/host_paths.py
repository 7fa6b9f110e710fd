"""Finds pairs of hosts without a path between them, and says how to connect them."""

from collections import Counter, deque
from collections.abc import Iterable

from topologies.network import Network, reverse_of

_LISTED = 3
MAX_PAIRS = 100_000
# Links that are visited at most; a larger network gets no answer.
_MAX_STEPS = 1_000_000


def note_paths(network: Network, default_routes: Iterable[str], notes: list[str]) -> None:
    """Note the pairs of hosts that no path joins, and the default routes that are not set.

    Args:
        network: The network.
        default_routes: The hosts to which a file gives a default route.
        notes: Takes the lines.
    """
    pairs = pairs_without_path(network)
    routed = list(default_routes)
    if routed:
        names = ", ".join(map(repr, routed[:6]))
        more = f" and {len(routed) - 6} more" if len(routed) > 6 else ""
        line = f"default routes of {names}{more} are not set"
        if pairs == []:
            line += ": every host has the shortest path to each other one"
        elif pairs:
            line += ": every host has the shortest path to each other one that it can reach"
        notes.append(line)
    # One-way links are deliberate; then a pair without a path is no surprise.
    if pairs and is_bidirectional(network):
        notes.append(_remedy(network, pairs))


def pairs_without_path(network: Network) -> list[tuple[str, str]] | None:
    """Return ordered pairs of hosts that no path joins, the first MAX_PAIRS of them.

    A path leads through switches and through hosts that forward.

    Returns:
        None if the network is too large to tell.

    >>> from topologies import load_network
    >>> pairs_without_path(load_network("crossbar:2"))
    []
    """
    hosts = [host.id for host in network.hosts]
    reaches = _Reaches(network)
    pairs: list[tuple[str, str]] = []
    for host in hosts:
        near = {network.links[i].target for i in network.out_links(host)}
        reached = reaches.of(near)
        if reached is None:
            return None
        if len(reached) - (host in reached) == len(hosts) - 1:
            continue
        pairs += [(host, other) for other in hosts if other != host and other not in reached]
        if len(pairs) >= MAX_PAIRS:
            return pairs[:MAX_PAIRS]
    return pairs


def is_bidirectional(network: Network) -> bool:
    """Return whether every link has its reverse."""
    return all(reverse_of(link.id) in network.link_index for link in network.links)


class _Reaches:
    """The hosts that a packet reaches from a node, found once for each part of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._hosts = {host.id for host in network.hosts}
        self._bidirectional = is_bidirectional(network)
        self._by_node: dict[str, frozenset[str]] = {}
        self._steps = 0

    def of(self, nodes: Iterable[str]) -> frozenset[str] | None:
        """Return the hosts reached from any of the nodes, or None if there is too much to visit."""
        reached: frozenset[str] = frozenset()
        for node in nodes:
            if node in self._network.silent_hosts:
                reached |= {node}
                continue
            if node not in self._by_node:
                if self._steps > _MAX_STEPS:
                    return None
                self._search(node)
            part = self._by_node[node]
            reached = reached | part if reached else part
        return reached

    def _search(self, start: str) -> None:
        network = self._network
        reached = {start}
        waiting = deque(reached)
        while waiting:
            node = waiting.popleft()
            if node in network.silent_hosts:
                continue
            for i in network.out_links(node):
                self._steps += 1
                target = network.links[i].target
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        hosts = frozenset(reached & self._hosts)
        # If all links go both ways, every node of a part reaches the same hosts.
        same = reached - network.silent_hosts if self._bidirectional else {start}
        self._by_node |= dict.fromkeys(same, hosts)


def _remedy(network: Network, pairs: list[tuple[str, str]]) -> str:
    """Return the line that names pairs without a path and what would join them."""
    unordered = list(dict.fromkeys(tuple(sorted(pair)) for pair in pairs))
    listed = ", ".join(f"{a} and {b}" for a, b in unordered[:_LISTED])
    more = len(unordered) - _LISTED
    if len(pairs) == MAX_PAIRS:
        listed += " and many more pairs of hosts"
    elif more > 0:
        listed += f" and {more} more pair{'s' if more > 1 else ''} of hosts"
    cables = Counter(
        host.id
        for host in network.hosts
        for _ in {network.links[i].target for i in network.out_links(host.id)}
    )
    silent = [name for name, count in cables.items() if count > 1 and name in network.silent_hosts]
    line = f"no path joins {listed}"
    if not silent:
        return f"{line}; add links between their parts"
    names = ", ".join(silent[:6]) + (f" and {len(silent) - 6} more" if len(silent) > 6 else "")
    has = "has several cables and does" if len(silent) == 1 else "have several cables and do"
    return (
        f"{line}: {names} {has} not forward; set forwarding: true, or switch it on in a Mininet"
        " file by sysctl -w net.ipv4.ip_forward=1"
    )
