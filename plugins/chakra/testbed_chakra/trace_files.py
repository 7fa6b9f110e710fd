"""Chakra execution traces (MLCommons, schema 0.0.4): a graph of nodes a rank, as protobuf messages or in their JSON
form.

A file holds length-delimited messages: the metadata, then one ``Node`` each. The few fields that matter here are read
from the wire format itself, so that no protobuf package is needed; unknown fields are skipped. JSON: the same messages,
one object after another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.errors import InputError
from topologies.text.json_types import Json, JsonObject

KINDS = (
    "INVALID",
    "METADATA",
    "MEM_LOAD",
    "MEM_STORE",
    "COMP",
    "COMM_SEND",
    "COMM_RECV",
    "COMM_COLL",
)
_ID, _KIND, _CTRL, _DATA, _DURATION, _ATTRIBUTE = 1, 3, 4, 5, 7, 10
_SIGNED = {15, 17}
_WHOLE = {7, 9, 11, 13, 15, 17, 27}
_ENDS = ("comm_src", "comm_dst", "comm_size", "comm_tag")


@dataclass(frozen=True, kw_only=True)
class TraceNode:
    """``after``: ids of nodes of the same rank. ``ends`` (source, destination rank), ``size_bytes``, ``tag``: of a send
    or a receive."""

    id: int
    kind: str
    after: tuple[int, ...]
    duration_s: float = 0.0
    ends: tuple[int, int] = (-1, -1)
    size_bytes: int = 0
    tag: int = 0


def read_rank(content: bytes, rank: int, where: str) -> tuple[TraceNode, ...]:
    """The nodes of one rank's file, protobuf or JSON. InputError names file and node."""
    json_form = content.lstrip()[:1] == b"{"
    found = tuple(
        _node(fields, rank, where)
        for fields in (_json_nodes if json_form else _wire_nodes)(content, where)
    )
    known = {node.id for node in found}
    if len(known) < len(found):
        raise InputError(f"{where}: two nodes have one id")
    for node in found:
        missing = [one for one in node.after if one not in known]
        if missing:
            raise InputError(f"{where}: node {node.id} depends on {missing[0]}, which there is not")
    return found


def _node(fields: Json, rank: int, where: str) -> TraceNode:
    number, kind, attributes = fields["id"], fields["kind"], fields["attributes"]
    base = TraceNode(
        id=number,
        kind=kind,
        after=tuple(dict.fromkeys(fields["after"])),
        duration_s=fields["duration"] / 1e6,
    )
    if kind == "COMM_COLL":
        raise InputError(
            f"{where}: node {number} is a collective; give a trace in which collectives are sends and receives"
        )
    if kind not in ("COMM_SEND", "COMM_RECV"):
        return base
    source, sink = (
        attributes.get(name, rank if own else -1)
        for name, own in zip(_ENDS, (kind == "COMM_SEND", kind == "COMM_RECV"), strict=False)
    )
    size = attributes.get("comm_size", 0)
    if (
        min(source, sink) < 0
        or source == sink
        or (source if kind == "COMM_SEND" else sink) != rank
        or size < 1
    ):
        raise InputError(
            f"{where}: node {number}: from {source} to {sink}, {size} bytes; give comm_src, comm_dst and comm_size, "
            f"one end rank {rank}"
        )
    return TraceNode(
        id=number,
        kind=kind,
        after=base.after,
        ends=(source, sink),
        size_bytes=size,
        tag=attributes.get("comm_tag", 0),
    )


def _json_nodes(content: bytes, where: str) -> Iterator[Json]:
    decoder = json.JSONDecoder()
    try:
        text = content.decode()
        at = 0
        while text[at:].strip():
            at += len(text[at:]) - len(text[at:].lstrip())
            document, at = decoder.raw_decode(text, at)
            if "id" not in document and "type" not in document:
                continue  # the metadata
            attributes = {
                one["name"]: int(value)
                for one in document.get("attr", ())
                for key, value in one.items()
                if one["name"] in _ENDS
                and key.lower().replace("_", "").endswith(("int32val", "int64val"))
            }
            yield {
                "id": int(document.get("id", 0)),
                "kind": str(document.get("type", "INVALID")).removesuffix("_NODE"),
                "after": [
                    int(n)
                    for names in ("dataDeps", "data_deps", "ctrlDeps", "ctrl_deps")
                    for n in document.get(names, ())
                ],
                "duration": int(document.get("durationMicros", document.get("duration_micros", 0))),
                "attributes": attributes,
            }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: no Chakra trace in JSON ({error}); give its objects one after another"
        ) from None


def _wire_nodes(content: bytes, where: str) -> Iterator[Json]:
    at, first = 0, True
    while at < len(content):
        length, at = _varint(content, at, where)
        if at + length > len(content):
            raise InputError(
                f"{where}: it ends within a message, at byte {len(content)}; give the whole file"
            )
        if not first:  # the first message is the metadata
            yield _wire_node(content[at : at + length], where)
        at, first = at + length, False


def _wire_node(message: bytes, where: str) -> Json:
    node: JsonObject = {"id": 0, "kind": "INVALID", "after": [], "duration": 0, "attributes": {}}
    for field, value in _fields(message, where):
        if field in (_CTRL, _DATA):
            node["after"] += [value] if isinstance(value, int) else list(_packed(value, where))
        elif field == _ID:
            node["id"] = value
        elif field == _KIND:
            node["kind"] = (
                KINDS[value] if isinstance(value, int) and value < len(KINDS) else "other"
            )
        elif field == _DURATION:
            node["duration"] = value
        elif field == _ATTRIBUTE and isinstance(value, bytes):
            node["attributes"] |= _attribute(value, where)
    return node


def _attribute(message: bytes, where: str) -> dict[str, int]:
    name, number = "", None
    for field, value in _fields(message, where):
        if field == 1 and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif field in _WHOLE and isinstance(value, int):
            number = (value >> 1) ^ -(value & 1) if field in _SIGNED else value
    return {name: number} if number is not None else {}


def _fields(message: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field: whole numbers of varints and fixed widths, bytes of what has a length."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at, where)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at, where)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(message, at, where)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise InputError(
                f"{where}: wire type {kind} of no protobuf message; is it a Chakra trace?"
            )
        if at + length > len(message):
            raise InputError(f"{where}: a field is longer than its message; is it a Chakra trace?")
        part = message[at : at + length]
        at += length
        yield key >> 3, part if kind == 2 else int.from_bytes(part, "little")


def _packed(values: bytes, where: str) -> Iterator[int]:
    at = 0
    while at < len(values):
        value, at = _varint(values, at, where)
        yield value


def _varint(data: bytes, at: int, where: str) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, at, shift = value | (byte & 0x7F) << shift, at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise InputError(f"{where}: a number has no end at byte {at}; is it a Chakra trace?")
