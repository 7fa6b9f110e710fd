"""Links as people write them: ``a->b``, and ``a->b#key`` where parallel links are told apart."""

from __future__ import annotations

from typing import Any

from testbed.errors import InputError
from topologies.network import LinkId, Network


def parse_link(text: Any, network: Network) -> LinkId:
    """``a->b`` or ``a->b#key`` to a link of the network; InputError where there is none."""
    if isinstance(text, str) and "->" in text:
        source, _, rest = text.partition("->")
        target, _, key = rest.partition("#")
        found = (source.strip(), target.strip(), int(key) if key.isdigit() else 0)
        if found in network.link_index:
            return found
    raise InputError(
        f"link {text!r} is no link of {network.name!r}; write it a->b, as testbed topology show lists them"
    )
