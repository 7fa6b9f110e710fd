"""Words of a line at the prompt, which may be quoted as a shell's."""

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

_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_PLAIN = re.compile(r"[\w.:@%+=/~^-]+")


def first_word(line: str) -> tuple[str, str]:
    """The first word as it is written, quotes and all, and what follows it. InputError for a quote that does not end.

    >>> first_word("'New York' ping h1")
    ("'New York'", 'ping h1')
    """
    line = line.strip()
    found = _WORD.match(line)
    end = found.end() if found else 0
    if found is None or (end < len(line) and not line[end].isspace()):
        raise InputError(f"{line}: a quote that does not end")
    return found[0], line[end:].lstrip()


class Words(str):
    """What follows a command, for Mininet's methods, which take it apart by ``split``.

    >>> Words("'New York' h1 down # until noon").split()
    ['New York', 'h1', 'down']
    """

    def split(self, *_: object) -> list[str]:  # type: ignore[override]
        """The words, without their quotes, up to a comment."""
        words, rest = [], str(self).lstrip()
        while rest and not rest.startswith("#"):
            word, rest = first_word(rest)
            words += shlex.split(word)
        return words


def with_addresses(command: str, addresses: Mapping[str, str]) -> str:
    """Names of hosts become addresses, as Mininet does it; not where they are quoted without need, nor numbers, which
    are a count or a time to most programs.

    >>> with_addresses("ping h1 && ping 'New York' && echo 'h1'", {"New York": "10.0.0.2", "h1": "10.0.0.3"})
    "ping 10.0.0.3 && ping 10.0.0.2 && echo 'h1'"
    >>> with_addresses("sleep 2", {"2": "10.0.0.2"})
    'sleep 2'
    """

    def address(match: re.Match[str]) -> str:
        word = match[0]
        with suppress(ValueError):
            name = "".join(shlex.split(word))
            needless = name != word and _PLAIN.fullmatch(name)
            if name in addresses and not needless and not _NUMBER.fullmatch(name):
                return addresses[name]
        return word

    return _WORD.sub(address, command)


_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


def described_network(described: Json) -> Network:
    """The nodes and links of a description with cables (``testbed.model.wiring.wiring_document``), without
    capacities."""
    links = tuple(
        Link(source=source, target=target, key=key) for source, target, key in described["links"]
    )
    nodes = dict.fromkeys(end for link in links for end in (link.source, link.target))
    return Network(
        name=described["network"],
        nodes=tuple(Node(id=node, kind="switch") for node in nodes),
        links=links,
    )


def first_link(
    line: str, network: Network, fits: Callable[[LinkId, Sequence[str]], bool]
) -> tuple[str, list[str]]:
    """The link with which the line begins, and the words behind it, up to a comment.

    Of several links, one with whose words the line ``fits``; InputError where it does with two.
    """
    found: list[tuple[LinkId, list[str]]] = []
    for link, end in _links_before_space(line, network, 0):
        with suppress(InputError):  # a quote that ends in a name
            found.append((link, Words(line[end:]).split()))
    fitting = [one for one in found if fits(*one)] or found[-1:]
    if not fitting:
        first, *words = Words(line).split() or [""]
        return first, words
    link = one_of([one for one, _ in fitting], f"link {line!r}", link_text, str)
    return label_of(link), dict(fitting)[link]


def links_of_line(line: str, network: Network) -> list[str]:
    """The links of ``LINK LINK ...``; InputError where they can be read in two ways."""
    for text in dict.fromkeys((line, _COMMENT.sub("", line))):
        readings = lists_of(text, partial(_links_before_space, text, network), sign="")
        if readings:
            return [
                label_of(link) for link in one_list_of(readings, f"links {text!r}", link_text, str)
            ]
    return Words(line).split()


def is_manner(link: LinkId, words: Sequence[str]) -> bool:
    """Whether a link can fail in the manner that the words say."""
    with suppress(InputError):
        return bool(standing_fault(link, words))
    return False


def is_settings(_: LinkId, words: Sequence[str]) -> bool:
    """Whether the words set something of a link."""
    with suppress(InputError):
        return bool(parse_settings(words))
    return False


def _links_before_space(text: str, network: Network, at: int) -> Found[LinkId]:
    """Every link of the network that stands at the place and ends where a word does."""
    for link, end in links_at(text, at, network):
        if link in network.link_index and (end == len(text) or text[end].isspace()):
            yield link, end
