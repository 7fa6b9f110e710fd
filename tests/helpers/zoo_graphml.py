"""GraphML as the Topology Zoo writes it, in both its forms: the archive's and the sources', which an editor (yEd)
wrote."""

from __future__ import annotations

import random
from xml.sax.saxutils import escape, quoteattr

GRAPH = (
    "Network", "GeoExtent", "GeoLocation", "DateObtained", "Access", "Source", "Version", "Note", "Developed",
    "Provenance", "NetworkDate", "Creator", "Classification", "Backbone", "Layer", "Commercial", "Testbed", "Transit",
    "IX", "Customer", "DateYear", "DateMonth", "DateModifier", "DateType", "LastAccess", "Toolset", "ToolsetVersion",
    "UserAgent", "Type", "timestamp", "label", "LastProcessed",
)  # fmt: skip
NODE = {
    "Country": "string", "Internal": "int", "Latitude": "double", "Longitude": "double", "Type": "string",
    "hyperedge": "int", "label": "string", "id": "int", "asn": "int", "GeocodeCountry": "string", "doubled": "boolean",
    "timestamp": "string",
}  # fmt: skip
EDGE = {
    "LinkLabel": "string", "LinkNote": "string", "LinkSpeed": "string", "LinkSpeedUnits": "string",
    "LinkSpeedRaw": "double", "LinkType": "string", "id": "string", "key": "int", "zorder": "int", "Network": "string",
}  # fmt: skip
CITIES = ("None", "None", "Zürich", "São Paulo", "New York", "Genève", "A & B <1>", "")
SPEEDS = (155.52e6, 622.08e6, 2.5e9, 1e10, 45e6)


def zoo_graphml(seed: int, *, editor: bool = False, encoding: str = "utf-8") -> bytes:
    """A file of 2 to 12 nodes with doubled labels, a self loop, parallel links and a random part of all keys."""
    draw = random.Random(seed)
    count = draw.randint(2, 12)
    names = [f"n{i}" if editor else str(i) for i in range(count)]
    ends = [draw.sample(names, 2) for _ in range(2 * count)]
    ends += [ends[0], ends[0][::-1], [names[0], names[0]]]
    entries = "".join(_node(draw, name, editor) for name in names)
    entries += "".join(_edge(draw, i, *pair, editor=editor) for i, pair in enumerate(ends))
    graph = "".join(
        f'<data key="g{i}">{draw.choice(CITIES[2:5])}</data>'
        for i in range(len(GRAPH))
        if draw.random() < 0.7
    )
    text = (
        f'<?xml version="1.0" encoding="{encoding}" standalone="no"?>\n<graphml '
        'xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">\n'
        f'{_keys(editor)}<graph edgedefault="undirected" id="G">{graph}\n{entries}</graph>'
        + ('<data key="r"><y:Resources/></data>' if editor else "")
        + "</graphml>\n"
    )  # fmt: skip
    return text.encode(encoding)


def _keys(editor: bool) -> str:
    found = [
        f'<key attr.name="{name}" attr.type="string" for="graph" id="g{i}"/>'
        for i, name in enumerate(GRAPH)
    ]
    for scope, names in (("node", NODE), ("edge", EDGE)):
        inside = "<default/>" if editor else ""
        found += [
            f'<key attr.name="{name}" attr.type="{kind}" for="{scope}" id="{scope[0]}{i}">{inside}</key>'
            for i, (name, kind) in enumerate(names.items())
        ]
    if editor:
        found += [
            f'<key for="{scope}" id="{name}" yfiles.type="{kind}"/>'
            for scope, name, kind in (
                ("node", "ng", "nodegraphics"), ("edge", "eg", "edgegraphics"), ("graphml", "r", "resources"),
            )
        ]  # fmt: skip
    return "\n".join(found) + "\n"


def _value(draw: random.Random, name: str, kind: str) -> str:
    if name == "LinkSpeedRaw":
        return repr(draw.choice(SPEEDS))
    if kind == "double":
        return repr(draw.uniform(-90, 90))
    if kind == "boolean":
        return draw.choice(("true", "false"))
    return str(draw.randint(0, 99)) if kind == "int" else escape(draw.choice(CITIES))


def _data(draw: random.Random, scope: str, names: dict[str, str]) -> str:
    return "".join(
        f'<data key="{scope}{i}">{_value(draw, name, kind)}</data>'
        for i, (name, kind) in enumerate(names.items())
        if draw.random() < 0.6 and name not in ("id", "key")
    )


def _node(draw: random.Random, name: str, editor: bool) -> str:
    drawing = f'<data key="ng"><y:ShapeNode><y:NodeLabel>{escape(draw.choice(CITIES))}</y:NodeLabel></y:ShapeNode></data>'
    return (
        f"<node id={quoteattr(name)}>{_data(draw, 'n', NODE)}{drawing if editor else ''}</node>\n"
    )


def _edge(draw: random.Random, number: int, source: str, target: str, *, editor: bool) -> str:
    drawing = (
        '<data key="eg"><y:PolyLineEdge><y:Path sx="0.0"/></y:PolyLineEdge></data>'
        if editor
        else ""
    )
    return f'<edge id="e{number}" source="{source}" target="{target}">{_data(draw, "e", EDGE)}{drawing}</edge>\n'
