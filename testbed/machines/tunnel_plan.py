"""Which tunnels each machine makes, so that every cable that crosses is made twice and agrees; a pure function of who
stands where."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import CapabilityError
from testbed.machines.partition import Placement
from testbed.model.wiring import VXLAN_BYTES, Tunnel, Wiring, WiringPart

MOST_CROSSING = 1 << 12
"""Cables of one run that may cross: twelve bits of the identifier say which run, twelve which cable."""
_PORTS, _PORT_CHOICES = 20_000, 10_000


def tunnel_port(run: int) -> int:
    """The tunnels' UDP port, the same on all machines; the next one is the clocks'.

    >>> tunnel_port(3)
    20006
    """
    return _PORTS + 2 * (run % _PORT_CHOICES)


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """What one machine's tunnels go through: an interface, its IPv4 address and MTU in bytes, and the tunnels' UDP port
    there.

    ``framed``: packets on it have Ethernet headers. It is the underlay itself, or WireGuard's interface over it.
    """

    interface: str
    address: str
    mtu: int
    port: int
    framed: bool = True


def plan_parts(
    wiring: Wiring, placement: Placement, *, run: int, carriers: Sequence[Carrier]
) -> tuple[WiringPart, ...]:
    """One part a machine. ``run``: a number that other runs on these machines do not have.

    CapabilityError where more than ``MOST_CROSSING`` cables cross.
    """
    crossing = placement.crossing(wiring)
    if len(crossing) > MOST_CROSSING:
        raise CapabilityError(
            f"{len(crossing)} cables cross between machines, at most {MOST_CROSSING}; place nodes so that fewer do"
        )
    machine = placement.device_machines(wiring)
    tunnels: list[dict[int, Tunnel]] = [{} for _ in carriers]
    for number, index in enumerate(crossing):
        vni = (run % 4095 + 1) << 12 | number
        a, b = machine[wiring.cables[index].a], machine[wiring.cables[index].b]
        tunnels[a][index] = Tunnel(vni=vni, remote=carriers[b].address)
        tunnels[b][index] = Tunnel(vni=vni, remote=carriers[a].address)
    return tuple(
        WiringPart(
            devices=frozenset(name for name, where in machine.items() if where == number),
            tunnels=tunnels[number],
            underlay=carrier.interface,
            local=carrier.address,
            port=carrier.port,
            framed=carrier.framed,
        )
        for number, carrier in enumerate(carriers)
    )


def require_room(mtu: int, machine: str, underlay_mtu: int, encryption_bytes: int = 0) -> None:
    """CapabilityError, with the figures, where a packet of the inner MTU does not fit into the underlay's with a
    tunnel's headers.

    ``encryption_bytes``: what encryption puts around those.
    """
    needed = VXLAN_BYTES + encryption_bytes
    if underlay_mtu < mtu + needed:
        why = (
            f" ({VXLAN_BYTES} of VXLAN, {encryption_bytes} of WireGuard)"
            if encryption_bytes
            else ""
        )
        raise CapabilityError(
            f"{machine}: its interface towards the others carries {underlay_mtu} bytes, and tunnels of MTU {mtu} need "
            f"{mtu + needed}{why}; raise it there, or give --mtu {underlay_mtu - needed}"
        )
