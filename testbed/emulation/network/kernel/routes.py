"""Routes and routing rules of a host, as rtnetlink messages.

Each function returns the message that does what its summary says.

A host has routes to single addresses, and tables of one default route each. Rules choose the table
of a packet by its end points, protocol and ports.
"""

import socket
import struct
from dataclasses import dataclass

from testbed.emulation.network.kernel.rtnetlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    Message,
    attribute,
    number,
    text,
)

_RTM_NEWROUTE = 24
_RTM_NEWRULE = 32
_RTM_DELRULE = 33

# Fields of a route (rtnetlink.h).
_RTPROT_STATIC = 4
_RTN_UNICAST = 1
_RTN_BLACKHOLE = 6
_RTNH_F_ONLINK = 4
_RT_SCOPE_UNIVERSE = 0
_RT_SCOPE_LINK = 253
_RTA_DST = 1
_RTA_OIF = 4
_RTA_GATEWAY = 5
_RTA_PRIORITY = 6
_RTA_PREFSRC = 7
_RTA_TABLE = 15

# Fields of a rule (fib_rules.h).
_FR_ACT_TO_TBL = 1
_FRA_DST = 1
_FRA_SRC = 2
_FRA_IIFNAME = 3
_FRA_PRIORITY = 6
_FRA_TABLE = 15
_FRA_IP_PROTO = 22
_FRA_SPORT_RANGE = 23
_FRA_DPORT_RANGE = 24

# A metric larger than that of every other route, so that the route is used last.
_LAST_METRIC = 1 << 20

#: The kernel's main routing table.
MAIN = 254


def add_route(
    destination: str | None,
    *,
    index: int,
    source: str | None = None,
    via: str | None = None,
    table: int = MAIN,
) -> Message:
    """Add a route through an interface; it replaces the route to the same destination.

    Args:
        destination: An IPv4 address, or None for the default route.
        index: Index of the interface.
        source: Source address of packets whose program chose none.
        via: The next IP node. If ``source`` is given, the node is taken to be on the link, whatever
            subnet it is in. None if the destination itself is on the link.
        table: The routing table.
    """
    prefix_length = 0 if destination is None else 32
    scope = _RT_SCOPE_LINK if via is None else _RT_SCOPE_UNIVERSE
    flags = 0
    if via is not None and source is not None:
        flags = _RTNH_F_ONLINK
    body = _route_header(prefix_length, scope, _RTN_UNICAST, flags)
    if destination is not None:
        body += attribute(_RTA_DST, socket.inet_aton(destination))
    body += number(_RTA_OIF, index)
    if via is not None:
        body += attribute(_RTA_GATEWAY, socket.inet_aton(via))
    if source is not None:
        body += attribute(_RTA_PREFSRC, socket.inet_aton(source))
    body += number(_RTA_TABLE, table)
    return _RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body


def hold_back(table: int) -> Message:
    """Drop packets for which the table has no other route.

    An interface that is down loses its route. Without this route, the packets that a plan sends
    through it would be routed by the next rule.
    """
    body = _route_header(0, _RT_SCOPE_UNIVERSE, _RTN_BLACKHOLE, 0)
    body += number(_RTA_PRIORITY, _LAST_METRIC) + number(_RTA_TABLE, table)
    return _RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body


def _route_header(prefix_length: int, scope: int, kind: int, flags: int) -> bytes:
    """Return the fixed part of a message about a static IPv4 route (struct rtmsg)."""
    fields = (socket.AF_INET, prefix_length, 0, 0, 0, _RTPROT_STATIC, scope, kind, flags)
    return struct.pack("=BBBBBBBBI", *fields)


@dataclass(frozen=True, kw_only=True)
class RuleMatch:
    """The packets that a rule is for.

    Attributes:
        sink: Destination address of the packets.
        source: Their source address; None for packets that the host itself sends.
        udp_port: If given, only UDP packets to this port.
        labels: If given, only packets from these source ports: first and last, between 1 and
            65534.
    """

    sink: str
    source: str | None
    udp_port: int | None = None
    labels: tuple[int, int] | None = None


def table_rule(table: int, priority: int, match: RuleMatch, *, add: bool) -> Message:
    """Route packets by a table from now on, or no longer.

    Args:
        table: The routing table.
        priority: Priority of the rule; rules with lower numbers come first.
        match: The packets.
        add: Add the rule if true, and remove one such rule if not.
    """
    source_length = 32 if match.source else 0
    fields = (socket.AF_INET, 32, source_length, 0, 0, 0, 0, _FR_ACT_TO_TBL, 0)
    body = struct.pack("=BBBBBBBBI", *fields)
    body += attribute(_FRA_DST, socket.inet_aton(match.sink))
    body += number(_FRA_PRIORITY, priority)
    body += number(_FRA_TABLE, table)
    if match.source:
        body += attribute(_FRA_SRC, socket.inet_aton(match.source))
    else:
        # Packets of the host itself count as received from the loopback interface.
        body += text(_FRA_IIFNAME, "lo")
    if match.udp_port is not None:
        body += attribute(_FRA_IP_PROTO, bytes([socket.IPPROTO_UDP]))
        body += attribute(_FRA_DPORT_RANGE, struct.pack("=HH", match.udp_port, match.udp_port))
    if match.labels is not None:
        body += attribute(_FRA_SPORT_RANGE, struct.pack("=HH", *match.labels))
    if add:
        return _RTM_NEWRULE, NLM_F_CREATE, body
    return _RTM_DELRULE, 0, body
