"""Demand matrices: what the models say, what the four file formats say, and what is refused in one line."""

from __future__ import annotations

import gzip
import json
import warnings
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


def test_gravity_multiplies_capacities_out_and_in_of_connected_nodes() -> None:
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
        *(
            (
                f"source,sink,{unit}\na,b,10\n",
                f"line 1: the rates are in {unit!r}; give bits a second",
            )
            for unit in (
                "demand [Gibit]",
                "MB/s",
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
def test_errors_of_a_file_name_their_position(text: str, says: str) -> None:
    with pytest.raises(InputError, match="file") as refused:
        parse_matrix(text, LINE, "file")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "heading", ["bps", "demand_bps", "bit/s", "demand (bit/s)", "bandwidth", "value", "BPS"]
)
def test_a_heading_without_another_unit_is_of_bits_a_second(heading: str) -> None:
    assert parse_matrix(f"source,sink,{heading}\na,b,10\n", LINE, "file").rates_bps == (10.0,)


@pytest.mark.parametrize(
    ("heading", "factor"),
    [("Mbps", 1e6), ("demand_mbps", 1e6), ("demand (Mbit/s)", 1e6), ("rateKbit", 1e3)],
)
def test_heading_says_unit(heading: str, factor: float) -> None:
    text = f"source,sink,{heading}\na,b,10\nb,a,2 Gbps\n"
    assert parse_matrix(text, LINE, "file").rates_bps == (10 * factor, 2e9)


@pytest.mark.parametrize(
    "text",
    [
        '{"demands": [{"source": "a", "sink": "b", "bps": "3Mbps"}]}',
        '{"a": {"b": "3 Mbit/s"}}',
        "a,b,3Mbps\n",
        "source;sink;rate\na;b;3000 kbps\n",
    ],
)
def test_demand_takes_unit(text: str) -> None:
    assert parse_matrix(text, LINE, "file").rates_bps == (3e6,)


@pytest.mark.parametrize("text", ["a,b,3MB/s\n", "a,b,3 packets\n", '{"a": {"b": "3x"}}'])
def test_demand_in_another_unit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a rate in bits a second"):
        parse_matrix(text, LINE, "file")


def sndlib(meta: str, routing_unit: str) -> tuple[str, str]:
    """Write one demand of 2.5 in both forms of SNDlib."""
    unit = "".join(
        f"<{line.replace(' = ', '>')}</{line.split(' ')[0]}>" for line in meta.split(";") if line
    )
    xml = (
        f"<network><meta>{unit}</meta><demands><demand id='d'><source>a</source><target>b</target>"
        f"<routingUnit>{routing_unit}</routingUnit><demandValue>2.5</demandValue></demand>"
        "</demands></network>"
    )
    lines = meta.replace(";", "\n")
    native = (
        f"?SNDlib native format; type: network; version: 1.0\nMETA (\n{lines}\n)\nDEMANDS (\n"
        f"  d ( a b ) {routing_unit} 2.5 UNLIMITED\n)\n"
    )
    return xml, native


@pytest.mark.parametrize(
    ("meta", "routing_unit", "rate_bps"),
    [
        ("unit = MBITPERSEC", "155", 387.5e6),
        ("unit = MBITPERSEC", "1", 2.5e6),
        ("unit = KBITPERSEC;granularity = 5min", "1", 2.5e3),
        ("unit = Gbit/s", "1", 2.5e9),
        ("unit = MBYTEPERSEC", "1", 20e6),
        ("granularity = 5min;unit = GBIT", "3", 25e6),
        ("", "155", 387.5),
    ],
)
def test_sndlib_demand_is_in_routing_units_of_its_unit(
    meta: str, routing_unit: str, rate_bps: float
) -> None:
    for text in sndlib(meta, routing_unit):
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            matrix = parse_matrix(text, LINE, "file")
        assert matrix.rates_bps == pytest.approx((rate_bps,))
        told = ["taken as bits a second" in str(note.message) for note in notes]
        assert told == ([] if meta else [True])


@pytest.mark.parametrize("meta", ["unit = PACKETS", "unit = GBIT;granularity = often"])
def test_sndlib_unit_that_is_no_rate_is_refused(meta: str) -> None:
    for text in sndlib(meta, "1"):
        with pytest.raises(InputError, match="is not a rate; give MBITPERSEC"):
            parse_matrix(text, LINE, "file")


SQUARE = [[0, 1e6, 0, 0], [2e6, 0, 0, 3e6], [0, 0, 0, 0], [0, 0, 0, 5]]
SQUARE_RATES = {("a", "b"): 1e6, ("b", "a"): 2e6, ("b", "d"): 3e6}


def rows(sign: str) -> list[str]:
    return [sign.join(map(str, row)) for row in SQUARE]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(rows(" ")),
        "# bit/s\n" + "\n".join(rows("\t")) + "\n\n",
        "\n".join(rows(",")),
        "\n".join(rows(";")),
        json.dumps(SQUARE),
        "\n".join(["a,b,c,d", *rows(",")]),
        "\n".join(
            [
                ",a,b,c,Delft",
                *(f"{n},{r}" for n, r in zip(["a", "b", "c", "Delft"], rows(","), strict=True)),
            ]
        ),
        "\n".join(["from a b c d", *(f"{n} {r}" for n, r in zip("abcd", rows(" "), strict=True))]),
        " ".join(rows(" ")),
        " ".join(rows(" ")) + "\n" + " ".join(["7"] * 16),
    ],
)
def test_square_matrix_is_read(text: str) -> None:
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        matrix = parse_matrix(text, LINE, "file")
    assert dict(zip(matrix.pairs, matrix.rates_bps, strict=True)) == SQUARE_RATES
    with_names = "a,b" in text or "a b" in text
    assert bool(notes) != with_names


def test_step_of_time_is_read_as_asked(tmp_path: Path) -> None:
    file = tmp_path / "actual.txt"
    file.write_text(" ".join(["7"] * 16) + "\n" + " ".join(rows(" ")) + "\n")
    with pytest.warns(UserWarning, match="step 2 of 2; rows and columns are the 4 switches"):
        matrix = read_matrix_file(f"{file}:2", LINE, "name a file")
    assert dict(zip(matrix.pairs, matrix.rates_bps, strict=True)) == SQUARE_RATES
    with pytest.raises(InputError, match="it has 2 steps of time"):
        read_matrix_file(f"{file}:3", LINE, "name a file")


@pytest.mark.parametrize(
    "text", ["1 2 3\n4 5 6\n", "1 2\n3 4\n", "0 1 2 3 4\n" * 5, "0,1\n2,3\n4,5\n"]
)
def test_matrix_of_another_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="'line' has 0 hosts and 4 switches; give n rows"):
        parse_matrix(text, LINE, "file")


def test_rows_of_numbers_may_be_demands_between_nodes_named_so() -> None:
    nodes = tuple(Node(id=i, kind="switch") for i in "012")
    links = (Link(source="0", target="1"), Link(source="1", target="2"))
    network = Network(name="numbers", nodes=nodes, links=links)
    matrix = parse_matrix("0,1,5\n1,2,7\n0,2,9\n", network, "file")
    assert matrix.rates_bps == (5.0, 7.0, 9.0)


def test_totem_matrix_is_read_in_its_unit() -> None:
    text = (
        "<TrafficMatrixFile><info><units><unit type='bandwidth' value='{}'/></units></info><IntraTM>"
        "<src id='a'><dst id='a'>3</dst><dst id='b'>2.5</dst></src></IntraTM></TrafficMatrixFile>"
    )
    assert parse_matrix(text.format("mbps"), LINE, "file").rates_bps == (2.5e6,)
    assert parse_matrix(text.format("kbps"), LINE, "file").rates_bps == (2500.0,)


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
