"""Reads the DOT language of Graphviz, as YATES and others write it: nodes, edges and attributes.

All attributes are text, HTML included; drawing attributes have no effect. ``type=host`` or
``type=switch`` (YATES) is the kind of a node. Subgraphs are read as if their braces were not there;
an edge to a subgraph is an edge to each of its nodes. In a ``strict`` graph, all edges between two
nodes are one edge, which has the attributes of all of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import NoReturn

from topologies.errors import TopologyError
from topologies.files.gml import MAX_WORDS
from topologies.text.json_types import JsonObject

# Comments and white space.
_SKIPPED = r"/\*.*?\*/|//[^\n]*|#[^\n]*|\s+"
_TOKEN = re.compile(
    rf'(?P<skip>{_SKIPPED})|(?P<quoted>"[^"\\]*(?:\\.[^"\\]*)*")'
    r"|(?P<html><(?:[^<>]|<[^<>]*>)*>)|(?P<sign>->|--|[{}\[\];,=:+])"
    r"|(?P<word>(?<![\w.])-?(?:\.\d+|\d+(?:\.\d*)?)(?![\w.])|\w[\w.]*)|(?P<wrong>.)",
    re.DOTALL,
)
# The two escapes of quoted text: a quote, and a line that continues on the next one.
_ESCAPE = re.compile(r'\\("|\n)')
Fields = JsonObject
# The kind of a token ("quoted", "html", "sign", "word" or "end"), and its text.
Token = tuple[str, str]
# The kinds of tokens that can be an id.
_NAMES = ("quoted", "html", "word")
# Maximum depth of subgraphs in subgraphs; drawings of networks have three levels.
_MAX_DEPTH = 50


def dot_document(text: str) -> Fields:
    """Return the node-link document of a DOT file.

    Raises:
        TopologyError: The file is not DOT. The message has the number of the line.

    >>> dot_document('graph g { a -- b [capacity="1Gbps"]; }')["links"]
    [{'capacity': '1Gbps', 'source': 'a', 'target': 'b'}]
    """
    return _Parser(text).parse()


@dataclass
class _Parser:
    """A recursive-descent parser of DOT.

    Attributes:
        text: The content of the file.
        position: Position in the text of the current token, for messages.
        nodes: The attributes of each node.
        links: The entries of the edges.
        graph: The attributes of the graph.
        token: The current token.
        operator: The sign of an edge: ``->`` in directed graphs, else ``--``.
    """

    text: str
    position: int = 0
    nodes: dict[str, Fields] = field(default_factory=dict)
    links: list[Fields] = field(default_factory=list)
    graph: Fields = field(default_factory=dict)
    token: Token = ("end", "")
    operator: str = "--"

    def __post_init__(self) -> None:
        self.tokens = self._tokens()

    def parse(self) -> Fields:
        """Return the node-link document."""
        self._next()
        is_strict = self._accept_keyword("strict")
        kind = self.token[1].lower()
        if kind not in ("graph", "digraph"):
            self._fail("a DOT file begins with graph or digraph")
        self._next()
        is_directed = kind == "digraph"
        self.operator = "->" if is_directed else "--"
        if self.token[0] in _NAMES:
            self.graph["name"] = self._parse_name()
        self._parse_group({"node": {}, "edge": {}, "graph": {}})
        if self.token[0] != "end":
            self._fail("nothing may follow the last brace")
        nodes = [{**fields, "id": name} for name, fields in self.nodes.items()]
        links = self._merged_links(is_directed) if is_strict else self.links
        return {
            "directed": is_directed,
            "multigraph": True,
            "graph": self.graph,
            "nodes": nodes,
            "links": links,
        }

    def _merged_links(self, is_directed: bool) -> list[Fields]:
        """Return the links of a strict graph: one for each pair of nodes.

        It has the attributes of all edges between the two. Of attributes with the same name, the
        last one in the file counts.
        """
        merged: dict[tuple[str, ...], Fields] = {}
        for link in self.links:
            ends = (link["source"], link["target"])
            pair = ends if is_directed else tuple(sorted(ends))
            fields = merged.setdefault(pair, {})
            # The direction is that of the first edge.
            source = fields.get("source", ends[0])
            target = fields.get("target", ends[1])
            fields |= link | {"source": source, "target": target}
        return list(merged.values())

    def _parse_group(self, outer_defaults: dict[str, Fields], depth: int = 0) -> list[str]:
        """Parse the statements between two braces.

        Args:
            outer_defaults: The default attributes of nodes and edges before the first brace.
            depth: Number of groups around this one.

        Returns:
            The nodes that are named between the braces.
        """
        # Defaults that are set between the braces end with them.
        defaults = {kind: dict(fields) for kind, fields in outer_defaults.items()}
        if depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} nested subgraphs; write fewer")
        if not self._accept_sign("{"):
            self._fail("{ is missing before this")
        members: dict[str, None] = {}
        while not self._accept_sign("}"):
            if not self._accept_sign(";"):
                members |= dict.fromkeys(self._parse_statement(defaults, depth))
        return list(members)

    def _parse_statement(self, defaults: dict[str, Fields], depth: int) -> list[str]:
        """Parse one statement, and return the nodes that it names."""
        keyword = self.token[1].lower() if self.token[0] == "word" else ""
        is_group = keyword == "subgraph" or self.token == ("sign", "{")
        ends = [self._parse_end(defaults, depth)]
        if keyword in defaults and self.token == ("sign", "["):
            defaults[keyword] |= self._parse_attributes()
            return []
        if not is_group and self._accept_sign("="):
            self.graph[ends[0][0]] = self._parse_name()
            return []
        self._add_nodes(ends[0], defaults)
        while self._accept_sign(self.operator):
            ends.append(self._parse_end(defaults, depth))
            self._add_nodes(ends[-1], defaults)
        fields = self._parse_attributes()
        if len(ends) == 1 and not is_group:
            self.nodes[ends[0][0]] |= fields
        for sources, targets in pairwise(ends):
            if len(self.links) + len(sources) * len(targets) > MAX_WORDS:
                self._fail(f"more than {MAX_WORDS} edges; make it smaller")
            for source, target in product(sources, targets):
                link_ends = {"source": source, "target": target}
                self.links.append(defaults["edge"] | fields | link_ends)
        named: list[str] = []
        for end in ends:
            named += end
        return named

    def _add_nodes(self, names: list[str], defaults: dict[str, Fields]) -> None:
        for name in names:
            self.nodes.setdefault(name, dict(defaults["node"]))

    def _parse_end(self, defaults: dict[str, Fields], depth: int) -> list[str]:
        """Parse one end of an edge, and return its node, or the nodes of its subgraph."""
        if self._accept_keyword("subgraph"):
            if self.token[0] in _NAMES:
                self._parse_name()
        elif self.token != ("sign", "{"):
            return [self._parse_name()]
        return self._parse_group(defaults, depth + 1)

    def _parse_attributes(self) -> Fields:
        """Parse the lists of attributes in brackets that come next, if there are any."""
        attributes: Fields = {}
        while self._accept_sign("["):
            while not self._accept_sign("]"):
                name = self._parse_name()
                attributes[name] = "true"
                if self._accept_sign("="):
                    attributes[name] = self._parse_name()
                # Attributes may be separated by a comma, a semicolon or nothing.
                if not self._accept_sign(","):
                    self._accept_sign(";")
        return attributes

    def _parse_name(self) -> str:
        """Parse an id, which may be quoted texts with + between them; its port is ignored."""
        is_quoted = self.token[0] == "quoted"
        name = self._parse_text(_NAMES, "a name")
        while is_quoted and self._accept_sign("+"):
            name += self._parse_text(("quoted",), "quoted text")
        while self._accept_sign(":"):
            self._parse_text(_NAMES, "the name of a port")
        return name

    def _parse_text(self, kinds: tuple[str, ...], expected: str) -> str:
        """Consume a token of one of the kinds, and return its text.

        Args:
            kinds: The kinds that are accepted.
            expected: What must come next, for the message.
        """
        kind, text = self.token
        if kind not in kinds:
            self._fail(f"{expected} must stand here")
        self._next()
        return text

    def _accept_sign(self, sign: str) -> bool:
        """Consume the sign if it comes next, and return whether it did."""
        is_next = self.token == ("sign", sign)
        if is_next:
            self._next()
        return is_next

    def _accept_keyword(self, keyword: str) -> bool:
        """Consume the keyword if it comes next, and return whether it did."""
        is_next = self.token[0] == "word" and self.token[1].lower() == keyword
        if is_next:
            self._next()
        return is_next

    def _next(self) -> None:
        self.token = next(self.tokens)

    def _tokens(self) -> Iterator[Token]:
        """Yield the tokens of the text, and then ``("end", "")`` for ever."""
        for number, match in enumerate(_TOKEN.finditer(self.text)):
            self.position = match.start()
            if number == MAX_WORDS:
                self._fail(f"more than {MAX_WORDS} words; make it smaller")
            kind = str(match.lastgroup)
            text = match[0]
            if kind == "quoted":
                # \" is a quote; a backslash before the end of a line joins two lines.
                yield kind, _ESCAPE.sub(lambda escape: escape[1].strip(), text[1:-1])
            elif kind == "html":
                yield kind, text[1:-1]
            elif kind == "wrong":
                self.token = (kind, text)
                self._fail("this character is unexpected")
            elif kind != "skip":
                yield kind, text
        self.position = len(self.text)
        while True:
            yield "end", ""

    def _fail(self, problem: str) -> NoReturn:
        line = self.text.count("\n", 0, self.position) + 1
        token = self.token[1][:20] or "the end"
        raise TopologyError(f"no DOT: line {line}, {token!r}: {problem}")
