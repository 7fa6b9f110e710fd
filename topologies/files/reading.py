"""Networks from files of many formats, distinguished by what is in them and, where that does not say, by how they
end."""

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
    "read are JSON node-link, GraphML, GML, DOT, SNDlib (XML, native), REPETITA, containerlab (.clab.yml) and"
    " MiniEdit (.mn)"
)
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
"""How the names of files of networks end; a name that ends so is one of a file."""
_OTHERS = {
    ".net": "Pajek files are not read",
    ".gexf": "GEXF files are not read",
    ".csv": "tables are not read as networks",
}
_PACKED = {
    b"\x1f\x8b": "gzip twice",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
}
_WITHOUT_ENCODING = (".gml", ".dot", ".gv", ".graph", ".txt")
"""Files of formats that are older than UTF-8."""
MAX_PARTS = 1_000_000
"""Elements of XML, or lists, or objects of JSON: more would need gigabytes of memory."""
_OUR_FIELDS = {"capacity_bps", "delay_s", "impairments", "attributes"}
_MIN_CAPACITY_BPS = 8 * 1500
"""One packet of 1500 bytes a second."""
_GML = re.compile(r"^\s*graph\s*\[", re.MULTILINE)
_DOT = re.compile(r"\s*(strict\s+)?(di)?graph\b[^\[{]*\{", re.IGNORECASE)
_DOT_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#[^\n]*", re.DOTALL | re.MULTILINE)
_NATIVE = re.compile(r"^\s*NODES\s*\(", re.MULTILINE)


def read_network_file(path: str | Path, part: str = "") -> Network:
    """The network of a file in one of the formats READ, packed by gzip or not. ``part``: of a Mininet file, what of it
    (``topologies.adapters.python_files``).

    Warns once, with a NetworkNote, of what other programs' files hold that is not read. Raises TopologyError naming
    file, entry and repair.
    """
    path = Path(path)
    notes: list[str] = []
    try:
        network = _read(path, notes, part)
        if not network.nodes:
            raise TopologyError("no node is in it; give at least one")
        note_host_paths(network, notes)
        slow = [link.label for link in network.links if link.capacity_bps < _MIN_CAPACITY_BPS]
        if slow:
            notes.append(
                f"less than one packet of 1500 bytes a second, which switches cannot shape: {some(slow)}"
            )
    except TopologyError as error:
        raise type(error)(f"{shortened(path)}: {error}") from error
    if notes:
        warnings.warn(NetworkNote(f"{shortened(path)}: {'; '.join(notes)}"), stacklevel=3)
    return network


def _read(path: Path, notes: list[str], part: str) -> Network:
    if path.suffix.lower() == ".py":
        read_bytes(
            path, limit_bytes=MAX_NETWORK_BYTES
        )  # raises what any file that is not there does
        return _of_program(path, part, notes)
    content = unpacked(read_bytes(path, limit_bytes=MAX_NETWORK_BYTES))
    inner = path if path.suffix.lower() != ".gz" else path.with_suffix("")
    name, ending = inner.stem.removesuffix(".clab") or "network", inner.suffix.lower()
    packing = next((word for start, word in _PACKED.items() if content.startswith(start)), None)
    if packing:
        raise TopologyError(f"a file packed by {packing} is not read; unpack it")
    if max(content.count(sign) for sign in (b"<", b"[", b"{")) > MAX_PARTS:
        raise TopologyError(f"more than {MAX_PARTS} elements, lists or objects; make it smaller")
    text = text_of(content)
    head = (content if text is None else text.encode(errors="replace")).lstrip()[:1]
    if head == b"<":
        from topologies.files.xml_tree import local, parse_xml

        root = parse_xml(content, text)
        if local(root) == "graphml":
            from topologies.files.graphml import read_graphml

            return read_graphml(root, name, path.parent, notes)
        document = _of_xml(root, local(root), notes)
    else:
        if text is None and ending in _WITHOUT_ENCODING:
            text = _windows_1252(content)
            notes.append(
                "it is not in UTF-8 and read as Latin-1; save it as UTF-8 if names look wrong"
            )
        document = _document(utf8(content) if text is None else text, ending, notes)
    one_way = None
    json_text = head in (b"{", b"[") or ending == ".json"
    if not json_text:
        rename_kinds(document["nodes"])
        one_way = without_loops(
            document["links"], [document["directed"]] * len(document["links"]), notes
        )
    strict = json_text and _is_ours(document)
    return parse_document(adapted(document, notes, strict=strict), name, one_way, path.parent)


def _is_ours(document: object) -> bool:
    """Return whether a document of JSON is written for the testbed: its links have fields of ours."""
    if not isinstance(document, dict) or "$schema" in document:
        return True
    links = document.get("links", document.get("edges"))
    nodes = document.get("nodes")
    if not links and isinstance(nodes, list):
        return all(isinstance(node, dict) and "kind" in node for node in nodes)
    return isinstance(links, list) and any(
        isinstance(link, dict) and _OUR_FIELDS & link.keys() for link in links
    )


def _of_program(path: Path, part: str, notes: list[str]) -> Network:
    from topologies.adapters.python_files import read_python_file

    document = read_python_file(path, part, notes)
    one_way = without_loops(document["links"], [False] * len(document["links"]), notes)
    name = part.partition(",")[0]
    return parse_document(
        adapted(document, notes, note_units=False),
        path.stem if name == "__main__" else name,
        one_way,
    )


def _windows_1252(content: bytes) -> str:
    """The text in Latin-1, as Windows extended it; TopologyError for bytes that no sign has."""
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError:
        return utf8(content)


def _of_xml(root: "Element", kind: str, notes: list[str]) -> JsonObject:
    if kind != "network":
        raise TopologyError(
            f"the root element is <{kind[:60]}>, not <graphml> or SNDlib's <network>; {READ}"
        )
    from topologies.files.sndlib import xml_document

    return xml_document(root, notes)


def _document(text: str, ending: str, notes: list[str]) -> Any:
    """The node-link document of a text, by its beginning, else by the file's ending."""
    start = text.lstrip()[:4096]
    if not start:
        raise TopologyError(f"it is empty; {READ}")
    if ending in (".yml", ".yaml"):
        from topologies.files.containerlab import containerlab_document

        return containerlab_document(text, notes)
    if start.startswith(("{", "[")) or ending in (".json", ".mn"):
        from topologies.files.values import other_document

        document = parse_json(text)
        found = other_document(document, notes)
        if (
            found is None
            and ending == ".mn"
            and not (isinstance(document, dict) and "nodes" in document)
        ):
            raise TopologyError(
                "hosts, switches and links of MiniEdit are missing; save the file with MiniEdit again"
            )
        return found or document
    if ending in _OTHERS:
        raise TopologyError(f"{_OTHERS[ending]} ({READ})")
    if start.startswith("?SNDlib") or _NATIVE.search(start):
        from topologies.files.sndlib import native_document

        return native_document(text, notes)
    if start.startswith("NODES") or ending == ".graph":
        from topologies.files.repetita import repetita_document

        return repetita_document(text)
    if ending in (".dot", ".gv") or _DOT.match(_DOT_COMMENT.sub("", start)):
        from topologies.files.dot import dot_document

        return dot_document(text)
    if ending == ".gml" or _GML.search(start):
        from topologies.files.gml import gml_document

        return gml_document(text, notes)
    plain = ending in ("", ".txt", *ENDINGS)
    raise TopologyError(
        f"{'it is in none of the formats' if plain else f'{ending} files are not read'}; {READ}"
    )
