"""Demand matrices in files: JSON, CSV, REPETITA's .demands and SNDlib's native format; told apart by content."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import parse_json
from testbed.model.schemas import refuse_unknown
from testbed.routing.demands.matrix import DemandMatrix, Pair, given_matrix
from topologies.network import Network

FORMS = (
    'give JSON ({"demands": [{"source": "a", "sink": "b", "bps": 1e6}]} or {"a": {"b": 1e6}}), CSV (source,sink,bps), '
    "or a file of REPETITA or SNDlib (native)"
)
REPETITA_BPS = 1000.0
"""REPETITA counts demands in kbit/s."""
_SNDLIB = re.compile(r"^\s*\S+\s*\(\s*(\S+)\s+(\S+)\s*\)\s+\S+\s+(\S+)", re.MULTILINE)
"""One demand: name ( source target ) routing_unit value path_length."""


def parse_matrix(text: str, network: Network, where: str) -> DemandMatrix:
    """The matrix that the text of a file says; rates in bits a second.

    REPETITA names nodes by their position in the network; SNDlib by id or by the attribute ``name``, and its values are taken as bits a
    second, whatever unit the instance means. Raises InputError, which begins with ``where`` and says what line or entry is wrong.
    """
    head = text.lstrip()
    if head.startswith(("{", "[")):
        rates = _of_json(parse_json(text, where), where)
    elif head.startswith("DEMANDS"):
        rates = _of_repetita(text, network, where)
    elif "SNDlib" in text[:200] or re.search(r"^\s*DEMANDS\s*\(", text, re.MULTILINE):
        rates = _of_sndlib(text, network, where)
    else:
        rates = _of_csv(text, where)
    try:
        return given_matrix(network, where, rates)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _of_json(document: Any, where: str) -> dict[Pair, float]:
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
    return _gathered([(str(a), str(b), rate, f"entry {i}") for i, (a, b, rate) in enumerate(entries)], where)


def _of_csv(text: str, where: str) -> dict[Pair, float]:
    rows = [(number, row) for number, row in enumerate(csv.reader(text.splitlines()), 1) if row]
    if rows and [word.strip().lower() for word in rows[0][1]][:2] in (["source", "sink"], ["source", "target"]):
        rows = rows[1:]
    wrong = next((number for number, row in rows if len(row) != 3), None)
    if wrong is not None or not rows:
        raise InputError(f"{where}" + (f", line {wrong}" if wrong else "") + f": not source,sink,bps; {FORMS}")
    return _gathered([(a.strip(), b.strip(), rate, f"line {number}") for number, (a, b, rate) in rows], where)


def _of_repetita(text: str, network: Network, where: str) -> dict[Pair, float]:
    """``DEMANDS n``, a line of headings, then ``label src dest bw`` with positions of nodes."""
    found = []
    for number, line in enumerate(text.splitlines()[2:], 3):
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
    return _gathered(found, where)


def _of_sndlib(text: str, network: Network, where: str) -> dict[Pair, float]:
    section = re.search(r"^\s*DEMANDS\s*\((.*?)^\s*\)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise InputError(f"{where}: no DEMANDS section in it; {FORMS}")
    names = {str(node.attributes["name"]): node.id for node in network.nodes if "name" in node.attributes}
    known = names | {node.id: node.id for node in network.nodes}
    entries = _SNDLIB.findall(section[1])
    return _gathered([(known.get(a, a), known.get(b, b), rate, f"demand {a} {b}") for a, b, rate in entries], where)


def _gathered(entries: Sequence[tuple[str, str, Any, str]], where: str) -> dict[Pair, float]:
    """Rates by pair; a pair given twice, or a rate that is none, is named with its place."""
    rates: dict[Pair, float] = {}
    for source, sink, rate, place in entries:
        try:
            value = math.nan if isinstance(rate, bool) else float(rate)
        except (TypeError, ValueError):
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"{where}, {place}: {str(rate)[:40]!r} is not a rate in bits a second, 0 or more; {FORMS}")
        if (source, sink) in rates:
            raise InputError(f"{where}, {place}: {source} to {sink} is there twice; keep one")
        if source != sink:
            rates[source, sink] = value
    return rates
