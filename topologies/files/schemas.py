"""JSON Schemas of the files that people write, and the check for unknown keys.

``testbed schema`` publishes the schemas unchanged. Parsers check the values of a file; this module
checks its keys against the same schema. It reads the following keywords of JSON Schema:
``properties``, ``additionalProperties``, ``items``, ``anyOf``, ``$ref`` and ``$defs``.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from topologies.errors import TopologyError
from topologies.text.json_types import Json, JsonObject

# The end of the names of schema files.
SUFFIX = ".schema.json"


@cache
def read_schema(package: str, name: str) -> JsonObject:
    """Read the schema ``NAME.schema.json`` of a package.

    Args:
        package: Dotted name of the package that contains the file.
        name: NAME.
    """
    text = files(package).joinpath(name + SUFFIX).read_text(encoding="utf-8")
    schema: JsonObject = json.loads(text)
    return schema


def network_schema() -> JsonObject:
    """Return the schema of network files."""
    return read_schema("topologies.files", "network")


def refuse_unknown_keys(document: object, schema: Json) -> None:
    """Refuse a document that has a key which is not in its schema.

    Raises:
        TopologyError: The message has the position of the first unknown key and the nearest key of
            the schema.
    """
    for path, key, properties in unknown_keys(document, schema, schema, ""):
        start = f"{path}: " if path else ""
        raise TopologyError(
            f"{start}unknown key {str(key)[:60]!r}; {_advice(str(key), properties)}"
        )


def unknown_keys(
    value: object, schema: Json, root: Json, path: str
) -> Iterator[tuple[str, str, Json]]:
    """Yield the keys of a value that are not in its schema, in the order of the document.

    If ``anyOf`` has several schemas for the type of the value, the schema with the largest number
    of the value's keys is used.

    Args:
        value: The document, or a part of it.
        schema: The schema of the value.
        root: The whole schema, which has the definitions.
        path: Position of the value in the document, as ``nodes[3]``.

    Yields:
        The position of the object, the unknown key, and the properties that the schema has there.
    """
    schema = _resolved(schema, root)
    if "anyOf" in schema:
        alternatives = [_resolved(alternative, root) for alternative in schema["anyOf"]]
        fitting = [alternative for alternative in alternatives if _fits(value, alternative)]
        if fitting:
            best = max(fitting, key=lambda alternative: _likeness(value, alternative))
            yield from unknown_keys(value, best, root, path)
    elif isinstance(value, Mapping) and (
        "properties" in schema or "additionalProperties" in schema
    ):
        properties = schema.get("properties", {})
        additional = schema.get("additionalProperties", True)
        for key, part in value.items():
            if key in properties:
                part_path = f"{path}.{key}" if path else str(key)
                yield from unknown_keys(part, properties[key], root, part_path)
            elif additional is False and key != "$schema":
                # The key $schema names the schema itself, for editors.
                yield path, key, properties
            elif isinstance(additional, Mapping):
                yield from unknown_keys(part, additional, root, str(key))
    elif isinstance(value, (list, tuple)) and "items" in schema:
        for index, item in enumerate(value):
            yield from unknown_keys(item, schema["items"], root, f"{path}[{index}]")


def _resolved(schema: Json, root: Json) -> Json:
    """Return the definition to which a schema refers with ``$ref``, or the schema itself."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _fits(value: object, schema: Json) -> bool:
    """Return whether a value is an object, a list or neither, as a schema requires."""
    if isinstance(value, Mapping):
        return bool(schema.get("type", "object") == "object")
    if isinstance(value, (list, tuple)):
        return bool(schema.get("type", "array") == "array")
    return schema.get("type") not in ("object", "array")


def _likeness(value: object, schema: Json) -> tuple[bool, int]:
    """Return how well the keys of a value match a schema; a larger tuple is a better match.

    Returns:
        Whether the first required key is there, and the number of keys that are in the schema.
    """
    if not isinstance(value, Mapping):
        return True, 0
    has_required = set(schema.get("required", ())[:1]) <= value.keys()
    return has_required, len(value.keys() & schema.get("properties", {}).keys())


def _advice(key: str, properties: Json) -> str:
    """Return which key to give instead of an unknown one."""
    name_by_lower = {name.lower(): name for name in properties}
    similar = [name for name in name_by_lower if len(key) > 2 and name.startswith(key.lower())]
    similar += difflib.get_close_matches(key.lower(), name_by_lower, n=1, cutoff=0.6)
    if similar:
        return f"did you mean {name_by_lower[similar[0]]!r}?"
    return f"known are {', '.join(sorted(properties))}"
