"""Trials that need a network of their own: run inside a throw-away sandbox, they print one JSON object.

Each trial sets up the real thing, and where that can be done in a moment measures its effect.
"""

import json
import math
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from testbed.emulation.network.impairments.redirects import detour_rule
from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.queues import netem_line, token_bucket
from testbed.emulation.network.open_vswitch.bridges import Bridge, bridge_operations
from testbed.emulation.network.open_vswitch.switches import (
    PrivateSwitches,
    choose_datapath,
    probe_kernel_datapath,
)
from testbed.errors import CapabilityError

_A, _B, _C, _D = 101, 102, 103, 104
_PACKETS = 400
_LOSS = 0.5
_ETHERTYPE = 0x88B5  # for local experiments (IEEE 802)
_PACKET = b"\xff" * 6 + b"\x02\0\0\0\0\1" + _ETHERTYPE.to_bytes(2, "big") + bytes(46)
_DELAY_S = 0.02
# A machine with time for one packet in five sends it on within a few milliseconds.
_DELAY_TOLERANCE_S = 0.005
_Arrived = tuple[int, float]
"""How many packets, in how many seconds."""


def _arrivals(
    count: int, netlink: rtnl.Netlink, made: Sequence[rtnl.Message], undone: rtnl.Message
) -> _Arrived:
    """Of packets that are sent over the trial cable while what ``made`` makes is there."""
    netlink.apply(made)
    began = time.monotonic()
    try:
        return _packets_that_arrive(count), time.monotonic() - began
    finally:
        netlink.apply([undone])


def _packets_that_arrive(count: int) -> int:
    """Send packets over the trial cable and count the arrivals."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as receiver,
    ):
        sender.bind(("trial0", 0))
        receiver.bind(("trial1", _ETHERTYPE))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiver.settimeout(0.1)
        arrived = 0
        for _ in range(count):
            with suppress(OSError):  # a full queue tells the sender with ENOBUFS
                sender.send(_PACKET)
        with suppress(TimeoutError):
            while arrived < count:
                receiver.recv(100)
                arrived += 1
        return arrived


def _shaping(netlink: rtnl.Netlink) -> str:
    bucket = token_bucket(_A, rate_bps=1e6, burst_bytes=3000, queue_bytes=1_000_000)
    arrived, took_s = _arrivals(200, netlink, [bucket], rtnl.delete_queue(_A))
    if arrived < 200 or took_s < 0.05:
        raise CapabilityError("tbf is there but does not hold packets back")
    return "tbf holds a link to its rate"


def _netem(netlink: rtnl.Netlink) -> str:
    netlink.apply([netem_line(_A, delay_s=_DELAY_S)])
    try:
        delays_s = [_packet_delay_s() for _ in range(5)]
    finally:
        netlink.apply([rtnl.delete_queue(_A)])
    return judge_delays(delays_s)


def judge_delays(delays_s: Sequence[float]) -> str:
    """Return a description of the delays that netem caused.

    The smallest of the delays counts, because a busy machine only lengthens them.

    Raises:
        CapabilityError: No packet arrived, or the smallest delay is not the one that was set.
    """
    delay_ms = min(delays_s) * 1000
    set_ms = _DELAY_S * 1000
    if math.isinf(delay_ms):
        raise CapabilityError("netem is there, but no packet passes it")
    if abs(delay_ms - set_ms) > _DELAY_TOLERANCE_S * 1000:
        raise CapabilityError(f"netem delays a packet by {delay_ms:.0f} ms instead of {set_ms:.0f}")
    return f"netem: a delay of {set_ms:.0f} ms measured as {delay_ms:.1f} ms"


def _packet_delay_s() -> float:
    """Return the time from sending a packet over the trial cable to its arrival, or infinity."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE)) as receiver,
    ):
        sender.bind(("trial0", 0))
        receiver.bind(("trial1", _ETHERTYPE))
        receiver.settimeout(1)
        sent_s = time.monotonic()
        sender.send(_PACKET)
        try:
            receiver.recv(100)
        except TimeoutError:
            return math.inf
        return time.monotonic() - sent_s


def _packet_loss(netlink: rtnl.Netlink) -> str:
    losing = [rtnl.packet_gate(_A), rtnl.drop_rule(_A, _LOSS)]
    arrived, _ = _arrivals(_PACKETS, netlink, losing, rtnl.drop_rule(_A, _LOSS, "remove"))
    lost = 1 - arrived / _PACKETS
    if not 0.3 < lost < 0.7:
        raise CapabilityError(
            f"a BPF classifier was asked to lose half of the packets and lost {lost:.0%}"
        )
    return f"a BPF classifier: asked to lose 50 %, lost {lost:.0%} of {_PACKETS} packets"


def _impairments(netlink: rtnl.Netlink) -> str:
    """Packets of the trial cable are redirected, but for those that come back with their mark."""
    netlink.apply(
        [
            rtnl.make_veth(
                rtnl.VethEnd(name="trial2", index=_C),
                rtnl.VethEnd(name="trial3", index=_D),
                mtu=1500,
            ),
            rtnl.set_up(_D, True),
        ]
    )
    detour = [rtnl.packet_gate(_A), detour_rule(_A, mark=1, through=_C)]
    away, _ = _arrivals(20, netlink, detour, detour_rule(_A, mark=1, through=_C, action="remove"))
    back = _packets_that_arrive(20)
    if away or back < 20:
        raise CapabilityError("packets of a link cannot be sent on a detour")
    return "a process does them, through which these links' packets pass"


def _kernel_datapath(_: rtnl.Netlink) -> str:
    refused = probe_kernel_datapath()
    if refused is not None:
        raise CapabilityError(f"no Open vSwitch datapath in the kernel ({refused})")
    return "the openvswitch module switches packets in the kernel"


def _datapath(_: rtnl.Netlink) -> str:
    """A real bridge, on the datapath that a run would choose."""
    chosen = choose_datapath()
    switches = PrivateSwitches(chosen)
    bridge = Bridge(name="trial", device="trial", dpid=1, ports=())
    try:
        switches.start()
        switches.set_up(lambda _, kind: bridge_operations([bridge], kind))
    finally:
        switches.stop()
    return (
        "a bridge was made in the kernel"
        if chosen == "kernel"
        else "a bridge was made in user space"
    )


TRIALS: dict[str, tuple[Callable[[rtnl.Netlink], str], str]] = {
    "kernel_datapath": (
        _kernel_datapath,
        "sudo modprobe openvswitch (user-space switches are used where it is missing)",
    ),
    "datapath": (_datapath, "see openvswitch, tun and kernel_datapath"),
    "shaping": (_shaping, "sudo modprobe sch_tbf"),
    "netem": (
        _netem,
        "sudo modprobe sch_netem, or a kernel that has it; if it is loaded, try again when the machine "
        "is quiet; without it a process makes links' delays",
    ),
    "packet_loss": (_packet_loss, "sudo modprobe cls_bpf sch_ingress"),
    "impairments": (
        _impairments,
        "sudo modprobe cls_bpf act_mirred; without them links cannot be impaired",
    ),
}
"""Name -> (trial: what was found, or CapabilityError or NetlinkError; remedy)."""


def main() -> int:
    """Try everything, a line of JSON (name, what was found) as soon as it is known; the others are tried where one
    fails."""
    with rtnl.Netlink() as netlink:
        cable: list[rtnl.Message] = [
            rtnl.make_veth(
                rtnl.VethEnd(name="trial0", index=_A),
                rtnl.VethEnd(name="trial1", index=_B),
                mtu=1500,
            )
        ]
        netlink.apply([*cable, rtnl.set_up(_B, True)])
        for name, (trial, hint) in TRIALS.items():
            try:
                found = {"detail": trial(netlink), "lack": "", "mend": ""}
            except (CapabilityError, rtnl.NetlinkError) as error:
                lack = error.strerror if isinstance(error, rtnl.NetlinkError) else str(error)
                found = {"detail": "", "lack": lack or "refused", "mend": hint}
            print(json.dumps([name, found]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
