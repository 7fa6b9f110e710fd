"""Names to networks: every family builds what its line promises, every mistake is named with its mend."""

from __future__ import annotations

import subprocess
import sys

import pytest

from topologies import TopologyError, catalogue, load_network
from topologies.network import Network, reverse_of

SIZES = [
    # name, hosts, switches, directed links
    ("swiss-t1", 64, 8, 160),
    ("swiss-t1:allocation=4-4-4-4-0-0-0-0", 32, 8, 96),
    ("two-switch", 10, 2, 12),
    ("three-switch", 6, 3, 9),
    ("shared-fibre", 4, 2, 10),
    ("capillary-layers:graph=3", 0, 6, 9),
    ("bottleneck-hunt", 0, 7, 10),
    ("crossbar:4", 8, 1, 16),
    ("optical-cloud", 14, 28, 2 * (21 + 28 + 14)),
    ("optical-cloud:access=1,wavelengths=4,conversion=wixc", 14, 28, 2 * (21 + 14 + 14)),
    ("optical-cloud:graph=topohub:topozoo/Abilene", 11, 22, 2 * (14 + 22 + 11)),
    ("optical-cloud:graph=fat-tree:4,2,access=1", 8, 16, 2 * (16 + 8 + 8)),
    ("torus", 64, 64, 384),
    ("torus:8x8", 64, 64, 384),
    ("torus:4x4x4", 64, 64, 512),
    ("torus:2x2", 4, 4, 16),
    ("mesh:3x2", 6, 6, 26),
    ("mesh:shape=3x2", 6, 6, 26),
    ("ring:5", 5, 5, 20),
    ("fat-tree:4,3", 64, 48, 384),
    ("fat-tree:n=2,k=3", 9, 6, 36),
    ("clos:4", 16, 20, 96),
    ("clos:8", 128, 80, 768),
    ("hypercube:3", 8, 8, 40),
    ("kautz:20,4", 20, 20, 120),
    ("bipartite:4,2", 6, 6, 28),
    ("gpu-machines:3,4,cables=2", 12, 3, 36),
    ("topohub:topozoo/Abilene", 0, 11, 28),
]


ONE_WAY = (
    "two-switch",
    "three-switch",
    "capillary-layers:graph=3",
    "bottleneck-hunt",
    "kautz:20,4",
)


@pytest.mark.parametrize(("name", "hosts", "switches", "links"), SIZES)
def test_a_name_builds_the_network_it_promises(
    name: str, hosts: int, switches: int, links: int
) -> None:
    network = load_network(name)
    assert (len(network.hosts), len(network.switches), len(network.links)) == (
        hosts,
        switches,
        links,
    )


@pytest.mark.parametrize("name", [row[0] for row in SIZES if row[0] not in ONE_WAY])
def test_every_link_has_its_reverse(name: str) -> None:
    network = load_network(name)
    assert all(reverse_of(k.id) in network.link_index for k in network.links)


def test_every_family_builds_from_its_pattern_or_its_defaults() -> None:
    for entry in catalogue():
        name = entry.name if entry.name != "topohub" else entry.pattern
        assert load_network(name).links, entry.name


def test_parameters_that_all_families_share_reach_every_link() -> None:
    for name in (
        "swiss-t1",
        "two-switch",
        "crossbar",
        "optical-cloud",
        "manet",
        "torus",
        "mesh",
        "ring",
        "clos",
    ):
        network = load_network(f"{name}:capacity_bps=5e6,delay_s=0.01")
        assert {(k.capacity_bps, k.delay_s) for k in network.links} == {(5e6, 0.01)}, name


def test_the_names_of_the_interface_hold() -> None:
    torus, ring = load_network("torus:8x8"), load_network("ring:4")
    assert torus.link("h7_0", "s7_0") and torus.link("s7_0", "s0_0") and torus.link("s0_7", "s0_0")
    assert ring.link("s3", "s0") and ring.link("h3", "s3")
    assert [n.id for n in load_network("swiss-t1").switches] == [f"s{i}" for i in range(1, 9)]
    assert {n.id for n in load_network("swiss-t1").hosts} == {
        f"{c}{k}" for c in "tr" for k in range(32)
    }


def test_an_allocation_takes_the_first_nodes_of_each_switch() -> None:
    network = load_network("swiss-t1:allocation=2-0-0-0-0-0-0-1")
    assert [n.id for n in network.hosts] == ["t0", "r0", "t1", "r1", "t28", "r28"]
    assert network.link("t28", "s8") and network.link("s1", "r1")


def test_the_optical_cloud_is_nsfnet_with_wavelengths_and_conversion() -> None:
    network = load_network("optical-cloud:wavelengths=16,conversion=wixc")
    fibres = [k for k in network.links if k.source[0] == "x" and k.target[0] == "x"]
    assert len(fibres) == 42 and {k.attributes["wavelengths"] for k in fibres} == {16}
    connects = [n for n in network.switches if n.id.startswith("x")]
    assert len(connects) == 14 and {n.attributes["conversion"] for n in connects} == {"wixc"}


def test_the_default_cloud_is_the_same_graph_as_sndlibs_nsfnet() -> None:
    import networkx as nx

    from topologies.optical_cloud import nsfnet

    theirs = load_network("topohub:sndlib/nobel-us")
    assert nx.is_isomorphic(nx.DiGraph(nsfnet().to_networkx()), nx.DiGraph(theirs.to_networkx()))


def test_a_stream_between_edge_routers_depends_on_no_single_fibre() -> None:
    import networkx as nx

    graph = load_network("optical-cloud").to_networkx()
    capacities = nx.DiGraph()
    for source, target in graph.edges():
        capacities.add_edge(source, target, capacity=graph.number_of_edges(source, target))
    assert nx.maximum_flow_value(capacities, "e1", "e14") == 2


MISTAKES = [
    ("swis-t1", "swiss-t1"),
    ("Torus:4x4", "torus"),
    ("", "testbed topology list"),
    ("no-such.json", "no-such.json: cannot be read"),
    ("here/there", "here/there: cannot be read"),
    ("torus:", "nothing follows the colon"),
    ("torus:8by8", "joined by 'x'"),
    ("torus:0x8", "from 2 to"),
    ("torus:" + "x".join(["2"] * 11), "dimensions"),
    ("torus:40000x40000", "too many"),
    ("mesh:2x" + "9" * 30, "joined by 'x'"),
    ("ring:2", "from 3 to"),
    ("ring:n=5,n=6", "twice"),
    ("ring:5,6", "parameter=value"),
    ("ring:capacity=3", "did you mean capacity_bps"),
    ("ring:4,capacity_bps=-1", "must be positive"),
    ("ring:4,capacity_bps=0", "must be positive"),
    ("ring:4,capacity_bps=nan", "not a number"),
    ("ring:4,delay_s=-1", "zero or more"),
    ("swiss-t1:allocation=4-4-4", "8 counts"),
    ("swiss-t1:allocation=4-4-4-4-4-4-4-5", "0 to 4"),
    ("swiss-t1:allocation=4-4-4-4-4-4-4-x", "0 to 4"),
    ("swiss-t1:alocation=4-4-4-4-4-4-4-4", "did you mean allocation"),
    ("fat-tree:4,99", "from 1 to"),
    ("fat-tree:100,9", "too many"),
    ("clos:5", "even"),
    ("clos:1000", "too many"),
    ("crossbar:0", "from 1 to"),
    ("manet:nodes=1e3", "whole number"),
    ("manet:nodes=0", "from 1 to"),
    ("manet:degree=200", "give range="),
    ("manet:degree=nan", "must be a number"),
    ("manet:range=inf", "must be a number"),
    ("manet:nodes=40000,range=1", "too many"),
    ("manet:frame=-1", "from 0 to"),
    ("manet:nodes=3000,frame=900000", "too long a walk"),
    ("optical-cloud:conversion=both", "wsxc"),
    ("optical-cloud:graph=", "empty"),
    ("optical-cloud:graph=optical-cloud", "cloud of clouds"),
    ("optical-cloud:wavelenghts=8", "did you mean wavelengths"),
    ("topohub:topozoo/Abilen", "topozoo/Abilene"),
    ("topohub:../../x", "no such network"),
    ("topohub:" + "x" * 5000, "no such network"),
    ("a" * 5000, "neither a catalogue name nor a file"),
    ("a" * 5000 + ".json", "cannot be read"),
    ("zero\0byte.json", "cannot be read"),
    ("ring:" + "9" * 5000, "not a whole number"),
]


@pytest.mark.parametrize(("name", "says"), MISTAKES, ids=[row[0][:30] for row in MISTAKES])
def test_a_mistaken_name_is_refused_in_one_line_with_its_mend(name: str, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_network(name)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_small_network_costs_no_heavy_import() -> None:
    code = (
        "import sys; from topologies import load_network; load_network('swiss-t1'); load_network('torus:4x4');"
        "print([m for m in ('numpy', 'scipy', 'networkx', 'matplotlib', 'numba', 'topohub') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_end_points_are_the_hosts_or_all_switches_where_there_is_none() -> None:
    assert [n.id for n in load_network("ring:3").end_points] == ["h0", "h1", "h2"]
    assert len(load_network("topohub:topozoo/Abilene").end_points) == 11


def test_a_fat_trees_switches_have_k_ports_down_and_k_up() -> None:
    network: Network = load_network("fat-tree:4,3")
    for switch in network.switches:
        ports = len(network.out_links(switch.id))
        assert ports == (4 if switch.attributes["level"] == 2 else 8)


def test_every_switch_of_a_clos_network_has_k_ports() -> None:
    network = load_network("clos:6")
    assert {len(network.out_links(s.id)) for s in network.switches} == {6}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("Abilene", "topohub:topozoo/Abilene"), ("abilene", "topohub:topozoo/Abilene"),
     ("Bellcanad", "topohub:topozoo/Bellcanada"), ("tors:4", "torus"),
     ("germany50", "topohub:sndlib/germany50"), ("topohub:Abilene", "topozoo/Abilene")],
)  # fmt: skip
def test_near_names_are_those_of_topohub_too(wrong: str, right: str) -> None:
    pytest.importorskip("topohub")
    with pytest.raises(TopologyError, match=f"did you mean {right}( or .*)?\\?$"):
        load_network(wrong)


def test_without_topohub_none_of_its_names_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "topohub", None)
    with pytest.raises(TopologyError, match="testbed topology list shows all names"):
        load_network("zzGermany50")
    with pytest.raises(
        TopologyError, match="neither a catalogue name nor a file; did you mean manet"
    ):
        load_network("Abilene")
