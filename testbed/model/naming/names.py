"""How one line of text says nodes, pairs of nodes and links of a network, whatever signs their names have.

::

    node = an id as it is, or in double quotes as JSON writes it
    pair = node ":" node
    link = node "->" node ["#" key]  |  node "-" node
    list = one {"," one}

Spaces around nodes and signs do not count. An id may hold every sign that stands between ids, so a text is not cut at
signs: wherever a node may stand, each node of the network that stands there is tried, and the text means the one
reading that takes in all of it. Where there are two, the error writes both in quotes; a text in which all ids are
quoted has one reading. A link's label (``label_of``) is always that link.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar

from testbed.errors import InputError, require_type
from testbed.model.json_values import is_file
from topologies import TopologyError, load_network
from topologies.catalog import FAMILIES
from topologies.network import (
    DEFAULT_CAPACITY_BPS,
    LinkId,
    Network,
    label_of,
    node_name,
    quoted,
)

T = TypeVar("T")
Pair = tuple[str, str]
Found = Iterator[tuple[T, int]]
"""What may stand at a place of a text, each with the place behind it."""

_SPACES = re.compile(r"\s*")
_KEY = re.compile(r"#([0-9]{1,9})")
_JSON = json.JSONDecoder(strict=False)
_LISTED = 40
"""So many neighbours of a node are listed in a message."""


def read_node(text: str, network: Network) -> str:
    """The node; InputError names the nearest ones where there is none."""
    if text in network.node_index:
        return text
    readings = whole(text, nodes_at(text, 0, network))
    return one_of(readings, f"node {text!r}", quoted, lambda: no_node(text, network))


def read_pair(text: str, network: Network, where: str) -> Pair:
    """The two nodes of ``A:B``. InputError, which begins with ``where``, for anything else."""
    readings = whole(text, pairs_at(text, 0, network))
    return one_of(
        readings, f"{where} {text!r}", pair_text, lambda: f"{where}: {_no_pair(text, network)}"
    )


def read_pairs(text: str, network: Network, where: str) -> tuple[Pair, ...]:
    """The pairs of ``A:B,C:D``. InputError, which begins with ``where``, for anything else."""
    readings = lists_of(text, lambda at: pairs_at(text, at, network))
    words = (word for word in text.split(",") if not whole(word, pairs_at(word, 0, network)))
    return one_list_of(
        readings,
        f"{where} {text!r}",
        pair_text,
        lambda: f"{where}: {_no_pair(next(words, text), network)}",
    )


def read_link(text: str, network: Network) -> LinkId:
    """The link of ``a->b``, ``a->b#key`` or ``a-b``; InputError says what there is instead.

    >>> from topologies import load_network
    >>> read_link(' "s1" -> s2', load_network("swiss-t1"))
    ('s1', 's2', 0)
    """
    labelled = network.link_of_label.get(text)
    if labelled is not None:
        return labelled
    readings = [
        link for link in whole(text, links_at(text, 0, network)) if link in network.link_index
    ]
    return one_of(readings, f"link {text!r}", link_text, lambda: no_link(text, network))


def pair_text(pair: Pair) -> str:
    """The pair in the form that has one reading in every network."""
    return f"{quoted(pair[0])}:{quoted(pair[1])}"


def link_text(link: LinkId) -> str:
    """The link in the form that has one reading in every network."""
    source, target, key = link
    return f"{quoted(source)}->{quoted(target)}" + (f"#{key}" if key else "")


def nodes_at(text: str, at: int, network: Network) -> Found[str]:
    """Every node that stands at the place, or behind spaces there; in quotes only that one."""
    first = after(text, at, "") or 0
    if text.startswith('"', first):
        try:
            name, end = _JSON.raw_decode(text, first)
        except ValueError:
            name, end = "", first
        node = node_named(name, network)
        if node is not None:
            yield node, end
            return
    for begin in range(at, first + 1):
        for end in (begin + length for length in network.id_lengths):
            if end <= len(text):
                node = node_named(text[begin:end], network)
                if node is not None:
                    yield node, end


def node_named(text: str, network: Network) -> str | None:
    """Return the node of that id, or else of that name or label if one node alone has it."""
    return text if text in network.node_index else network.node_of_name.get(text)


def pairs_at(text: str, at: int, network: Network) -> Found[Pair]:
    """Every ``A:B`` of two nodes that stands at the place."""
    for source, end in nodes_at(text, at, network):
        behind = after(text, end, ":")
        if behind is not None:
            for sink, stop in nodes_at(text, behind, network):
                yield (source, sink), stop


def links_at(text: str, at: int, network: Network) -> Found[LinkId]:
    """Every ``a->b``, ``a->b#key`` or ``a-b`` of two nodes at the place, whether or not there is such a link."""
    for source, end in nodes_at(text, at, network):
        behind = after(text, end, "->") or after(text, end, "-")
        for target, stop in nodes_at(text, behind, network) if behind is not None else ():
            yield (source, target, 0), stop
            key = _KEY.match(text, stop)
            if key:
                yield (source, target, int(key[1])), key.end()


def after(text: str, at: int, sign: str) -> int | None:
    """The place behind the sign, where it stands at the place or behind spaces there."""
    spaces = _SPACES.match(text, at)
    begin = spaces.end() if spaces else at
    return begin + len(sign) if text.startswith(sign, begin) else None


def whole(text: str, found: Iterable[tuple[T, int]]) -> list[T]:
    """What takes in all of the text, but for spaces at its end; each once."""
    return list(dict.fromkeys(value for value, end in found if not text[end:].strip()))


def lists_of(
    text: str, items_at: Callable[[int], Iterable[tuple[T, int]]], sign: str = ","
) -> list[tuple[T, ...]]:
    """The readings of all of the text as a list with the sign between: none, one or the first two."""
    reached: dict[int, list[tuple[T, ...]]] = {0: [()]}
    complete: list[tuple[T, ...]] = []
    for at in range(len(text)):
        before = reached.pop(at, [])
        for value, end in items_at(at) if before else ():
            behind = after(text, end, sign)
            grown = (
                complete
                if not text[end:].strip()
                else None
                if behind is None
                else reached.setdefault(behind, [])
            )
            for some in before if grown is not None and len(grown) < 2 else ():
                if grown is not None and (*some, value) not in grown:
                    grown.append((*some, value))
    return complete[:2]


def one_of(
    readings: Sequence[T], where: str, write: Callable[[T], str], why_none: Callable[[], str]
) -> T:
    """The only reading; InputError where there is none, by ``why_none``, or two, as ``write`` writes them."""
    if len(readings) == 1:
        return readings[0]
    if not readings:
        raise InputError(why_none())
    raise InputError(
        f"{where} can be read in two ways; write {write(readings[0])} or {write(readings[1])}"
    )


def one_list_of(
    readings: Sequence[tuple[T, ...]],
    where: str,
    write: Callable[[T], str],
    why_none: Callable[[], str],
) -> tuple[T, ...]:
    """As ``one_of``, of lists: what is written is where the two part."""
    if len(readings) == 2:
        parting = [pair for pair in zip(*readings, strict=False) if pair[0] != pair[1]]
        one_of(parting[0], where, write, why_none)
    return one_of(readings, where, str, why_none)


def no_link(text: str, network: Network) -> str:
    """One line for a text that names no link: what its first node is joined to, or the nearest links."""
    said = f"link {text!r} is no link of {network.name!r}"
    if not network.links:
        return f"{said}; it has no links"
    ends = next(iter(whole(text, links_at(text, 0, network))), None)
    if ends is not None:
        others = [network.links[i].label for i in network.out_links(ends[0])]
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        return f"{said}; from {ends[0]} there is {', '.join(others[:_LISTED]) or 'no link'}{more}"
    near = difflib.get_close_matches(text, network.link_of_label, n=2)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "write it a-b (or 'a->b', as testbed topology show --links lists them)"
    )
    return f"{said}; {hint}"


def no_node(text: str, network: Network) -> str:
    """One line for a text that names no node: the nearest ones."""
    try:
        return f"network {network.name!r} has the node {network.node(text.strip()).id!r}"
    except TopologyError as error:
        return str(error)


def _no_pair(text: str, network: Network) -> str:
    source, _, sink = text.partition(":")
    if not source.strip() or not sink.strip():
        return f"{text[:24]!r}: write A:B, the node where it starts and the node where it ends"
    if ":" in sink:
        return (
            f"{text[:80]!r}: no two nodes of {network.name!r} with a colon between; "
            "testbed topology show --nodes lists them"
        )
    return no_node(sink if whole(source, nodes_at(source, 0, network)) else source, network)


def parse_captures(words: Sequence[str], network: Network, *, named: bool) -> dict[LinkId, Path]:
    """``LINK=FILE`` of each --pcap; without ``named`` the file may be left out, and is named after the link.

    Raises InputError for another form, a link that is not there, and a directory that is not there.
    """
    captures = {}
    for word in words:
        readings = {
            link: end
            for link, end in links_at(word, 0, network)
            if link in network.link_index and word[end:].strip()[:1] in ("=", "")
        }
        why_none = partial(no_link, word.partition("=")[0], network)
        link = one_of([*readings], f"--pcap {word!r}", link_text, why_none)
        written, path = word[: readings[link]], word[readings[link] :].strip()[1:]
        if named and not path:
            raise InputError(f"--pcap {word!r}: write LINK=FILE, for example 's1->s2=link.pcap'")
        file = Path(path or re.sub(r"->|[^\w.-]", "-", written).strip("-") + ".pcap")
        if not file.absolute().parent.is_dir():
            raise InputError(f"--pcap {word!r}: there is no directory {file.absolute().parent}")
        captures[link] = file
    return captures


class GraphLike(Protocol):
    """A networkx graph of any class, whose package is not imported for its type."""

    def is_directed(self) -> bool: ...

    def is_multigraph(self) -> bool: ...


#: What ``known_network`` takes. Mininet's Topo has no types, so it is no part of this.
NetworkLike = Network | str | PathLike[str] | Mapping[str, object] | GraphLike
#: A node as a caller names it: the id in the network, or the node of the networkx graph.
NodeName = str | int | tuple[Any, ...]


def known_node(node: NodeName, network: Network) -> str:
    """Return the id of a node that a caller names by its id or label, or as a networkx node.

    Raises:
        UsageError: The value is neither text nor a node of a networkx graph.
    """
    name = node if isinstance(node, str) else node_name(node)
    if not isinstance(name, str):
        require_type(node, str, "node", "the id of a node, which is text")
    return node_named(str(name), network) or str(name)


def known_link(link: str | Sequence[Any], network: Network) -> LinkId:
    """Return the link of a name such as ``a->b``, or of a pair of nodes with or without a key.

    Raises:
        InputError: The network has no such link.
    """
    if isinstance(link, str):
        return read_link(link, network)
    require_type(link, (tuple, list), "link", 'a text such as "s1->s2"')
    if len(link) not in (2, 3) or not isinstance(node_name(link[0]), str):
        raise InputError(f"link {link!r}: give its nodes, such as ('s1', 's2')")
    ends = str(node_name(link[0])), str(node_name(link[1]))
    link_id: LinkId = (*ends, *link[2:]) if len(link) == 3 else (*ends, 0)  # type: ignore[assignment]
    if link_id not in network.link_index:
        raise InputError(no_link(label_of(link_id), network))
    return network.links[network.link_index[link_id]].id


def known_network(network: NetworkLike) -> Network:
    """The network of what ``testbed topology`` takes for one (a name of the catalogue, a file), or of a value.

    A network is returned as it is; a networkx graph, a Mininet Topo, a node-link document and other dictionaries are
    read (``topologies.files.values``).

    Raises TopologyError for what makes no network, UsageError for what is none of these.
    """
    if isinstance(network, Network):
        return network
    if isinstance(network, (str, PathLike)):
        return load_network(network)
    from topologies.files.values import network_of

    found = network_of(network)
    require_type(found or network, Network, "network", _TAKEN)
    assert found is not None
    return found


def has_own_rates(requested: NetworkLike, network: Network) -> bool:
    """Return whether the rates of the network's links are more than a default.

    The links of catalogue networks have a default rate, which nobody chose. Every link of a file,
    a graph or a document has the rate that is given there, or the documented default.

    Args:
        requested: The network, as the user gave it.
        network: The same network, read.
    """
    if isinstance(requested, str):
        of_catalogue = requested.partition(":")[0] in FAMILIES.builtin_names()
        if ".py:" in requested or (is_file(requested) and not of_catalogue):
            return True
    elif not isinstance(requested, Network):
        return True
    return any(link.capacity_bps != DEFAULT_CAPACITY_BPS for link in network.links)


_TAKEN = 'a catalogue name such as "swiss-t1", a file, a Network, a networkx graph, a Mininet Topo, or a dictionary'
