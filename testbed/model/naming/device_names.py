"""What the nodes of a network are called, and what the kernel calls their devices; a function of names and numbers of
ports alone.

A node's name is its id, everywhere. Its *device* is the name of its bridge and what the names of its interfaces begin
with, ``DEVICE-ethPORT``: the name itself where the kernel and its tools take it, else a short one that is no node's
name.
"""

import itertools
import re
from collections.abc import Collection, Mapping

_LEGAL = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""Digits alone would be an interface's number to tcpdump and others."""
_OTHERS = re.compile(
    r".*-eth\d+|lo|all|default|detour|underlay|ovs-.*|im\d+[ab]|(bond|docker|dummy|erspan|eth|gre|gretap|ifb|ip6gre|ip6tnl|ip_vti|ip6_vti"
    r"|machines?|sit|tap|trial|tun|tunl|wg|wlan)\d+"
)
"""What interfaces are called, and devices that the kernel, Open vSwitch or the testbed itself may have next to the
network's."""
_MOST = 15
"""Characters of a device's name: IFNAMSIZ of Linux' <net/if.h> less the zero byte."""


def interface_name(device: str, port: int) -> str:
    """As Mininet calls it.

    >>> interface_name("h1", 0)
    'h1-eth0'
    """
    return f"{device}-eth{port}"


def device_names(hosts: Mapping[str, int], switches: Mapping[str, int]) -> dict[str, str]:
    """Name of a node -> its device. ``hosts`` and ``switches``: name -> the highest number of its ports.

    >>> device_names({"h1": 0, "h2": 0}, {"s1": 3})
    {'h1': 'h1', 'h2': 'h2', 's1': 's1'}
    >>> device_names({"São Paulo": 0, "7": 0}, {"a-very-long-name": 3, "s1": 3})
    {'São Paulo': 'h1', '7': 'h7', 'a-very-long-name': 's2', 's1': 's1'}
    """
    taken = {*hosts, *switches}
    found: dict[str, str] = {}
    for letter, names in (("h", hosts), ("s", switches)):
        numbers = itertools.count(1)
        for name, top in names.items():
            if _fits(name, top):
                found[name] = name
                continue
            short = f"{letter}{name}" if name.isdigit() else ""
            if short in taken or not _fits(short, top):
                short = next(
                    free
                    for free in (f"{letter}{number}" for number in numbers)
                    if free not in taken
                )
            found[name] = short
            taken.add(short)
    return found


def end_point_name(switch: str, taken: Collection[str]) -> str:
    """Of the host that stands for a switch: as Mininet numbers them where that is free.

    >>> [end_point_name(name, {name}) for name in ("s1", "0", "x")], end_point_name("s1", {"s1", "h1"})
    (['h1', 'h0', 'h_x'], 'h_s1')
    """
    number = re.fullmatch(r"s?([0-9]+)", switch)
    required = [f"h{number[1]}"] if number else []
    further = (f"h_{switch}_{n}" for n in itertools.count(2))
    return next(
        name for name in itertools.chain(required, [f"h_{switch}"], further) if name not in taken
    )


def _fits(name: str, top_port: int) -> bool:
    legal = _LEGAL.fullmatch(name) and not _OTHERS.fullmatch(name)
    return bool(legal) and len(interface_name(name, top_port)) <= _MOST
