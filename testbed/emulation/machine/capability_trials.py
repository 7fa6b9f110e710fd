"""Trials of capabilities that need a network of their own: a program that runs in a sandbox.

Each trial sets up the real thing. If its effect can be measured in a moment, the trial does that.
The program prints one JSON array for each trial, on a line of its own: its name and result.
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

# Indices of the interfaces: both ends of the trial cable, and of a detour.
_A = 101
_B = 102
_C = 103
_D = 104

# An EtherType for local experiments (IEEE 802), and the shortest Ethernet frame with it, from a
# locally administered address to all.
_ETHERTYPE = 0x88B5
_SOURCE = b"\x02\0\0\0\0\1"
_BROADCAST = b"\xff" * 6
_PACKET = _BROADCAST + _SOURCE + _ETHERTYPE.to_bytes(2, "big") + bytes(46)

# With 400 packets, a loss of one half is outside the accepted range only by an error.
_PACKETS = 400
_LOSS = 0.5
_MIN_LOSS = 0.3
_MAX_LOSS = 0.7

# At the rate of the trial, its packets take longer than the shortest accepted time.
_SHAPED_PACKETS = 200
_SHAPED_RATE_BPS = 1e6
_MIN_SHAPED_S = 0.05

_DETOUR_PACKETS = 20

# The delay that is set, and the number of packets that measure it.
_DELAY_S = 0.02
_DELAY_PACKETS = 5

# Allowed error of the smallest measured delay. Even a busy machine forwards one packet in five
# within a few milliseconds.
_DELAY_TOLERANCE_S = 0.005


def _arrivals(
    count: int, netlink: rtnl.Netlink, setup: Sequence[rtnl.Message], removal: rtnl.Message
) -> tuple[int, float]:
    """Send packets over the trial cable under a condition.

    Args:
        count: Number of packets.
        netlink: The netlink socket of the trials.
        setup: Messages that create the condition.
        removal: The message that removes it.

    Returns:
        The number of packets that arrived, and the seconds until the last one.
    """
    netlink.apply(setup)
    began_s = time.monotonic()
    try:
        arrived = _packets_that_arrive(count)
        return arrived, time.monotonic() - began_s
    finally:
        netlink.apply([removal])


def _packets_that_arrive(count: int) -> int:
    """Send packets over the trial cable, and return how many arrive."""
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
            # A full queue reports ENOBUFS to the sender.
            with suppress(OSError):
                sender.send(_PACKET)
        # The last packets may have been lost.
        with suppress(TimeoutError):
            while arrived < count:
                receiver.recv(100)
                arrived += 1
        return arrived


def _shaping(netlink: rtnl.Netlink) -> str:
    """Try whether tbf limits a rate."""
    bucket = token_bucket(_A, rate_bps=_SHAPED_RATE_BPS, burst_bytes=3000, queue_bytes=1_000_000)
    arrived, duration_s = _arrivals(_SHAPED_PACKETS, netlink, [bucket], rtnl.delete_queue(_A))
    if arrived < _SHAPED_PACKETS or duration_s < _MIN_SHAPED_S:
        raise CapabilityError("tbf exists, but does not limit the rate")
    return "tbf limits a link to its rate"


def _netem(netlink: rtnl.Netlink) -> str:
    """Try whether netem delays packets."""
    netlink.apply([netem_line(_A, delay_s=_DELAY_S)])
    try:
        delays_s = [_packet_delay_s() for _ in range(_DELAY_PACKETS)]
    finally:
        netlink.apply([rtnl.delete_queue(_A)])
    return judge_delays(delays_s)


def judge_delays(delays_s: Sequence[float]) -> str:
    """Return a description of the delays that netem caused.

    The smallest delay counts, because a busy machine can only lengthen them.

    Args:
        delays_s: The measured delays in seconds; infinity for a packet that did not arrive.

    Raises:
        CapabilityError: No packet arrived, or the smallest delay is not the one that was set.
    """
    delay_ms = min(delays_s) * 1000
    set_ms = _DELAY_S * 1000
    if math.isinf(delay_ms):
        raise CapabilityError("netem exists, but no packet passes it")
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
    """Try whether a drop rule drops its share of packets."""
    losing = [rtnl.packet_gate(_A), rtnl.drop_rule(_A, _LOSS)]
    arrived, _ = _arrivals(_PACKETS, netlink, losing, rtnl.drop_rule(_A, _LOSS, "remove"))
    lost = 1 - arrived / _PACKETS
    if not _MIN_LOSS < lost < _MAX_LOSS:
        raise CapabilityError(
            f"a BPF classifier was to drop half of the packets and dropped {lost:.0%}"
        )
    return f"a BPF classifier: of {_PACKETS} packets it was to drop 50 % and dropped {lost:.0%}"


def _impairments(netlink: rtnl.Netlink) -> str:
    """Try whether packets can be redirected to a detour, and no longer after that."""
    netlink.apply(_new_cable("trial2", _C, "trial3", _D))
    detour = [rtnl.packet_gate(_A), detour_rule(_A, mark=1, through=_C)]
    removal = detour_rule(_A, mark=1, through=_C, action="remove")
    not_redirected, _ = _arrivals(_DETOUR_PACKETS, netlink, detour, removal)
    without_detour = _packets_that_arrive(_DETOUR_PACKETS)
    if not_redirected or without_detour < _DETOUR_PACKETS:
        raise CapabilityError("packets of a link cannot be sent on a detour")
    return "a process impairs the packets of these links"


def _kernel_datapath(_: rtnl.Netlink) -> str:
    """Try whether Open vSwitch can switch packets in the kernel."""
    refusal = probe_kernel_datapath()
    if refusal is not None:
        raise CapabilityError(f"no Open vSwitch datapath in the kernel ({refusal})")
    return "the openvswitch module switches packets in the kernel"


def _datapath(_: rtnl.Netlink) -> str:
    """Create a real bridge, on the datapath that a run would choose."""
    chosen = choose_datapath()
    switches = PrivateSwitches(chosen)
    bridge = Bridge(name="trial", device="trial", dpid=1, ports=())
    try:
        switches.start()
        switches.set_up(lambda _, kind: bridge_operations([bridge], kind))
    finally:
        switches.stop()
    if chosen == "kernel":
        return "a bridge was made in the kernel"
    return "a bridge was made in user space"


def _new_cable(name1: str, index1: int, name2: str, index2: int) -> list[rtnl.Message]:
    """Return the messages that create a veth pair, with both ends up."""
    pair = rtnl.make_veth(
        rtnl.VethEnd(name=name1, index=index1), rtnl.VethEnd(name=name2, index=index2), mtu=1500
    )
    return [pair, rtnl.set_up(index2, True)]


#: Name of a capability -> its trial, and how to add the capability. A trial returns what was found,
#: or raises CapabilityError or NetlinkError.
TRIALS: dict[str, tuple[Callable[[rtnl.Netlink], str], str]] = {
    "kernel_datapath": (
        _kernel_datapath,
        "sudo modprobe openvswitch (user-space switches are used where it is missing)",
    ),
    "datapath": (_datapath, "see openvswitch, tun and kernel_datapath"),
    "shaping": (_shaping, "sudo modprobe sch_tbf"),
    "netem": (
        _netem,
        "sudo modprobe sch_netem, or a kernel that has it; if it is loaded, try again when the "
        "machine is quiet; without it a process makes links' delays",
    ),
    "packet_loss": (_packet_loss, "sudo modprobe cls_bpf sch_ingress"),
    "impairments": (
        _impairments,
        "sudo modprobe cls_bpf act_mirred; without them links cannot be impaired",
    ),
}


def main() -> int:
    """Run all trials, even if one fails, and print the result of each as soon as it is known."""
    with rtnl.Netlink() as netlink:
        netlink.apply(_new_cable("trial0", _A, "trial1", _B))
        for name, (trial, hint) in TRIALS.items():
            try:
                result = {"detail": trial(netlink), "lack": "", "mend": ""}
            except rtnl.NetlinkError as error:
                result = {"detail": "", "lack": error.strerror or "refused", "mend": hint}
            except CapabilityError as error:
                result = {"detail": "", "lack": str(error) or "refused", "mend": hint}
            print(json.dumps([name, result]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
