"""VXLAN interfaces and the guard before them, as rtnetlink messages.

The kernel takes a VXLAN packet from whoever knows the identifier. The guard, a classic BPF program where packets come
in, drops what does not come from the machine at the identifier's other end.
"""

import socket
import struct
from collections.abc import Iterable

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.errors import CapabilityError
from testbed.model.wiring import Tunnel, WiringPart
from topologies import lists_by_key

MOST_TUNNELS = 1900
"""Of one machine: each is two steps of the guard's program, and the kernel takes 4,096."""
_CLSACT_INGRESS = 0xFFFFFFF2
_PROTOCOL = 0xFFFFF000
"""Loads what the kernel knows the packet for (SKF_AD_PROTOCOL), where no header says it."""


def make_tunnel(
    end: rtnl.VethEnd,
    tunnel: Tunnel,
    part: WiringPart,
    *,
    underlay_index: int,
    mtu: int,
    group: int,
) -> rtnl.Message:
    """A VXLAN interface to one peer; it is up at once, and sends from the namespace of the socket wherever it lies
    itself."""
    data = [
        rtnl.number(1, tunnel.vni),
        rtnl.attribute(2, socket.inet_aton(tunnel.remote)),
        rtnl.number(3, underlay_index),
        rtnl.attribute(4, socket.inet_aton(part.local)),
        rtnl.attribute(7, b"\0"),  # learns no addresses: there is one peer
        rtnl.attribute(15, struct.pack("!H", part.port)),
    ]
    kind = rtnl.text(1, "vxlan") + rtnl.attribute(2, b"".join(data))
    body = (
        rtnl.link_header(end.index, up=True)
        + end.attributes_of(mtu, group)
        + rtnl.attribute(18, kind)
    )
    return rtnl.RTM_NEWLINK, rtnl.NLM_F_CREATE | rtnl.NLM_F_EXCL, body


def tunnel_guard(
    underlay_index: int, port: int, tunnels: Iterable[Tunnel], *, framed: bool = True
) -> rtnl.Message:
    """Of what comes in on the underlay for the tunnels' port, let in the identifiers of ``tunnels``, each from its own
    peer only."""
    steps = guard_steps(port, sorted({(one.vni, one.remote) for one in tunnels}), framed=framed)
    return rtnl.bpf_rule(underlay_index, _CLSACT_INGRESS, 1, steps)


def remove_guard(underlay_index: int) -> rtnl.Message:
    """Take the guard away, with the hook that it is attached to."""
    return (
        rtnl.RTM_DELQDISC,
        0,
        rtnl.tc_header(underlay_index, rtnl.CLSACT_HANDLE, rtnl.CLSACT_PARENT),
    )


def guard_steps(
    port: int, known: Iterable[tuple[int, str]], *, framed: bool = True
) -> list[rtnl.BpfStep]:
    """Classic BPF over an Ethernet frame, or a bare IP packet; ``known``: (identifier, its peer's address) pairs.
    Fragments of UDP are dropped: tunnels send none, and a short first one would hide the identifier. CapabilityError
    for more than ``MOST_TUNNELS``."""
    load_half, load_byte, load_word, load_x = 0x28, 0x30, 0x20, 0xB1
    load_half_x, load_word_x, equal, any_bit, answer = 0x48, 0x40, 0x15, 0x45, 0x06
    store, load_stored, shift_right, jump = 0x02, 0x60, 0x74, 0x05
    dropped, passed = 2, 0xFFFFFFFF
    ip = 14 if framed else 0
    steps: list[rtnl.BpfStep] = [
        (load_half, 0, 0, 12 if framed else _PROTOCOL),
        (equal, 1, 0, 0x0800),
        (answer, 0, 0, passed),
        (load_byte, 0, 0, ip + 9),
        (equal, 1, 0, 17),
        (answer, 0, 0, passed),
        (load_half, 0, 0, ip + 6),
        (any_bit, 0, 1, 0x3FFF),
        (answer, 0, 0, dropped),
        (load_x, 0, 0, ip),
        (load_half_x, 0, 0, ip + 2),
        (equal, 1, 0, port),
        (answer, 0, 0, passed),
        (
            load_word_x,
            0,
            0,
            ip + 12,
        ),  # behind the IP header, 8 of UDP and 4 of VXLAN: identifier and a spare byte
        (shift_right, 0, 0, 8),
        (store, 0, 0, 0),
    ]
    pairs = list(known)
    if len(pairs) > MOST_TUNNELS:
        raise CapabilityError(
            f"{len(pairs)} crossing cables on one machine, at most {MOST_TUNNELS}; place nodes so that fewer cross"
        )
    for peer, identifiers in lists_by_key((peer, vni) for vni, peer in pairs).items():
        steps += [(load_word, 0, 0, ip + 12), (equal, 1, 0, int.from_bytes(socket.inet_aton(peer)))]
        steps += [(jump, 0, 0, 1 + 2 * len(identifiers)), (load_stored, 0, 0, 0)]
        for vni in identifiers:
            steps += [(equal, 0, 1, vni), (answer, 0, 0, passed)]
    return [*steps, (answer, 0, 0, dropped)]
