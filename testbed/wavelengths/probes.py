"""Probes of a wavelength plan: the packets of each round, on lit and on wrong wavelengths.

Real switches (``emulated``) and virtual time (``simulated``) send the same probes and count in the
same way.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.model.wiring import Wiring, wire
from testbed.wavelengths.plan import LitPath, RoundMeasurements, WavelengthPlan
from testbed.wavelengths.rules import VLAN_PRESENT, client_of, vlan_of
from topologies import LinkId

# The EtherType for local experiments (IEEE 802), to which no host replies.
ETH_EXPERIMENTAL = 0x88B5


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Equal packets that are sent in one round.

    Packets on a lit wavelength must arrive at a host. Packets on a wrong wavelength must be dropped
    by a switch.

    Attributes:
        lightpath: Index of the lightpath.
        wavelength: Wavelength on which the packets are sent.
        packets: Number of packets.
        fibre: Fibre onto which they are put directly. If it is None, the client of the lightpath's
            source sends them.
        host: Client node at which they must arrive, or None.
        arrives_on: Wavelength on which they must arrive, or None.
        dropped_at: Switch by which they must be dropped, or None.
    """

    lightpath: int
    wavelength: int
    packets: int
    fibre: LinkId | None = None
    host: str | None = None
    arrives_on: int | None = None
    dropped_at: str | None = None


@dataclass(frozen=True, kw_only=True, order=True)
class Arrival:
    """One packet that a client has received.

    Attributes:
        node: Node of the client.
        wavelength: Wavelength of the packet.
        probe: Index of the probe to which it belongs; -1 if it is of another round.
    """

    node: str
    wavelength: int
    probe: int


def wire_plan(plan: WavelengthPlan) -> Wiring:
    """Return the wiring of the plan's network, in which every end point has a client."""
    clients: dict[str, None] = {}
    for path in plan.lightpaths:
        clients[client_of(plan.network, path.source)] = None
        clients[client_of(plan.network, path.target)] = None
    return wire(plan.network, list(clients))


def round_probes(
    plan: WavelengthPlan, number: int, *, packets: int, wrong: int, seed: int = 1
) -> tuple[Probe, ...]:
    """Return the packets of one round.

    For each lit path there is one probe that must arrive, and two probes that must be dropped. The
    first of these comes from the source of the path, whose laser is tuned to a wavelength that is
    dark on the first fibre. The second is put onto a random fibre of the path on a dark wavelength.
    If all wavelengths of a fibre are lit, the packets are on the first wavelength above them. No
    packets to be dropped are put onto fibres that lead to hosts, because no switch would drop them.

    Args:
        plan: The plan.
        number: Index of the round.
        packets: Number of packets of each probe that must arrive.
        wrong: Number of packets of each probe that must be dropped.
        seed: Seed of the random choices.
    """
    rng = random.Random(seed * 1_000_003 + number)
    lit_wavelengths = plan.lit_wavelengths(number)
    probes: list[Probe] = []
    for lit in plan.rounds[number]:
        path = plan.lightpaths[lit.lightpath]
        probes.append(_lit_probe(plan, lit, packets))
        fibres = [link for link in path.links if plan.network.node(link[1]).kind == "switch"]
        if not wrong or not fibres:
            continue
        for fibre in (None, rng.choice(fibres)):
            entered = fibre or path.links[0]
            dark = sorted(set(range(plan.wavelengths)) - lit_wavelengths[entered])
            probe = Probe(
                lightpath=lit.lightpath,
                wavelength=rng.choice(dark or [plan.wavelengths]),
                packets=wrong,
                fibre=fibre,
                dropped_at=entered[1],
            )
            probes.append(probe)
    return tuple(probes)


def _lit_probe(plan: WavelengthPlan, lit: LitPath, packets: int) -> Probe:
    return Probe(
        lightpath=lit.lightpath,
        wavelength=lit.wavelengths[0],
        packets=packets,
        host=client_of(plan.network, plan.lightpaths[lit.lightpath].target),
        arrives_on=lit.wavelengths[-1],
    )


def round_result(
    plan: WavelengthPlan,
    number: int,
    probes: Sequence[Probe],
    arrivals: Sequence[Arrival],
    dropped: Mapping[str, int],
) -> RoundMeasurements:
    """Return the measurements of a round.

    Args:
        plan: The plan.
        number: Index of the round.
        probes: The packets that were sent.
        arrivals: The packets that arrived.
        dropped: Number of packets that each switch dropped, by its drop counters.
    """
    arrived: Counter[int] = Counter()
    misdelivered = 0
    for arrival in arrivals:
        if _is_expected(arrival, probes):
            arrived[arrival.probe] += 1
        else:
            misdelivered += 1
    lightpaths = 0
    sent = 0
    injected: Counter[str] = Counter()
    incomplete: list[str] = []
    for i, probe in enumerate(probes):
        if probe.host is not None:
            lightpaths += 1
            sent += probe.packets
            if arrived[i] != probe.packets:
                incomplete.append(plan.lightpaths[probe.lightpath].label)
        if probe.dropped_at is not None:
            injected[probe.dropped_at] += probe.packets
    return RoundMeasurements(
        lightpaths=lightpaths,
        sent=sent,
        delivered=sum(arrived.values()),
        misdelivered=misdelivered,
        wrong_wavelength_packets=dict(sorted(injected.items())),
        dropped={node: count for node, count in sorted(dropped.items()) if count},
        incomplete=tuple(incomplete),
    )


def _is_expected(arrival: Arrival, probes: Sequence[Probe]) -> bool:
    """Return whether a packet has arrived at the host and on the wavelength of its probe."""
    if not 0 <= arrival.probe < len(probes):
        return False
    probe = probes[arrival.probe]
    return arrival.node == probe.host and arrival.wavelength == probe.arrives_on


def probe_packet(plan: WavelengthPlan, wiring: Wiring, probe: Probe) -> dict[str, int | str]:
    """Return the header fields of a probe's packets, by their OpenFlow names."""
    path = plan.lightpaths[probe.lightpath]
    return {
        "eth_type": ETH_EXPERIMENTAL,
        "eth_src": wiring.host_at(client_of(plan.network, path.source)).mac,
        "eth_dst": wiring.host_at(client_of(plan.network, path.target)).mac,
        "vlan_vid": VLAN_PRESENT | vlan_of(probe.wavelength),
    }
