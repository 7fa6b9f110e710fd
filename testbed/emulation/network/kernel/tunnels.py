"""VXLAN interfaces and the filter that protects them, as rtnetlink messages.

Functions such as ``make_tunnel`` return the message that does what their summary says.

The kernel accepts a VXLAN packet from any sender that knows the identifier (VNI). The guard, a
classic BPF program at the ingress of the underlay interface, drops packets that do not come from
the machine at the identifier's other end.
"""

import socket
import struct
from collections.abc import Iterable

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.errors import CapabilityError
from testbed.model.wiring import Tunnel, WiringPart
from topologies import lists_by_key

#: Largest number of tunnels of one machine. Each takes two instructions of the guard's program,
#: and the kernel accepts 4,096.
MAX_TUNNELS = 1900

_CLSACT_INGRESS = 0xFFFFFFF2

# Attributes of an interface (if_link.h).
_IFLA_LINKINFO = 18
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_IFLA_VXLAN_ID = 1
_IFLA_VXLAN_GROUP = 2
_IFLA_VXLAN_LINK = 3
_IFLA_VXLAN_LOCAL = 4
_IFLA_VXLAN_LEARNING = 7
_IFLA_VXLAN_PORT = 15

# Operations of classic BPF (bpf_common.h, filter.h). X is the index register.
_LOAD_HALF = 0x28
_LOAD_BYTE = 0x30
_LOAD_WORD = 0x20
_LOAD_IP_HEADER_LENGTH_TO_X = 0xB1
_LOAD_HALF_AT_X = 0x48
_LOAD_WORD_AT_X = 0x40
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_ANY_BIT = 0x45
_JUMP = 0x05
_SHIFT_RIGHT = 0x74
_STORE = 0x02
_LOAD_STORED = 0x60
_RETURN = 0x06

# An offset that loads the packet's protocol as the kernel knows it (SKF_AD_PROTOCOL).
_SKF_AD_PROTOCOL = 0xFFFFF000

# Actions of the traffic control (TC_ACT_SHOT, TC_ACT_UNSPEC).
_DROP = 2
_PASS = 0xFFFFFFFF

_ETHERNET_HEADER_BYTES = 14
_ETHERTYPE_OFFSET = 12
_ETHERTYPE_IPV4 = 0x0800
# The "more fragments" flag and the fragment offset.
_FRAGMENT_BITS = 0x3FFF


def make_tunnel(
    end: rtnl.VethEnd,
    tunnel: Tunnel,
    part: WiringPart,
    *,
    underlay_index: int,
    mtu: int,
    group: int,
) -> rtnl.Message:
    """Create a VXLAN interface to one peer, which is up at once.

    The interface sends its packets from the namespace of the netlink socket, even if the interface
    itself is in another namespace.

    Args:
        end: Name, index and namespace of the interface.
        tunnel: VNI and address of the peer.
        part: Local address and UDP port of the tunnels.
        underlay_index: Index of the interface that sends the tunnel's packets.
        mtu: MTU of the tunnel, in bytes.
        group: Interface group, for an interface in the socket's namespace.
    """
    data = [
        rtnl.number(_IFLA_VXLAN_ID, tunnel.vni),
        rtnl.attribute(_IFLA_VXLAN_GROUP, socket.inet_aton(tunnel.remote)),
        rtnl.number(_IFLA_VXLAN_LINK, underlay_index),
        rtnl.attribute(_IFLA_VXLAN_LOCAL, socket.inet_aton(part.local)),
        # There is one peer, so the interface does not learn addresses.
        rtnl.attribute(_IFLA_VXLAN_LEARNING, b"\0"),
        rtnl.attribute(_IFLA_VXLAN_PORT, struct.pack("!H", part.port)),
    ]
    link_info = rtnl.text(_IFLA_INFO_KIND, "vxlan")
    link_info += rtnl.attribute(_IFLA_INFO_DATA, b"".join(data))
    body = rtnl.link_header(end.index, up=True)
    body += end.attributes_of(mtu, group)
    body += rtnl.attribute(_IFLA_LINKINFO, link_info)
    return rtnl.RTM_NEWLINK, rtnl.NLM_F_CREATE | rtnl.NLM_F_EXCL, body


def tunnel_guard(
    underlay_index: int, port: int, tunnels: Iterable[Tunnel], *, framed: bool = True
) -> rtnl.Message:
    """Accept packets to the tunnels' UDP port only if they come from a tunnel's peer with its VNI.

    Args:
        underlay_index: Index of the interface that receives the packets; it needs the hook of
            ``rtnetlink.packet_gate``.
        port: UDP port of the tunnels.
        tunnels: The tunnels whose packets are accepted.
        framed: Whether packets on the interface have Ethernet headers.
    """
    pairs = {(tunnel.vni, tunnel.remote) for tunnel in tunnels}
    steps = guard_steps(port, sorted(pairs), framed=framed)
    return rtnl.bpf_rule(underlay_index, _CLSACT_INGRESS, 1, steps)


def remove_guard(underlay_index: int) -> rtnl.Message:
    """Remove the guard, together with the hook that it is attached to."""
    body = rtnl.tc_header(underlay_index, rtnl.CLSACT_HANDLE, rtnl.CLSACT_PARENT)
    return rtnl.RTM_DELQDISC, 0, body


def guard_steps(
    port: int, allowed: Iterable[tuple[int, str]], *, framed: bool = True
) -> list[rtnl.BpfStep]:
    """Return the guard's program.

    It drops every IP fragment of UDP. Tunnels send none, and a short first fragment could hide the
    VNI.

    Args:
        port: UDP port of the tunnels.
        allowed: Pairs of a VNI and the address of its peer.
        framed: Whether packets have Ethernet headers; if not, they are bare IP packets.

    Raises:
        CapabilityError: There are more than ``MAX_TUNNELS`` pairs.
    """
    ip = _ETHERNET_HEADER_BYTES if framed else 0
    ethertype_offset = _ETHERTYPE_OFFSET if framed else _SKF_AD_PROTOCOL
    steps: list[rtnl.BpfStep] = [
        # Pass everything but IPv4 ...
        (_LOAD_HALF, 0, 0, ethertype_offset),
        (_JUMP_IF_EQUAL, 1, 0, _ETHERTYPE_IPV4),
        (_RETURN, 0, 0, _PASS),
        # ... and everything but UDP.
        (_LOAD_BYTE, 0, 0, ip + 9),
        (_JUMP_IF_EQUAL, 1, 0, socket.IPPROTO_UDP),
        (_RETURN, 0, 0, _PASS),
        # Drop fragments.
        (_LOAD_HALF, 0, 0, ip + 6),
        (_JUMP_IF_ANY_BIT, 0, 1, _FRAGMENT_BITS),
        (_RETURN, 0, 0, _DROP),
        # Pass packets to other UDP ports.
        (_LOAD_IP_HEADER_LENGTH_TO_X, 0, 0, ip),
        (_LOAD_HALF_AT_X, 0, 0, ip + 2),
        (_JUMP_IF_EQUAL, 1, 0, port),
        (_RETURN, 0, 0, _PASS),
        # Store the VNI. It follows the IP header, 8 bytes of UDP and 4 of VXLAN, and is three
        # bytes long; the fourth one is reserved.
        (_LOAD_WORD_AT_X, 0, 0, ip + 12),
        (_SHIFT_RIGHT, 0, 0, 8),
        (_STORE, 0, 0, 0),
    ]
    pairs = list(allowed)
    if len(pairs) > MAX_TUNNELS:
        raise CapabilityError(
            f"{len(pairs)} crossing cables on one machine, at most {MAX_TUNNELS}; "
            "place nodes so that fewer cross"
        )
    vnis_by_peer = lists_by_key((peer, vni) for vni, peer in pairs)
    for peer, vnis in vnis_by_peer.items():
        # If the packet does not come from this peer, skip the comparisons with the peer's VNIs.
        peer_address = int.from_bytes(socket.inet_aton(peer))
        steps.append((_LOAD_WORD, 0, 0, ip + 12))
        steps.append((_JUMP_IF_EQUAL, 1, 0, peer_address))
        steps.append((_JUMP, 0, 0, 1 + 2 * len(vnis)))
        steps.append((_LOAD_STORED, 0, 0, 0))
        for vni in vnis:
            steps.append((_JUMP_IF_EQUAL, 0, 1, vni))
            steps.append((_RETURN, 0, 0, _PASS))
    steps.append((_RETURN, 0, 0, _DROP))
    return steps
