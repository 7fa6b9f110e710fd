"""Tunnels that each machine creates, so that both ends of every crossing cable agree."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import CapabilityError
from testbed.machines.partition import Placement
from testbed.model.wiring import VXLAN_BYTES, Tunnel, Wiring, WiringPart

# Limit on the crossing cables of a run. Of the 24 bits of a VXLAN network identifier, twelve number
# the run and twelve the cable.
MAX_CROSSING_CABLES = 1 << 12
_FIRST_PORT = 20_000
_PORT_CHOICES = 10_000


def tunnel_port(run: int) -> int:
    """Return the UDP port of a run's tunnels, the same on all machines.

    The next port is that of the clocks.

    >>> tunnel_port(3)
    20006
    """
    return _FIRST_PORT + 2 * (run % _PORT_CHOICES)


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """The interface that carries the tunnels of one machine: the underlay, or WireGuard over it.

    Attributes:
        interface: Name of the interface.
        address: Its IPv4 address.
        mtu: Its MTU, in bytes.
        port: UDP port of the tunnels.
        framed: Whether its packets have Ethernet headers.
    """

    interface: str
    address: str
    mtu: int
    port: int
    framed: bool = True


def plan_parts(
    wiring: Wiring, placement: Placement, *, run: int, carriers: Sequence[Carrier]
) -> tuple[WiringPart, ...]:
    """Return the part of the wiring that each machine builds.

    Args:
        wiring: The wiring of the complete network.
        placement: The machine of each node.
        run: A number that no other run on these machines has.
        carriers: The interface for tunnels of each machine.

    Raises:
        CapabilityError: More than ``MAX_CROSSING_CABLES`` cables cross between machines.
    """
    crossing = placement.crossing(wiring)
    if len(crossing) > MAX_CROSSING_CABLES:
        raise CapabilityError(
            f"{len(crossing)} cables cross between machines, at most {MAX_CROSSING_CABLES}; "
            "place nodes so that fewer do"
        )
    machine_of = placement.device_machines(wiring)
    tunnels: list[dict[int, Tunnel]] = [{} for _ in carriers]
    for number, index in enumerate(crossing):
        # Run numbers begin with 1, so that the identifier is never 0.
        identifier = (run % 4095 + 1) << 12 | number
        a = machine_of[wiring.cables[index].a]
        b = machine_of[wiring.cables[index].b]
        tunnels[a][index] = Tunnel(vni=identifier, remote=carriers[b].address)
        tunnels[b][index] = Tunnel(vni=identifier, remote=carriers[a].address)
    parts: list[WiringPart] = []
    for number, carrier in enumerate(carriers):
        devices = [device for device, machine in machine_of.items() if machine == number]
        part = WiringPart(
            devices=frozenset(devices),
            tunnels=tunnels[number],
            underlay=carrier.interface,
            local=carrier.address,
            port=carrier.port,
            framed=carrier.framed,
        )
        parts.append(part)
    return tuple(parts)


def require_room(mtu: int, machine: str, underlay_mtu: int, encryption_bytes: int = 0) -> None:
    """Check that a packet of the tunnels fits into the underlay together with its headers.

    Args:
        mtu: MTU of the emulated network, in bytes.
        machine: Name of the machine, for the message.
        underlay_mtu: MTU of the underlay, in bytes.
        encryption_bytes: Number of bytes that encryption adds.

    Raises:
        CapabilityError: The packet does not fit.
    """
    overhead = VXLAN_BYTES + encryption_bytes
    if underlay_mtu >= mtu + overhead:
        return
    reason = ""
    if encryption_bytes:
        reason = f" ({VXLAN_BYTES} of VXLAN, {encryption_bytes} of WireGuard)"
    raise CapabilityError(
        f"{machine}: the MTU of its interface towards the other machines is {underlay_mtu} bytes, "
        f"and tunnels of MTU {mtu} need {mtu + overhead}{reason}; "
        f"raise it, or give --mtu {underlay_mtu - overhead}"
    )
