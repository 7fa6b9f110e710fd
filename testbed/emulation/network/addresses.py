"""Gives the hosts their addresses and, so that no ARP packet is ever needed, whoever they talk to as permanent
neighbours."""

from collections.abc import Iterable

from testbed.emulation.network.cables import CablePlan
from testbed.emulation.network.kernel.rtnetlink import Message, add_address, set_up
from testbed.emulation.network.links import LinkControl
from testbed.model.wiring import WiredHost

_LOOPBACK, _PREFIX = 1, 8


def address_hosts(
    links: LinkControl, cables: CablePlan, hosts: Iterable[WiredHost], *, without_checksums: bool
) -> None:
    """One batch a host: interfaces up, address on the first, neighbours. ``without_checksums``: hosts compute their
    checksums themselves."""
    for host in hosts:
        messages: list[Message] = [set_up(_LOOPBACK, True)]
        ends = cables.ends_of(host.name)
        messages += [set_up(end.index, True) for end in ends]
        if ends:
            messages.append(add_address(ends[0].index, host.ip, _PREFIX))
            messages += links.neighbours_of(ends[0])
        links.netlink_of(host.name).apply(messages)
        if without_checksums:
            links.switch_checksums_off(host.name)
