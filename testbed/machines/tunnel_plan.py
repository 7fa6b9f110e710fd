"""Which tunnels each machine makes, so that every cable that crosses is made twice and agrees; a pure function of who stands where."""

from __future__ import annotations

from collections.abc import Sequence

from testbed.errors import CapabilityError
from testbed.machines.placement import Placement
from testbed.model.parts import VXLAN_BYTES, Part, Tunnel
from testbed.model.wiring import Wiring

MOST_CROSSING = 1 << 12
"""Cables of one run that may cross: twelve bits of the identifier say which run, twelve which cable."""
_PORTS, _PORT_CHOICES = 20_000, 10_000


def tunnel_port(run: int) -> int:
    """The tunnels' UDP port, the same on all machines; the next one is the clocks'.

    >>> tunnel_port(3)
    20006
    """
    return _PORTS + 2 * (run % _PORT_CHOICES)


def plan_parts(
    wiring: Wiring, placement: Placement, *, run: int, addresses: Sequence[str], underlays: Sequence[str]
) -> tuple[Part, ...]:
    """One part a machine. ``run``: a number that other runs on these machines do not have.

    CapabilityError where more than ``MOST_CROSSING`` cables cross.
    """
    crossing = placement.crossing(wiring)
    if len(crossing) > MOST_CROSSING:
        raise CapabilityError(
            f"{len(crossing)} cables cross between machines, at most {MOST_CROSSING}; place nodes so that fewer do"
        )
    machine = placement.device_machines(wiring)
    tunnels: list[dict[int, Tunnel]] = [{} for _ in addresses]
    for number, index in enumerate(crossing):
        vni = (run % 4095 + 1) << 12 | number
        a, b = machine[wiring.cables[index].a], machine[wiring.cables[index].b]
        tunnels[a][index] = Tunnel(vni=vni, remote=addresses[b])
        tunnels[b][index] = Tunnel(vni=vni, remote=addresses[a])
    return tuple(
        Part(
            devices=frozenset(name for name, where in machine.items() if where == number),
            tunnels=tunnels[number],
            underlay=underlays[number],
            local=address,
            port=tunnel_port(run),
        )
        for number, address in enumerate(addresses)
    )


def require_room(mtu: int, machine: str, underlay_mtu: int) -> None:
    """CapabilityError, with the figures, where a packet of the inner MTU does not fit into the underlay's with a tunnel's headers."""
    if underlay_mtu < mtu + VXLAN_BYTES:
        raise CapabilityError(
            f"{machine}: its interface towards the others carries {underlay_mtu} bytes, and tunnels of MTU {mtu} need "
            f"{mtu + VXLAN_BYTES}; raise it there, or give --mtu {underlay_mtu - VXLAN_BYTES}"
        )
