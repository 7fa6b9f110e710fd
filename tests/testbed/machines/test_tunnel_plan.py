"""Both ends of every crossing cable agree without asking, and nobody else's identifiers are theirs."""

from __future__ import annotations

import pytest

from testbed.errors import CapabilityError, InputError
from testbed.machines.adapters.wireguard import WIREGUARD_BYTES
from testbed.machines.machines_request import parse_machines, parse_placement_text
from testbed.machines.partition import partition
from testbed.machines.tunnel_plan import Carrier, plan_parts, require_room, tunnel_port
from testbed.model.wiring import wire
from topologies import load_network

CARRIERS = tuple(
    Carrier(interface="u", address=f"192.168.77.{k}", mtu=9000, port=20014) for k in (2, 3, 4)
)


def test_crossing_cable_is_created_twice_with_one_id_and_swapped_addresses() -> None:
    wiring = wire(load_network("torus:4x4"), ["s0_0"])
    placement = partition(wiring.network, [1, 1, 1])
    parts = plan_parts(wiring, placement, run=7, carriers=CARRIERS)
    seen = {}
    for index in placement.crossing(wiring):
        ends = [(part.local, part.tunnels[index]) for part in parts if index in part.tunnels]
        (here, one), (there, other) = ends
        assert one.vni == other.vni and one.remote == there and other.remote == here
        seen[index] = one.vni
    assert len(set(seen.values())) == len(seen) > 4
    assert sum(len(part.tunnels) for part in parts) == 2 * len(seen)
    assert sorted(d for part in parts for d in part.devices) == sorted(
        placement.device_machines(wiring)
    )
    others = plan_parts(wiring, placement, run=8, carriers=CARRIERS)
    assert not set(seen.values()) & {t.vni for part in others for t in part.tunnels.values()}
    assert tunnel_port(7) != tunnel_port(8)


def test_an_underlay_that_is_too_narrow_is_refused_with_the_figures() -> None:
    require_room(1500, "machine-0", 1550)
    with pytest.raises(CapabilityError, match=r"machine-0.* 1549 .*1550.*--mtu 1499"):
        require_room(1500, "machine-0", 1549)


def test_encryption_needs_its_own_room() -> None:
    require_room(1390, "machine-0", 1500, WIREGUARD_BYTES)
    with pytest.raises(
        CapabilityError,
        match=r"machine-0.* 1500 .*1501 \(50 of VXLAN, 60 of WireGuard\).*--mtu 1390",
    ):
        require_room(1391, "machine-0", 1500, WIREGUARD_BYTES)


@pytest.mark.parametrize("text", ["0", "17", "two", "http://host:1", ""])
def test_invalid_machine_counts_and_schedulers_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="machines"):
        parse_machines(text)


@pytest.mark.parametrize("text", ["[1]", "{", "3"])
def test_a_place_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--machine-placement x"):
        parse_placement_text(text, "--machine-placement x")
