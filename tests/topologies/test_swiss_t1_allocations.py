"""Swiss-T1's 5^8 allocations: the 362 distinct patterns of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from topologies import TopologyError
from topologies.swiss_t1 import CORE_PAIRS, bottleneck_loads, swiss_t1


def test_swiss_t1_allocations_have_exactly_362_pairs() -> None:
    allocations = np.indices((5,) * 8, dtype=np.int8).reshape(8, -1).T
    nodes = allocations.sum(axis=1, dtype=np.int64)
    bottlenecks = bottleneck_loads(allocations)
    pairs = set((nodes[nodes > 0] * 100_000 + bottlenecks[nodes > 0]).tolist())
    assert len(allocations) == 390_625 and len(pairs) == 362
    assert bottlenecks[-1] == 48


def test_32_directed_links_join_the_switches() -> None:
    links = [k for k in swiss_t1().links if k.source[0] == "s" and k.target[0] == "s"]
    assert len(links) == len(CORE_PAIRS) == 32


def test_table_and_formula_agree_on_the_bottleneck() -> None:
    from topologies.routing_tables import static_routing

    for allocation in (
        (1, 0, 2, 0, 4, 0, 1, 3),
        (4, 4, 4, 4, 4, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0, 2),
    ):
        network = swiss_t1(allocation=allocation)
        routing = static_routing(network)
        counts: dict[object, int] = {}
        for t in (n.id for n in network.hosts if n.id[0] == "t"):
            for r in (n.id for n in network.hosts if n.id[0] == "r"):
                for link in routing(t, r):
                    counts[link] = counts.get(link, 0) + 1
        assert max(counts.values()) == bottleneck_loads(np.array([allocation]))[0]


def test_allocations_out_of_bounds_are_refused() -> None:
    with pytest.raises(TopologyError, match="from 0 to 4"):
        bottleneck_loads(np.array([[5] * 8]))
