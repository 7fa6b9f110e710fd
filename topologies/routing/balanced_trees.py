"""Balanced routing by trees: static paths that load the most loaded link as little as possible.

The load is that of all-to-all traffic. Each destination has a tree of paths, so that the next link
depends on the node and the destination alone. Tori and rings do not need this search; they use
dimension order (``topologies.routing_tables.balanced_parts``).

The search begins with shortest paths that prefer links with little load. Then it tries moves: a
node that uses a most loaded link takes another next link, together with all paths through that
node. A path may therefore be longer than the shortest one. If a message is sent in several equal
parts, each part has trees of its own.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable

from topologies.errors import NoPathError
from topologies.network import LinkId, Network

# Maximum number of moves that are tried.
MOVES = 10_000
# Maximum of moves * (trees + links), which bounds the time. A move examines all trees and links.
WORK = 20_000_000
# Moves reduce the sum of this power of the loads. The power is high, so that the sum depends mostly
# on the most loaded links.
POWER = 12
# How much a move may add to that sum at first, relative to this power of the maximum load. The
# tolerance falls to zero during the search, which lets the search leave local minima.
TOLERANCE = 0.5
# Smaller differences between two loads are rounding errors.
_SAME_LOAD = 1e-9
# The part of the message, and the id of the destination.
Key = tuple[int, str]
# The index in ``Network.links`` of the link that each node takes towards the destination.
Tree = dict[str, int]


class BalancedTrees:
    """Trees for all destinations of one kind; the first call of ``path`` computes them.

    Args:
        network: The network.
        parts: Number of equal parts of each message.
        kind: "host" if hosts send to hosts, "switch" if switches send to switches.
    """

    def __init__(self, network: Network, parts: int, kind: str) -> None:
        self._network = network
        self._random = random.Random(len(network.links))
        ends = network.hosts if kind == "host" else network.switches
        sinks = [node.id for node in ends if node.attributes.get("role") != "sender"]
        self._sources = [node.id for node in ends if node.attributes.get("role") != "receiver"]
        self._keys: list[Key] = []
        for part in range(parts):
            self._keys += [(part, sink) for sink in sinks]
        self._trees: dict[Key, Tree] = {}
        # The load that one transfer adds to each link: 1 on a link of the mean capacity. It is 0
        # on the links of hosts, because paths have no choice there.
        self._load_per_transfer = [0.0] * len(network.links)
        mean_bps = math.fsum(link.capacity_bps for link in network.links) / len(network.links)
        for index in network.core:
            self._load_per_transfer[index] = mean_bps / network.links[index].capacity_bps
        self._load = [0.0] * len(network.links)
        # For each tree, the number of sources whose path leads through each node.
        self._through: dict[Key, Counter[str]] = {}

    def path(self, source: str, sink: str, part: int = 0) -> tuple[LinkId, ...]:
        """Return the path of one part of a message.

        Raises:
            NoPathError: The sink cannot be reached from the source.
        """
        if not self._trees:
            self._search()
        if (part, sink) not in self._trees:
            # The sink is a host that only sends: it was no destination in the search.
            self._trees[part, sink] = self._shortest_tree(sink)
        path = self._path_in_tree(self._trees[part, sink], source)
        if not path or self._network.links[path[-1]].target != sink:
            raise NoPathError(
                f"no path from {source!r} to {sink!r} in network {self._network.name!r};"
                " connect them with links"
            )
        return tuple(self._network.links[index].id for index in path)

    def _search(self) -> None:
        """Compute the trees, and keep those with the smallest maximum load."""
        self._build_first_trees()
        best_trees = self._copy_of_trees()
        min_load = max(self._load)
        moves = min(MOVES, WORK // (len(self._keys) + len(self._load))) if min_load else 0
        for number in range(moves):
            self._try_move(TOLERANCE * (1 - number / moves))
            if max(self._load) < min_load - _SAME_LOAD:
                best_trees = self._copy_of_trees()
                min_load = max(self._load)
        self._trees = best_trees

    def _build_first_trees(self) -> None:
        for key in self._keys:
            # Each tree avoids the links that are loaded by the trees before it.
            tree = self._trees.setdefault(key, self._shortest_tree(key[1]))
            through: Counter[str] = Counter()
            for source in self._sources:
                path = self._path_in_tree(tree, source)
                self._add_load(path, 1)
                through.update(self._network.links[index].source for index in path)
            self._through[key] = through

    def _copy_of_trees(self) -> dict[Key, Tree]:
        return {key: dict(tree) for key, tree in self._trees.items()}

    def _path_in_tree(self, tree: Tree, node: str) -> list[int]:
        """Return the indices of the links from the node to the root of the tree."""
        path = []
        while node in tree:
            path.append(tree[node])
            node = self._network.links[tree[node]].target
        return path

    def _add_load(self, path: Iterable[int], transfers: int) -> None:
        for index in path:
            self._load[index] += transfers * self._load_per_transfer[index]

    def _shortest_tree(self, sink: str) -> Tree:
        """Return a tree of shortest paths to the sink, which prefers links with little load.

        The search goes breadth first and against the direction of the links. Hosts forward nothing.
        """
        tree: Tree = {}
        reached = [sink]
        for node in reached:
            if node == sink or node in self._network.switch_ids:
                for index in sorted(self._network.in_links(node), key=self._load.__getitem__):
                    source = self._network.links[index].source
                    if source != sink and source not in tree:
                        tree[source] = index
                        reached.append(source)
        return tree

    def _try_move(self, tolerance: float) -> None:
        """Let one random node take another next link, if the cost is tolerable.

        The node is on a path over a most loaded link, in a random tree that uses this link. Of all
        other next links, the one with the smallest cost is taken.

        Args:
            tolerance: Maximum increase of the sum of the loads' powers, relative to the power of
                the maximum load.
        """
        max_load = max(self._load)
        key, node = self._choose_node(max_load)
        tree = self._trees[key]
        carried = self._through[key][node]
        old_path = self._path_in_tree(tree, node)
        candidates: list[tuple[float, list[int]]] = []
        for new_path in self._other_paths(tree, node, sink=key[1]):
            added = set(new_path) - set(old_path)
            removed = set(old_path) - set(new_path)
            costs = [self._cost(index, carried) / max_load**POWER for index in added]
            costs += [self._cost(index, -carried) / max_load**POWER for index in removed]
            candidates.append((sum(costs), new_path))
        cost, best_path = min(candidates, default=(math.inf, []))
        if cost < tolerance * self._random.random():
            tree[node] = best_path[0]
            self._move_transfers(key, old_path, -carried)
            self._move_transfers(key, best_path, carried)

    def _choose_node(self, max_load: float) -> tuple[Key, str]:
        """Choose at random a tree that uses a most loaded link, and a node whose path has the link.

        Args:
            max_load: The load of the most loaded links.
        """
        rng = self._random
        most_loaded = [
            index for index, load in enumerate(self._load) if load > max_load - _SAME_LOAD
        ]
        link = rng.choice(most_loaded)
        node = self._network.links[link].source
        users = [key for key, tree in self._trees.items() if tree.get(node) == link]
        key = rng.choice(users)
        # In half of the cases the node is not the one next to the link, but any one before it.
        if rng.random() < 0.5:
            tree = self._trees[key]
            upstream = [
                switch
                for switch in self._network.switch_ids
                if link in self._path_in_tree(tree, switch)
            ]
            node = rng.choice(upstream)
        return key, node

    def _other_paths(self, tree: Tree, node: str, sink: str) -> Iterable[list[int]]:
        """Yield the path over each other next link of the node, as indices of links."""
        old_link = tree[node]
        for index in self._network.out_links(node):
            target = self._network.links[index].target
            path = [index, *self._path_in_tree(tree, target)]
            # A path that comes back to the node would be a cycle.
            if old_link in path:
                continue
            if target == sink or (target in self._network.switch_ids and target in tree):
                yield path

    def _move_transfers(self, key: Key, path: list[int], transfers: int) -> None:
        """Change the loads of a path's links, and the counts of the nodes after its first node.

        The count of the first node stays the same, because its sources only take another path.

        Args:
            key: The tree.
            path: The path, as indices of links.
            transfers: Number of transfers that are added; negative if they are removed.
        """
        self._add_load(path, transfers)
        nodes = {self._network.links[index].source: transfers for index in path[1:]}
        self._through[key].update(nodes)

    def _cost(self, index: int, transfers: int) -> float:
        """Return the change of the load of a link to the power POWER if it carries more transfers.

        Args:
            index: Index of the link.
            transfers: Number of additional transfers, negative for fewer.
        """
        old_load = self._load[index]
        new_load = old_load + transfers * self._load_per_transfer[index]
        return new_load**POWER - old_load**POWER
