"""Mininet's settings of interfaces, routes and queues as rtnetlink messages.

Functions such as ``set_mac`` return the message that does what their summary says.
"""

import math

from testbed.emulation.network.kernel import rtnetlink as rtnl
from testbed.emulation.network.kernel.queues import link_queues, netem_line
from testbed.errors import InputError
from topologies.impairments import ExtraDelay, Impairment, Impairments, RandomLoss
from topologies.text import units
from topologies.text.addresses import packed_mac
from topologies.text.json_types import Json

_RTM_DELADDR = rtnl.RTM_NEWADDR + 1
_IFLA_ADDRESS = 1


def set_mac(index: int, mac: str) -> rtnl.Message:
    """Change the MAC address of an interface."""
    address = rtnl.attribute(_IFLA_ADDRESS, packed_mac(mac))
    return rtnl.RTM_NEWLINK, 0, rtnl.link_header(index) + address


def delete_link(index: int) -> rtnl.Message:
    """Delete an interface, and the other end of its veth pair with it."""
    return rtnl.RTM_DELLINK, 0, rtnl.link_header(index)


def remove_address(index: int, ip: str, prefix: int) -> rtnl.Message:
    """Remove an IPv4 address from an interface.

    Args:
        index: Index of the interface.
        ip: The address.
        prefix: Its prefix length in bits.
    """
    _, _, body = rtnl.add_address(index, ip, prefix)
    return _RTM_DELADDR, 0, body


def seconds(delay: object) -> float:
    """Return a delay of tc's notation in seconds; a bare number is in microseconds.

    >>> seconds("5ms"), seconds("10us"), seconds(7), seconds("0.5s")
    (0.005, 1e-05, 7e-06, 0.5)

    Raises:
        InputError: It is not a valid delay.
    """
    text = str(delay)
    if units.is_bare(text):
        text = f"{delay}us"
    delay_s = units.seconds(text)
    if not delay_s >= 0:
        raise InputError(f"a delay of {delay!r}; give a number and s, ms or us")
    return delay_s


def queue_messages(index: int, values: Json, mtu: int, *, netem: bool = True) -> list[rtnl.Message]:
    """Create the queues of an interface according to Mininet's parameters of a link.

    Args:
        index: Index of the interface.
        values: ``bw`` in Mbit/s, ``delay`` and ``jitter`` in tc's notation, ``loss`` in percent,
            ``max_queue_size`` in packets.
        mtu: MTU in bytes.
        netem: The kernel has netem. If not, delay and loss are ignored here (``relayed``).
    """
    delay_s, jitter_s, loss = _delay_and_loss(values)
    netem_message = None
    if netem and (delay_s or loss):
        netem_message = netem_line(index, delay_s=delay_s, jitter_s=jitter_s, loss=loss)
    rate_bps = _number(values, "bw") * 1e6 or None
    packets = int(_number(values, "max_queue_size")) or None
    return link_queues(index, rate_bps=rate_bps, mtu=mtu, packets=packets, netem=netem_message)


def relayed(values: Json) -> tuple[Impairments, float]:
    """Return what the relay must do to packets of an interface if the kernel has no netem.

    Args:
        values: Mininet's parameters of the link.

    Returns:
        The impairments, and the delay in seconds that is the same for all packets.
    """
    delay_s, jitter_s, loss = _delay_and_loss(values)
    impairments: list[Impairment] = []
    if loss:
        impairments.append(RandomLoss(fraction=loss))
    if delay_s and jitter_s:
        # A delay must not become negative.
        impairments.append(ExtraDelay(mean_s=delay_s, jitter_s=min(jitter_s, delay_s)))
        delay_s = 0.0
    return tuple(impairments), delay_s


def _delay_and_loss(values: Json) -> tuple[float, float, float]:
    """Return delay and jitter in seconds, and the share of packets that are lost."""
    loss = _number(values, "loss") / 100
    if not 0 <= loss <= 1:
        raise InputError(f"a loss of {values['loss']} %; give 0 to 100")
    return seconds(values.get("delay") or 0), seconds(values.get("jitter") or 0), loss


def _number(values: Json, name: str) -> float:
    """Return a parameter as a number, which is 0 if it is not given.

    Raises:
        InputError: It is not a finite number that is 0 or larger.
    """
    try:
        number = float(values.get(name) or 0)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise InputError(f"{name}={values[name]!r} of a link; give a number from 0 on")
    return number
