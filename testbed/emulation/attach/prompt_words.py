"""Words of a line at the prompt, which may be quoted as a shell's."""

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress

from testbed.errors import InputError

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
