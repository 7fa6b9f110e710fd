"""Probes of a wavelength plan: which packets are sent in each round, right ones and wrong ones, and what became of
them.

Real switches (``emulated``) and virtual time (``simulated``) send the same probes and count in the same way.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.model.wiring import Wiring, wire
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from testbed.wavelengths.rules import VLAN_PRESENT, client_of, vlan_of
from topologies import LinkId

ETH_EXPERIMENTAL = 0x88B5
"""EtherType for local experiments (IEEE 802): no host answers it."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Packets of one kind. ``fibre`` None: sent by the client of the lightpath's source; else put straight onto that
    fibre.

    ``wavelength``: the one they carry. Right ones arrive at ``host`` (the client node) on ``arrives_on``; wrong ones
    (``host`` None) are to be dropped by the switch ``dropped_at``.
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
    """One packet that a client received: where, on which wavelength, of which probe."""

    node: str
    wavelength: int
    probe: int


def wire_plan(plan: WavelengthPlan) -> Wiring:
    """The plan's network laid out, every end point with a client."""
    ends = dict.fromkeys(
        client_of(plan.network, e) for p in plan.lightpaths for e in (p.source, p.target)
    )
    return wire(plan.network, list(ends))


def round_probes(
    plan: WavelengthPlan, number: int, *, packets: int, wrong: int, seed: int = 1
) -> tuple[Probe, ...]:
    """The packets of one round: ``packets`` over every lit path, and ``wrong`` times two that must not get through.

    Of these two one comes from the path's source, its laser mistuned to a wavelength that is dark on the first fibre,
    and one on a dark wavelength straight onto a fibre of the path drawn by the seed. Where all are lit, on the first
    that is outside the band. Fibres into hosts are left out: no switch looks at what comes from them.
    """
    chance, lit_on = random.Random(seed * 1_000_003 + number), plan.lit_wavelengths(number)
    found = []
    for lit in plan.rounds[number]:
        path = plan.lightpaths[lit.lightpath]
        target = client_of(plan.network, path.target)
        found.append(
            Probe(
                lightpath=lit.lightpath,
                wavelength=lit.wavelengths[0],
                packets=packets,
                host=target,
                arrives_on=lit.wavelengths[-1],
            )
        )
        watched = [link for link in path.links if plan.network.node(link[1]).kind == "switch"]
        if not wrong or not watched:
            continue
        for fibre in (None, chance.choice(watched)):
            entered = path.links[0] if fibre is None else fibre
            dark = sorted(set(range(plan.wavelengths)) - lit_on[entered]) or [plan.wavelengths]
            found.append(
                Probe(
                    lightpath=lit.lightpath,
                    wavelength=chance.choice(dark),
                    packets=wrong,
                    fibre=fibre,
                    dropped_at=entered[1],
                )
            )
    return tuple(found)


def round_result(
    plan: WavelengthPlan,
    number: int,
    probes: Sequence[Probe],
    arrivals: Sequence[Arrival],
    dropped: Mapping[str, int],
) -> RoundMeasurements:
    """What the arrivals and the switches' drop counters (node -> packets) say of the round."""
    arrived, strays = Counter[int](), 0
    for arrival in arrivals:
        probe = probes[arrival.probe] if 0 <= arrival.probe < len(probes) else None
        if probe is not None and (arrival.node, arrival.wavelength) == (
            probe.host,
            probe.arrives_on,
        ):
            arrived[arrival.probe] += 1
        else:
            strays += 1
    right = {i: probe for i, probe in enumerate(probes) if probe.host is not None}
    injected = Counter[str]()
    for probe in probes:
        if probe.dropped_at is not None:
            injected[probe.dropped_at] += probe.packets
    wanting = [
        plan.lightpaths[p.lightpath].label for i, p in right.items() if arrived[i] != p.packets
    ]
    return RoundMeasurements(
        lightpaths=len(right),
        sent=sum(p.packets for p in right.values()),
        delivered=sum(arrived.values()),
        misdelivered=strays,
        wrong_wavelength_packets=dict(sorted(injected.items())),
        dropped={node: count for node, count in sorted(dropped.items()) if count},
        incomplete=tuple(wanting),
    )


def probe_packet(plan: WavelengthPlan, wiring: Wiring, probe: Probe) -> dict[str, int | str]:
    """The header of a probe's packets, in OpenFlow's names."""
    path = plan.lightpaths[probe.lightpath]
    return {
        "eth_type": ETH_EXPERIMENTAL,
        "eth_src": wiring.host_at(client_of(plan.network, path.source)).mac,
        "eth_dst": wiring.host_at(client_of(plan.network, path.target)).mac,
        "vlan_vid": VLAN_PRESENT | vlan_of(probe.wavelength),
    }
