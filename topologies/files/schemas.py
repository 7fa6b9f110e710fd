"""JSON Schemas of the files that people write, and the refusal of every key that a file's schema does not know.

A schema is published as it is (``testbed schema``); parsers check values, and this module, by the same schema, keys. Of
JSON Schema it reads ``properties``, ``additionalProperties``, ``items``, ``anyOf``, ``$ref`` and ``$defs``.
"""

import difflib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from topologies.errors import TopologyError
from topologies.text.json_types import Json, JsonObject

SUFFIX = ".schema.json"


@cache
def read_schema(package: str, name: str) -> JsonObject:
    """The schema ``NAME.schema.json`` that is in a package."""
    schema: JsonObject = json.loads(
        files(package).joinpath(name + SUFFIX).read_text(encoding="utf-8")
    )
    return schema


def network_schema() -> JsonObject:
    """Of network files."""
    return read_schema("topologies.files", "network")


def refuse_unknown_keys(document: object, schema: Json) -> None:
    """Raise TopologyError for the first key that the schema does not know: its place, the key, and the nearest one
    known."""
    for place, key, known in unknown_keys(document, schema, schema, ""):
        start = f"{place}: " if place else ""
        raise TopologyError(f"{start}unknown key {str(key)[:60]!r}; {_advice(str(key), known)}")


def unknown_keys(
    value: object, schema: Json, root: Json, place: str
) -> Iterator[tuple[str, str, Json]]:
    """(place, key, known properties) of every unknown key, in the order of the document.

    Of several shapes in ``anyOf`` that value's is taken which fits its type and knows most of its keys.
    """
    schema = _resolved(schema, root)
    if "anyOf" in schema:
        fitting = [
            one for one in (_resolved(s, root) for s in schema["anyOf"]) if _fits(value, one)
        ]
        if fitting:
            chosen = max(fitting, key=lambda one: _likeness(value, one))
            yield from unknown_keys(value, chosen, root, place)
        return
    if isinstance(value, Mapping) and ("properties" in schema or "additionalProperties" in schema):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key, inside in value.items():
            spot = f"{place}.{key}" if place and key in known else str(key)
            if key in known:
                yield from unknown_keys(inside, known[key], root, spot)
            elif (
                others is False and spot != "$schema"
            ):  # which names the schema itself, for editors
                yield place, key, known
            elif isinstance(others, Mapping):
                yield from unknown_keys(inside, others, root, spot)
    elif isinstance(value, (list, tuple)) and "items" in schema:
        for number, inside in enumerate(value):
            yield from unknown_keys(inside, schema["items"], root, f"{place}[{number}]")


def _resolved(schema: Json, root: Json) -> Json:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _fits(value: object, schema: Json) -> bool:
    kind = (
        "object"
        if isinstance(value, Mapping)
        else "array"
        if isinstance(value, (list, tuple))
        else None
    )
    return (
        schema.get("type", kind) == kind if kind else schema.get("type") not in ("object", "array")
    )


def _likeness(value: object, schema: Json) -> tuple[bool, int]:
    """Whether every required key is there, and how many keys are known."""
    if not isinstance(value, Mapping):
        return True, 0
    return set(schema.get("required", ())[:1]) <= value.keys(), len(
        value.keys() & schema.get("properties", {}).keys()
    )


def _advice(key: str, known: Json) -> str:
    """The nearest key."""
    names = {name.lower(): name for name in known}
    near = [name for name in names if len(key) > 2 and name.startswith(key.lower())]
    near += difflib.get_close_matches(key.lower(), names, n=1, cutoff=0.6)
    return f"did you mean {names[near[0]]!r}?" if near else f"known are {', '.join(sorted(known))}"
