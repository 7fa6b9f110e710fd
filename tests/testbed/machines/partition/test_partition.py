"""Every node lies on one machine, none holds more than its share allows, hosts lie with their switch, and the cut is a
good one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.machines.partition import Placement, cells_of, machine_limits, partition
from testbed.model.wiring import wire
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.network import Link, Network, Node

pytest.importorskip("pymetis")


def loads_of(network: Network, placement: Placement) -> list[int]:
    """Of each machine: a switch and every end of a cable count one."""
    wiring, loads = wire(network), [0] * placement.machines
    machine = placement.device_machines(wiring)
    for one in (
        *(s.name for s in wiring.switches if not s.node.startswith("h")),
        *(e for c in wiring.cables for e in (c.a, c.b)),
    ):
        loads[machine[one]] += 1
    return loads


def crossing_of(network: Network, placement: Placement) -> int:
    return len(placement.crossing(wire(network)))


def random_network(switches: int, seed: int) -> Network:
    """Switches, hosts on most of them, cables of three widths; not always connected, some cables one way, some
    parallel."""
    rng = random.Random(seed)
    nodes = [Node(id=f"s{i}", kind="switch") for i in range(switches)]
    links: dict[tuple[str, str, int], Link] = {}
    for _ in range(rng.randrange(3 * switches + 1)):
        a, b = rng.sample(range(switches), 2) if switches > 1 else (0, 0)
        key, capacity_bps = rng.randrange(2), rng.choice((1e6, 1e7, 1e9))
        for ends in ((a, b), (b, a))[: rng.choice((1, 2, 2))]:
            if a != b:
                one = Link(
                    source=f"s{ends[0]}", target=f"s{ends[1]}", key=key, capacity_bps=capacity_bps
                )
                links.setdefault(one.id, one)
    for i in range(rng.randrange(2 * switches)):
        nodes.append(Node(id=f"h{i}", kind="host"))
        for at in rng.sample(range(switches), min(switches, rng.choice((1, 1, 1, 2)))):
            for one in (
                Link(source=f"h{i}", target=f"s{at}"),
                Link(source=f"s{at}", target=f"h{i}"),
            ):
                links[one.id] = one
    return Network(name=f"random-{seed}", nodes=tuple(nodes), links=tuple(links.values()))


@drawn(60)
@given(
    switches=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    shares=st.lists(st.floats(min_value=0.2, max_value=5.0), min_size=1, max_size=6),
)
def test_every_node_once_within_bounds_with_its_switch_and_always_the_same(
    switches: int, seed: int, shares: list[float]
) -> None:
    network, shares = random_network(switches, seed), shares[:switches]
    found = partition(network, shares)
    machine_of = found.machine_of
    assert list(machine_of) == [node.id for node in network.nodes]
    assert set(machine_of.values()) == set(range(len(shares)))
    limits = machine_limits(cells_of(network), [share / sum(shares) for share in shares])
    assert all(load <= limit for load, limit in zip(loads_of(network, found), limits, strict=True))
    for host in network.hosts:
        near = {network.links[i].target for i in network.out_links(host.id)}
        assert not near or machine_of[host.id] in {machine_of[switch] for switch in near}
    assert partition(network, shares) == found


def test_shares_are_kept() -> None:
    network = load_network("torus:12x12")
    loads = loads_of(network, partition(network, [3, 1, 2]))
    total = sum(loads)
    for load, share in zip(loads, (3, 1, 2), strict=True):
        assert load == pytest.approx(total * share / 6, rel=0.1)


@pytest.mark.parametrize(
    ("name", "machines", "most"),
    [("swiss-t1", 2, 8), ("swiss-t1", 4, 12), ("torus:16x16", 2, 32), ("clos:8", 4, 96)],
)
def test_known_networks_are_cut_where_they_are_thin(name: str, machines: int, most: int) -> None:
    """The torus' bisection is 2 x 16 cables; the rival is a cut that looks at no cable."""
    network = load_network(name)
    found = partition(network, [1] * machines)
    assert crossing_of(network, found) <= most
    nodes = [node.id for node in network.nodes]
    in_turn = Placement(
        machines=machines,
        machine_of={node: i * machines // len(nodes) for i, node in enumerate(nodes)},
    )
    assert crossing_of(network, found) < crossing_of(network, in_turn)


def test_fat_cables_stay_inside() -> None:
    """A ring of eight whose every other cable is a thousand times wider: four pairs, cut at thin cables only."""
    nodes = tuple(Node(id=str(i), kind="switch") for i in range(8))
    ends = [way for i in range(8) for way in ((i, (i + 1) % 8), ((i + 1) % 8, i))]
    wide = {frozenset((i, i + 1)) for i in range(0, 8, 2)}
    links = tuple(
        Link(source=str(a), target=str(b), capacity_bps=1e9 if frozenset((a, b)) in wide else 1e6)
        for a, b in ends
    )
    network = Network(name="pairs", nodes=nodes, links=links)
    wiring, found = wire(network), partition(network, [1] * 4)
    cut = [wiring.cables[index] for index in found.crossing(wiring)]
    assert len(cut) == 4 and all(
        network.link(*one.forward).capacity_bps == 1e6 for one in cut if one.forward
    )


def test_wrong_shares_and_too_many_machines_are_refused() -> None:
    ring = load_network("ring:4")
    with pytest.raises(InputError, match=r"a share of 0; give each machine a positive number"):
        partition(ring, [1, 0])
    with pytest.raises(InputError, match="5 machines for ring:4, which has 4 switches"):
        partition(ring, [1] * 5)
