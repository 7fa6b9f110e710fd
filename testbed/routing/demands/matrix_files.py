"""Demand matrices in files: JSON, CSV, REPETITA's .demands, SNDlib's native format and XML; distinguished by
content."""

import csv
import math
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

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
    'give JSON ({"demands": [{"source": "a", "sink": "b", "bps": 1e6}]} or {"a": {"b": 1e6}}), CSV (source,sink,bps), '
    "n rows of n numbers, or a file of REPETITA, SNDlib (native, XML) or TOTEM"
)
REPETITA_BPS = 1000.0
"""REPETITA counts demands in kbit/s."""
MOST_BPS = 1e15
"""As of rates on the command line (``testbed.model.options.kinds``)."""
_SNDLIB = re.compile(r"\s*\S+\s*\(\s*(\S+)\s+(\S+)\s*\)\s+(\S+)\s+(\S+)")
"""One demand: name ( source target ) routing_unit value path_length."""
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
_OTHER_UNIT = re.compile(
    r"(?i:(?<![a-z])(k|m|g|t|kilo|mega|giga|tera)(i|bi)(b(?![a-z])|bps|bits?|bytes?)|byte|packet|pps)"
    r"|(?<![A-Za-z])[kKMGT]?B(ps|/s|$|[^A-Za-z])"
)
"""A unit in a heading that is not of bits: ``Bps`` are bytes, and Gibit and packets are refused."""
_STEP = re.compile(r"(.+):(\d{1,6})")


def read_matrix_file(file: str, network: Network, hint: str) -> DemandMatrix:
    """The matrix of a file, packed by gzip or not: text in UTF-8 or UTF-16, or XML in the encoding that it declares.

    InputError, which begins with the file's name, as of ``parse_matrix``; where it cannot be read, ``mend`` ends it.
    """
    with_step = None if is_file(file) else _STEP.fullmatch(file)
    path = Path(file if with_step is None else with_step[1])
    step = None if with_step is None else int(with_step[2])
    try:
        content = unpacked(read_bytes(path, hint, limit_bytes=MAX_TEXT_BYTES))
        text = text_of(content)
        if text is None:
            is_xml = content.lstrip().startswith(b"<")
            text = (
                ElementTree.tostring(parse_xml(content, None), "unicode")
                if is_xml
                else utf8(content)
            )
    except TopologyError as error:
        raise InputError(f"{file}: {error}") from None
    return parse_matrix(text, network, file, step)


def parse_matrix(text: str, network: Network, where: str, step: int | None = None) -> DemandMatrix:
    """Return the matrix that the text of a file says.

    Rates without a unit are in bits a second; several demands of a pair add up. REPETITA names
    nodes by their position in the network. SNDlib names them by id or by the attribute ``name``;
    its values are multiples of the routing unit, in the unit of its META section.

    Args:
        text: The text of the file.
        network: The network between whose nodes the demands are.
        where: The file's name, with which messages begin.
        step: Which of several matrices is read, from 1; the first if it is None.

    Raises:
        InputError: A line or an entry is wrong; the message says which.
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
            rates = _gathered(square, where)
    try:
        return given_matrix(network, where, rates)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _is_square(document: object) -> TypeGuard[Sequence[Sequence[object]]]:
    """Return whether a document of JSON is a list of lists."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(row, list) for row in document)
    )


def _of_json(document: object, network: Network, where: str) -> dict[Pair, float]:
    if _is_square(document):
        text = "\n".join(" ".join(map(str, row)) for row in document)
        square = square_entries(text, network, where, None)
        if square is not None:
            return _gathered(square, where)
    refuse_unknown(document, "demands", where)
    if isinstance(document, Mapping) and isinstance(document.get("demands"), Sequence):
        document = document["demands"]
    if isinstance(document, Mapping):
        rows = document.get("demands", document)
        entries = [
            (a, b, rate)
            for a, row in rows.items()
            for b, rate in (row.items() if isinstance(row, Mapping) else [(None, None)])
        ]
    elif isinstance(document, Sequence) and all(isinstance(one, Mapping) for one in document):
        entries = [(one.get("source"), one.get("sink"), one.get("bps")) for one in document]
    else:
        raise InputError(f"{where}: no demands in it; {FORMS}")
    return _gathered(
        [(str(a), str(b), rate, f"entry {i}") for i, (a, b, rate) in enumerate(entries)], where
    )


def _of_csv(text: str, network: Network, where: str) -> dict[Pair, float]:
    """Three columns between commas, semicolons or tabs: the sign that gives nodes of the network.

    Where it is no comma, a rate may have one for its decimal sign. Empty rows, and empty cells at the end of rows, are
    left out: spreadsheets write them.
    """
    lines = text.splitlines()
    said = re.fullmatch(r"sep=(.)", lines[0].strip()) if lines else None
    if said:
        lines[0] = ""
    by_sign = {sign: _rows_of_csv(lines, sign) for sign in (said[1] if said else ",;\t")}
    fitting = [
        sign for sign, rows in by_sign.items() if rows and all(len(row) == 3 for _, row in rows)
    ]
    named = [sign for sign in fitting if set(by_sign[sign][-1][1][:2]) <= set(network.node_index)]
    sign = next(iter([*named, *fitting, *by_sign]))
    rows = by_sign[sign]
    factor = 1.0
    if (
        rows
        and tuple(word.lower() for word in rows[0][1][:2]) in _HEADINGS
        and not _NUMBER.fullmatch(rows[0][1][-1])
    ):
        unit = rows[0][1][-1]
        if any(map(_OTHER_UNIT.search, (unit, re.sub("(?<=[a-z])(?=[A-Z])", " ", unit)))):
            raise InputError(
                f"{where}, line {rows[0][0]}: the rates are in {unit!r}; give bits a second, headed bps"
            )
        factor = heading_bps(unit) or 1.0
        rows = rows[1:]
    wrong = next((number for number, row in rows if len(row) != 3), None)
    if wrong is not None or not rows:
        raise InputError(
            f"{where}" + (f", line {wrong}" if wrong else "") + f": not source,sink,bps; {FORMS}"
        )
    point = "," if sign == "," else "."
    return _gathered(
        [(a, b, rate.replace(",", point), f"line {number}") for number, (a, b, rate) in rows],
        where,
        factor,
    )


def _rows_of_csv(lines: Sequence[str], sign: str) -> list[tuple[int, list[str]]]:
    rows = [
        (number, [cell.strip() for cell in row])
        for number, row in enumerate(csv.reader(lines, delimiter=sign), 1)
    ]
    for _, row in rows:
        while row and not row[-1]:
            row.pop()
    return [(number, row) for number, row in rows if row]


def _of_repetita(text: str, network: Network, where: str) -> dict[Pair, float]:
    """``DEMANDS n``, a line of headings, then ``label src dest bw`` with positions of nodes."""
    found = []
    first = next(number for number, line in enumerate(text.splitlines()) if line.strip())
    for number, line in list(enumerate(text.splitlines(), 1))[first + 2 :]:
        words = line.split()
        if not words:
            continue
        try:
            ends = [network.nodes[int(word)].id for word in words[1:3] if int(word) >= 0]
            _, _, rate = words[1:]
            found.append((ends[0], ends[1], float(rate) * REPETITA_BPS, f"line {number}"))
        except (ValueError, IndexError):
            raise InputError(
                f"{where}, line {number}: {line.strip()!r} is not 'label src dest bw' with positions of nodes "
                f"from 0 to {len(network.nodes) - 1}"
            ) from None
    announced = re.match(r"\s*DEMANDS\s+(\d+)\s*$", text, re.MULTILINE)
    if announced is None or int(announced[1]) != len(found):
        raise InputError(
            f"{where}: {' '.join(text.split()[:2])} is announced, {len(found)} follow; is the file whole?"
        )
    return _gathered(found, where)


def _of_sndlib(text: str, network: Network, where: str) -> dict[Pair, float]:
    section = re.search(r"^\s*DEMANDS\s*\((.*?)^\s*\)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise InputError(f"{where}: no DEMANDS section in it; {FORMS}")
    meta = native_meta(text)
    factor = _sndlib_unit(meta.get("unit"), meta.get("granularity"), where)
    found: list[tuple[str, str, object, str]] = []
    for line in section[1].splitlines():
        words = line.partition("#")[0]
        said = _SNDLIB.match(words)
        if said:
            place = f"demand {said[1]} {said[2]}"
            found.append((said[1], said[2], _product(said[3], said[4], where, place), place))
        elif words.strip():
            raise InputError(
                f"{where}: {words.strip()[:60]!r} is not 'name ( source target ) unit value path_length'"
            )
    return _of_named(found, network, where, factor)


def _sndlib_unit(unit: str | None, granularity: str | None, where: str) -> float:
    """Return the bits per second of one unit of SNDlib's demands."""
    if unit is None:
        warnings.warn(
            NetworkNote(f"{where}: demands are taken as bits a second; the file names no unit"),
            stacklevel=2,
        )
        return 1.0
    factor = unit_bps(unit, granularity or "")
    if factor is None:
        of_period = f" over {granularity!r}" if granularity else ""
        raise InputError(f"{where}: unit {unit[:40]!r}{of_period} is no rate; give MBITPERSEC")
    return factor


def _product(routing_unit: object, value: object, where: str, place: str) -> object:
    """Return the demand in units; SNDlib counts it in routing units."""
    try:
        unit = float(str(routing_unit))
    except ValueError:
        unit = math.nan
    if not math.isfinite(unit):
        raise InputError(f"{where}, {place}: routing unit {routing_unit!r} is no number")
    try:
        return unit * float(str(value))
    except ValueError:
        return value


def _of_totem(root: ElementTree.Element, where: str) -> list[tuple[str, str, object, str]]:
    """Return the demands of TOTEM's traffic matrix: ``dst`` within ``src``, kbit/s unless it says."""
    units = [element.get("value", "") for element in root.iter() if local(element) == "unit"]
    unit = units[0] if units else "kbps"
    factor = unit_bps(unit)
    if factor is None:
        raise InputError(f"{where}: unit {unit[:40]!r} is no rate; give kbps")
    entries: list[tuple[str, str, object, str]] = []
    for source in root.iter():
        for sink in source if local(source) == "src" else ():
            ends = (source.get("id", ""), sink.get("id", ""))
            place = f"demand {ends[0]} {ends[1]}"
            entries.append(
                (*ends, _product(factor, (sink.text or "").strip(), where, place), place)
            )
    return entries


def _of_xml(text: str, network: Network, where: str) -> dict[Pair, float]:
    """The ``demand`` elements of SNDlib's XML, each with ``source``, ``target`` and ``demandValue``."""
    try:
        root = parse_xml(b"", text)
    except TopologyError as error:
        raise InputError(f"{where}: {error}; {FORMS}") from None
    if local(root) == "TrafficMatrixFile":
        return _of_named(_of_totem(root, where), network, where)
    found: list[tuple[str, str, object, str]] = []
    for element in root.iter():
        if local(element) == "demand":
            said = {local(child): (child.text or "").strip() for child in element}
            ends = said.get("source", ""), said.get("target", "")
            place = f"demand {element.get('id', len(found))}"
            value = _product(said.get("routingUnit", 1), said.get("demandValue"), where, place)
            found.append((*ends, value, place))
    if not found:
        raise InputError(f"{where}: no demand in it; {FORMS}")
    meta = xml_meta(root)
    factor = _sndlib_unit(meta.get("unit") or None, meta.get("granularity"), where)
    return _of_named(found, network, where, factor)


def _of_named(
    entries: Sequence[tuple[str, str, object, str]],
    network: Network,
    where: str,
    factor: float = 1.0,
) -> dict[Pair, float]:
    """Demands between nodes called by id or by the attribute ``name``."""
    known = network.node_of_name
    return _gathered(
        [(known.get(a, a), known.get(b, b), rate, place) for a, b, rate, place in entries],
        where,
        factor,
    )


def _gathered(
    entries: Sequence[tuple[str, str, Any, str]], where: str, factor: float = 1.0
) -> dict[Pair, float]:
    """Return rates by pair, several demands of a pair added up.

    Args:
        entries: Source, sink, rate and the place that messages name. A rate may have a unit.
        where: The file's name.
        factor: The bits per second that a number without a unit counts.

    Raises:
        InputError: A rate is none.
    """
    rates: dict[Pair, float] = {}
    for source, sink, rate, place in entries:
        value = _rate(rate, factor)
        if not 0 <= value <= MOST_BPS:
            raise InputError(
                f"{where}, {place}: {str(rate)[:40]!r} is not a rate in bits a second, 0 to 1e15; {FORMS}"
            )
        if source != sink:
            rates[source, sink] = rates.get((source, sink), 0.0) + value
    return rates


def _rate(rate: object, factor: float) -> float:
    """Return bits per second; NaN for anything that is no rate."""
    if isinstance(rate, str) and not is_bare(rate):
        return rate_bps(rate)
    try:
        return math.nan if isinstance(rate, bool) else float(rate) * factor  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan
