"""The router simulator over every family of the catalogue, and over networks of one switch."""

from __future__ import annotations

import pytest

import testbed
from testbed.errors import InputError
from testbed.interconnect.static_paths import build_paths
from topologies import load_network
from topologies.catalog import FAMILIES

SMALL = {
    "manet": "manet:nodes=8",
    "torus": "torus:3x3",
    "mesh": "mesh:3x3",
    "ring": "ring:4",
    "crossbar": "crossbar:4",
    "fat-tree": "fat-tree:2,2",
    "dragonfly": "dragonfly:4,2,2",
    "hyperx": "hyperx:3x3",
    "hypercube": "hypercube:3",
    "kautz": "kautz:3,2",
    "bipartite": "bipartite:3,2",
    "clos": "clos:4",
}
# Their hosts only send or only receive.
ONE_WAY = {"two-switch", "three-switch"}
# Their nodes are switches.
WITHOUT_HOSTS = {"capillary-layers", "bottleneck-hunt", "topohub"}


def families() -> list[str]:
    return [name for name in FAMILIES.names() if name != "topohub"]


@pytest.mark.parametrize("family", families())
def test_catalogue_network_runs_or_gives_its_reason(family: str) -> None:
    network = load_network(SMALL.get(family, family))
    if family in ONE_WAY:
        with pytest.raises(InputError, match=r"only (sends|receives)"):
            build_paths(network)
        return
    if family in WITHOUT_HOSTS:
        with pytest.raises(InputError, match="no host"):
            build_paths(network)
        return
    result = testbed.run(testbed.simulation_plan(network, load=0.1, duration_s=0.002))
    assert result.verdict.passed


@pytest.mark.parametrize("hosts", [2, 3, 16])
def test_star_delivers_every_packet(hosts: int) -> None:
    names = [f"h{i}" for i in range(hosts)]
    star = {
        "hosts": names,
        "switches": ["hub"],
        "links": [[name, "hub"] for name in names],
    }
    network = testbed.network(star)
    result = testbed.run(testbed.simulation_plan(network, load=0.1, duration_s=0.01))
    assert result.verdict.passed
