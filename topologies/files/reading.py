"""Reads network files of many formats.

The format is recognised by the content of the file or, if that is not enough, by the ending of its
name.
"""

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.errors import TopologyError
from topologies.files.foreign import (
    NetworkNote,
    adapted,
    note_host_paths,
    rename_kinds,
    some,
    without_loops,
)
from topologies.files.formats import shortened
from topologies.files.node_link import parse_document, parse_json
from topologies.network import Network
from topologies.text.json_types import JsonObject
from topologies.text.text_file import MAX_NETWORK_BYTES, read_bytes, text_of, unpacked, utf8

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

READ = (
    "read are JSON node-link, GraphML, GML, DOT, SNDlib (XML, native), REPETITA, containerlab"
    " (.clab.yml) and MiniEdit (.mn)"
)
# The endings of network files. A name with such an ending is always the name of a file.
ENDINGS = (
    ".json",
    ".graphml",
    ".xml",
    ".gml",
    ".dot",
    ".gv",
    ".graph",
    ".yml",
    ".yaml",
    ".mn",
    ".gz",
)
# Formats that are known but not read, by their endings.
_UNREAD_FORMATS = {
    ".net": "Pajek files are not read",
    ".gexf": "GEXF files are not read",
    ".csv": "tables are not read as networks",
}
# Compressions that are not read, by their first bytes. gzip has been unpacked once by then.
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip twice",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
}
# The endings of formats that are older than UTF-8, whose files may be in Latin-1.
_WITHOUT_ENCODING = (".gml", ".dot", ".gv", ".graph", ".txt")
# Maximum number of elements of XML, or of lists or objects of JSON. More of them would need
# gigabytes of memory.
MAX_PARTS = 1_000_000
# Fields that only files for the testbed have.
_OUR_FIELDS = {"capacity_bps", "delay_s", "impairments", "attributes"}
# One packet of 1500 bytes per second. Switches cannot shape a link to less.
_MIN_SHAPED_BPS = 8 * 1500
_GML = re.compile(r"^\s*graph\s*\[", re.MULTILINE)
_DOT = re.compile(r"\s*(strict\s+)?(di)?graph\b[^\[{]*\{", re.IGNORECASE)
_DOT_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#[^\n]*", re.DOTALL | re.MULTILINE)
_SNDLIB_NATIVE = re.compile(r"^\s*NODES\s*\(", re.MULTILINE)
# The number of characters at the beginning of a text by which its format is recognised.
_BEGINNING = 4096


def read_network_file(path: str | Path, part: str = "") -> Network:
    """Read a network file in one of the formats of READ, which may be compressed with gzip.

    A NetworkNote warns once of everything in the file that is not read.

    Args:
        path: The file.
        part: Which network of a Mininet file to build (see ``topologies.adapters.python_files``).

    Raises:
        TopologyError: The file is invalid. The message has the file, the entry, and how to correct
            it.
    """
    path = Path(path)
    notes: list[str] = []
    try:
        network = _read(path, notes, part)
        if not network.nodes:
            raise TopologyError("it has no node; give at least one")
        note_host_paths(network, notes)
        slow = [link.label for link in network.links if link.capacity_bps < _MIN_SHAPED_BPS]
        if slow:
            notes.append(
                "less than one packet of 1500 bytes a second, which switches cannot shape:"
                f" {some(slow)}"
            )
    except TopologyError as error:
        raise type(error)(f"{shortened(path)}: {error}") from error
    if notes:
        warnings.warn(NetworkNote(f"{shortened(path)}: {'; '.join(notes)}"), stacklevel=3)
    return network


def _read(path: Path, notes: list[str], part: str) -> Network:
    """Read a file; the arguments are those of ``read_network_file``, and a list for the notes."""
    if path.suffix.lower() == ".py":
        # The file is read for its error if it does not exist or cannot be read.
        read_bytes(path, limit_bytes=MAX_NETWORK_BYTES)
        return _read_program(path, part, notes)
    content = unpacked(read_bytes(path, limit_bytes=MAX_NETWORK_BYTES))
    _refuse_unreadable(content)
    inner_path = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    name = inner_path.stem.removesuffix(".clab") or "network"
    ending = inner_path.suffix.lower()
    text = text_of(content)
    first_byte = content.lstrip()[:1]
    if text is not None:
        # The text may be in UTF-16.
        first_byte = text.encode(errors="replace").lstrip()[:1]
    if first_byte == b"<":
        from topologies.files.xml_tree import local, parse_xml

        root = parse_xml(content, text)
        if local(root) == "graphml":
            from topologies.files.graphml import read_graphml

            return read_graphml(root, name, path.parent, notes)
        document = _xml_document(root, local(root), notes)
    else:
        if text is None and ending in _WITHOUT_ENCODING:
            text = _decode_windows_1252(content)
            notes.append(
                "it is not in UTF-8 and read as Latin-1; save it as UTF-8 if names look wrong"
            )
        if text is None:
            # Raises TopologyError if the content is not UTF-8.
            text = utf8(content)
        document = _text_document(text, ending, notes)
    is_json = first_byte in (b"{", b"[") or ending == ".json"
    if is_json:
        ours = adapted(document, notes, strict=_is_for_testbed(document))
        return parse_document(ours, name, folder=path.parent)
    rename_kinds(document["nodes"])
    one_way = without_loops(
        document["links"], [document["directed"]] * len(document["links"]), notes
    )
    return parse_document(adapted(document, notes), name, one_way, path.parent)


def _refuse_unreadable(content: bytes) -> None:
    """Refuse content that is compressed, or has so many parts that it would exhaust the memory."""
    for beginning, compression in _COMPRESSIONS.items():
        if content.startswith(beginning):
            raise TopologyError(f"a file packed by {compression} is not read; unpack it")
    if max(content.count(sign) for sign in (b"<", b"[", b"{")) > MAX_PARTS:
        raise TopologyError(f"more than {MAX_PARTS} elements, lists or objects; make it smaller")


def _is_for_testbed(document: object) -> bool:
    """Return whether a JSON document is written for the testbed: its links have fields of ours."""
    if not isinstance(document, dict) or "$schema" in document:
        return True
    links = document.get("links", document.get("edges"))
    nodes = document.get("nodes")
    if not links and isinstance(nodes, list):
        return all(isinstance(node, dict) and "kind" in node for node in nodes)
    return isinstance(links, list) and any(
        isinstance(link, dict) and _OUR_FIELDS & link.keys() for link in links
    )


def _read_program(path: Path, part: str, notes: list[str]) -> Network:
    """Return the network that a Mininet file builds; it runs in the sandbox."""
    from topologies.adapters.python_files import read_python_file

    document = read_python_file(path, part, notes)
    one_way = without_loops(document["links"], [False] * len(document["links"]), notes)
    name = part.partition(",")[0]
    if name == "__main__":
        name = path.stem
    return parse_document(adapted(document, notes, note_units=False), name, one_way)


def _decode_windows_1252(content: bytes) -> str:
    """Decode Latin-1 with the additional characters of Windows.

    Raises:
        TopologyError: A byte has no character.
    """
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        # Raises an error that proposes UTF-8.
        return utf8(content)


def _xml_document(root: "Element", kind: str, notes: list[str]) -> JsonObject:
    """Return the node-link document of an XML file other than GraphML.

    Args:
        root: The root element.
        kind: Its name.
        notes: The list to which notes are appended.
    """
    if kind != "network":
        raise TopologyError(
            f"the root element is <{kind[:60]}>, not <graphml> or SNDlib's <network>; {READ}"
        )
    from topologies.files.sndlib import xml_document

    return xml_document(root, notes)


def _text_document(text: str, ending: str, notes: list[str]) -> Any:
    """Return the node-link document of a text in any format but XML.

    The readers are imported only if they are needed, because some imports are slow.

    Args:
        text: The content of the file.
        ending: The ending of its name, in lower case.
        notes: The list to which notes are appended.
    """
    beginning = text.lstrip()[:_BEGINNING]
    if not beginning:
        raise TopologyError(f"it is empty; {READ}")
    if ending in (".yml", ".yaml"):
        from topologies.files.containerlab import containerlab_document

        return containerlab_document(text, notes)
    if beginning.startswith(("{", "[")) or ending in (".json", ".mn"):
        return _json_document(text, ending, notes)
    if ending in _UNREAD_FORMATS:
        raise TopologyError(f"{_UNREAD_FORMATS[ending]} ({READ})")
    if beginning.startswith("?SNDlib") or _SNDLIB_NATIVE.search(beginning):
        from topologies.files.sndlib import native_document

        return native_document(text, notes)
    if beginning.startswith("NODES") or ending == ".graph":
        from topologies.files.repetita import repetita_document

        return repetita_document(text)
    if ending in (".dot", ".gv") or _DOT.match(_DOT_COMMENT.sub("", beginning)):
        from topologies.files.dot import dot_document

        return dot_document(text)
    if ending == ".gml" or _GML.search(beginning):
        from topologies.files.gml import gml_document

        return gml_document(text, notes)
    if ending in ("", ".txt", *ENDINGS):
        raise TopologyError(f"it is in none of the formats; {READ}")
    raise TopologyError(f"{ending} files are not read; {READ}")


def _json_document(text: str, ending: str, notes: list[str]) -> Any:
    """Return the document of a JSON file; MiniEdit's and p4-utils' files are converted."""
    from topologies.files.values import other_document

    document = parse_json(text)
    converted = other_document(document, notes)
    if converted is not None:
        return converted
    is_node_link = isinstance(document, dict) and "nodes" in document
    if ending == ".mn" and not is_node_link:
        raise TopologyError(
            "hosts, switches and links of MiniEdit are missing; save the file with MiniEdit again"
        )
    return document
