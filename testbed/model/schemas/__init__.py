"""The kinds of files that users write, each with a JSON Schema.

Keys that a schema does not define are refused.
"""

from testbed.model.json_values import prefix_errors
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
    """Return the JSON Schema (draft 2020-12) of a kind of file, which is one of ``KINDS``."""
    return network_schema() if kind == "network" else read_schema(__name__, kind)


def refuse_unknown(document: object, kind: str, where: str) -> None:
    """Refuse a document with a key that its schema does not define.

    Args:
        document: The document.
        kind: The kind of file, which is one of ``KINDS``.
        where: How the error begins.

    Raises:
        InputError: The first unknown key.
    """
    with prefix_errors(where):
        refuse_unknown_keys(document, schema_of(kind))
