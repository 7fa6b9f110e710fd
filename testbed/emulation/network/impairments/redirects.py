"""Redirects the packets of impaired and delayed links through a process, the relay.

Each such link has a detour: a veth pair next to the cable. The relay reads packets at its far end
and sends them on.

A packet that leaves a switch or host on an impaired link is redirected before the queues of its
interface. It returns with a mark, passes the redirecting rule, and goes through the queue,
capacity and faults of the link like any other packet.
"""

import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.impairments import relay
from testbed.emulation.network.impairments.relay import Lane, LaneReport, Relay
from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.host_namespaces import HostNamespaces
from testbed.emulation.network.kernel.queues import has_netem
from testbed.emulation.sandbox.forked_process import prepare_processes
from testbed.faults.impaired_link import MIN_QUEUE_PACKETS, ImpairedLink
from topologies.impairments import Impairments, impairment_text, to_text
from topologies.network import LinkId, label_of

# One more relay process is started for this many lanes, if there are processors for it.
LANES_OF_RELAY = 32
MAX_RELAYS = 4

# The rule comes before the one that drops packets (2). A packet that returns from its detour may
# still be dropped, but only once.
_DETOUR_PRIORITY = 1

_NESTED = 0x8000

# Indices of the interfaces of detours are above those of all cables.
_FIRST_INDEX = 1_000_000

# Marks are unlikely to be those of a user's own rules.
_FIRST_MARK = 0x7E570000

# Room for a burst while the relay waits for a processor.
_RECEIVE_BYTES = 4 << 20
_SEND_BYTES = 4 << 20

_ETH_P_ALL = 3
_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23

# A packet of the default MTU with its Ethernet header.
_FRAME_BYTES = 1514


@dataclass(frozen=True, kw_only=True)
class ImpairedEnd:
    """An interface that sends a link's packets, and what happens to these packets.

    Attributes:
        end: The interface.
        link: The link.
        impairments: The impairments of the packets.
        queue_bytes: Length of the link's queue in bytes.
        delay_s: Delay of the link in seconds, if the relay has to make it; otherwise 0.
    """

    end: CableEnd
    link: LinkId
    impairments: Impairments
    queue_bytes: int = MIN_QUEUE_PACKETS * _FRAME_BYTES
    delay_s: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """The interface, and the impairments and delay as text, which is empty for neither.

        Ends with the same key share a detour.
        """
        return self.end.interface, _text(impairment_text(self.impairments), self.delay_s)

    @property
    def name(self) -> str:
        """The link, its impairments and its delay as text, for reports."""
        text = _text(to_text(self.impairments), self.delay_s)
        return f"{label_of(self.link)} {text}" if text else label_of(self.link)


def _text(impairments: str, delay_s: float) -> str:
    """Return impairments (as text) and a delay as one text."""
    parts = []
    if impairments:
        parts.append(impairments)
    if delay_s:
        parts.append(f"delay_s={delay_s:g}")
    return " ".join(parts)


class Redirects:
    """The detours of one network.

    Args:
        namespaces: The namespaces of the hosts.
        mtu: MTU of the detours, in bytes.
        seed: Seed of random impairments.
    """

    def __init__(self, namespaces: HostNamespaces, *, mtu: int, seed: int) -> None:
        self._namespaces = namespaces
        self._mtu = mtu
        self._seed = seed
        self._relays: list[Relay] = []

        # Key of an end -> index of the interface at which its detour begins.
        self._detour_index: dict[tuple[str, str], int] = {}

        # Interface -> index of the detour that its packets take now; 0 for none.
        self._active: dict[str, int] = {}

    @cached_property
    def has_netem(self) -> bool:
        """True if the kernel itself can delay and drop packets."""
        return has_netem(self._namespaces.netlink_of(None))

    def expect(self) -> None:
        """Let the helper that starts relays load their code while the network is built."""
        prepare_processes(relay.__name__)

    def prepare(self, required: Sequence[ImpairedEnd]) -> None:
        """Create the missing detours, and start processes for them.

        No packet takes a detour before ``switch``.
        """
        new_ends = {}
        for impaired in required:
            _, text = impaired.key
            if text:
                new_ends[impaired.key] = impaired
        lanes = []
        for key, impaired in new_ends.items():
            if key not in self._detour_index:
                lanes.append(self._lane(key, impaired))
        processors = len(os.sched_getaffinity(0))
        count = min(MAX_RELAYS, processors, -(-len(lanes) // LANES_OF_RELAY))
        for number in range(count):
            self._relays.append(Relay(lanes[number::count]))

    def switch(self, required: ImpairedEnd) -> None:
        """Let the packets of an end take another detour from now on.

        Args:
            required: The end. Without impairments and delay, its packets take no detour.
        """
        end = required.end
        netlink = self._namespaces.netlink_of(end.host)
        self.prepare([required])
        new = self._detour_index.get(required.key, 0)
        old = self._active.get(end.interface, 0)
        if old == new:
            return
        messages = [rtnl.packet_gate(end.index)]
        if old:
            messages.append(detour_rule(end.index, mark=_mark(end), through=old, action="remove"))
        if new:
            messages.append(detour_rule(end.index, mark=_mark(end), through=new))
        netlink.apply(messages)
        self._active[end.interface] = new

    def reports(self) -> dict[str, LaneReport]:
        """Return what happened to the packets of each lane, by ``ImpairedEnd.name``."""
        reports: dict[str, LaneReport] = {}
        for process in self._relays:
            reports.update(process.reports())
        return reports

    def forget(self) -> None:
        """Leave delays and losses of the relays until now out of later reports."""
        for process in self._relays:
            process.forget()

    def close(self) -> None:
        """End all relays."""
        for process in self._relays:
            process.stop()
        self._relays.clear()

    def _lane(self, key: tuple[str, str], required: ImpairedEnd) -> Lane:
        """Create a detour, and return the lane through which the relay serves it."""
        number = len(self._detour_index)
        end = required.end
        near = f"im{number}a"
        far = f"im{number}b"
        index = _FIRST_INDEX + 2 * number
        # A locally administered address, which differs from those of all cables.
        mac = struct.pack("=BBI", 0x02, 0x7E, index)
        pair = rtnl.make_veth(
            rtnl.VethEnd(name=near, index=index, mac=mac),
            rtnl.VethEnd(name=far, index=index + 1),
            mtu=self._mtu,
            group=CablePlan.GROUP,
        )
        self._namespaces.netlink_of(end.host).apply([pair, rtnl.set_up(index + 1, True)])
        with self._namespaces.open_socket(end.host, socket.AF_INET, socket.SOCK_DGRAM) as control:
            rtnl.compute_checksums(near, control)
        reading = self._reading_socket(end, far)
        writing = self._writing_socket(end)
        self._detour_index[key] = index
        make_link = partial(
            ImpairedLink,
            required.impairments,
            required.link,
            seed=self._seed + number,
            queue_bytes=required.queue_bytes,
            delay_s=required.delay_s,
        )
        return Lane(
            name=required.name,
            make_link=make_link,
            reading=reading,
            writing=writing,
            own_mac=mac,
            delay_s=required.delay_s,
        )

    def _reading_socket(self, end: CableEnd, far: str) -> socket.socket:
        """Return a packet socket that receives what arrives at the far end of a detour."""
        sock = self._namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        sock.setblocking(False)
        # Packets are received from here on, so all options are set before.
        sock.bind((far, _ETH_P_ALL))
        return sock

    def _writing_socket(self, end: CableEnd) -> socket.socket:
        """Return a packet socket that sends marked packets through the interface of an end."""
        sock = self._namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _mark(end))
        sock.setblocking(False)
        # Protocol 0: the socket receives nothing.
        sock.bind((end.interface, 0))
        return sock


def _mark(end: CableEnd) -> int:
    """Return the mark of packets that return to an interface from its detour.

    Each interface has its own, because a switch in the kernel may forward a packet with the mark
    that it had when it arrived.
    """
    return _FIRST_MARK + end.index


def detour_rule(
    index: int, *, mark: int, through: int, action: Literal["add", "remove"] = "add"
) -> rtnl.Message:
    """Return the message that redirects packets of an interface, except those with a mark.

    Marked packets have already taken the detour. The rule is a classic BPF classifier with a
    redirecting action, at the hook before the queues of the interface (clsact). Ordinary users may
    use both in their own namespaces, which they may not do with extended BPF programs.

    Args:
        index: Index of the interface.
        mark: The mark.
        through: Index of the interface that sends the packets instead.
        action: ``"remove"`` returns the message that removes the rule.
    """
    if action == "remove":
        return rtnl.remove_bpf_rule(index, rtnl.CLSACT_EGRESS, _DETOUR_PRIORITY)
    load_word = 0x20
    jump_if_equal = 0x15
    return_constant = 0x06
    skf_ad_mark = 0xFFFFF000 + 20
    no_match = 0
    match = 0xFFFFFFFF
    steps = (
        (load_word, 0, 0, skf_ad_mark),
        (jump_if_equal, 0, 1, mark),
        (return_constant, 0, 0, no_match),
        (return_constant, 0, 0, match),
    )
    return rtnl.bpf_rule(
        index, rtnl.CLSACT_EGRESS, _DETOUR_PRIORITY, steps, _redirect_action(through)
    )


def _redirect_action(through: int) -> bytes:
    """Return the attribute of a filter that sends matching packets through an interface."""
    tca_bpf_act = 1
    tca_act_kind = 1
    tca_act_options = 2
    tca_mirred_parms = 2
    tc_act_stolen = 4
    tca_egress_redir = 1
    # struct tc_mirred.
    target = struct.pack("=IIiiiiI", 0, 0, tc_act_stolen, 0, 0, tca_egress_redir, through)
    options = rtnl.attribute(tca_mirred_parms, target)
    mirred = rtnl.text(tca_act_kind, "mirred")
    mirred += rtnl.attribute(tca_act_options | _NESTED, options)
    first_action = rtnl.attribute(1, mirred)
    return rtnl.attribute(tca_bpf_act | _NESTED, first_action)
