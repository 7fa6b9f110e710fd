"""The part of a wiring that one of several machines holds: its devices, and the tunnels that its crossing cables go
through."""

from collections.abc import Mapping
from dataclasses import dataclass

VXLAN_BYTES = 50
"""What a tunnel puts before a packet of the inner MTU: Ethernet 14, IPv4 20, UDP 8, VXLAN 8 (RFC 7348)."""


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """One crossing cable as this machine sees it: ``vni`` its VXLAN network identifier, ``remote`` the other machine's
    IPv4 address."""

    vni: int
    remote: str


@dataclass(frozen=True, kw_only=True)
class WiringPart:
    """``devices``: the bridges and hosts here, by the wiring's names. ``tunnels``: by index into the wiring's cables,
    those with one end here.

    ``underlay``: this machine's interface towards the others, ``local`` its IPv4 address, ``port`` the tunnels' UDP
    port on all machines. ``framed``: whether packets on the interface have an Ethernet header (WireGuard's have none).
    """

    devices: frozenset[str]
    tunnels: Mapping[int, Tunnel]
    underlay: str
    local: str
    port: int
    framed: bool = True
