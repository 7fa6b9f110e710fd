"""Splits lines of the prompt into words, which may be quoted as in a shell."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from testbed.errors import InputError
from testbed.faults.grammar import standing_fault
from testbed.faults.link_settings import parse_settings
from testbed.model.naming.names import Found, link_text, links_at, lists_of, one_list_of, one_of
from topologies import Json, Link, LinkId, Network, Node, label_of

# A word: characters, escaped characters, and quoted parts.
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")
_NUMBER = re.compile(r"\d+(\.\d+)?")

# A word that a shell reads alike with and without quotes.
_NEEDS_NO_QUOTES = re.compile(r"[\w.:@%+=/~^-]+")

_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


def first_word(line: str) -> tuple[str, str]:
    """Return the first word as it is written, with its quotes, and the rest of the line.

    >>> first_word("'New York' ping h1")
    ("'New York'", 'ping h1')

    Raises:
        InputError: A quote does not end.
    """
    line = line.strip()
    match = _WORD.match(line)
    end = match.end() if match else 0
    if match is None or (end < len(line) and not line[end].isspace()):
        raise InputError(f"{line}: a quote that does not end")
    return match[0], line[end:].lstrip()


class Words(str):
    """The rest of a line after a command, for Mininet's methods, which call ``split``.

    >>> Words("'New York' h1 down # until noon").split()
    ['New York', 'h1', 'down']
    """

    def split(self, *_: object) -> list[str]:  # type: ignore[override]
        """Return the words without their quotes, up to a comment."""
        unquoted = []
        remaining = str(self).lstrip()
        while remaining and not remaining.startswith("#"):
            word, remaining = first_word(remaining)
            unquoted += shlex.split(word)
        return unquoted


def with_addresses(command: str, addresses: Mapping[str, str]) -> str:
    """Replace the names of hosts in a command by their addresses, as Mininet does.

    A name is not replaced if it has quotes that it does not need, or if it is a number: most
    programs take a number for a count or a time.

    >>> addresses = {"New York": "10.0.0.2", "h1": "10.0.0.3"}
    >>> with_addresses("ping h1 && ping 'New York' && echo 'h1'", addresses)
    "ping 10.0.0.3 && ping 10.0.0.2 && echo 'h1'"
    >>> with_addresses("sleep 2", {"2": "10.0.0.2"})
    'sleep 2'

    Args:
        command: The command.
        addresses: Name of a host -> its address.
    """

    def address_or_word(match: re.Match[str]) -> str:
        word = match[0]
        # A word that the shell cannot read stays as it is.
        with suppress(ValueError):
            name = "".join(shlex.split(word))
            needless_quotes = name != word and _NEEDS_NO_QUOTES.fullmatch(name)
            if name in addresses and not needless_quotes and not _NUMBER.fullmatch(name):
                return addresses[name]
        return word

    return _WORD.sub(address_or_word, command)


def described_network(described: Json) -> Network:
    """Return the nodes and links of a description, without capacities.

    Args:
        described: The description (``testbed.model.wiring.wiring_document``) with its cables.
    """
    links = []
    # A dictionary preserves the order of the nodes.
    nodes: dict[str, None] = {}
    for source, target, key in described["links"]:
        links.append(Link(source=source, target=target, key=key))
        nodes[source] = None
        nodes[target] = None
    return Network(
        name=described["network"],
        nodes=tuple(Node(id=node, kind="switch") for node in nodes),
        links=tuple(links),
    )


def first_link(
    line: str, network: Network, fits: Callable[[LinkId, Sequence[str]], bool]
) -> tuple[str, list[str]]:
    """Return the link with which a line begins, and the words after it, up to a comment.

    Names of nodes may contain spaces, so that a line may be read in several ways. The reading that
    fits is chosen.

    Args:
        line: The line.
        network: The network with the link.
        fits: Returns whether the words may follow the link.

    Raises:
        InputError: Two readings fit.
    """
    readings: list[tuple[LinkId, list[str]]] = []
    for link, end in _links_before_space(line, network, 0):
        # The line cannot be read in this way if it ends the link within a quote.
        with suppress(InputError):
            readings.append((link, Words(line[end:]).split()))
    fitting = [(link, words) for link, words in readings if fits(link, words)]
    if not fitting:
        # Without a reading that fits, the caller reports what is wrong with the last one.
        fitting = readings[-1:]
    if not fitting:
        first, *remaining = Words(line).split() or [""]
        return first, remaining
    link = one_of([link for link, _ in fitting], f"link {line!r}", link_text, str)
    return label_of(link), dict(fitting)[link]


def links_of_line(line: str, network: Network) -> list[str]:
    """Return the links in a line of links only.

    Args:
        line: The line.
        network: The network with the links.

    Raises:
        InputError: The line can be read in two ways.
    """
    # A name may contain a #, so the line is read with its comment first.
    for text in dict.fromkeys((line, _COMMENT.sub("", line))):
        readings = lists_of(text, partial(_links_before_space, text, network), sign="")
        if readings:
            links = one_list_of(readings, f"links {text!r}", link_text, str)
            return [label_of(link) for link in links]
    return Words(line).split()


def is_manner(link: LinkId, words: Sequence[str]) -> bool:
    """Return whether the words are a kind of fault of the link."""
    with suppress(InputError):
        return bool(standing_fault(link, words))
    return False


def is_settings(_: LinkId, words: Sequence[str]) -> bool:
    """Return whether the words are settings of a link."""
    with suppress(InputError):
        return bool(parse_settings(words))
    return False


def _links_before_space(text: str, network: Network, at: int) -> Found[LinkId]:
    """Yield every link that begins at a position and ends where a word ends, and its end.

    Args:
        text: The text.
        network: The network with the links.
        at: The position.
    """
    for link, end in links_at(text, at, network):
        if link in network.link_index and (end == len(text) or text[end].isspace()):
            yield link, end
