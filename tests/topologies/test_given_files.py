"""Every given input file that is meant as a network, with its outcome: what is read (nodes, links, part of the note),
or the refusal."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from topologies import TopologyError, load_network

INPUTS = Path(__file__).parents[3] / "shared" / "inputs"
READ: dict[str, tuple[int, int, str]] = {
    "asymmetric.json": (3, 6, ""),
    "blank_line_before_declaration.graphml": (2, 2, ""),
    "bom_crlf.json": (2, 2, ""),
    "clab_frr_routers_of_kind_linux.clab.yml": (5, 10, "which do not forward: 'r1', 'r2', 'r3'"),
    "clab_host_and_mgmt_links.clab.yml": (2, 2, "left out: links out of the network, at 'r'"),
    "clab_kinds_defaults_mtu.clab.yml": (3, 4, "mtu (links)"),
    "clab_links_null.clab.yml": (1, 0, ""),
    "clab_no_links_key.clab.yml": (1, 0, ""),
    "clab_norway.clab.yml": (2, 2, ""),
    "clab_numbers_octal.clab.yml": (2, 2, ""),
    "d3_group_and_value.json": (2, 2, "group (nodes); value (links)"),
    "d3_indices_networkx1.json": (2, 2, "positions in the list of nodes"),
    "datapath_ids_with_colons.json": (4, 8, ""),
    "disconnected.json": (4, 4, ""),
    "dual_homed_host_between_two_parts.json": (5, 8, ""),
    "edge_ids_parallel.graphml": (2, 4, ""),
    "fast_then_slow.json": (4, 6, ""),
    "float_ids.json": (2, 2, "1.0 is '1'"),
    "grid_graph_tuple_ids.json": (2, 2, "[0, 0] is '0_0'"),
    "gzipped.graphml.gz": (2, 2, ""),
    "host_to_host_triangle_one_way.json": (3, 3, ""),
    "host_with_two_cables.json": (4, 10, ""),
    "hosts_named_from_h1_switches_out_of_order.json": (4, 6, ""),
    "hosts_only_mesh.json": (4, 12, ""),
    "json_called_graphml.graphml": (2, 2, ""),
    "key_without_type.graphml": (2, 2, ""),
    "latin1_declared.graphml": (2, 2, ""),
    "latin1_declared_but_ascii.graphml": (2, 2, ""),
    "latin1_declared_saved_as_utf8.graphml": (2, 2, ""),
    "leading_blank_lines.graphml": (2, 2, ""),
    "names_unicode_spaces_long.json": (6, 12, ""),
    "names_with_arrow_comma_hash.json": (4, 8, ""),
    "no_namespace.graphml": (2, 2, ""),
    "one_bit_per_second.json": (2, 2, "less than one packet"),
    "one_host_one_switch.json": (2, 2, ""),
    "one_node.json": (1, 0, ""),
    "parallel_cables.json": (2, 6, ""),
    "repetita_blank_first_line.graph": (2, 2, "weight (links)"),
    "repetita_crlf_bom.graph": (2, 2, "weight (links)"),
    "repetita_self_loop.graph": (2, 2, "left out: 1 link from a node to itself, at 'b'"),
    "same_name_two_types.graphml": (3, 4, ""),
    "sndlib_native.xml": (2, 2, "preinstalled_capacity (links)"),
    "sndlib_native_two_demands_of_a_pair.txt": (3, 4, "preinstalled_capacity (links)"),
    "switch_without_cable.json": (5, 6, ""),
    "tenth_of_a_megabit.json": (3, 6, ""),
    "terabit.json": (3, 6, ""),
    "three_in_a_row.json": (3, 4, ""),
    "two_hosts_one_cable.json": (2, 2, ""),
    "utf16.json": (2, 2, ""),
    "utf16_declared.graphml": (2, 2, ""),
    "utf16_declared_resaved_as_utf8.graphml": (2, 2, ""),
    "utf8_bom_crlf.graphml": (2, 2, ""),
    "vector_float_position.graphml": (2, 2, ""),
    "weighted_networkx.json": (2, 2, "weight (links)"),
    "yates.dot": (2, 2, "mac, ip (nodes); src_port, dst_port, cost (links)"),
    "yed_with_url_attribute.graphml": (2, 1, ""),
    "zoo.gml": (2, 2, ""),
    "zoo_archive_style_graph_attributes.graphml": (2, 2, "DateObtained (graph)"),
    "zoo_only_link_speed.graphml": (2, 2, ""),
    "evil2.json": (11, 24, ""),
    "evil_names.json": (11, 22, ""),
}
REFUSED = {
    "capacity_1e300.json": "must be at most 1e+15",
    "clab_duplicate_node_keys.clab.yml": "line 5: the key 'a' is there twice",
    "clab_same_interface_twice.clab.yml": "'a:e1-1' is used by topology.links[0] too",
    "duplicate_json_key.json": "the key 'nodes' is there twice",
    "empty_messages.json": "'nodes' is missing",
    "no_nodes.json": "no node is in it",
    "repetita_same_label_twice.graph": "line 4: the label 'None' is that of line 3 too",
    "dup.json": "the key 'directed' is there twice",
    "laughs.clab.yml": "stands for more than",
    "laughs.graphml": "amplification",
    "nan.json": "not a number",
    "py.clab.yml": "name: give text",
    "quad.graphml": "amplification",
    "trace_outside_the_folder.json": "outside the folder",
    "trace_tty.json": "outside the folder",
    "trace_zero.json": "outside the folder",
    "xxe.graphml": "undefined entity",
}
OF_OTHER_KINDS = {
    "README.md",
    "excel_demands_bom_crlf.csv",
    "excel_demands_semicolons.csv",
    "repetita_two_demands_of_a_pair.demands",
}
pytestmark = pytest.mark.skipif(not INPUTS.is_dir(), reason="the shared inputs lie beside the checkout only")


def given() -> dict[str, Path]:
    folders = (INPUTS / "bug_inputs", INPUTS / "security_inputs" / "files")
    return {path.name: path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())}


def test_the_table_has_every_file() -> None:
    assert given().keys() == READ.keys() | REFUSED.keys() | OF_OTHER_KINDS


@pytest.mark.parametrize("name", READ)
def test_a_given_file_is_read(name: str) -> None:
    nodes, links, note = READ[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        network = load_network(given()[name])
    assert (len(network.nodes), len(network.links)) == (nodes, links)
    told = [str(one.message) for one in caught]
    assert (len(told) == 1 and note in told[0] and "\n" not in told[0]) if note else told == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_given_file_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_network(given()[name])
    said = str(caught.value)
    assert REFUSED[name] in said and said.startswith(str(given()[name])) and "\n" not in said and len(said) < 400
