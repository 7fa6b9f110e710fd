"""Networks of Graphviz' DOT language, as YATES and others write them: nodes, edges and their attributes; drawing is not
read.

Attributes are text, HTML too. ``type=host`` or ``type=switch`` (YATES) is the kind of a node. Subgraphs are read as if
their borders were not there; an edge of a whole subgraph is one of each of its nodes. ``strict``: a pair of nodes has
one edge, with the attributes of all.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NoReturn

from topologies.errors import TopologyError
from topologies.files.gml import MAX_WORDS
from topologies.text.json_types import JsonObject

_SKIPPED = r"/\*.*?\*/|//[^\n]*|#[^\n]*|\s+"
_TOKEN = re.compile(
    rf'(?P<skip>{_SKIPPED})|(?P<quoted>"[^"\\]*(?:\\.[^"\\]*)*")'
    r"|(?P<html><(?:[^<>]|<[^<>]*>)*>)|(?P<sign>->|--|[{}\[\];,=:+])"
    r"|(?P<word>(?<![\w.])-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w.])|\w[\w.]*)|(?P<wrong>.)",
    re.DOTALL,
)
Fields = JsonObject
Token = tuple[str, str]
"""(kind: quoted, html, sign, word or end; text)"""
_NAMES = ("quoted", "html", "word")
_DEPTH = 50
"""Subgraphs in subgraphs; drawings of networks have three."""


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
        strict = self._keyword("strict")
        kind = self.token[1].lower()
        if kind not in ("graph", "digraph"):
            self._wrong("a DOT file begins with graph or digraph")
        self._next()
        self.operator = "->" if kind == "digraph" else "--"
        if self.token[0] in _NAMES:
            self.graph["name"] = self._name()
        self._group({"node": {}, "edge": {}, "graph": {}})
        if self.token[0] != "end":
            self._wrong("nothing may follow the last brace")
        nodes = [{**fields, "id": name} for name, fields in self.nodes.items()]
        return {
            "directed": kind == "digraph",
            "multigraph": True,
            "graph": self.graph,
            "nodes": nodes,
            "links": self._merged(kind == "digraph") if strict else self.links,
        }

    def _merged(self, directed: bool) -> list[Fields]:
        """One link of each pair of nodes, with the attributes of all."""
        found: dict[tuple[str, ...], Fields] = {}
        for link in self.links:
            ends = (link["source"], link["target"])
            first = found.setdefault(ends if directed else tuple(sorted(ends)), {})
            first |= link | {
                "source": first.get("source", ends[0]),
                "target": first.get("target", ends[1]),
            }
        return list(found.values())

    def _group(self, outer: dict[str, Fields], depth: int = 0) -> list[str]:
        """From one brace to its other: the nodes that are named between them. ``outer``: attributes of nodes and edges
        by default, where the braces begin."""
        defaults = {kind: dict(fields) for kind, fields in outer.items()}
        if depth > _DEPTH:
            self._wrong(f"more than {_DEPTH} subgraphs in each other; write fewer")
        if not self._sign("{"):
            self._wrong("{ is missing before this")
        members: dict[str, None] = {}
        while not self._sign("}"):
            if not self._sign(";"):
                members |= dict.fromkeys(self._statement(defaults, depth))
        return list(members)

    def _statement(self, defaults: dict[str, Fields], depth: int) -> list[str]:
        """The nodes that one statement names."""
        keyword = self.token[1].lower() if self.token[0] == "word" else ""
        grouped = keyword == "subgraph" or self.token == ("sign", "{")
        ends = [self._end(defaults, depth)]
        if keyword in defaults and self.token == ("sign", "["):
            defaults[keyword] |= self._attributes()
            return []
        if not grouped and self._sign("="):
            self.graph[ends[0][0]] = self._name()
            return []
        while True:
            for name in ends[-1]:
                self.nodes.setdefault(name, dict(defaults["node"]))
            if not self._sign(self.operator):
                break
            ends.append(self._end(defaults, depth))
        named = [name for end in ends for name in end]
        fields = self._attributes()
        if len(ends) == 1 and not grouped:
            self.nodes[named[0]] |= fields
        if (
            len(self.links) + sum(len(one) * len(other) for one, other in pairwise(ends))
            > MAX_WORDS
        ):
            self._wrong(f"more than {MAX_WORDS} edges; make it smaller")
        for one, other in pairwise(ends):
            self.links += [
                defaults["edge"] | fields | {"source": a, "target": b}
                for a, b in product(one, other)
            ]
        return named

    def _end(self, defaults: dict[str, Fields], depth: int) -> list[str]:
        """The node, or the nodes of the subgraph, that stands here."""
        if self._keyword("subgraph"):
            if self.token[0] in _NAMES:
                self._name()
        elif self.token != ("sign", "{"):
            return [self._name()]
        return self._group(defaults, depth + 1)

    def _attributes(self) -> Fields:
        found: Fields = {}
        while self._sign("["):
            while not self._sign("]"):
                name = self._name()
                found[name] = self._name() if self._sign("=") else "true"
                _ = self._sign(",") or self._sign(";")
        return found

    def _name(self) -> str:
        """An id, its port (``id:port``) left out; quoted texts may be joined by +."""
        quoted = self.token[0] == "quoted"
        name = self._text(_NAMES, "a name")
        while quoted and self._sign("+"):
            name += self._text(("quoted",), "quoted text")
        while self._sign(":"):
            self._text(_NAMES, "the name of a port")
        return name

    def _text(self, kinds: tuple[str, ...], what: str) -> str:
        """The text of the token, which must be of one of the kinds."""
        kind, text = self.token
        if kind not in kinds:
            self._wrong(f"{what} must stand here")
        self._next()
        return text

    def _sign(self, sign: str) -> bool:
        """Whether that sign stood here."""
        return self._stood(self.token == ("sign", sign))

    def _keyword(self, word: str) -> bool:
        """Whether that word stood here."""
        return self._stood(self.token[0] == "word" and self.token[1].lower() == word)

    def _stood(self, here: bool) -> bool:
        if here:
            self._next()
        return here

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
            elif kind == "html":
                yield kind, word[1:-1]
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
