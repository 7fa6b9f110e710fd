"""Demand matrices: what the models say, what the four file formats say, and what is refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.routing.demands.matrix import DemandMatrix, gravity_matrix, uniform_matrix
from testbed.routing.demands.matrix_files import parse_matrix, read_matrix_file
from topologies import load_network
from topologies.files.formats import read_topohub_demands
from topologies.network import Link, Network, Node

LINE = Network(
    name="line",
    nodes=(
        *(Node(id=i, kind="switch") for i in "abc"),
        Node(id="d", kind="switch", attributes={"name": "Delft"}),
    ),
    links=(
        Link(source="a", target="b", capacity_bps=2e6),
        Link(source="b", target="a", capacity_bps=2e6),
        Link(source="b", target="c", capacity_bps=4e6),
        Link(source="c", target="b", capacity_bps=4e6),
    ),
)


def test_gravity_is_capacity_out_times_capacity_in_and_leaves_out_who_is_cut_off() -> None:
    matrix = gravity_matrix(LINE, ["a", "b", "c", "d"])
    rates = dict(zip(matrix.pairs, matrix.rates_bps, strict=True))
    assert rates["a", "b"] / rates["a", "c"] == pytest.approx(6 / 4)
    assert rates["b", "c"] / rates["a", "c"] == pytest.approx(6 / 2)
    assert matrix.left_out == 6
    assert matrix.total_bps == pytest.approx(6e6)
    assert uniform_matrix(LINE, ["a", "c"]).scaled_to(8e6).rates_bps == (4e6, 4e6)


@pytest.mark.parametrize(
    "text",
    [
        '{"demands": [{"source": "a", "sink": "b", "bps": 1e6}, {"source": "a", "sink": "c", "bps": 0}]}',
        '{"a": {"b": 1000000}}',
        "source,sink,bps\na,b,1e6\n",
        "a, b, 1000000\n",
        "DEMANDS 1\nlabel src dest bw\ndemand_0 0 1 1000\n",
        "?SNDlib native format; type: network; version: 1.0\nNODES (\n a ( 1 2 )\n)\nDEMANDS (\n  a_b ( a b ) 1 "
        "1000000.00 UNLIMITED\n)\n",
    ],
)
def test_all_formats_say_the_same(text: str) -> None:
    matrix = parse_matrix(text, LINE, "file")
    assert (matrix.pairs, matrix.rates_bps) == ((("a", "b"),), (1e6,))


@pytest.mark.parametrize(
    "text",
    [
        '{"demands": [{"source": "a", "sink": "b", "bps": 10}, {"source": "a", "sink": "b", "bps": 5}]}',
        "source,sink,bps\na,b,10\na,b,5\n",
        "DEMANDS 2\nlabel src dest bw\nd0 0 1 0.01\nd1 0 1 0.005\n",
        "\nDEMANDS 2\nlabel src dest bw\nd0 0 1 0.01\nd1 0 1 0.005\n",
        "?SNDlib native format; type: network; version: 1.0\nDEMANDS (\n # two\n D1 ( a b ) 1 10.0 UNLIMITED\n D2 ( "
        "a b ) 1 5 UNLIMITED\n)\n",
        '<?xml version="1.0" encoding="ISO-8859-1"?><network xmlns="http://sndlib.zib.de/network"><demands>'
        '<demand id="D1"><source>a</source><target>b</target><demandValue>10.0</demandValue></demand>'
        '<demand id="D2"><source>a</source><target>b</target><demandValue> 5 '
        "</demandValue></demand></demands></network>",
    ],
)
def test_demands_of_one_pair_add_up(text: str) -> None:
    matrix = parse_matrix(text, LINE, "file")
    assert (matrix.pairs, matrix.rates_bps) == ((("a", "b"),), (15.0,))


@pytest.mark.parametrize(
    "text",
    [
        "source;sink;bps\r\na;b;1,5\r\n",
        "source;sink;bps;;\r\na;b;1.5;;\r\n;;;;\r\n",
        "sep=;\r\na;b;1,5\r\n",
        "source\tsink\tbps\na\tb\t1,5\n",
        'from,to,bits a second\n"a","b","1.5"\n',
        "src;dst;bps\n a ; b ; 1.5 \n",
    ],
)
def test_files_as_spreadsheets_write_them(text: str) -> None:
    matrix = parse_matrix(text, LINE, "file")
    assert (matrix.pairs, matrix.rates_bps) == ((("a", "b"),), (1.5,))


def test_a_sign_in_a_name_does_not_cut_it() -> None:
    network = Network(
        name="signs",
        nodes=tuple(Node(id=i, kind="switch") for i in ("a,b", "c", "d;e")),
        links=(Link(source="a,b", target="c"),),
    )
    assert parse_matrix("a,b;c;1,5\n", network, "file").pairs == (("a,b", "c"),)
    assert parse_matrix("d;e,c,1\n", network, "file").pairs == (("d;e", "c"),)
    assert parse_matrix('"a,b",c,1\n', network, "file").pairs == (("a,b", "c"),)


def test_sndlib_names_are_the_nodes_names() -> None:
    text = "?SNDlib native format\nDEMANDS (\n x ( a Delft ) 1 5 UNLIMITED\n)\n"
    assert parse_matrix(text, LINE, "file").pairs == (("a", "d"),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n", "line 1"),
        ("a,b,many\n", "'many' is not a rate"),
        ("a,z,1\n", "no node 'z'"),
        ("a,b,-1\n", "line 1"),
        ("", "give JSON"),
        ("a,b,0\n", "at least one pair"),
        ('{"a": 3}', "is not a rate"),
        ("[1]", "no demands in it"),
        ("DEMANDS 1\nlabel src dest bw\ndemand_0 0 9 1000\n", "line 3"),
        ("DEMANDS 2\nlabel src dest bw\ndemand_0 0 1 1000\n", "DEMANDS 2 is announced, 1 follow"),
        ("DEMANDS 0\nlabel src dest bw\n", "at least one pair"),
        ('{"demands": []}', "at least one pair"),
        ("source,sink,bps\n", "give JSON"),
        ("?SNDlib native format\nDEMANDS (\n)\n", "at least one pair"),
        ("?SNDlib native format\nDEMANDS (\n x ( a b )\n)\n", "'x ( a b )' is not 'name ("),
        ("<network><demands/></network>", "no demand in it"),
        ("<network>", "not XML"),
        (
            "<network><demand><source>a</source><target>b</target></demand></network>",
            "'None' is not a rate",
        ),
        ("source;sink;Mbps\na;b;10\n", "line 1: the rates are in 'Mbps'; give bits a second"),
        *(
            (
                f"source,sink,{unit}\na,b,10\n",
                f"line 1: the rates are in {unit!r}; give bits a second",
            )
            for unit in (
                "demand_mbps",
                "demand (Mbps)",
                "rateKbit",
                "Bps",
                "bytes/s",
                "traffic [GiB]",
                "pps",
            )
        ),
        ("a;b;1.000,5\n", "'1.000.5' is not a rate"),
        ("a,b,1e300\n", "0 to 1e15"),
        ("?SNDlib native format\nNODES (\n)\n", "no DEMANDS section"),
        ("{", "file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError, match="file") as refused:
        parse_matrix(text, LINE, "file")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "heading", ["bps", "demand_bps", "bit/s", "demand (bit/s)", "bandwidth", "value", "BPS"]
)
def test_a_heading_without_another_unit_is_of_bits_a_second(heading: str) -> None:
    assert parse_matrix(f"source,sink,{heading}\na,b,10\n", LINE, "file").rates_bps == (10.0,)


def test_a_network_of_which_no_two_ends_meet_has_no_matrix() -> None:
    with pytest.raises(InputError, match="no two of its 2 end points"):
        uniform_matrix(LINE, ["a", "d"])
    with pytest.raises(InputError, match="one node"):
        DemandMatrix(network=LINE, name="x", pairs=(("a", "a"),), rates_bps=(1.0,))


def test_sndlib_demands_of_topohub_are_read() -> None:
    demands = read_topohub_demands("sndlib/abilene")
    assert len(demands) == 132
    assert demands["5", "2"] == 27187
    assert read_topohub_demands("topozoo/Abilene") == {}
    assert {node for pair in demands for node in pair} == set(
        load_network("topohub:sndlib/abilene").node_index
    )


def _xml(encoding: str) -> bytes:
    demand = "<demand id='x'><source>Zürich</source><target>Genève</target><demandValue>5</demandValue></demand>"
    said = (
        f"<?xml version='1.0' encoding='{encoding}'?><network><demands>{demand}</demands></network>"
    )
    return said.encode(encoding)


@pytest.mark.parametrize(
    "content",
    [
        *(_xml(encoding) for encoding in ("ISO-8859-1", "windows-1252", "UTF-16", "UTF-8")),
        b"\xef\xbb\xbf" + _xml("UTF-8"),
        _xml("ISO-8859-1").decode("latin-1").encode(),  # saved anew, with its old declaration
        _xml("UTF-8").decode().encode("utf-16-be"),
        gzip.compress(_xml("ISO-8859-1"), mtime=0),
        "source\tsink\tbps\nZürich\tGenève\t5\n".encode("utf-16"),
    ],
)
def test_demands_in_the_encoding_of_their_file(content: bytes, tmp_path: Path) -> None:
    nodes = tuple(Node(id=i, kind="switch") for i in ("Zürich", "Genève"))
    network = Network(name="two", nodes=nodes, links=(Link(source="Zürich", target="Genève"),))
    file = tmp_path / "demands"
    file.write_bytes(content)
    matrix = read_matrix_file(str(file), network, "name a file")
    assert (matrix.pairs, matrix.rates_bps) == ((("Zürich", "Genève"),), (5.0,))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"Z\xfcrich,b,1\n", "not text in UTF-8 (byte 1); save it as UTF-8"),
        (
            b"<?xml version='1.0' encoding='no-such'?><network>\xfc</network>",
            "not XML: not well-formed",
        ),
        (b"\x1f\x8b\x08broken", "damaged gzip file"),
    ],
)
def test_a_file_that_is_no_text_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "demands"
    file.write_bytes(content)
    with pytest.raises(InputError, match="demands: ") as refused:
        read_matrix_file(str(file), LINE, "name a file")
    assert says in str(refused.value)
