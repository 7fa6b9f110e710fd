"""The kinds of files that people write for the testbed, each with its JSON Schema: keys that a schema does not know are
refused."""

from testbed.model.json_values import located
from topologies.files.schemas import network_schema, read_schema, refuse_unknown_keys
from topologies.text.json_types import JsonObject

KINDS = (
    "network",
    "faults",
    "pattern",
    "schedule",
    "messages",
    "unequal",
    "demands",
    "campaign",
    "placement",
)


def schema_of(kind: str) -> JsonObject:
    """The JSON Schema (draft 2020-12) of a kind of file, one of ``KINDS``."""
    return network_schema() if kind == "network" else read_schema(__name__, kind)


def refuse_unknown(document: object, kind: str, where: str) -> None:
    """Raise InputError, which begins with ``where``, for the first key of a document that its kind's schema does not
    know."""
    with located(where):
        refuse_unknown_keys(document, schema_of(kind))
