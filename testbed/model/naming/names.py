"""The notation for nodes, pairs of nodes and links of a network in a line of text.

::

    node = an id as it is, or in double quotes as JSON writes it
    pair = node ":" node
    link = node "->" node ["#" key]  |  node "-" node
    list = item {"," item}

Spaces around nodes and separators are ignored. An id may contain any separator, so a text cannot be
split at separators. Instead, wherever a node may stand, every node of the network whose name stands
there is tried, and the text means the reading that uses all of it. If there are two readings, the
error shows both with quoted ids. A text with quoted ids alone has one reading. The label of a link
(``label_of``) always means that link.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
# Values that may stand at a position of a text, each with the position after it.
Found = Iterator[tuple[T, int]]

_SPACES = re.compile(r"\s*")
_KEY = re.compile(r"#([0-9]{1,9})")
_JSON = json.JSONDecoder(strict=False)
# Largest number of a node's neighbours that a message lists.
_MAX_LISTED = 40

# What a network may be given as, for messages.
_NETWORK_FORMS = (
    'a catalogue name such as "swiss-t1", a file, a Network, a networkx graph, a Mininet Topo, '
    "or a dictionary"
)


def read_node(text: str, network: Network) -> str:
    """Return the id of the node that a text names.

    Raises:
        InputError: There is no such node. The message names the most similar ones.
    """
    if text in network.node_index:
        return text
    readings = whole(text, nodes_at(text, 0, network))
    return one_of(readings, f"node {text!r}", quoted, partial(no_node, text, network))


def read_pair(text: str, network: Network, where: str) -> Pair:
    """Return the two nodes of ``A:B``.

    Args:
        text: The text.
        network: The network of the nodes.
        where: How errors begin.

    Raises:
        InputError: The text is not a pair of nodes.
    """
    readings = whole(text, pairs_at(text, 0, network))

    def why_none() -> str:
        return f"{where}: {_no_pair(text, network)}"

    return one_of(readings, f"{where} {text!r}", pair_text, why_none)


def read_pairs(text: str, network: Network, where: str) -> tuple[Pair, ...]:
    """Return the pairs of ``A:B,C:D``.

    Args:
        text: The text.
        network: The network of the nodes.
        where: How errors begin.

    Raises:
        InputError: The text is not a list of pairs of nodes.
    """
    readings = lists_of(text, lambda at: pairs_at(text, at, network))

    def why_none() -> str:
        for item in text.split(","):
            if not whole(item, pairs_at(item, 0, network)):
                return f"{where}: {_no_pair(item, network)}"
        return f"{where}: {_no_pair(text, network)}"

    return one_list_of(readings, f"{where} {text!r}", pair_text, why_none)


def read_link(text: str, network: Network) -> LinkId:
    """Return the link of ``a->b``, ``a->b#key`` or ``a-b``.

    Raises:
        InputError: There is no such link. The message names similar ones.

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
    return one_of(readings, f"link {text!r}", link_text, partial(no_link, text, network))


def pair_text(pair: Pair) -> str:
    """Return the text of a pair that has one reading in every network."""
    return f"{quoted(pair[0])}:{quoted(pair[1])}"


def link_text(link: LinkId) -> str:
    """Return the text of a link that has one reading in every network."""
    source, target, key = link
    text = f"{quoted(source)}->{quoted(target)}"
    return f"{text}#{key}" if key else text


def nodes_at(text: str, at: int, network: Network) -> Found[str]:
    """Yield every node at a position of a text, also after spaces.

    If a quoted id stands there, only its node is yielded.

    Args:
        text: The text.
        at: The position.
        network: The network of the nodes.

    Yields:
        The id of a node, and the position after it.
    """
    first = after(text, at, "") or 0
    if text.startswith('"', first):
        name = ""
        end = first
        # The quote may be a part of an id.
        with suppress(ValueError):
            name, end = _JSON.raw_decode(text, first)
        node = node_named(name, network)
        if node is not None:
            yield node, end
            return
    # An id may begin with spaces, so begin before each of them.
    for start in range(at, first + 1):
        for length in network.id_lengths:
            end = start + length
            if end > len(text):
                continue
            node = node_named(text[start:end], network)
            if node is not None:
                yield node, end


def node_named(text: str, network: Network) -> str | None:
    """Return the node with this id, or the only node with this name or label, or None."""
    if text in network.node_index:
        return text
    return network.node_of_name.get(text)


def pairs_at(text: str, at: int, network: Network) -> Found[Pair]:
    """Yield every ``A:B`` of two nodes at a position of a text, with the position after it."""
    for source, source_end in nodes_at(text, at, network):
        sink_start = after(text, source_end, ":")
        if sink_start is not None:
            for sink, sink_end in nodes_at(text, sink_start, network):
                yield (source, sink), sink_end


def links_at(text: str, at: int, network: Network) -> Found[LinkId]:
    """Yield every link at a position of a text, with the position after it.

    A link is ``a->b``, ``a->b#key`` or ``a-b`` of two nodes of the network. The network need not
    have the link.
    """
    for source, source_end in nodes_at(text, at, network):
        target_start = after(text, source_end, "->") or after(text, source_end, "-")
        if target_start is None:
            continue
        for target, target_end in nodes_at(text, target_start, network):
            yield (source, target, 0), target_end
            key = _KEY.match(text, target_end)
            if key:
                yield (source, target, int(key[1])), key.end()


def after(text: str, at: int, sign: str) -> int | None:
    """Return the position after a separator.

    Args:
        text: The text.
        at: Where the separator has to stand, or spaces before it.
        sign: The separator.

    Returns:
        None if the separator does not stand there.
    """
    spaces = _SPACES.match(text, at)
    start = spaces.end() if spaces else at
    return start + len(sign) if text.startswith(sign, start) else None


def whole(text: str, values: Iterable[tuple[T, int]]) -> list[T]:
    """Return the values that use all of a text, except for spaces at its end.

    Args:
        text: The text.
        values: Values, each with the position after it. A value may occur several times.
    """
    return list(dict.fromkeys(value for value, end in values if not text[end:].strip()))


def lists_of(
    text: str, items_at: Callable[[int], Iterable[tuple[T, int]]], sign: str = ","
) -> list[tuple[T, ...]]:
    """Return the readings of a complete text as a list of items.

    Two readings suffice to show that a text is ambiguous, so no more than two are searched for at
    each position.

    Args:
        text: The text.
        items_at: Returns the items that may stand at a position, each with the position after it.
        sign: The separator of items.

    Returns:
        No reading, one, or the first two.
    """
    # The lists that end before each position, with the separator.
    lists_before: dict[int, list[tuple[T, ...]]] = {0: [()]}
    complete: list[tuple[T, ...]] = []
    for at in range(len(text)):
        lists = lists_before.pop(at, [])
        if not lists:
            continue
        for item, end in items_at(at):
            next_start = after(text, end, sign)
            if not text[end:].strip():
                longer_lists = complete
            elif next_start is not None:
                longer_lists = lists_before.setdefault(next_start, [])
            else:
                continue
            _append_to_each(lists, item, longer_lists)
    return complete[:2]


def _append_to_each(
    lists: Sequence[tuple[T, ...]], item: T, longer_lists: list[tuple[T, ...]]
) -> None:
    """Add each list with one more item to the longer ones, unless there are two of these."""
    if len(longer_lists) >= 2:
        return
    for items in lists:
        if (*items, item) not in longer_lists:
            longer_lists.append((*items, item))


def one_of(
    readings: Sequence[T], where: str, write: Callable[[T], str], why_none: Callable[[], str]
) -> T:
    """Return the only reading of a text.

    Args:
        readings: The readings.
        where: How the error about two readings begins.
        write: Returns the text of a reading in the form that has one reading.
        why_none: Returns the message if there is no reading.

    Raises:
        InputError: There is no reading or more than one.
    """
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
    """Return the only reading of a text as a list.

    The arguments are those of ``one_of``. The error about two readings shows the first items in
    which they differ.
    """
    if len(readings) == 2:
        differences = [pair for pair in zip(*readings, strict=False) if pair[0] != pair[1]]
        one_of(differences[0], where, write, why_none)
    return one_of(readings, where, str, why_none)


def no_link(text: str, network: Network) -> str:
    """Return the message for a text that names no link of a network.

    It lists the links of the first node, or the most similar links.
    """
    message = f"link {text!r} is no link of {network.name!r}"
    if not network.links:
        return f"{message}; it has no links"
    ends = next(iter(whole(text, links_at(text, 0, network))), None)
    if ends is not None:
        labels = [network.links[i].label for i in network.out_links(ends[0])]
        listed = ", ".join(labels[:_MAX_LISTED]) or "no link"
        if len(labels) > _MAX_LISTED:
            listed += f" and {len(labels) - _MAX_LISTED} more"
        return f"{message}; from {ends[0]} there is {listed}"
    similar = difflib.get_close_matches(text, network.link_of_label, n=2)
    if similar:
        return f"{message}; did you mean {' or '.join(similar)}?"
    return f"{message}; write it a-b (or 'a->b', as testbed topology show --links lists them)"


def no_node(text: str, network: Network) -> str:
    """Return the message for a text that names no node, with the most similar ones."""
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
    if whole(source, nodes_at(source, 0, network)):
        return no_node(sink, network)
    return no_node(source, network)


def parse_captures(
    arguments: Sequence[str], network: Network, *, named: bool
) -> dict[LinkId, Path]:
    """Return the file for each captured link.

    Args:
        arguments: ``LINK=FILE`` of each ``--pcap``.
        network: The network of the links.
        named: Whether the file is required. If not, it may be omitted, and is named after the
            link.

    Raises:
        InputError: The form is wrong, or the link or the directory does not exist.
    """
    captures = {}
    for argument in arguments:
        end_of_link: dict[LinkId, int] = {}
        for link, end in links_at(argument, 0, network):
            if link in network.link_index and argument[end:].strip()[:1] in ("=", ""):
                end_of_link[link] = end
        why_none = partial(no_link, argument.partition("=")[0], network)
        link = one_of([*end_of_link], f"--pcap {argument!r}", link_text, why_none)
        link_name = argument[: end_of_link[link]]
        path = argument[end_of_link[link] :].strip()[1:]
        if named and not path:
            raise InputError(
                f"--pcap {argument!r}: write LINK=FILE, for example 's1->s2=link.pcap'"
            )
        default_path = re.sub(r"->|[^\w.-]", "-", link_name).strip("-") + ".pcap"
        file = Path(path or default_path)
        if not file.absolute().parent.is_dir():
            raise InputError(f"--pcap {argument!r}: there is no directory {file.absolute().parent}")
        captures[link] = file
    return captures


class GraphLike(Protocol):
    """A networkx graph of any class. A protocol avoids the import of networkx."""

    def is_directed(self) -> bool:
        """Return whether the edges are directed."""

    def is_multigraph(self) -> bool:
        """Return whether there may be parallel edges."""


#: The values that ``known_network`` accepts. It accepts Mininet's Topo too, which has no types.
NetworkLike = Network | str | PathLike[str] | Mapping[str, object] | GraphLike
#: A node in an argument: its id in the network, or the node of a networkx graph.
NodeName = str | int | tuple[Any, ...]


def known_node(node: NodeName, network: Network) -> str:
    """Return the id of a node, which is named by its id or label, or is a networkx node.

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
    key = link[2] if len(link) == 3 else 0
    ends = (str(node_name(link[0])), str(node_name(link[1])))
    # A key of another type is not in the index either.
    link_id: LinkId = (*ends, key)  # type: ignore[assignment]
    if link_id not in network.link_index:
        raise InputError(no_link(label_of(link_id), network))
    return network.links[network.link_index[link_id]].id


def known_network(network: NetworkLike) -> Network:
    """Return the network of a name, a file or a value.

    A Network is returned unchanged. A text is a name of the catalogue or a file, as for
    ``testbed topology``. A networkx graph, a Mininet Topo, a node-link document and other
    dictionaries are converted (``topologies.files.values``).

    Raises:
        TopologyError: The value does not describe a valid network.
        UsageError: The value is none of these.
    """
    if isinstance(network, Network):
        return network
    if isinstance(network, (str, PathLike)):
        return load_network(network)
    # Most callers do not need this module.
    from topologies.files.values import network_of

    converted = network_of(network)
    require_type(converted or network, Network, "network", _NETWORK_FORMS)
    assert converted is not None
    return converted


def has_own_rates(requested: NetworkLike, network: Network) -> bool:
    """Return whether the rates of a network's links were chosen by the user.

    The links of catalogue networks have a default rate. Every link of a file, a graph or a document
    has the rate in it, or the documented default.

    Args:
        requested: The network, as the user gave it.
        network: The same network as a value.
    """
    if isinstance(requested, str):
        in_catalogue = requested.partition(":")[0] in FAMILIES.builtin_names()
        if ".py:" in requested or (is_file(requested) and not in_catalogue):
            return True
    elif not isinstance(requested, Network):
        return True
    return any(link.capacity_bps != DEFAULT_CAPACITY_BPS for link in network.links)
