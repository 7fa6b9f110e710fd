"""Demand matrices in files of several formats, which are distinguished by their content.

The formats are JSON, CSV, n x n numbers, REPETITA's .demands, SNDlib's native format and XML, and
TOTEM's XML.
"""

import csv
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

from testbed.errors import InputError
from testbed.model.json_values import is_file, parse_json
from testbed.model.schemas import refuse_unknown
from testbed.routing.demands.matrix import DemandMatrix, Pair, given_matrix
from testbed.routing.demands.square_matrices import square_entries
from topologies import Network, TopologyError
from topologies.files.foreign import NetworkNote
from topologies.files.sndlib import native_meta, xml_meta
from topologies.files.xml_tree import local, parse_xml
from topologies.text.rate_units import heading_bps, unit_bps
from topologies.text.text_file import MAX_TEXT_BYTES, read_bytes, text_of, unpacked, utf8
from topologies.text.units import is_bare, rate_bps

FORMS = (
    'give JSON ({"demands": [{"source": "a", "sink": "b", "bps": 1e6}]} or {"a": {"b": 1e6}}), CSV '
    "(source,sink,bps), n rows of n numbers, or a file of REPETITA, SNDlib (native, XML) or TOTEM"
)

# REPETITA gives demands in kbit/s.
REPETITA_BPS = 1000.0

# Largest rate, as for rates on the command line (``testbed.model.options.kinds``).
MAX_BPS = 1e15

# Source, sink, rate, and the position in the file that messages name.
Entry = tuple[str, str, object, str]

# A demand of SNDlib's native format: name ( source target ) routing_unit value path_length.
_SNDLIB_DEMAND = re.compile(r"\s*\S+\s*\(\s*(\S+)\s+(\S+)\s*\)\s+(\S+)\s+(\S+)")

# First two headings of a CSV file.
_HEADINGS = frozenset(
    {
        ("source", "sink"),
        ("source", "target"),
        ("source", "destination"),
        ("from", "to"),
        ("src", "dst"),
    }
)
_NUMBER = re.compile(r"[-+0-9.,e]+", re.IGNORECASE)

# A unit in a heading that is refused: ``Bps`` are bytes, and Gibit and packets are not supported.
_OTHER_UNIT = re.compile(
    r"(?i:(?<![a-z])(k|m|g|t|kilo|mega|giga|tera)(i|bi)(b(?![a-z])|bps|bits?|bytes?)|byte|packet|pps)"
    r"|(?<![A-Za-z])[kKMGT]?B(ps|/s|$|[^A-Za-z])"
)

# A file and the number of a matrix in it.
_STEP = re.compile(r"(.+):(\d{1,6})")


def read_matrix_file(file: str, network: Network, hint: str) -> DemandMatrix:
    """Read a demand matrix from a file, which may be compressed by gzip.

    The file is text in UTF-8 or UTF-16, or XML in the encoding that it declares.

    Args:
        file: Path of the file, or ``PATH:STEP`` for one of several matrices.
        network: The network between whose nodes the demands are.
        hint: End of the message if the file cannot be read.

    Raises:
        InputError: The file cannot be read, or as for ``parse_matrix``. The message begins with the
            name of the file.
    """
    path = Path(file)
    step = None
    if not is_file(file):
        with_step = _STEP.fullmatch(file)
        if with_step is not None:
            path = Path(with_step[1])
            step = int(with_step[2])
    try:
        content = unpacked(read_bytes(path, hint, limit_bytes=MAX_TEXT_BYTES))
        text = text_of(content)
        if text is None and content.lstrip().startswith(b"<"):
            text = ElementTree.tostring(parse_xml(content, None), "unicode")
        elif text is None:
            text = utf8(content)
    except TopologyError as error:
        raise InputError(f"{file}: {error}") from None
    return parse_matrix(text, network, file, step)


def parse_matrix(text: str, network: Network, where: str, step: int | None = None) -> DemandMatrix:
    """Return the demand matrix in the text of a file.

    Rates without a unit are in bits per second; several demands of a pair add up. REPETITA names
    nodes by their position in the network. SNDlib names them by id or by the attribute ``name``;
    its values are multiples of the routing unit, in the unit of its META section.

    Args:
        text: The text of the file.
        network: The network between whose nodes the demands are.
        where: The file's name, with which messages begin.
        step: Number of the matrix, from 1, if the file has several; None reads the first.

    Raises:
        InputError: A line or an entry is invalid; the message names it.
    """
    head = text.lstrip()
    if head.startswith(("{", "[")):
        rates = _of_json(parse_json(text, where), network, where)
    elif head.startswith("<"):
        rates = _of_xml(text, network, where)
    elif re.match(r"DEMANDS\s+\d", head):
        rates = _of_repetita(text, network, where)
    elif "SNDlib" in text[:200] or re.search(r"^\s*DEMANDS\s*\(", text, re.MULTILINE):
        rates = _of_sndlib(text, network, where)
    else:
        square = square_entries(text, network, where, step)
        if square is None:
            rates = _of_csv(text, network, where)
        else:
            rates = _rates_by_pair(square, where)
    try:
        return given_matrix(network, where, rates)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _is_square(document: object) -> TypeGuard[Sequence[Sequence[object]]]:
    """Return whether a JSON document is a list of lists."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(row, list) for row in document)
    )


def _of_json(document: object, network: Network, where: str) -> dict[Pair, float]:
    """Return the rates in a JSON document: a list of demands, a nested object or a square."""
    if _is_square(document):
        text = "\n".join(" ".join(map(str, row)) for row in document)
        square = square_entries(text, network, where, None)
        if square is not None:
            return _rates_by_pair(square, where)
    refuse_unknown(document, "demands", where)
    if isinstance(document, Mapping) and isinstance(document.get("demands"), Sequence):
        document = document["demands"]
    demands: list[tuple[object, object, object]] = []
    if isinstance(document, Mapping):
        for source, row in document.get("demands", document).items():
            if isinstance(row, Mapping):
                demands += [(source, sink, rate) for sink, rate in row.items()]
            else:
                # An entry without a rate, which is refused below.
                demands.append((source, None, None))
    elif isinstance(document, Sequence) and all(isinstance(item, Mapping) for item in document):
        demands = [(item.get("source"), item.get("sink"), item.get("bps")) for item in document]
    else:
        raise InputError(f"{where}: no demands in it; {FORMS}")
    entries: list[Entry] = []
    for i, (source, sink, rate) in enumerate(demands):
        entries.append((str(source), str(sink), rate, f"entry {i}"))
    return _rates_by_pair(entries, where)


def _of_csv(text: str, network: Network, where: str) -> dict[Pair, float]:
    """Return the rates in text of three columns between commas, semicolons or tabs.

    Of these delimiters, the one that yields nodes of the network is used. Unless it is the comma, a
    rate may have a decimal comma. Empty rows, and empty cells at the end of rows, are ignored,
    because spreadsheets write them.
    """
    rows, delimiter = _csv_rows(text, network)
    factor = 1.0
    if rows and _is_heading(rows[0].cells):
        factor = _csv_unit_bps(rows[0], where)
        rows = rows[1:]
    if not rows:
        raise InputError(f"{where}: not source,sink,bps; {FORMS}")
    decimal_sign = "," if delimiter == "," else "."
    entries: list[Entry] = []
    for row in rows:
        if len(row.cells) != 3:
            raise InputError(f"{where}, line {row.number}: not source,sink,bps; {FORMS}")
        source, sink, rate = row.cells
        entries.append((source, sink, rate.replace(",", decimal_sign), f"line {row.number}"))
    return _rates_by_pair(entries, where, factor)


class _CsvRow(NamedTuple):
    """A row of a CSV file.

    Attributes:
        number: Number of the row, from 1.
        cells: The cells, without blanks and without empty ones at the end.
    """

    number: int
    cells: list[str]


def _csv_rows(text: str, network: Network) -> tuple[list[_CsvRow], str]:
    """Return the rows of a CSV file, and the delimiter between their cells.

    A first line such as ``sep=;`` declares the delimiter. Otherwise it is the first one that yields
    rows of three cells with nodes of the network, or just rows of three cells.
    """
    lines = text.splitlines()
    declared = re.fullmatch(r"sep=(.)", lines[0].strip()) if lines else None
    if declared:
        lines[0] = ""
        return _split_rows(lines, declared[1]), declared[1]
    rows_by_delimiter = {delimiter: _split_rows(lines, delimiter) for delimiter in ",;\t"}
    fitting = []
    for delimiter, rows in rows_by_delimiter.items():
        if rows and all(len(row.cells) == 3 for row in rows):
            fitting.append(delimiter)
    for delimiter in fitting:
        # The first row may be a heading, so the last one decides.
        ends = rows_by_delimiter[delimiter][-1].cells[:2]
        if all(end in network.node_index for end in ends):
            return rows_by_delimiter[delimiter], delimiter
    delimiter = fitting[0] if fitting else ","
    return rows_by_delimiter[delimiter], delimiter


def _split_rows(lines: Sequence[str], delimiter: str) -> list[_CsvRow]:
    """Return the rows of a CSV file that are not empty."""
    rows = []
    for number, row in enumerate(csv.reader(lines, delimiter=delimiter), 1):
        cells = [cell.strip() for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            rows.append(_CsvRow(number, cells))
    return rows


def _is_heading(cells: Sequence[str]) -> bool:
    """Return whether a row has the headings of the columns."""
    headings = tuple(cell.lower() for cell in cells[:2])
    return headings in _HEADINGS and not _NUMBER.fullmatch(cells[-1])


def _csv_unit_bps(heading: _CsvRow, where: str) -> float:
    """Return the bits per second of one unit of the rates, by the heading of their column."""
    unit = heading.cells[-1]
    # Find units in headings such as "rateMBps" too.
    separate_words = re.sub("(?<=[a-z])(?=[A-Z])", " ", unit)
    if _OTHER_UNIT.search(unit) or _OTHER_UNIT.search(separate_words):
        raise InputError(
            f"{where}, line {heading.number}: the rates are in {unit!r}; give bits a second, "
            "headed bps"
        )
    return heading_bps(unit) or 1.0


def _of_repetita(text: str, network: Network, where: str) -> dict[Pair, float]:
    """Return the rates in a file of REPETITA.

    It has ``DEMANDS n``, a line of headings, and then lines ``label src dest bw`` with positions of
    nodes.
    """
    lines = text.splitlines()
    entries: list[Entry] = []
    first = next(i for i, line in enumerate(lines) if line.strip())
    for i in range(first + 2, len(lines)):
        cells = lines[i].split()
        if not cells:
            continue
        try:
            _, source, sink, rate = cells
            source_id = _node_at(network, source)
            sink_id = _node_at(network, sink)
            entries.append((source_id, sink_id, float(rate) * REPETITA_BPS, f"line {i + 1}"))
        except (ValueError, IndexError):
            raise InputError(
                f"{where}, line {i + 1}: {lines[i].strip()!r} is not 'label src dest bw' with "
                f"positions of nodes from 0 to {len(network.nodes) - 1}"
            ) from None
    announced = re.match(r"\s*DEMANDS\s+(\d+)\s*$", text, re.MULTILINE)
    if announced is None or int(announced[1]) != len(entries):
        raise InputError(
            f"{where}: {' '.join(text.split()[:2])} is announced, {len(entries)} follow; is the "
            "file whole?"
        )
    return _rates_by_pair(entries, where)


def _node_at(network: Network, text: str) -> str:
    """Return the id of the node at a position that is given as text.

    Raises:
        ValueError: The text is not an integer of at least 0.
        IndexError: There is no such node.
    """
    position = int(text)
    if position < 0:
        raise ValueError(text)
    return network.nodes[position].id


def _of_sndlib(text: str, network: Network, where: str) -> dict[Pair, float]:
    """Return the rates in a file of SNDlib's native format."""
    section = re.search(r"^\s*DEMANDS\s*\((.*?)^\s*\)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise InputError(f"{where}: no DEMANDS section in it; {FORMS}")
    meta = native_meta(text)
    factor = _sndlib_unit(meta.get("unit"), meta.get("granularity"), where)
    entries: list[Entry] = []
    for line in section[1].splitlines():
        content = line.partition("#")[0]
        demand = _SNDLIB_DEMAND.match(content)
        if demand:
            source, sink, routing_unit, value = demand.groups()
            position = f"demand {source} {sink}"
            rate = _product(routing_unit, value, where, position)
            entries.append((source, sink, rate, position))
        elif content.strip():
            raise InputError(
                f"{where}: {content.strip()[:60]!r} is not 'name ( source target ) unit value "
                "path_length'"
            )
    return _of_named_nodes(entries, network, where, factor)


def _sndlib_unit(unit: str | None, granularity: str | None, where: str) -> float:
    """Return the bits per second of one unit of SNDlib's demands.

    Args:
        unit: The unit in the META section, or None.
        granularity: The period of time in the META section, or None.
        where: The file's name.
    """
    if unit is None:
        warnings.warn(
            NetworkNote(f"{where}: demands are taken as bits a second; the file names no unit"),
            stacklevel=2,
        )
        return 1.0
    factor = unit_bps(unit, granularity or "")
    if factor is None:
        of_period = f" over {granularity!r}" if granularity else ""
        raise InputError(f"{where}: unit {unit[:40]!r}{of_period} is not a rate; give MBITPERSEC")
    return factor


def _product(routing_unit: object, value: object, where: str, position: str) -> object:
    """Return the routing unit times the value, or the value itself if it is not a number.

    Args:
        routing_unit: SNDlib gives demands in multiples of this.
        value: Number of routing units.
        where: The file's name.
        position: The position in the file that messages name.
    """
    try:
        unit = float(str(routing_unit))
    except ValueError:
        unit = math.nan
    if not math.isfinite(unit):
        raise InputError(f"{where}, {position}: routing unit {routing_unit!r} is not a number")
    try:
        return unit * float(str(value))
    except ValueError:
        return value  # Refused with all other invalid rates.


def _totem_entries(root: ElementTree.Element, where: str) -> list[Entry]:
    """Return the demands of TOTEM's traffic matrix: ``dst`` elements within ``src`` elements.

    The unit is kbit/s unless the file names another.
    """
    units = [element.get("value", "") for element in root.iter() if local(element) == "unit"]
    unit = units[0] if units else "kbps"
    factor = unit_bps(unit)
    if factor is None:
        raise InputError(f"{where}: unit {unit[:40]!r} is not a rate; give kbps")
    entries: list[Entry] = []
    sources = [element for element in root.iter() if local(element) == "src"]
    for source in sources:
        source_id = source.get("id", "")
        for sink in source:
            sink_id = sink.get("id", "")
            position = f"demand {source_id} {sink_id}"
            rate = _product(factor, (sink.text or "").strip(), where, position)
            entries.append((source_id, sink_id, rate, position))
    return entries


def _of_xml(text: str, network: Network, where: str) -> dict[Pair, float]:
    """Return the rates in XML of SNDlib or TOTEM.

    In SNDlib's XML, each ``demand`` element has ``source``, ``target`` and ``demandValue``.
    """
    try:
        root = parse_xml(b"", text)
    except TopologyError as error:
        raise InputError(f"{where}: {error}; {FORMS}") from None
    if local(root) == "TrafficMatrixFile":
        return _of_named_nodes(_totem_entries(root, where), network, where)
    entries: list[Entry] = []
    for element in root.iter():
        if local(element) != "demand":
            continue
        values = {local(child): (child.text or "").strip() for child in element}
        position = f"demand {element.get('id', len(entries))}"
        rate = _product(values.get("routingUnit", 1), values.get("demandValue"), where, position)
        entries.append((values.get("source", ""), values.get("target", ""), rate, position))
    if not entries:
        raise InputError(f"{where}: no demand in it; {FORMS}")
    meta = xml_meta(root)
    factor = _sndlib_unit(meta.get("unit") or None, meta.get("granularity"), where)
    return _of_named_nodes(entries, network, where, factor)


def _of_named_nodes(
    entries: Sequence[Entry], network: Network, where: str, factor: float = 1.0
) -> dict[Pair, float]:
    """Return the rates of entries whose nodes are given by id or by the attribute ``name``.

    Other arguments are those of ``_rates_by_pair``.
    """
    ids = network.node_of_name
    by_id: list[Entry] = []
    for source, sink, rate, position in entries:
        by_id.append((ids.get(source, source), ids.get(sink, sink), rate, position))
    return _rates_by_pair(by_id, where, factor)


def _rates_by_pair(entries: Sequence[Entry], where: str, factor: float = 1.0) -> dict[Pair, float]:
    """Return the rate of each pair in bits per second; several demands of a pair add up.

    Args:
        entries: The demands. A rate may have a unit.
        where: The file's name.
        factor: Bits per second of one unit of a number without a unit.

    Raises:
        InputError: A rate is invalid.
    """
    rates: dict[Pair, float] = {}
    for source, sink, rate, position in entries:
        value = _rate_bps(rate, factor)
        if not 0 <= value <= MAX_BPS:
            raise InputError(
                f"{where}, {position}: {str(rate)[:40]!r} is not a rate in bits a second, 0 to "
                f"1e15; {FORMS}"
            )
        if source != sink:
            rates[source, sink] = rates.get((source, sink), 0.0) + value
    return rates


def _rate_bps(rate: object, factor: float) -> float:
    """Return a rate in bits per second, or NaN if it is not a rate.

    Args:
        rate: A number, or text with or without a unit.
        factor: Bits per second of one unit of a number without a unit.
    """
    if isinstance(rate, str) and not is_bare(rate):
        return rate_bps(rate)
    if isinstance(rate, bool):
        return math.nan
    try:
        return float(rate) * factor  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
