"""Demand matrices in files: JSON, CSV, REPETITA's .demands, SNDlib's native format and XML; distinguished by
content."""

import csv
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import parse_json
from testbed.model.schemas import refuse_unknown
from testbed.routing.demands.matrix import DemandMatrix, Pair, given_matrix
from topologies import Network, TopologyError
from topologies.files.xml_tree import local, parse_xml
from topologies.text.text_file import MAX_TEXT_BYTES, read_bytes, text_of, unpacked, utf8

FORMS = (
    'give JSON ({"demands": [{"source": "a", "sink": "b", "bps": 1e6}]} or {"a": {"b": 1e6}}), CSV (source,sink,bps), '
    "or a file of REPETITA or SNDlib (native, XML)"
)
REPETITA_BPS = 1000.0
"""REPETITA counts demands in kbit/s."""
MOST_BPS = 1e15
"""As of rates on the command line (``testbed.model.options.kinds``)."""
_SNDLIB = re.compile(r"\s*\S+\s*\(\s*(\S+)\s+(\S+)\s*\)\s+\S+\s+(\S+)")
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
    r"(?i:(?<![a-z])(k|m|g|t|kilo|mega|giga|tera)(i|bi)?(b(?![a-z])|bps|bits?|bytes?)|byte|packet|pps)|(?<![A-Za-z])B(ps|/s)"
)
"""Of a heading such as ``demand (Mbps)``; ``Bps`` are bytes."""


def read_matrix_file(file: str, network: Network, hint: str) -> DemandMatrix:
    """The matrix of a file, packed by gzip or not: text in UTF-8 or UTF-16, or XML in the encoding that it declares.

    InputError, which begins with the file's name, as of ``parse_matrix``; where it cannot be read, ``mend`` ends it.
    """
    try:
        content = unpacked(read_bytes(Path(file), hint, most=MAX_TEXT_BYTES))
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
    return parse_matrix(text, network, file)


def parse_matrix(text: str, network: Network, where: str) -> DemandMatrix:
    """The matrix that the text of a file says; rates in bits a second.

    Several demands of a pair add up. REPETITA names nodes by their position in the network; SNDlib by id or by the
    attribute ``name``, and its values are taken as bits a second, whatever unit the instance means. Raises InputError,
    which begins with ``where`` and says what line or entry is wrong.
    """
    head = text.lstrip()
    if head.startswith(("{", "[")):
        rates = _of_json(parse_json(text, where), where)
    elif head.startswith("<"):
        rates = _of_xml(text, network, where)
    elif re.match(r"DEMANDS\s+\d", head):
        rates = _of_repetita(text, network, where)
    elif "SNDlib" in text[:200] or re.search(r"^\s*DEMANDS\s*\(", text, re.MULTILINE):
        rates = _of_sndlib(text, network, where)
    else:
        rates = _of_csv(text, network, where)
    try:
        return given_matrix(network, where, rates)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _of_json(document: object, where: str) -> dict[Pair, float]:
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
        rows = rows[1:]
    wrong = next((number for number, row in rows if len(row) != 3), None)
    if wrong is not None or not rows:
        raise InputError(
            f"{where}" + (f", line {wrong}" if wrong else "") + f": not source,sink,bps; {FORMS}"
        )
    point = "," if sign == "," else "."
    return _gathered(
        [(a, b, rate.replace(",", point), f"line {number}") for number, (a, b, rate) in rows], where
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
    found: list[tuple[str, str, object, str]] = []
    for line in section[1].splitlines():
        words = line.partition("#")[0]
        said = _SNDLIB.match(words)
        if said:
            found.append((said[1], said[2], said[3], f"demand {said[1]} {said[2]}"))
        elif words.strip():
            raise InputError(
                f"{where}: {words.strip()[:60]!r} is not 'name ( source target ) unit value path_length'"
            )
    return _of_named(found, network, where)


def _of_xml(text: str, network: Network, where: str) -> dict[Pair, float]:
    """The ``demand`` elements of SNDlib's XML, each with ``source``, ``target`` and ``demandValue``."""
    try:
        root = parse_xml(b"", text)
    except TopologyError as error:
        raise InputError(f"{where}: {error}; {FORMS}") from None
    found: list[tuple[str, str, object, str]] = []
    for demand in root.iter():
        if local(demand) == "demand":
            said = {local(child): (child.text or "").strip() for child in demand}
            ends = said.get("source", ""), said.get("target", "")
            found.append((*ends, said.get("demandValue"), f"demand {demand.get('id', len(found))}"))
    if not found:
        raise InputError(f"{where}: no demand in it; {FORMS}")
    return _of_named(found, network, where)


def _of_named(
    entries: Sequence[tuple[str, str, object, str]], network: Network, where: str
) -> dict[Pair, float]:
    """Demands between nodes called by id or by the attribute ``name``."""
    names = {
        str(node.attributes["name"]): node.id for node in network.nodes if "name" in node.attributes
    }
    known = names | {node.id: node.id for node in network.nodes}
    return _gathered(
        [(known.get(a, a), known.get(b, b), rate, place) for a, b, rate, place in entries], where
    )


def _gathered(entries: Sequence[tuple[str, str, Any, str]], where: str) -> dict[Pair, float]:
    """Rates by pair, several demands of a pair added up; a rate that is none is named with its place."""
    rates: dict[Pair, float] = {}
    for source, sink, rate, place in entries:
        try:
            value = math.nan if isinstance(rate, bool) else float(rate)
        except (TypeError, ValueError):
            value = math.nan
        if not 0 <= value <= MOST_BPS:
            raise InputError(
                f"{where}, {place}: {str(rate)[:40]!r} is not a rate in bits a second, 0 to 1e15; {FORMS}"
            )
        if source != sink:
            rates[source, sink] = rates.get((source, sink), 0.0) + value
    return rates
