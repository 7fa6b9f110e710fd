"""The proofs of errata in docs/replication that can be computed: what is printed fails, and what the page says instead
holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network
from topologies.swiss_t1 import bottleneck_loads

Transfers = frozenset[int]


def test_swiss_t1_has_321_throughputs_in_362_pairs() -> None:
    allocations = np.indices((5,) * 8, dtype=np.int8).reshape(8, -1).T[1:]
    nodes, loads = allocations.sum(axis=1, dtype=np.int64), bottleneck_loads(allocations)
    found = set(zip(nodes.tolist(), loads.tolist(), strict=True))
    pairs = {(n, Fraction(n * n, load)) for n, load in found}
    assert len(pairs) == 362
    assert len({throughput for _, throughput in pairs}) == 321


def test_2002_counts_the_empty_allocation_and_no_twenty_measurements_each() -> None:
    """Gabrielyan and Hersch 2002: 363 sub-topologies, of which one is empty; 4344 measurements said to be 20 of
    each."""
    allocations = np.indices((5,) * 8, dtype=np.int8).reshape(8, -1).T
    nodes, loads = allocations.sum(axis=1, dtype=np.int64), bottleneck_loads(allocations)
    found = set(zip(nodes.tolist(), loads.tolist(), strict=True))
    assert len(found) == 363 and (0, 0) in found
    assert divmod(4344, 362) == (12, 0) and 4344 % 363 and 20 * 362 != 4344


def test_teams_of_a_reduced_traffic_are_teams_of_the_traffic_and_fewer() -> None:
    """Gabrielyan 2007: equations 14 and 15 say the reverse, equation 34 says so."""
    paths = [frozenset(path) for path in all_to_all(load_network("two-switch")).paths()]
    whole = frozenset(range(len(paths)))
    of_whole, strict = set(_teams(paths, whole)), [False, False]
    for frame in sorted(of_whole, key=sorted)[::40]:
        left = whole - frame
        inside, of_left = {team for team in of_whole if team <= left}, set(_teams(paths, left))
        full = {team for team in of_left if not any(team < other for other in of_left)}
        assert full <= of_left <= inside
        strict = [strict[0] or full < of_left, strict[1] or of_left < inside]
    assert strict == [True, True]


def _teams(paths: Sequence[frozenset[int]], transfers: Transfers) -> Iterator[Transfers]:
    """Every simultaneity of the transfers that uses all of their bottlenecks, by trying all."""
    load = {link: sum(link in paths[t] for t in transfers) for t in transfers for link in paths[t]}
    bottlenecks = {link for link, uses in load.items() if uses == max(load.values())}
    chosen: list[tuple[Transfers, frozenset[int]]] = [(frozenset(), frozenset())]
    for transfer in sorted(transfers):
        chosen += [
            (team | {transfer}, used | paths[transfer])
            for team, used in chosen
            if not used & paths[transfer]
        ]
    return (team for team, used in chosen if bottlenecks <= used)
