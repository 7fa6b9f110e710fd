"""What Mininet's settings of interfaces, routes and queues are in the kernel's own language (rtnetlink messages)."""

import re
import socket
import struct
from collections.abc import Mapping
from typing import Any

from testbed.emulation.network.impairments.tc_messages import NetemOptions, netem_line
from testbed.emulation.network.kernel.rtnetlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    ROOT,
    RTM_DELLINK,
    RTM_NEWADDR,
    RTM_NEWLINK,
    Message,
    add_address,
    attribute,
    link_header,
    number,
    token_bucket,
)
from testbed.errors import InputError

_RTM_DELADDR, _RTM_NEWROUTE = RTM_NEWADDR + 1, 24
_MAIN_TABLE, _BY_BOOT, _UNICAST, _ANYWHERE, _ON_LINK = 254, 3, 1, 0, 253
_DESTINATION, _INTERFACE, _GATEWAY = 1, 4, 5
_NETEM_CHILD = 0x10001
_BURST_S, _QUEUE_S, _MIN_QUEUE_PACKETS = 0.002, 0.05, 20
_MOST = 0x7FFFFFFF
_UNITS = {"": 1e-6, "s": 1.0, "m": 1e-3, "u": 1e-6}


def set_mac(index: int, mac: str) -> Message:
    """Another MAC address."""
    return RTM_NEWLINK, 0, link_header(index) + attribute(1, bytes.fromhex(mac.replace(":", "")))


def delete_link(index: int) -> Message:
    """Remove the interface, and a veth pair's other end with it."""
    return RTM_DELLINK, 0, link_header(index)


def remove_address(index: int, ip: str, prefix: int) -> Message:
    """Take an IPv4 address away."""
    _, _, body = add_address(index, ip, prefix)
    return _RTM_DELADDR, 0, body


def add_route(index: int, destination: str = "0.0.0.0", prefix: int = 0, *, gateway: str | None = None) -> Message:
    """A route through the interface, the default one without a destination; what is there already is replaced."""
    scope = _ANYWHERE if gateway else _ON_LINK
    body = struct.pack("=8BI", socket.AF_INET, prefix, 0, 0, _MAIN_TABLE, _BY_BOOT, scope, _UNICAST, 0)
    body += attribute(_DESTINATION, socket.inet_aton(destination)) if prefix else b""
    body += number(_INTERFACE, index)
    body += attribute(_GATEWAY, socket.inet_aton(gateway)) if gateway else b""
    return _RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body


def seconds(delay: object) -> float:
    """A delay as tc reads it, where a bare number is microseconds. InputError for anything else.

    >>> seconds("5ms"), seconds("10us"), seconds(7), seconds("0.5s")
    (0.005, 9.999999999999999e-06, 7e-06, 0.5)
    """
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(|s|secs?|ms|msecs?|us|usecs?)\s*", str(delay))
    if found is None:
        raise InputError(f"a delay of {delay!r}; give a number and s, ms or us")
    return float(found[1]) * _UNITS[found[2][:1]]


def queue_messages(index: int, values: Mapping[str, Any], mtu: int) -> list[Message]:
    """The queues of an interface by Mininet's parameters: ``bw`` in Mbit/s, ``delay`` and ``jitter`` as tc reads them,
    ``loss`` in percent, ``max_queue_size`` in packets of the MTU (bytes)."""
    messages, parent = [], ROOT
    delay_s, loss = seconds(values.get("delay") or 0), float(values.get("loss") or 0) / 100
    packets = values.get("max_queue_size")
    if not 0 <= loss <= 1:
        raise InputError(f"a loss of {values['loss']} %; give 0 to 100")
    if delay_s or loss:
        options = NetemOptions(delay_s=delay_s, jitter_s=seconds(values.get("jitter") or 0), loss=loss)
        messages.append(netem_line(index, options))
        parent = _NETEM_CHILD
    if values.get("bw"):
        rate_bps = float(values["bw"]) * 1e6
        burst = min(_MOST, max(2 * (mtu + 14), round(rate_bps / 8 * _BURST_S)))
        waiting = max(_MIN_QUEUE_PACKETS * (mtu + 14), round(rate_bps / 8 * _QUEUE_S))
        waiting = min(_MOST, int(packets) * (mtu + 14) if packets else waiting)
        messages.append(token_bucket(index, rate_bps=rate_bps, burst_bytes=burst, queue_bytes=waiting, parent=parent))
    return messages
