"""Networks of Graphviz' DOT language, as YATES and others write them: nodes, edges and their attributes; drawing is not
read.

Attributes are text. ``type=host`` or ``type=switch`` (YATES) is the kind of a node. Subgraphs are read as if their
borders were not there; an edge to a whole subgraph, and HTML text, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NoReturn

from topologies.errors import TopologyError
from topologies.files.gml import MAX_WORDS

_SKIPPED = r"/\*.*?\*/|//[^\n]*|#[^\n]*|\s+"
_TOKEN = re.compile(
    rf'(?P<skip>{_SKIPPED})|(?P<quoted>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<sign>->|--|[{{}}\[\];,=:+])'
    r"|(?P<word>(?<![\w.])-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w.])|\w[\w.]*)|(?P<wrong>.)",
    re.DOTALL,
)
Fields = dict[str, Any]
Token = tuple[str, str]
"""(kind: quoted, sign, word or end; text)"""


def dot_document(text: str) -> Fields:
    """The node-link document of a DOT text. Raises TopologyError, which names the line, for what is no DOT.

    >>> dot_document('graph g { a -- b [capacity="1Gbps"]; }')["links"]
    [{'capacity': '1Gbps', 'source': 'a', 'target': 'b'}]
    """
    return _Reader(text).document()


@dataclass
class _Reader:
    text: str
    place: int = 0
    nodes: dict[str, Fields] = field(default_factory=dict)
    links: list[Fields] = field(default_factory=list)
    graph: Fields = field(default_factory=dict)
    token: Token = ("end", "")
    operator: str = "--"

    def __post_init__(self) -> None:
        self.tokens = self._tokens()

    def document(self) -> Fields:
        self._next()
        if self.token[1].lower() == "strict":
            self._next()
        kind = self.token[1].lower()
        if kind not in ("graph", "digraph"):
            self._wrong("a DOT file begins with graph or digraph")
        self._next()
        self.operator = "->" if kind == "digraph" else "--"
        if self.token[0] in ("word", "quoted"):
            self.graph["name"] = self._name()
        self._body()
        nodes = [{**fields, "id": name} for name, fields in self.nodes.items()]
        for node in nodes:
            if node.get("type") in ("host", "switch"):
                node.setdefault("kind", node["type"])
        return {
            "directed": kind == "digraph",
            "multigraph": True,
            "graph": self.graph,
            "nodes": nodes,
            "links": self.links,
        }

    def _body(self) -> None:
        """From the first brace to the last; ``defaults`` of nodes and edges hold to the end of the braces that they
        stand in."""
        self._sign("{")
        defaults: list[dict[str, Fields]] = [{"node": {}, "edge": {}, "graph": {}}]
        while defaults:
            if self.token == ("sign", ";"):
                self._next()
            elif self.token == ("sign", "}"):
                defaults.pop()
                self._next()
                if defaults and self.token == ("sign", self.operator):
                    self._wrong("an edge of a whole subgraph is not read; write one a node")
            elif self.token == ("sign", "{"):
                defaults.append({kind: dict(fields) for kind, fields in defaults[-1].items()})
                self._next()
            else:
                self._statement(defaults[-1])
        if self.token[0] != "end":
            self._wrong("nothing may follow the last brace")

    def _statement(self, defaults: dict[str, Fields]) -> None:
        keyword = self.token[1].lower() if self.token[0] == "word" else ""
        name = self._name()
        if keyword == "subgraph":
            if self.token != ("sign", "{"):
                self._name()
        elif keyword in defaults and self.token == ("sign", "["):
            defaults[keyword] |= self._attributes()
        elif self.token == ("sign", "="):
            self._next()
            self.graph[name] = self._name()
        elif self.token == ("sign", self.operator):
            ends = [name]
            while self.token == ("sign", self.operator):
                self._next()
                if self.token == ("sign", "{") or self.token[1] == "subgraph":
                    self._wrong("an edge of a whole subgraph is not read; write one a node")
                ends.append(self._name())
            for end in ends:
                self.nodes.setdefault(end, dict(defaults["node"]))
            fields = defaults["edge"] | self._attributes()
            self.links += [fields | {"source": a, "target": b} for a, b in pairwise(ends)]
        else:
            self.nodes[name] = defaults["node"] | self.nodes.get(name, {}) | self._attributes()

    def _attributes(self) -> Fields:
        found: Fields = {}
        while self.token == ("sign", "["):
            self._next()
            while self.token != ("sign", "]"):
                name = self._name()
                found[name] = "true"
                if self.token == ("sign", "="):
                    self._next()
                    found[name] = self._name()
                if self.token in (("sign", ","), ("sign", ";")):
                    self._next()
            self._next()
        return found

    def _name(self) -> str:
        """An id, its port (``id:port``) left out; quoted texts may be joined by +."""
        if self.token[0] not in ("word", "quoted"):
            self._wrong("a name must stand here")
        quoted, name = self.token
        self._next()
        while quoted == "quoted" and self.token == ("sign", "+"):
            self._next()
            name += self._take("quoted")
        while self.token == ("sign", ":"):
            self._next()
            self._take("word")
        return name

    def _take(self, kind: str) -> str:
        found, word = self.token
        if found != kind:
            self._wrong("something is missing before this")
        self._next()
        return word

    def _sign(self, sign: str) -> None:
        if self.token != ("sign", sign):
            self._wrong(f"{sign} is missing before this")
        self._next()

    def _next(self) -> None:
        self.token = next(self.tokens)

    def _tokens(self) -> Iterator[Token]:
        for number, found in enumerate(_TOKEN.finditer(self.text)):
            self.place = found.start()
            if number == MAX_WORDS:
                self._wrong(f"more than {MAX_WORDS} words; make it smaller")
            kind, word = str(found.lastgroup), found[0]
            if kind == "quoted":
                yield kind, re.sub(r'\\("|\n)', lambda m: '"' if m[1] == '"' else "", word[1:-1])
            elif kind == "wrong":
                self.token = (kind, word)
                self._wrong("this sign has no meaning here")
            elif kind != "skip":
                yield kind, word
        self.place = len(self.text)
        while True:
            yield "end", ""

    def _wrong(self, what: str) -> NoReturn:
        line = self.text.count("\n", 0, self.place) + 1
        raise TopologyError(f"no DOT: line {line}, {self.token[1][:20] or 'the end'!r}: {what}")
