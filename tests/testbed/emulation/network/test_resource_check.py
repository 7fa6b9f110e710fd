"""Networks that do not fit are refused with both figures; those that do are not."""

from __future__ import annotations

import pytest

from testbed.emulation.network.emulated_network import NetworkSize, require_resources
from testbed.errors import CapabilityError


def sized(hosts: int, known: int) -> NetworkSize:
    """A mobile network's proportions: four cables a switch."""
    return NetworkSize(hosts=hosts, switches=hosts, cables=4 * hosts, pairs=known**2)


def test_neighbours_of_all_pairs_are_what_fills_a_machine() -> None:
    among_two, among_all = sized(10_000, 2).needed_bytes(), sized(10_000, 10_000).needed_bytes()
    assert among_all - among_two == pytest.approx(10_000**2 * 522, rel=1e-6)
    require_resources(sized(10_000, 2), available_bytes=24 << 30, most_files=65536)
    with pytest.raises(
        CapabilityError,
        match=r"10000 switches, 10000 hosts and 40000 cables needs about 6\d\.\d GB of memory, 25\.8 GB available",
    ):
        require_resources(sized(10_000, 10_000), available_bytes=24 << 30, most_files=65536)


def test_need_grows_with_each_part_and_a_part_that_just_fits_is_built() -> None:
    needs = [
        NetworkSize(hosts=h, switches=s, cables=c, pairs=0).needed_bytes()
        for h, s, c in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert all(need > 0 for need in needs)
    size = sized(1000, 1000)
    require_resources(size, available_bytes=size.needed_bytes(), most_files=65536)
    with pytest.raises(CapabilityError, match="take several machines"):
        require_resources(size, available_bytes=size.needed_bytes() - 1, most_files=65536)


def test_hosts_beyond_the_open_files_of_a_process_are_refused() -> None:
    require_resources(sized(400, 2), available_bytes=24 << 30, most_files=1056)
    with pytest.raises(
        CapabilityError,
        match=r"needs 1058 open files, and this process may have 1056; raise the limit",
    ):
        require_resources(sized(401, 2), available_bytes=24 << 30, most_files=1056)


def test_part_is_counted_by_what_has_an_end_there() -> None:
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network("ring:4"))
    here = {wiring.switches[0].name, wiring.hosts[0].name}
    size = NetworkSize.of(wiring, here, wiring.hosts)
    assert size == (1, 1, 3, 4)


def test_machine_itself_is_asked() -> None:
    require_resources(sized(2, 2))
    with pytest.raises(CapabilityError, match="GB available"):
        require_resources(sized(10**9, 2))
