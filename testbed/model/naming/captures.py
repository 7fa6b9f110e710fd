"""Which links are recorded, and where: ``LINK=FILE``, as commands take it."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from testbed.errors import InputError
from testbed.model.naming.names import link_text, links_at, no_link, one_of
from topologies.network import LinkId, Network


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
