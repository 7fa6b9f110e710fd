"""Small random networks with random demands, for property tests."""

from __future__ import annotations

import random

from testbed.routing.demands.matrix import DemandMatrix, given_matrix
from topologies.network import Link, Network, Node


def random_matrix(seed: int) -> DemandMatrix:
    """4 to 7 switches on a ring with some chords, both ways, a parallel cable now and then, unequal capacities in half
    of them; some hosts; random demands of some pairs."""
    rng = random.Random(seed)
    count = rng.randint(4, 7)
    names = [f"s{i}" for i in range(count)]
    cables = [(names[i], names[(i + 1) % count], 0) for i in range(count)]
    for _ in range(rng.randint(1, count)):
        a, b = rng.sample(names, 2)
        if (a, b, 0) not in cables and (b, a, 0) not in cables:
            cables.append((a, b, 0))
    if rng.random() < 0.4:
        a, b, _ = rng.choice(cables)
        cables.append((a, b, 1))
    hosts = [f"h{i}" for i in range(rng.randint(0, 2))]
    cables += [(host, name, 0) for host in hosts for name in rng.sample(names, 2)]
    unequal = rng.random() < 0.5
    links = []
    for a, b, key in cables:
        capacity = rng.choice([1e7, 2e7, 5e6]) if unequal else 1e7
        links += [
            Link(source=x, target=y, key=key, capacity_bps=capacity) for x, y in ((a, b), (b, a))
        ]
    nodes = [Node(id=n, kind="switch") for n in names] + [Node(id=h, kind="host") for h in hosts]
    network = Network(name=f"random-{seed}", nodes=tuple(nodes), links=tuple(links))
    ends = names + hosts
    pairs = [(a, b) for a in ends for b in ends if a != b]
    chosen = rng.sample(pairs, rng.randint(2, min(12, len(pairs))))
    return given_matrix(network, "random", {pair: rng.choice([1e5, 1e6, 3.3e6]) for pair in chosen})
