"""Files of other programs are read: REPETITA's graphs and containerlab's topologies; what is wrong in them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.routing import capillary_route
from topologies import load_network
from topologies.errors import TopologyError

# the ends of the first links of Abilene, as REPETITA's collection has them: 9.95 Gbit/s
SQUARE = """NODES 4
label x y
0_New_York -74.0 40.7
1_Chicago -87.6 41.9
2_Washington -77.0 38.9
3_Seattle -122.3 47.6

EDGES 9
label src dest weight bw delay
edge_0 0 1 1 9953280 1913
edge_1 1 0 1 9953280 1913
edge_2 0 2 1 9953280 329
edge_3 2 0 1 9953280 329
edge_4 1 3 2 9953280 2793
edge_5 3 1 2 9953280 2793
edge_6 2 3 2 9953280 3100
edge_7 3 2 2 9953280 3100
edge_8 0 1 5 155520 1913
"""
CLAB = """
name: leaves
topology:
  defaults: {kind: nokia_srlinux}
  groups: {client: {kind: linux}}
  nodes:
    spine: {kind: nokia_srlinux, type: ixrd3}
    leaf1:
    leaf2:
    a: {group: client}
    b: {kind: linux, image: "alpine:3"}
  links:
    - endpoints: ["leaf1:e1-49", "spine:e1-1"]
    - endpoints: ["spine:e1-2", "leaf2:e1-49"]
    - endpoints: ["leaf2:e1-50", "spine:e1-3"]
    - type: veth
      endpoints: [{node: a, interface: eth1}, {node: leaf1, interface: e1-1}]
    - endpoints: ["b:eth1", "leaf2:e1-1"]
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_repetita_graph_has_its_names_rates_delays_and_parallel_links(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, "abilene.graph", SQUARE))
    assert (network.name, len(network.nodes), len(network.links)) == ("abilene", 4, 9)
    first, parallel = network.link("0_New_York", "1_Chicago", 0), network.link("0_New_York", "1_Chicago", 1)
    assert (first.capacity_bps, first.delay_s, first.attributes["weight"]) == (9.95328e9, 0.001913, 1.0)
    assert parallel.capacity_bps == 155.52e6
    assert max(capillary_route(network, "0_New_York", "3_Seattle").loads).limit_denominator(10) == 1 / 2


def test_containerlab_topology_has_hosts_switches_and_parallel_cables(tmp_path: Path) -> None:
    network = load_network(written(tmp_path, "lab.clab.yml", CLAB))
    assert network.name == "leaves" and [host.id for host in network.hosts] == ["a", "b"]
    assert {link.label for link in network.links if link.source == "spine"} == {
        "spine->leaf1",
        "spine->leaf2",
        "spine->leaf2#1",
    }
    assert len(network.links) == 10
    assert [str(load) for load in capillary_route(network, "spine", "leaf2").loads if load] == ["1/2", "1/2"]


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("x.graph", "EDGES 9", "EDGES 10", "4 nodes and 10 links are announced, 4 and 9 follow"),
        ("x.graph", "NODES 4", "NODES many", "line 1: give 'NODES NUMBER'"),
        ("x.graph", "edge_0 0 1", "edge_0 0 7", "line 10: src and dest are numbers of nodes, 0 to 3"),
        ("x.graph", "1 9953280 329\nedge_3", "1 fast 329\nedge_3", "line 12: .* are no numbers"),
        ("x.graph", "155520 1913", "0 1913", "line 18: link '0_New_York' -> '1_Chicago'.*capacity_bps"),
        ("x.graph", "label src dest", "label from to", "give 'EDGES NUMBER'"),
        ("x.clab.yml", '"b:eth1"', '"c:eth1"', r"topology.links\[4\]: 'c' is none of the nodes"),
        ("x.clab.yml", "  nodes:", "  knots:", "topology.nodes: give a table"),
        ("x.clab.yml", '["b:eth1", "leaf2:e1-1"]', '["b:eth1"]', "give two endpoints"),
        ("x.clab.yml", "name: leaves", "name: [", "not YAML"),
    ],
)
def test_wrong_entry_is_named(tmp_path: Path, name: str, old: str, new: str, says: str) -> None:
    text = SQUARE if name.endswith("graph") else CLAB
    assert old in text
    with pytest.raises(TopologyError, match=says):
        load_network(written(tmp_path, name, text.replace(old, new, 1)))
