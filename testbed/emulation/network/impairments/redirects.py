"""Detours of impaired and delayed links: a veth pair each, next to the cable, whose far end the relay reads and whose
packets it sends on.

A packet that leaves a switch or host on an impaired link is redirected before the queues of its interface; it comes
back marked, passes the redirecting rule, and goes through the link's own queue, capacity and faults like any other.
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

LANES_OF_RELAY, MOST_RELAYS = 32, 4
"""A process has so many lanes where there are processors for more."""
_DETOUR_PRIORITY = 1
"""Before the rule that drops packets (2): a packet that comes back from its detour may still be dropped, once."""
_NESTED = 0x8000
_FIRST_INDEX = 1_000_000
_FIRST_MARK = 0x7E570000
_RECEIVE_BYTES, _SEND_BYTES = 4 << 20, 4 << 20
_EVERYTHING = 3  # ETH_P_ALL
_IGNORE_OUTGOING = (263, 23)  # SOL_PACKET, PACKET_IGNORE_OUTGOING


@dataclass(frozen=True, kw_only=True)
class ImpairedEnd:
    """An end that sends a link's packets, and what is to happen to them. ``delay_s``: the link's own delay where the
    relay has to make it, else 0."""

    end: CableEnd
    link: LinkId
    impairments: Impairments
    queue_bytes: int = MIN_QUEUE_PACKETS * 1514
    delay_s: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """(interface, what happens there, "" for nothing): ends with one key have one detour."""
        return self.end.interface, " ".join(_words(impairment_text(self.impairments), self.delay_s))

    @property
    def name(self) -> str:
        """For a person, and in reports."""
        return " ".join([label_of(self.link), *_words(to_text(self.impairments), self.delay_s)])


def _words(impairments: str, delay_s: float) -> list[str]:
    return [word for word in (impairments, f"delay_s={delay_s:g}" if delay_s else "") if word]


class Redirects:
    """All detours of one network. ``seed``: of what chance decides."""

    def __init__(self, namespaces: HostNamespaces, *, mtu: int, seed: int) -> None:
        self._namespaces, self._mtu, self._seed = namespaces, mtu, seed
        self._through: dict[tuple[str, str], int] = {}
        self._relays: list[Relay] = []
        self._taken: dict[str, int] = {}

    @cached_property
    def has_netem(self) -> bool:
        """Whether the kernel delays and loses packets by itself."""
        return has_netem(self._namespaces.netlink_of(None))

    def expect(self) -> None:
        """Let the helper that starts relays load their code while the network is built."""
        prepare_processes(relay.__name__)

    def prepare(self, required: Sequence[ImpairedEnd]) -> None:
        """Lay the detours that are not there yet, and start a process for them, or two where there are many lanes and
        processors; no packet takes them before ``switch``."""
        new = {one.key: one for one in required if one.key[1]}
        lanes = [self._lane(key, one) for key, one in new.items() if key not in self._through]
        count = min(MOST_RELAYS, len(os.sched_getaffinity(0)), -(-len(lanes) // LANES_OF_RELAY))
        shares = [lanes[k::count] for k in range(count)]
        self._relays += [Relay(share) for share in shares]

    def switch(self, required: ImpairedEnd) -> None:
        """The end's packets take the detour of these impairments and this delay from now on, or none where there are
        neither."""
        end, netlink = required.end, self._namespaces.netlink_of(required.end.host)
        self.prepare([required])
        through = self._through.get(required.key, 0)
        taken = self._taken.get(end.interface, 0)
        if taken == through:
            return
        messages = [rtnl.packet_gate(end.index)]
        if taken:
            messages.append(detour_rule(end.index, mark=_mark(end), through=taken, action="remove"))
        if through:
            messages.append(detour_rule(end.index, mark=_mark(end), through=through))
        netlink.apply(messages)
        self._taken[end.interface] = through

    def reports(self) -> dict[str, LaneReport]:
        """Link and words -> what became of its packets."""
        reports: dict[str, LaneReport] = {}
        for process in self._relays:
            reports.update(process.reports())
        return reports

    def forget(self) -> None:
        """What was late until now is not reported any more."""
        for process in self._relays:
            process.forget()

    def close(self) -> None:
        for process in self._relays:
            process.stop()
        self._relays.clear()

    def _lane(self, key: tuple[str, str], required: ImpairedEnd) -> Lane:
        number, end = len(self._through), required.end
        near, far, index = f"im{number}a", f"im{number}b", _FIRST_INDEX + 2 * number
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
        reading = self._namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        reading.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        reading.setsockopt(*_IGNORE_OUTGOING, 1)
        reading.setblocking(False)
        reading.bind((far, _EVERYTHING))
        writing = self._namespaces.open_socket(end.host, socket.AF_PACKET, socket.SOCK_RAW)
        writing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        writing.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _mark(end))
        writing.setblocking(False)
        writing.bind((end.interface, 0))
        self._through[key] = index
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


def _mark(end: CableEnd) -> int:
    """Of its own for each interface: a switch in the kernel may pass a packet on with the mark that it came with."""
    return _FIRST_MARK + end.index


def detour_rule(
    index: int, *, mark: int, through: int, action: Literal["add", "remove"] = "add"
) -> rtnl.Message:
    """Send what the interface sends out of the interface ``through`` instead, but for packets with that mark: those
    have been there.

    A classic BPF classifier and a redirecting action, at the interface's hook before its queues (clsact); ordinary
    users may set both in namespaces of their own, which they may not do with extended BPF programs.
    """
    if action == "remove":
        return rtnl.remove_bpf_rule(index, rtnl.CLSACT_EGRESS, _DETOUR_PRIORITY)
    load_word, jump_if_equal, answer = 0x20, 0x15, 0x06
    ancillary_mark, no_match, match = 0xFFFFF000 + 20, 0, 0xFFFFFFFF
    steps = (
        (load_word, 0, 0, ancillary_mark),
        (jump_if_equal, 0, 1, mark),
        (answer, 0, 0, no_match),
        (answer, 0, 0, match),
    )
    stolen, redirect = 4, 1
    target = struct.pack("=IIiiiiI", 0, 0, stolen, 0, 0, redirect, through)
    mirred = rtnl.attribute(
        1, rtnl.text(1, "mirred") + rtnl.attribute(2 | _NESTED, rtnl.attribute(2, target))
    )
    return rtnl.bpf_rule(
        index, rtnl.CLSACT_EGRESS, _DETOUR_PRIORITY, steps, rtnl.attribute(1 | _NESTED, mirred)
    )
