"""A run's records to JSON and back: a line of ``measurements.jsonl`` and ``manifest.json``."""

from collections.abc import Mapping
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import from_json, json_ready
from testbed.model.run_records import FORMAT, RECORD_NAMES, Manifest, Record, SummaryRecord

_KINDS: Mapping[str, type[Record]] = {name: kind for kind, name in RECORD_NAMES.items()}


def record_to_json(record: Record) -> dict[str, Any]:
    """One line of ``measurements.jsonl``: the fields and ``record``, which names the kind of record."""
    document: dict[str, Any] = json_ready(record)
    if isinstance(record, SummaryRecord):
        document["ror"] = {"predicted": document.pop("ror_predicted"), "measured": document.pop("ror_measured")}
        document["verdict"] = json_ready(record.verdict.to_json())
    return {"record": RECORD_NAMES[type(record)]} | document


def record_from_json(document: Any, where: str) -> Record:
    """The record that ``record_to_json`` wrote; keys that it does not know are left out.

    Raises InputError with ``where`` and the key that is missing or of the wrong kind.
    """
    name = document.get("record") if isinstance(document, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(f"{where}: {str(name)[:40]!r} is no kind of record; give one of {', '.join(_KINDS)}")
    if kind is SummaryRecord:
        ror = document.get("ror", {})
        if not isinstance(ror, Mapping):
            raise InputError(f"{where}: ror: {str(ror)[:40]} is not an object")
        document = {**document, "ror_predicted": ror.get("predicted"), "ror_measured": ror.get("measured")}
    return from_json(kind, document, where)


def manifest_from_json(document: Any, where: str) -> Manifest:
    """Raises InputError for another format, and for a key that is missing or of the wrong kind."""
    found = document.get("format") if isinstance(document, Mapping) else None
    if found != FORMAT:
        raise InputError(f"{where}: format {str(found)[:40]!r} is not {FORMAT}; read it with the version that wrote it")
    return from_json(Manifest, document, where)
