"""The kernel's own language for interfaces, addresses and queues (rtnetlink), written as batches of ready-made
messages.

One system call carries hundreds of settings and says which one failed; a shell command a setting takes milliseconds
each.
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

Message = tuple[int, int, bytes]
"""(message type, extra flags, body): one request, without the header that ``Netlink`` puts before it."""

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_NEWADDR, RTM_NEWNEIGH = 16, 17, 18, 20, 28
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC, RTM_NEWTFILTER, RTM_DELTFILTER = 36, 37, 38, 44, 45
NLMSG_ERROR, NLMSG_DONE = 2, 3
IFF_UP = 1
ROOT, CLSACT_PARENT, CLSACT_EGRESS = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFFFFF3
CLSACT_HANDLE = 0xFFFF0000
BpfStep = tuple[int, int, int, int]
"""(operation, steps to skip where it holds, where it does not, operand) of a classic BPF program."""
_DROP_PRIORITY = 2
"""Behind the rule that sends impaired links' packets on a detour."""
_BATCH_BYTES = 60_000
_ANSWER_LIMIT_S = 60.0
"""A lock that all network namespaces share may be held for seconds while thousands of interfaces go."""


class NetlinkError(OSError):
    """The kernel refused one message of a batch."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(code, detail or os.strerror(code))


class InterfaceCounters(NamedTuple):
    """What one interface has sent and received since it was made; ``queue_drops`` counts its queues' drops."""

    sent_packets: int
    sent_bytes: int
    queue_drops: int = 0
    received_packets: int = 0


class Netlink(AbstractContextManager["Netlink"]):
    """One rtnetlink socket, bound for life to the network namespace in which it is made."""

    def __init__(self, sock: socket.socket | None = None) -> None:
        self._sock = sock or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self._sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        self._sock.settimeout(_ANSWER_LIMIT_S)
        sol_netlink, netlink_ext_ack, netlink_cap_ack = 270, 11, 10
        self._sock.setsockopt(sol_netlink, netlink_cap_ack, 1)
        self._sock.setsockopt(sol_netlink, netlink_ext_ack, 1)
        self._sequence = 0

    def apply(self, messages: Sequence[Message], *, limit_s: float = _ANSWER_LIMIT_S) -> None:
        """Carry the messages out in order and wait until all are done; ``limit_s`` seconds at most for each batch of
        some hundreds.

        Raises NetlinkError for the first refused one, and where the kernel has not answered by then (ETIMEDOUT).
        """
        self._sock.settimeout(limit_s)
        try:
            self._apply_all(messages)
        except TimeoutError:
            raise NetlinkError(errno.ETIMEDOUT, f"no answer within {limit_s:.0f} s") from None
        finally:
            self._sock.settimeout(_ANSWER_LIMIT_S)

    def _apply_all(self, messages: Sequence[Message]) -> None:
        start = 0
        while start < len(messages):
            size, stop = 0, start
            while stop < len(messages) and (
                stop == start or size + len(messages[stop][2]) + 16 <= _BATCH_BYTES
            ):
                size += len(messages[stop][2]) + 16
                stop += 1
            self._apply_batch(messages[start:stop])
            start = stop

    def _apply_batch(self, messages: Sequence[Message]) -> None:
        first = self._sequence + 1
        parts = []
        for kind, flags, body in messages:
            self._sequence += 1
            # Errors always answer; only the last message asks for an answer to success as well.
            asks = NLM_F_ACK if self._sequence == first + len(messages) - 1 else 0
            parts.append(
                struct.pack(
                    "=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags | asks, self._sequence, 0
                )
            )
            parts.append(body + bytes(-len(body) % 4))
        self._sock.send(b"".join(parts))
        failure: NetlinkError | None = None
        for kind, sequence, body in self._answers():
            if kind != NLMSG_ERROR or sequence < first:
                continue
            code = -struct.unpack_from("=i", body)[0]
            if code and failure is None:
                failure = NetlinkError(code, _extended_text(body))
            if sequence == self._sequence:
                break
        if failure is not None:
            raise failure

    def dump(self, kind: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        """(message type, body) of every object that the kernel lists for a GET request."""
        self._ask(kind, NLM_F_DUMP, body)
        for answer, sequence, content in self._answers():
            if sequence != self._sequence:
                continue
            if answer == NLMSG_DONE:
                return
            if answer == NLMSG_ERROR:
                raise NetlinkError(-struct.unpack_from("=i", content)[0], _extended_text(content))
            yield answer, content

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        header = struct.pack(
            "=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, self._sequence, 0
        )
        self._sock.send(header + body)

    def _answers(self) -> Iterator[tuple[int, int, bytes]]:
        while True:
            received = self._sock.recv(1 << 18)
            at = 0
            while at + 16 <= len(received):
                size, kind, _, sequence, _ = struct.unpack_from("=IHHII", received, at)
                yield kind, sequence, received[at + 16 : at + size]
                at += size + 3 & ~3

    def interfaces(self) -> dict[str, int]:
        """Interface name -> index, of this socket's namespace."""
        found = {}
        for _, body in self.dump(RTM_GETLINK, bytes(16)):
            name = attributes_of(body[16:]).get(3)
            if name is not None:
                found[name.rstrip(b"\0").decode()] = struct.unpack_from("=i", body, 4)[0]
        return found

    def is_operational(self, index: int) -> bool:
        """Whether the interface's state is UP: it has a carrier, and the kernel has set its queues to work."""
        self._ask(RTM_GETLINK, 0, link_header(index))
        for kind, sequence, body in self._answers():
            if sequence == self._sequence:
                return (
                    kind == RTM_NEWLINK and attributes_of(body[16:]).get(16) == b"\x06"
                )  # IFLA_OPERSTATE: IF_OPER_UP
        return False

    def counters(self) -> dict[str, InterfaceCounters]:
        """What every interface of this socket's namespace has sent and its queues have dropped."""
        drops: dict[int, int] = {}
        for _, body in self.dump(RTM_GETQDISC, bytes(20)):
            index, parent = struct.unpack_from("=i4xI", body, 4)
            stats = attributes_of(body[20:]).get(3)  # TCA_STATS: bytes u64, packets u32, drops u32
            if stats is not None and (parent in (ROOT, CLSACT_PARENT)):
                drops[index] = drops.get(index, 0) + struct.unpack_from("=I", stats, 12)[0]
        found = {}
        for _, body in self.dump(RTM_GETLINK, bytes(16)):
            index, attributes = struct.unpack_from("=i", body, 4)[0], attributes_of(body[16:])
            if 3 not in attributes or 23 not in attributes:
                continue
            name = attributes[3].rstrip(b"\0").decode()
            # IFLA_STATS64: packets received and sent, bytes received and sent
            received, sent, _, sent_bytes = struct.unpack_from("=4Q", attributes[23])
            found[name] = InterfaceCounters(sent, sent_bytes, drops.get(index, 0), received)
        return found

    def close(self) -> None:
        self._sock.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _extended_text(body: bytes) -> str:
    """The kernel's own words on an error (NLMSGERR_ATTR_MSG); NETLINK_CAP_ACK leaves out the echo of the request."""
    return attributes_of(body[20:]).get(1, b"").rstrip(b"\0").decode(errors="replace")


def attributes_of(blob: bytes) -> dict[int, bytes]:
    """Kind -> value of the attributes that follow a message's fixed part."""
    found, at = {}, 0
    while at + 4 <= len(blob):
        size, kind = struct.unpack_from("=HH", blob, at)
        if size < 4:
            break
        found[kind & 0x3FFF] = blob[at + 4 : at + size]
        at += size + 3 & ~3
    return found


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def link_header(index: int = 0, *, up: bool | None = None) -> bytes:
    """What every request about an interface begins with."""
    return struct.pack("=BxHiII", 0, 0, index, IFF_UP if up else 0, 0 if up is None else IFF_UP)


@dataclass(frozen=True, kw_only=True)
class VethEnd:
    """One end of a veth pair to be made. ``index``: the interface index it gets (0: the kernel's choice); ``host``: in
    whose namespace it lies, None next to the switches; ``namespace``: open file of that, None for the socket's own;
    ``mac``: six bytes, None: random."""

    name: str
    index: int = 0
    mac: bytes | None = None
    host: str | None = None
    namespace: int | None = None

    def attributes_of(self, mtu: int, group: int) -> bytes:
        parts = [text(3, self.name), number(4, mtu), number(31, 1), number(32, 1)]
        if self.mac is not None:
            parts.append(attribute(1, self.mac))
        parts.append(number(27, group) if self.namespace is None else number(28, self.namespace))
        return b"".join(parts)


def make_veth(a: VethEnd, b: VethEnd, *, mtu: int, group: int = 0) -> Message:
    """A veth pair, each end with one queue and in its namespace. ``group`` marks ends in the socket's own namespace.

    ``a`` is up at once; ``b`` cannot be (the kernel configures it before the two know of each other): ``set_up`` it.
    """
    peer = link_header(b.index) + b.attributes_of(mtu, group)
    kind = text(1, "veth") + attribute(2, attribute(1, peer))
    body = link_header(a.index, up=True) + a.attributes_of(mtu, group) + attribute(18, kind)
    return RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body


def set_up(index: int, up: bool) -> Message:
    """Bring an interface up or down; a veth's other end loses its carrier with it."""
    return RTM_NEWLINK, 0, link_header(index, up=up)


def set_group(index: int, group: int) -> Message:
    """Put an interface into a group."""
    return RTM_NEWLINK, 0, link_header(index) + number(27, group)


def delete_group(group: int) -> Message:
    """Remove every interface of the group, and the other ends of its veth pairs, in one go."""
    return RTM_DELLINK, 0, link_header() + number(27, group)


def add_address(index: int, ip: str, prefix: int) -> Message:
    """Give an interface an IPv4 address, or an IPv6 one, in force at once: without a search for others that have it."""
    family, no_search = (socket.AF_INET6, 0x02) if ":" in ip else (socket.AF_INET, 0)
    packed = socket.inet_pton(family, ip)
    body = (
        struct.pack("=BBBBi", family, prefix, no_search, 0, index)
        + attribute(1, packed)
        + attribute(2, packed)
    )
    if family == socket.AF_INET:
        body += attribute(4, (int.from_bytes(packed) | (1 << 32 - prefix) - 1).to_bytes(4))
    return RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body


def add_neighbour(index: int, ip: bytes, mac: bytes) -> Message:
    """A permanent neighbour of IPv4 (a static ARP entry) or IPv6, by the length of its address."""
    permanent, family = 0x80, socket.AF_INET if len(ip) == 4 else socket.AF_INET6
    body = struct.pack("=BxxxiHBB", family, index, permanent, 0, 0)
    return RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body + attribute(1, ip) + attribute(2, mac)


def tc_header(index: int, handle: int, parent: int, info: int = 0) -> bytes:
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
    """A queue of that kind, by default in place of the one that is there."""
    body = tc_header(index, handle, parent) + text(1, kind) + attribute(2, options)
    return RTM_NEWQDISC, NLM_F_CREATE | flags, body


def rate_spec(bytes_per_s: int) -> bytes:
    """A rate over Ethernet (struct tc_ratespec); one of more than 32 bits follows in an attribute of its own."""
    ethernet = 1
    return struct.pack("=BBHhHI", 0, ethernet, 0, -1, 0, min(bytes_per_s, 0xFFFFFFFF))


def delete_queue(index: int) -> Message:
    """Remove the interface's root queue."""
    return RTM_DELQDISC, 0, tc_header(index, 0, ROOT)


def packet_gate(index: int) -> Message:
    """The hook (clsact) before an interface's queues, to which a drop rule can be added without touching them."""
    return (
        RTM_NEWQDISC,
        NLM_F_CREATE,
        tc_header(index, CLSACT_HANDLE, CLSACT_PARENT) + text(1, "clsact"),
    )


DIRECT_ACTION = number(8, 1)
"""A BPF rule's program says by its answer what happens to the packet."""


def bpf_rule(
    index: int, parent: int, priority: int, steps: Iterable[BpfStep], more: bytes = DIRECT_ACTION
) -> Message:
    """Judge what passes the hook or queue ``parent`` of an interface by a classic BPF program, which ordinary users may
    set in namespaces of their own; its answer is what happens to the packet, unless ``more`` says otherwise."""
    program = b"".join(struct.pack("=HBBI", *step) for step in steps)  # struct sock_filter
    options = attribute(4, struct.pack("=H", len(program) // 8)) + attribute(5, program) + more
    return (
        RTM_NEWTFILTER,
        NLM_F_CREATE,
        _bpf_header(index, parent, priority) + attribute(2, options),
    )


def remove_bpf_rule(index: int, parent: int, priority: int) -> Message:
    """Take the rule of that priority away."""
    return RTM_DELTFILTER, 0, _bpf_header(index, parent, priority)


def _bpf_header(index: int, parent: int, priority: int) -> bytes:
    everything = socket.htons(3)  # ETH_P_ALL
    return tc_header(index, 1, parent, priority << 16 | everything) + text(1, "bpf")


def drop_rule(
    index: int, loss_fraction: float, action: Literal["add", "remove"] = "add"
) -> Message:
    """Drop what the interface sends, each packet with that probability, before its queues (a classic BPF classifier).

    The program returns TC_ACT_STOLEN (4) or TC_ACT_UNSPEC (-1); its random numbers are the kernel's own. Not
    TC_ACT_SHOT: that reports the drop to the sender, and a user-space switch then throws the rest of its batch away.
    """
    if action == "remove":
        return remove_bpf_rule(index, CLSACT_EGRESS, _DROP_PRIORITY)
    load_random, jump_if_at_least, answer = 0x20, 0x35, 0x06
    ancillary_random = 0xFFFFF000 + 56
    stolen, unspecified = 4, 0xFFFFFFFF
    drawn = (
        (load_random, 0, 0, ancillary_random),
        (jump_if_at_least, 1, 0, min(round(loss_fraction * 2**32), 0xFFFFFFFF)),
    )
    steps = (
        *(drawn if loss_fraction < 1 else ()),
        (answer, 0, 0, stolen),
        (answer, 0, 0, unspecified),
    )
    return bpf_rule(index, CLSACT_EGRESS, _DROP_PRIORITY, steps)


def compute_checksums(interface: str, sock: socket.socket) -> None:
    """Let what sends through the interface compute its checksums (ethtool's tx off): who reads frames on the way must
    find them whole.

    ``sock``: any in the interface's namespace.
    """
    siocethtool, ethtool_stxcsum = 0x8946, 0x17
    value = array.array("B", struct.pack("=II", ethtool_stxcsum, 0))
    fcntl.ioctl(
        sock, siocethtool, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
    )


@cache
def tick_ns() -> float:
    """Nanoseconds a tick of the packet scheduler's clock: /proc/net/psched begins with nanoseconds a microsecond and a
    tick."""
    with open("/proc/net/psched") as file:
        return float(int(file.read().split()[1], 16))
