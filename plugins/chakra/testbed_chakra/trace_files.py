"""Chakra execution traces (MLCommons, schema 0.0.4): one graph of nodes per rank.

A file has protobuf messages, or the same messages in JSON. In the protobuf form, each message
follows its length: first the metadata, and then one ``Node`` after another. The few fields that are
needed are read from the wire format, so that no protobuf package is required. Unknown fields are
skipped. In the JSON form, the messages follow each other as objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.errors import InputError
from topologies.text.json_types import Json, JsonObject

# Kinds of nodes, by their number in the schema.
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

# Numbers of the fields of ``Node``.
_ID = 1
_KIND = 3
_CTRL_DEPS = 4
_DATA_DEPS = 5
_DURATION_US = 7
_ATTRIBUTE = 10

# Numbers of the fields of ``AttributeProto``: its name, and integers of all types. Signed integers
# have the zigzag encoding.
_NAME = 1
_INTEGERS = {7, 9, 11, 13, 15, 17, 27}
_SIGNED_INTEGERS = {15, 17}

# Protobuf's wire types.
_VARINT = 0
_FIXED_64 = 1
_LENGTH_DELIMITED = 2
_FIXED_32 = 5

# Bits after which a varint is invalid.
_MAX_VARINT_BITS = 70

# The attributes that are read.
_ENDS = ("comm_src", "comm_dst", "comm_size", "comm_tag")


@dataclass(frozen=True, kw_only=True)
class TraceNode:
    """A node of a trace.

    Attributes:
        id: Number of the node, unique for its rank.
        kind: One of ``KINDS``, or "other".
        after: Ids of the nodes of the same rank on which it depends.
        duration_s: Duration in seconds; 0 for a send or a receive.
        ends: Source and destination rank of a send or a receive.
        size_bytes: Size of its message.
        tag: Tag of its message.
    """

    id: int
    kind: str
    after: tuple[int, ...]
    duration_s: float = 0.0
    ends: tuple[int, int] = (-1, -1)
    size_bytes: int = 0
    tag: int = 0


def read_rank(content: bytes, rank: int, where: str) -> tuple[TraceNode, ...]:
    """Return the nodes of a file, which has the trace of one rank.

    Args:
        content: Content of the file, protobuf or JSON.
        rank: The rank.
        where: Name of the file for messages.

    Raises:
        InputError: The file is not a trace.
    """
    is_json = content.lstrip()[:1] == b"{"
    fields_of_nodes = _json_nodes(content, where) if is_json else _wire_nodes(content, where)
    nodes = tuple(_node(fields, rank, where) for fields in fields_of_nodes)
    ids = {node.id for node in nodes}
    if len(ids) < len(nodes):
        raise InputError(f"{where}: two nodes have one id")
    for node in nodes:
        for dependency in node.after:
            if dependency not in ids:
                raise InputError(
                    f"{where}: node {node.id} depends on {dependency}, which there is not"
                )
    return nodes


def _node(fields: Json, rank: int, where: str) -> TraceNode:
    """Return the node with these fields.

    Args:
        fields: ``id``, ``kind``, ``after``, ``duration_us``, and ``attributes`` by name.
        rank: The rank of the node.
        where: Name of the file for messages.
    """
    node_id = fields["id"]
    kind = fields["kind"]
    after = tuple(dict.fromkeys(fields["after"]))
    duration_s = fields["duration_us"] / 1e6
    if kind == "COMM_COLL":
        raise InputError(
            f"{where}: node {node_id} is a collective; give a trace in which collectives are sends "
            "and receives"
        )
    if kind not in ("COMM_SEND", "COMM_RECV"):
        return TraceNode(id=node_id, kind=kind, after=after, duration_s=duration_s)

    attributes = fields["attributes"]
    sends = kind == "COMM_SEND"
    # A send or a receive may omit its own rank.
    source = attributes.get("comm_src", rank if sends else -1)
    destination = attributes.get("comm_dst", -1 if sends else rank)
    size = attributes.get("comm_size", 0)
    rank_of_kind = source if sends else destination
    valid_ends = min(source, destination) >= 0 and source != destination
    if not valid_ends or rank_of_kind != rank or size < 1:
        raise InputError(
            f"{where}: node {node_id}: from {source} to {destination}, {size} bytes; give "
            f"comm_src, comm_dst and comm_size, one end rank {rank}"
        )
    return TraceNode(
        id=node_id,
        kind=kind,
        after=after,
        ends=(source, destination),
        size_bytes=size,
        tag=attributes.get("comm_tag", 0),
    )


def _json_nodes(content: bytes, where: str) -> Iterator[Json]:
    """Yield the fields of each node of a file in JSON, as ``_node`` takes them."""
    decoder = json.JSONDecoder()
    try:
        text = content.decode()
        index = _skip_spaces(text, 0)
        while index < len(text):
            document, end = decoder.raw_decode(text, index)
            index = _skip_spaces(text, end)
            is_metadata = "id" not in document and "type" not in document
            if not is_metadata:
                yield _json_node(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{where}: no Chakra trace in JSON ({error}); give its objects one after another"
        ) from None


def _skip_spaces(text: str, index: int) -> int:
    while index < len(text) and text[index].isspace():
        index += 1
    return index


def _json_node(document: Json) -> Json:
    """Return the fields of a node from its object in JSON.

    Names are in camel case or with underscores, and numbers may be strings.
    """
    after = []
    for name in ("dataDeps", "data_deps", "ctrlDeps", "ctrl_deps"):
        for node_id in document.get(name, ()):
            after.append(int(node_id))
    return {
        "id": int(document.get("id", 0)),
        "kind": str(document.get("type", "INVALID")).removesuffix("_NODE"),
        "after": after,
        "duration_us": int(document.get("durationMicros", document.get("duration_micros", 0))),
        "attributes": _json_attributes(document),
    }


def _json_attributes(document: Json) -> dict[str, int]:
    attributes = {}
    for attribute in document.get("attr", ()):
        for key, value in attribute.items():
            is_integer = key.lower().replace("_", "").endswith(("int32val", "int64val"))
            if attribute["name"] in _ENDS and is_integer:
                attributes[attribute["name"]] = int(value)
    return attributes


def _wire_nodes(content: bytes, where: str) -> Iterator[Json]:
    """Yield the fields of each node of a file with protobuf messages, as ``_node`` takes them."""
    index = 0
    is_metadata = True
    while index < len(content):
        length, index = _varint(content, index, where)
        if index + length > len(content):
            raise InputError(
                f"{where}: it ends within a message, at byte {len(content)}; give the whole file"
            )
        if not is_metadata:
            yield _wire_node(content[index : index + length], where)
        index += length
        is_metadata = False


def _wire_node(message: bytes, where: str) -> Json:
    node: JsonObject = {"id": 0, "kind": "INVALID", "after": [], "duration_us": 0, "attributes": {}}
    for number, value in _fields(message, where):
        if number in (_CTRL_DEPS, _DATA_DEPS):
            # Ids are packed into one field, or each has a field.
            node["after"] += [value] if isinstance(value, int) else _packed(value, where)
        elif number == _ID:
            node["id"] = value
        elif number == _KIND:
            node["kind"] = _kind_name(value)
        elif number == _DURATION_US:
            node["duration_us"] = value
        elif number == _ATTRIBUTE and isinstance(value, bytes):
            node["attributes"] |= _attribute(value, where)
    return node


def _kind_name(value: int | bytes) -> str:
    if isinstance(value, int) and value < len(KINDS):
        return KINDS[value]
    return "other"


def _attribute(message: bytes, where: str) -> dict[str, int]:
    """Return a dictionary from the attribute's name to its value, empty if it is no integer."""
    name = ""
    integer = None
    for number, value in _fields(message, where):
        if number == _NAME and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif number in _INTEGERS and isinstance(value, int):
            integer = value
            if number in _SIGNED_INTEGERS:
                integer = (value >> 1) ^ -(value & 1)
    return {} if integer is None else {name: integer}


def _fields(message: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message.

    The value of a field with a length is bytes, and any other is an integer.
    """
    index = 0
    while index < len(message):
        key, index = _varint(message, index, where)
        number = key >> 3
        wire_type = key & 7
        if wire_type == _VARINT:
            value, index = _varint(message, index, where)
            yield number, value
            continue
        if wire_type == _LENGTH_DELIMITED:
            length, index = _varint(message, index, where)
        elif wire_type == _FIXED_64:
            length = 8
        elif wire_type == _FIXED_32:
            length = 4
        else:
            raise InputError(
                f"{where}: wire type {wire_type} of no protobuf message; is it a Chakra trace?"
            )
        if index + length > len(message):
            raise InputError(f"{where}: a field is longer than its message; is it a Chakra trace?")
        content = message[index : index + length]
        index += length
        if wire_type == _LENGTH_DELIMITED:
            yield number, content
        else:
            yield number, int.from_bytes(content, "little")


def _packed(content: bytes, where: str) -> list[int]:
    """Return the varints of a packed field."""
    values = []
    index = 0
    while index < len(content):
        value, index = _varint(content, index, where)
        values.append(value)
    return values


def _varint(data: bytes, index: int, where: str) -> tuple[int, int]:
    """Decode a varint: seven bits per byte, the lowest first.

    Args:
        data: The bytes.
        index: Index of the first byte of the varint.
        where: Name of the file for messages.

    Returns:
        The value, and the index of the byte after the varint.
    """
    value = 0
    shift = 0
    while index < len(data) and shift < _MAX_VARINT_BITS:
        byte = data[index]
        value |= (byte & 0x7F) << shift
        index += 1
        shift += 7
        has_next_byte = byte & 0x80
        if not has_next_byte:
            return value, index
    raise InputError(f"{where}: a number has no end at byte {index}; is it a Chakra trace?")
