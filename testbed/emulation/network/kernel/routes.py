"""A host's routes as rtnetlink messages: to one address, and tables of one default route that rules choose by pair,
protocol and ports."""

import socket
import struct

from testbed.emulation.network.kernel.rtnetlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    Message,
    attribute,
    number,
    text,
)

_RTM_NEWROUTE, _RTM_NEWRULE, _RTM_DELRULE = 24, 32, 33
_STATIC, _UNICAST, _BLACKHOLE, _TO_TABLE, _ONLINK = 4, 1, 6, 1, 4
_EVERYWHERE, _ON_LINK = 0, 253
_LAST = 1 << 20
"""A metric above that of every other route."""
MAIN = 254
_UDP = 17


def add_route(
    destination: str | None,
    *,
    index: int,
    source: str | None = None,
    via: str | None = None,
    table: int = MAIN,
) -> Message:
    """To one IPv4 address (None: to all) out of that interface, from ``source`` where a program names no address; in
    place of the route before.

    ``via``: the next IP node, which with a ``source`` the interface reaches whatever subnet it is in; None: the
    destination itself.
    """
    bits = 0 if destination is None else 32
    scope, flags = (_ON_LINK, 0) if via is None else (_EVERYWHERE, 0 if source is None else _ONLINK)
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, bits, 0, 0, 0, _STATIC, scope, _UNICAST, flags)
    body += b"" if destination is None else attribute(1, socket.inet_aton(destination))
    body += number(4, index) + (b"" if via is None else attribute(5, socket.inet_aton(via)))
    body += (b"" if source is None else attribute(7, socket.inet_aton(source))) + number(15, table)
    return _RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body


def hold_back(table: int) -> Message:
    """What finds no route in the table is lost: an interface that is down takes its route away, and the packets that a
    plan sends there would go by the next rule."""
    body = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, _STATIC, _EVERYWHERE, _BLACKHOLE, 0
    )
    return _RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body + number(6, _LAST) + number(15, table)


def table_rule(
    table: int,
    priority: int,
    *,
    sink: str,
    source: str | None,
    udp_port: int | None = None,
    labels: tuple[int, int] | None = None,
    add: bool = True,
) -> Message:
    """Look packets to ``sink`` up in that table: from ``source``, None for those that begin at the host itself.

    ``udp_port`` and ``labels``: only UDP to that port, from source ports of that range (first and last, of 1 to 65534).
    Lower priorities are looked at first; ``add`` false takes one such rule away.
    """
    body = struct.pack(
        "=BBBBBBBBI", socket.AF_INET, 32, 32 if source else 0, 0, 0, 0, 0, _TO_TABLE, 0
    )
    body += attribute(1, socket.inet_aton(sink)) + number(6, priority) + number(15, table)
    body += attribute(2, socket.inet_aton(source)) if source else text(3, "lo")
    if udp_port is not None:
        body += attribute(22, bytes([_UDP])) + attribute(24, struct.pack("=HH", udp_port, udp_port))
    if labels is not None:
        body += attribute(23, struct.pack("=HH", *labels))
    return _RTM_NEWRULE if add else _RTM_DELRULE, NLM_F_CREATE if add else 0, body
