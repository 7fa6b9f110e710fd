"""What Mininet's settings of interfaces, routes and queues are in the kernel's own language (rtnetlink messages)."""

import math

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.queues import link_queues, netem_line
from testbed.errors import InputError
from topologies.impairments import ExtraDelay, Impairments, RandomLoss
from topologies.text import units
from topologies.text.addresses import packed_mac
from topologies.text.json_types import Json

_RTM_DELADDR = rtnl.RTM_NEWADDR + 1


def set_mac(index: int, mac: str) -> rtnl.Message:
    """Another MAC address."""
    return rtnl.RTM_NEWLINK, 0, rtnl.link_header(index) + rtnl.attribute(1, packed_mac(mac))


def delete_link(index: int) -> rtnl.Message:
    """Remove the interface, and a veth pair's other end with it."""
    return rtnl.RTM_DELLINK, 0, rtnl.link_header(index)


def remove_address(index: int, ip: str, prefix: int) -> rtnl.Message:
    """Take an IPv4 address away."""
    _, _, body = rtnl.add_address(index, ip, prefix)
    return _RTM_DELADDR, 0, body


def seconds(delay: object) -> float:
    """A delay as tc reads it, where a bare number is microseconds. InputError for anything else.

    >>> seconds("5ms"), seconds("10us"), seconds(7), seconds("0.5s")
    (0.005, 1e-05, 7e-06, 0.5)
    """
    found = units.seconds(f"{delay}us" if units.is_bare(str(delay)) else str(delay))
    if not found >= 0:
        raise InputError(f"a delay of {delay!r}; give a number and s, ms or us")
    return found


def queue_messages(index: int, values: Json, mtu: int, *, netem: bool = True) -> list[rtnl.Message]:
    """The queues of an interface by Mininet's parameters: ``bw`` in Mbit/s, ``delay`` and ``jitter`` as tc reads them,
    ``loss`` in percent, ``max_queue_size`` in packets. ``netem``: whether the kernel delays and loses."""
    delay_s, jitter_s, loss = _delayed_and_lost(values)
    line = (
        netem_line(index, delay_s=delay_s, jitter_s=jitter_s, loss=loss)
        if netem and (delay_s or loss)
        else None
    )
    rate_bps, packets = (
        _number(values, "bw") * 1e6 or None,
        int(_number(values, "max_queue_size")) or None,
    )
    return link_queues(index, rate_bps=rate_bps, mtu=mtu, packets=packets, netem=line)


def relayed(values: Json) -> tuple[Impairments, float]:
    """What the relay is to do to packets where the kernel has no netem, and the delay that is the same for all."""
    delay_s, jitter_s, loss = _delayed_and_lost(values)
    varying = delay_s and jitter_s
    words = [RandomLoss(fraction=loss)] if loss else []
    delays = [ExtraDelay(mean_s=delay_s, jitter_s=min(jitter_s, delay_s))] if varying else []
    return (*words, *delays), 0.0 if varying else delay_s


def _delayed_and_lost(values: Json) -> tuple[float, float, float]:
    """Delay and jitter in seconds, and the share that is lost."""
    loss = _number(values, "loss") / 100
    if not 0 <= loss <= 1:
        raise InputError(f"a loss of {values['loss']} %; give 0 to 100")
    return seconds(values.get("delay") or 0), seconds(values.get("jitter") or 0), loss


def _number(values: Json, name: str) -> float:
    """0 where it is not given. InputError for what is no number from 0 on."""
    try:
        found = float(values.get(name) or 0)
    except (TypeError, ValueError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise InputError(f"{name}={values[name]!r} of a link; give a number from 0 on")
    return found
