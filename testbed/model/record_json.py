"""Records and manifest to JSON and back: one line of ``measurements.jsonl``, ``manifest.json`` and ``verdict.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from testbed.errors import InputError
from testbed.model.json_fields import (
    RecordReader,
    boolean,
    fraction,
    integer,
    json_ready,
    mapping,
    number,
    optional,
    pair,
    sequence_of,
    text,
)
from testbed.model.run_records import (
    FORMAT,
    RECORD_NAMES,
    FaultRecord,
    LinkLoad,
    Manifest,
    Record,
    SessionRecord,
    SummaryRecord,
    TimelineRecord,
)
from testbed.model.verdict import Check, Verdict


def record_to_json(record: Record) -> dict[str, Any]:
    """One line of ``measurements.jsonl``: the fields and ``record``, which names the kind of record."""
    document = {f.name: json_ready(getattr(record, f.name)) for f in fields(record)}
    if isinstance(record, SummaryRecord):
        document["ror"] = {"predicted": document.pop("ror_predicted"), "measured": document.pop("ror_measured")}
        document["verdict"] = json_ready(record.verdict.to_json())
    return {"record": RECORD_NAMES[type(record)]} | document


def record_from_json(document: Any, where: str) -> Record:
    """The record that ``record_to_json`` wrote; keys it does not know are left out.

    Raises InputError with ``where`` and the key that is missing or of the wrong kind.
    """
    kind = document.get("record") if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or kind not in _READERS:
        raise InputError(f"{where}: {str(kind)[:40]!r} is no kind of record; give one of {', '.join(_READERS)}")
    return _READERS[kind](document, where)


def manifest_from_json(document: Any, where: str) -> Manifest:
    """Raises InputError for another format, and for a key that is missing or of the wrong kind."""
    found = document.get("format") if isinstance(document, Mapping) else None
    if found != FORMAT:
        raise InputError(f"{where}: format {str(found)[:40]!r} is not {FORMAT}; read it with the version that wrote it")
    return _MANIFEST.read(document, where)


def verdict_from_json(document: Any, where: str) -> Verdict:
    """The verdict that ``Verdict.to_json`` wrote; raises InputError for a key that is missing or of the wrong kind."""
    return _VERDICT.read(document, where)


_read_check = RecordReader(
    Check,
    name=text,
    predicted=optional(number),
    measured=optional(number),
    tolerance=optional(number),
    passed=boolean,
    detail=text,
)
_VERDICT = RecordReader(Verdict, checks=sequence_of(_read_check.read), invalid=optional(text), notes=sequence_of(text))
_LINK = RecordReader(
    LinkLoad, source=text, target=text, key=integer, load=fraction, layer=integer, intervals=sequence_of(pair(integer))
)
_SESSION = RecordReader(
    SessionRecord,
    session=integer,
    title=text,
    network=mapping,
    source=text,
    sink=text,
    method=text,
    fabric=text,
    links=sequence_of(_LINK.read),
    parameters=mapping,
    duration_s=number,
)
_FAULT = RecordReader(
    FaultRecord,
    link=text,
    kind=text,
    start_s=number,
    stop_s=number,
    predicted_loss=number,
    measured_loss=optional(number),
    interval=optional(pair(number)),
    predicted_block_size=optional(number),
    measured_block_size=optional(number),
    size_range=optional(pair(number)),
    reacted=boolean,
    reaction_s=optional(number),
    port_status_s=optional(number),
    skipped=optional(text),
    passed=optional(boolean),
    diagnosis=optional(mapping),
    session=integer,
    packets=integer,
    transient_blocks=integer,
    transient_blocks_lost=integer,
    steady_blocks=integer,
    undecodable_blocks=integer,
    late_packets=integer,
    transient_late_packets=integer,
)
_TIMELINE = RecordReader(
    TimelineRecord,
    session=integer,
    bin_s=number,
    t_s=sequence_of(number),
    sent_pps=sequence_of(number),
    loss=sequence_of(optional(number)),
    block_size=sequence_of(optional(number)),
    redundancy=sequence_of(optional(number)),
)
_SUMMARY = RecordReader(
    SummaryRecord,
    session=integer,
    verdict=_VERDICT.read,
    ror_predicted=optional(number),
    ror_measured=optional(number),
    infinite_links=sequence_of(text),
    base_block_size=optional(number),
    figures=mapping,
)
_MANIFEST = RecordReader(
    Manifest,
    name=text,
    run=text,
    started=text,
    seconds=optional(number),
    command=text,
    seed=integer,
    versions=mapping,
    machine=mapping,
    capabilities=mapping,
    plans=sequence_of(mapping),
    interrupted=optional(text),
)


def _read_summary(document: Mapping[str, Any], where: str) -> SummaryRecord:
    ror = mapping(document.get("ror", {}), f"{where}: ror")
    flat = {"ror_predicted": ror.get("predicted"), "ror_measured": ror.get("measured")}
    return _SUMMARY.read({**document, **flat}, where)


_READERS: Mapping[str, Callable[[Mapping[str, Any], str], Record]] = {
    "session": _SESSION.read,
    "fault": _FAULT.read,
    "timeline": _TIMELINE.read,
    "summary": _read_summary,
}
