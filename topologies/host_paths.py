"""Finds pairs of hosts without a path between them, and says how to connect them."""

from collections import Counter, deque
from collections.abc import Iterable

from topologies.network import Network, reverse_of

# Maximum numbers of pairs of hosts, and of hosts, that a note lists by name.
_MAX_LISTED_PAIRS = 3
_MAX_LISTED_HOSTS = 6
# Maximum number of pairs that are returned.
MAX_PAIRS = 100_000
# Maximum number of links that are visited, a bound of the time. A larger network gets no answer.
_MAX_STEPS = 1_000_000


def note_paths(network: Network, default_routes: Iterable[str], notes: list[str]) -> None:
    """Note the pairs of hosts without a path between them, and the default routes that are not set.

    Args:
        network: The network.
        default_routes: The hosts to which a file gives a default route.
        notes: The list to which the notes are appended.
    """
    pairs = pairs_without_path(network)
    routed = list(default_routes)
    if routed:
        names = ", ".join(map(repr, routed[:_MAX_LISTED_HOSTS]))
        line = f"default routes of {names}{_number_left_out(routed)} are not set"
        if pairs == []:
            line += ": every host has the shortest path to each other one"
        elif pairs:
            line += ": every host has the shortest path to each other one that it can reach"
        notes.append(line)
    # A network with one-way links is built on purpose; a pair without a path is no surprise there.
    if pairs and is_bidirectional(network):
        notes.append(_remedy(network, pairs))


def _number_left_out(hosts: list[str]) -> str:
    """Return the end of a list of names that is cut after _MAX_LISTED_HOSTS."""
    number = len(hosts) - _MAX_LISTED_HOSTS
    return f" and {number} more" if number > 0 else ""


def pairs_without_path(network: Network) -> list[tuple[str, str]] | None:
    """Return the ordered pairs of hosts without a path from the first to the second.

    A path leads through switches and through hosts that forward.

    Returns:
        At most MAX_PAIRS pairs, or None if the network is too large to search.

    >>> from topologies import load_network
    >>> pairs_without_path(load_network("crossbar:2"))
    []
    """
    hosts = [host.id for host in network.hosts]
    reachability = _Reachability(network)
    pairs: list[tuple[str, str]] = []
    for host in hosts:
        neighbours = {network.links[i].target for i in network.out_links(host)}
        reached = reachability.hosts_reached_from(neighbours)
        if reached is None:
            return None
        # The size alone is compared: copying the set for each host would be slow.
        others_reached = len(reached)
        if host in reached:
            others_reached -= 1
        if others_reached == len(hosts) - 1:
            continue
        pairs += [(host, other) for other in hosts if other != host and other not in reached]
        if len(pairs) >= MAX_PAIRS:
            return pairs[:MAX_PAIRS]
    return pairs


def is_bidirectional(network: Network) -> bool:
    """Return whether every link has its reverse."""
    return all(reverse_of(link.id) in network.link_index for link in network.links)


class _Reachability:
    """Finds the hosts that can be reached from a node, searching each part of a network once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._hosts = {host.id for host in network.hosts}
        self._bidirectional = is_bidirectional(network)
        self._hosts_reached: dict[str, frozenset[str]] = {}
        self._steps = 0

    def hosts_reached_from(self, nodes: Iterable[str]) -> frozenset[str] | None:
        """Return the hosts that can be reached from any of the nodes, these included.

        Returns:
            None if more than _MAX_STEPS links have been visited.
        """
        reached: frozenset[str] = frozenset()
        for node in nodes:
            if node in self._network.silent_hosts:
                reached |= {node}
                continue
            if node not in self._hosts_reached:
                if self._steps > _MAX_STEPS:
                    return None
                self._search(node)
            part = self._hosts_reached[node]
            # In most networks there is one part; then its set is not copied.
            reached = reached | part if reached else part
        return reached

    def _search(self, start: str) -> None:
        """Find the hosts that can be reached from a node, breadth first."""
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
        # If all links go both ways, every forwarding node of a part reaches the same hosts.
        same_part = reached - network.silent_hosts if self._bidirectional else {start}
        self._hosts_reached |= dict.fromkeys(same_part, hosts)


def _remedy(network: Network, pairs: list[tuple[str, str]]) -> str:
    """Return a note that names pairs without a path, and how to connect them."""
    # Each pair once, whether there is no path in one direction or in both.
    unordered_pairs = list(dict.fromkeys(tuple(sorted(pair)) for pair in pairs))
    listed = ", ".join(map(" and ".join, unordered_pairs[:_MAX_LISTED_PAIRS]))
    left_out = len(unordered_pairs) - _MAX_LISTED_PAIRS
    if len(pairs) == MAX_PAIRS:
        listed += " and many more pairs of hosts"
    elif left_out == 1:
        listed += " and 1 more pair of hosts"
    elif left_out > 1:
        listed += f" and {left_out} more pairs of hosts"
    line = f"no path joins {listed}"
    could_forward = _silent_hosts_with_several_neighbours(network)
    if not could_forward:
        return f"{line}; add links between their parts"
    names = ", ".join(could_forward[:_MAX_LISTED_HOSTS]) + _number_left_out(could_forward)
    if len(could_forward) == 1:
        predicate = "has several cables and does"
    else:
        predicate = "have several cables and do"
    return (
        f"{line}: {names} {predicate} not forward; set forwarding: true, or switch it on in a"
        " Mininet file by sysctl -w net.ipv4.ip_forward=1"
    )


def _silent_hosts_with_several_neighbours(network: Network) -> list[str]:
    neighbours = {(link.source, link.target) for link in network.links}
    counts = Counter(source for source, _ in neighbours)
    return [
        host.id for host in network.hosts if counts[host.id] > 1 and host.id in network.silent_hosts
    ]
