"""Configures interfaces, addresses and queues through rtnetlink, in batches of messages.

One system call carries hundreds of settings, and the kernel says which of them failed. A shell
command for each setting would take milliseconds.

Functions such as ``make_veth`` return the message that does what their summary says;
``Netlink.apply`` sends messages.

Names in capitals are those of the kernel's headers (linux/netlink.h, rtnetlink.h, if_link.h,
pkt_sched.h, pkt_cls.h); rtnetlink(7) describes the messages.
"""

import array
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

# One request: message type, flags in addition to NLM_F_REQUEST, and body. ``Netlink`` adds the
# header.
Message = tuple[int, int, bytes]

# One instruction of a classic BPF program: operation, instructions to skip if a jump's condition
# holds, instructions to skip if not, and operand.
BpfStep = tuple[int, int, int, int]

NLM_F_REQUEST = 1
NLM_F_ACK = 4
NLM_F_REPLACE = 0x100
NLM_F_EXCL = 0x200
NLM_F_DUMP = 0x300
NLM_F_CREATE = 0x400

NLMSG_ERROR = 2
NLMSG_DONE = 3

RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_GETLINK = 18
RTM_NEWADDR = 20
RTM_NEWNEIGH = 28
RTM_NEWQDISC = 36
RTM_DELQDISC = 37
RTM_GETQDISC = 38
RTM_NEWTFILTER = 44
RTM_DELTFILTER = 45

IFF_UP = 1

# Parents of queueing disciplines, and the handle of every clsact.
ROOT = 0xFFFFFFFF
CLSACT_PARENT = 0xFFFFFFF1
CLSACT_EGRESS = 0xFFFFFFF3
CLSACT_HANDLE = 0xFFFF0000

# Attributes of an interface (if_link.h).
_IFLA_ADDRESS = 1
_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_OPERSTATE = 16
_IFLA_LINKINFO = 18
_IFLA_STATS64 = 23
_IFLA_GROUP = 27
_IFLA_NET_NS_FD = 28
_IFLA_NUM_TX_QUEUES = 31
_IFLA_NUM_RX_QUEUES = 32
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1

# Attributes of an address (if_addr.h) and of a neighbour (neighbour.h).
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_IFA_BROADCAST = 4
_IFA_F_NODAD = 0x02
_NDA_DST = 1
_NDA_LLADDR = 2
_NUD_PERMANENT = 0x80

# Attributes of queueing disciplines and filters (rtnetlink.h, pkt_cls.h).
_TCA_KIND = 1
_TCA_OPTIONS = 2
_TCA_STATS = 3
_TCA_BPF_OPS_LEN = 4
_TCA_BPF_OPS = 5
_TCA_BPF_FLAGS = 8

# The drop rule comes after the rule that redirects the packets of impaired links.
_DROP_PRIORITY = 2

_HEADER_BYTES = 16
_ETH_P_ALL = 3

# Size of one batch, which is far below that of the socket's buffers.
_BATCH_BYTES = 60_000
_BUFFER_BYTES = 1 << 20

# Bytes of answers that are received at once.
_RECEIVE_BYTES = 1 << 18

# The kernel may hold a lock that all network namespaces share for seconds while it deletes
# thousands of interfaces.
_ANSWER_LIMIT_S = 60.0


class NetlinkError(OSError):
    """The kernel refused one message of a batch."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail or os.strerror(code))


class InterfaceCounters(NamedTuple):
    """Counters of an interface since it was created.

    Attributes:
        sent_packets: Packets that the interface sent.
        sent_bytes: Bytes that it sent.
        queue_drops: Packets that its queues dropped.
        received_packets: Packets that it received.
    """

    sent_packets: int
    sent_bytes: int
    queue_drops: int = 0
    received_packets: int = 0


class Netlink(AbstractContextManager["Netlink"]):
    """One rtnetlink socket, which stays bound to the network namespace in which it was created.

    Args:
        sock: The netlink socket to use; by default a new one in the caller's namespace.
    """

    def __init__(self, sock: socket.socket | None = None) -> None:
        self._sock = sock or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._sock.settimeout(_ANSWER_LIMIT_S)

        # Errors come without a copy of the request, and with the kernel's explanation.
        sol_netlink = 270
        netlink_cap_ack = 10
        netlink_ext_ack = 11
        self._sock.setsockopt(sol_netlink, netlink_cap_ack, 1)
        self._sock.setsockopt(sol_netlink, netlink_ext_ack, 1)
        self._sequence = 0

    def apply(self, messages: Sequence[Message], *, limit_s: float = _ANSWER_LIMIT_S) -> None:
        """Carry out the messages in order, and wait until all are done.

        Args:
            messages: The requests.
            limit_s: Time limit for each batch of some hundreds of messages, in seconds.

        Raises:
            NetlinkError: The kernel refused a message (the first refused one is reported), or did
                not answer in time (ETIMEDOUT).
        """
        self._sock.settimeout(limit_s)
        try:
            self._apply_all(messages)
        except TimeoutError:
            raise NetlinkError(errno.ETIMEDOUT, f"no answer within {limit_s:.0f} s") from None
        finally:
            self._sock.settimeout(_ANSWER_LIMIT_S)

    def _apply_all(self, messages: Sequence[Message]) -> None:
        """Carry out the messages in batches of at most ``_BATCH_BYTES``, but at least one each."""
        batch: list[Message] = []
        batch_bytes = 0
        for message in messages:
            message_bytes = _HEADER_BYTES + len(message[2])
            if batch and batch_bytes + message_bytes > _BATCH_BYTES:
                self._apply_batch(batch)
                batch = []
                batch_bytes = 0
            batch.append(message)
            batch_bytes += message_bytes
        if batch:
            self._apply_batch(batch)

    def _apply_batch(self, messages: Sequence[Message]) -> None:
        first_sequence = self._sequence + 1
        last_sequence = self._sequence + len(messages)
        parts = []
        for kind, flags, body in messages:
            self._sequence += 1
            all_flags = NLM_F_REQUEST | flags
            if self._sequence == last_sequence:
                # The kernel always reports an error. Success is acknowledged for the last message
                # only.
                all_flags |= NLM_F_ACK
            parts.append(_header(kind, all_flags, self._sequence, body))
            parts.append(body + bytes(-len(body) % 4))
        self._sock.send(b"".join(parts))

        failure: NetlinkError | None = None
        for kind, sequence, body in self._answers():
            if kind != NLMSG_ERROR or sequence < first_sequence:
                continue
            code = -struct.unpack_from("=i", body)[0]
            if code and failure is None:
                failure = NetlinkError(code, _extended_text(body))
            if sequence == last_sequence:
                break
        if failure is not None:
            raise failure

    def dump(self, kind: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield message type and body of every object that the kernel lists for a GET request.

        Args:
            kind: Type of the request, such as ``RTM_GETLINK``.
            body: Body of the request.

        Raises:
            NetlinkError: The kernel refused the request.
        """
        self._send_request(kind, NLM_F_DUMP, body)
        for answer_kind, sequence, content in self._answers():
            if sequence != self._sequence:
                continue
            if answer_kind == NLMSG_DONE:
                return
            if answer_kind == NLMSG_ERROR:
                raise NetlinkError(-struct.unpack_from("=i", content)[0], _extended_text(content))
            yield answer_kind, content

    def _send_request(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        self._sock.send(_header(kind, NLM_F_REQUEST | flags, self._sequence, body) + body)

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield message type, sequence number and body of every message that arrives."""
        while True:
            received = self._sock.recv(_RECEIVE_BYTES)
            offset = 0
            while offset + _HEADER_BYTES <= len(received):
                size, kind, _, sequence, _ = struct.unpack_from("=IHHII", received, offset)
                yield kind, sequence, received[offset + _HEADER_BYTES : offset + size]
                offset += size + 3 & ~3

    def interfaces(self) -> dict[str, int]:
        """Return the index of every interface of this socket's namespace, by its name."""
        indices = {}
        for _, body in self.dump(RTM_GETLINK, bytes(16)):
            name = attributes_of(body[16:]).get(_IFLA_IFNAME)
            if name is not None:
                indices[name.rstrip(b"\0").decode()] = struct.unpack_from("=i", body, 4)[0]
        return indices

    def is_operational(self, index: int) -> bool:
        """Return whether the interface is up, has a carrier, and its queues work (IF_OPER_UP)."""
        self._send_request(RTM_GETLINK, 0, link_header(index))
        for kind, sequence, body in self._answers():
            if sequence == self._sequence:
                state = attributes_of(body[16:]).get(_IFLA_OPERSTATE)
                return kind == RTM_NEWLINK and state == b"\x06"
        return False

    def counters(self) -> dict[str, InterfaceCounters]:
        """Return the counters of every interface of this socket's namespace, by its name."""
        drops: dict[int, int] = {}
        for _, body in self.dump(RTM_GETQDISC, bytes(20)):
            index, parent = struct.unpack_from("=i4xI", body, 4)
            # struct tc_stats: bytes u64, packets u32, drops u32.
            stats = attributes_of(body[20:]).get(_TCA_STATS)
            if stats is not None and parent in (ROOT, CLSACT_PARENT):
                drops[index] = drops.get(index, 0) + struct.unpack_from("=I", stats, 12)[0]

        counters = {}
        for _, body in self.dump(RTM_GETLINK, bytes(16)):
            index = struct.unpack_from("=i", body, 4)[0]
            attributes = attributes_of(body[16:])
            if _IFLA_IFNAME not in attributes or _IFLA_STATS64 not in attributes:
                continue
            name = attributes[_IFLA_IFNAME].rstrip(b"\0").decode()
            # struct rtnl_link_stats64: packets received and sent, bytes received and sent.
            stats = attributes[_IFLA_STATS64]
            received_packets, sent_packets, _, sent_bytes = struct.unpack_from("=4Q", stats)
            counters[name] = InterfaceCounters(
                sent_packets, sent_bytes, drops.get(index, 0), received_packets
            )
        return counters

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _header(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """Return the header of a message (struct nlmsghdr), from port 0."""
    return struct.pack("=IHHII", _HEADER_BYTES + len(body), kind, flags, sequence, 0)


def _extended_text(body: bytes) -> str:
    """Return the kernel's explanation of an error (NLMSGERR_ATTR_MSG), or an empty string.

    It follows the error number and the header of the request; NETLINK_CAP_ACK omits the request's
    body.
    """
    nlmsgerr_attr_msg = 1
    explanation = attributes_of(body[20:]).get(nlmsgerr_attr_msg, b"")
    return explanation.rstrip(b"\0").decode(errors="replace")


def attributes_of(blob: bytes) -> dict[int, bytes]:
    """Return the attributes that follow the fixed part of a message: type -> value."""
    attributes = {}
    offset = 0
    while offset + 4 <= len(blob):
        size, kind = struct.unpack_from("=HH", blob, offset)
        if size < 4:
            break
        # The two highest bits of the type are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        attributes[kind & 0x3FFF] = blob[offset + 4 : offset + size]
        offset += size + 3 & ~3
    return attributes


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute (struct rtattr) with this type and value, padded to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def text(kind: int, value: str) -> bytes:
    """Return an attribute whose value is a string."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """Return an attribute whose value is an unsigned 32-bit number."""
    return attribute(kind, struct.pack("=I", value))


def link_header(index: int = 0, *, up: bool | None = None) -> bytes:
    """Return the fixed part of a request about an interface (struct ifinfomsg).

    Args:
        index: Index of the interface; 0 for one that does not exist yet.
        up: Whether the interface shall be up; None leaves its state unchanged.
    """
    flags = IFF_UP if up else 0
    mask = 0 if up is None else IFF_UP
    return struct.pack("=BxHiII", 0, 0, index, flags, mask)


@dataclass(frozen=True, kw_only=True)
class VethEnd:
    """One end of a veth pair to be created.

    Attributes:
        name: Name of the interface.
        index: Index of the interface; 0 lets the kernel choose.
        mac: MAC address (six bytes); None lets the kernel draw one.
        host: The host whose namespace contains the interface; None for one next to the switches.
        namespace: Descriptor of the network namespace; None for the namespace of the socket.
    """

    name: str
    index: int = 0
    mac: bytes | None = None
    host: str | None = None
    namespace: int | None = None

    def attributes_of(self, mtu: int, group: int) -> bytes:
        """Return the attributes of this interface, with one queue in each direction.

        Args:
            mtu: MTU in bytes.
            group: Interface group, for an interface in the socket's namespace.
        """
        parts = [
            text(_IFLA_IFNAME, self.name),
            number(_IFLA_MTU, mtu),
            number(_IFLA_NUM_TX_QUEUES, 1),
            number(_IFLA_NUM_RX_QUEUES, 1),
        ]
        if self.mac is not None:
            parts.append(attribute(_IFLA_ADDRESS, self.mac))
        if self.namespace is None:
            parts.append(number(_IFLA_GROUP, group))
        else:
            parts.append(number(_IFLA_NET_NS_FD, self.namespace))
        return b"".join(parts)


def make_veth(a: VethEnd, b: VethEnd, *, mtu: int, group: int = 0) -> Message:
    """Create a veth pair, with each end in its namespace.

    The kernel sets ``a`` up at once. It cannot set ``b`` up, because it configures ``b`` before
    the two are connected: use ``set_up`` for it.

    Args:
        a: The first end.
        b: The second end.
        mtu: MTU in bytes.
        group: Interface group of the ends that are in the socket's namespace.
    """
    peer = link_header(b.index) + b.attributes_of(mtu, group)
    data = attribute(_IFLA_INFO_DATA, attribute(_VETH_INFO_PEER, peer))
    link_info = text(_IFLA_INFO_KIND, "veth") + data
    body = link_header(a.index, up=True)
    body += a.attributes_of(mtu, group)
    body += attribute(_IFLA_LINKINFO, link_info)
    return RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body


def set_up(index: int, up: bool) -> Message:
    """Set an interface up or down; a veth's other end loses its carrier with it."""
    return RTM_NEWLINK, 0, link_header(index, up=up)


def set_group(index: int, group: int) -> Message:
    """Add an interface to a group."""
    return RTM_NEWLINK, 0, link_header(index) + number(_IFLA_GROUP, group)


def delete_group(group: int) -> Message:
    """Delete every interface of the group, and the other ends of its veth pairs, at once."""
    return RTM_DELLINK, 0, link_header() + number(_IFLA_GROUP, group)


def add_address(index: int, ip: str, prefix: int) -> Message:
    """Add an IPv4 or IPv6 address to an interface.

    An IPv6 address is usable at once, because duplicate address detection is switched off for it.

    Args:
        index: Index of the interface.
        ip: The address.
        prefix: Prefix length in bits.
    """
    if ":" in ip:
        family = socket.AF_INET6
        flags = _IFA_F_NODAD
    else:
        family = socket.AF_INET
        flags = 0
    packed = socket.inet_pton(family, ip)
    body = struct.pack("=BBBBi", family, prefix, flags, 0, index)
    body += attribute(_IFA_ADDRESS, packed) + attribute(_IFA_LOCAL, packed)
    if family == socket.AF_INET:
        host_mask = (1 << 32 - prefix) - 1
        broadcast = int.from_bytes(packed) | host_mask
        body += attribute(_IFA_BROADCAST, broadcast.to_bytes(4))
    return RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body


def add_neighbour(index: int, ip: bytes, mac: bytes) -> Message:
    """Add a permanent neighbour: a static ARP entry, or its equivalent of IPv6.

    Args:
        index: Index of the interface.
        ip: The neighbour's address, 4 or 16 bytes.
        mac: Its MAC address, 6 bytes.
    """
    family = socket.AF_INET if len(ip) == 4 else socket.AF_INET6
    body = struct.pack("=BxxxiHBB", family, index, _NUD_PERMANENT, 0, 0)
    body += attribute(_NDA_DST, ip) + attribute(_NDA_LLADDR, mac)
    return RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body


def tc_header(index: int, handle: int, parent: int, info: int = 0) -> bytes:
    """Return the fixed part of a request about traffic control (struct tcmsg).

    Args:
        index: Index of the interface.
        handle: Handle of the qdisc, class or filter.
        parent: Handle of the parent.
        info: Priority and protocol of a filter.
    """
    return struct.pack("=BxxxiIII", 0, index, handle, parent, info)


def new_queue(
    index: int,
    kind: str,
    options: bytes,
    *,
    handle: int = 0,
    parent: int = ROOT,
    flags: int = NLM_F_REPLACE,
) -> Message:
    """Create a queueing discipline; by default it replaces the one that exists.

    Args:
        index: Index of the interface.
        kind: Name of the qdisc, such as ``tbf``.
        options: Its options, encoded.
        handle: Its handle; 0 lets the kernel choose.
        parent: Handle of the parent; by default it becomes the root qdisc.
        flags: Flags in addition to ``NLM_F_CREATE``.
    """
    body = tc_header(index, handle, parent)
    body += text(_TCA_KIND, kind) + attribute(_TCA_OPTIONS, options)
    return RTM_NEWQDISC, NLM_F_CREATE | flags, body


def rate_spec(bytes_per_s: int) -> bytes:
    """Return a rate over Ethernet (struct tc_ratespec).

    A rate of more than 32 bits is capped here; it must follow in a 64-bit attribute.
    """
    tc_linklayer_ethernet = 1
    capped = min(bytes_per_s, 0xFFFFFFFF)
    return struct.pack("=BBHhHI", 0, tc_linklayer_ethernet, 0, -1, 0, capped)


def delete_queue(index: int) -> Message:
    """Delete the interface's root qdisc."""
    return RTM_DELQDISC, 0, tc_header(index, 0, ROOT)


def packet_gate(index: int) -> Message:
    """Create the hook before an interface's queues (a clsact qdisc).

    A drop rule can be attached to it without touching the queues.
    """
    body = tc_header(index, CLSACT_HANDLE, CLSACT_PARENT) + text(_TCA_KIND, "clsact")
    return RTM_NEWQDISC, NLM_F_CREATE, body


# The return value of a BPF rule's program is the action on the packet (TCA_BPF_FLAG_ACT_DIRECT).
DIRECT_ACTION = number(_TCA_BPF_FLAGS, 1)


def bpf_rule(
    index: int, parent: int, priority: int, steps: Iterable[BpfStep], more: bytes = DIRECT_ACTION
) -> Message:
    """Attach a classic BPF program as a filter to a hook or queue.

    Ordinary users may attach classic BPF programs in their own namespaces, which they may not do
    with extended BPF.

    Args:
        index: Index of the interface.
        parent: Handle of the hook or queue.
        priority: Priority of the filter; lower ones run first.
        steps: The program.
        more: Further attributes of the filter. By default the program's return value is the
            action.
    """
    # struct sock_filter: operation, jump if true, jump if false, operand.
    instructions = [struct.pack("=HBBI", *step) for step in steps]
    options = attribute(_TCA_BPF_OPS_LEN, struct.pack("=H", len(instructions)))
    options += attribute(_TCA_BPF_OPS, b"".join(instructions))
    options += more
    body = _bpf_header(index, parent, priority) + attribute(_TCA_OPTIONS, options)
    return RTM_NEWTFILTER, NLM_F_CREATE, body


def remove_bpf_rule(index: int, parent: int, priority: int) -> Message:
    """Remove the BPF filter with this priority from a hook or queue."""
    return RTM_DELTFILTER, 0, _bpf_header(index, parent, priority)


def _bpf_header(index: int, parent: int, priority: int) -> bytes:
    info = priority << 16 | socket.htons(_ETH_P_ALL)
    return tc_header(index, 1, parent, info) + text(_TCA_KIND, "bpf")


def drop_rule(
    index: int, loss_fraction: float, action: Literal["add", "remove"] = "add"
) -> Message:
    """Drop packets that the interface sends, before they reach its queues.

    The filter returns TC_ACT_STOLEN for a packet to drop. It does not return TC_ACT_SHOT, because
    that reports the drop to the sender, and a user-space switch then discards the rest of its
    batch.

    Args:
        index: Index of the interface, which must have the hook of ``packet_gate``.
        loss_fraction: Probability with which each packet is dropped, drawn by the kernel.
        action: ``"remove"`` returns the message that removes such a rule.
    """
    if action == "remove":
        return remove_bpf_rule(index, CLSACT_EGRESS, _DROP_PRIORITY)
    load_word = 0x20
    jump_if_at_least = 0x35
    return_constant = 0x06
    skf_ad_random = 0xFFFFF000 + 56
    tc_act_stolen = 4
    tc_act_unspec = 0xFFFFFFFF

    steps: list[BpfStep] = []
    if loss_fraction < 1:
        threshold = min(round(loss_fraction * 2**32), 0xFFFFFFFF)
        steps.append((load_word, 0, 0, skf_ad_random))
        steps.append((jump_if_at_least, 1, 0, threshold))
    steps.append((return_constant, 0, 0, tc_act_stolen))
    steps.append((return_constant, 0, 0, tc_act_unspec))
    return bpf_rule(index, CLSACT_EGRESS, _DROP_PRIORITY, steps)


def compute_checksums(interface: str, sock: socket.socket) -> None:
    """Switch off transmit checksum offload, so that hosts compute checksums themselves.

    Programs that read frames in transit need complete checksums.

    Args:
        interface: Name of the interface.
        sock: Any socket in the interface's network namespace.
    """
    siocethtool = 0x8946
    ethtool_stxcsum = 0x17
    value = array.array("B", struct.pack("=II", ethtool_stxcsum, 0))
    address, _ = value.buffer_info()
    fcntl.ioctl(sock, siocethtool, struct.pack("16sP16x", interface.encode(), address))


@cache
def tick_ns() -> float:
    """Return the length of a tick of the packet scheduler's clock, in nanoseconds.

    /proc/net/psched begins with the nanoseconds of a microsecond and of a tick, in hexadecimal.
    """
    with open("/proc/net/psched") as file:
        return float(int(file.read().split()[1], 16))
