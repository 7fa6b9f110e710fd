"""A wavelength plan put to the test: which packets are sent round by round, what became of them, and the verdict.

The same for both fabrics; the walk of every packet through the flow rules is the simulated one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.model.verdict import Check, Verdict
from testbed.model.wiring import Wiring, wire
from testbed.openflow.flow_table import RuleWalker
from testbed.openflow.rules import FlowRule
from testbed.wavelengths.assignment import fibres
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from testbed.wavelengths.rules import VLAN_PRESENT, client_of, dark_rules, round_rules, vlan_of
from topologies.network import LinkId

ETH_EXPERIMENTAL = 0x88B5
"""EtherType for local experiments (IEEE 802): no host answers it."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Packets of one kind. ``fibre`` None: sent by the client of the lightpath's source; else put straight onto that fibre.

    ``wavelength``: the one they carry. Right ones arrive at ``host`` (the client node) on ``arrives_on``; wrong ones (``host``
    None) are to be dropped by the switch ``dropped_at``.
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
    ends = dict.fromkeys(client_of(plan.network, e) for p in plan.lightpaths for e in (p.source, p.target))
    return wire(plan.network, list(ends))


def round_probes(plan: WavelengthPlan, number: int, *, packets: int, wrong: int, seed: int = 1) -> tuple[Probe, ...]:
    """The packets of one round: ``packets`` over every lit path, and ``wrong`` times two that must not get through.

    Of these two one comes from the path's source, its laser mistuned to a wavelength that is dark on the first fibre, and one
    on a dark wavelength straight onto a fibre of the path drawn by the seed. Where all are lit, on the first that lies outside
    the band. Fibres into hosts are left out: no switch looks at what comes from them.
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
    setup_s: float = 0.0,
) -> RoundMeasurements:
    """What the arrivals and the switches' drop counters (node -> packets) say of the round."""
    came, strays = Counter[int](), 0
    for arrival in arrivals:
        probe = probes[arrival.probe] if 0 <= arrival.probe < len(probes) else None
        if probe is not None and (arrival.node, arrival.wavelength) == (probe.host, probe.arrives_on):
            came[arrival.probe] += 1
        else:
            strays += 1
    right = {i: probe for i, probe in enumerate(probes) if probe.host is not None}
    injected = Counter[str]()
    for probe in probes:
        if probe.dropped_at is not None:
            injected[probe.dropped_at] += probe.packets
    wanting = [plan.lightpaths[p.lightpath].label for i, p in right.items() if came[i] != p.packets]
    return RoundMeasurements(
        lightpaths=len(right),
        sent=sum(p.packets for p in right.values()),
        delivered=sum(came.values()),
        strays=strays,
        injected=dict(sorted(injected.items())),
        dropped={node: count for node, count in sorted(dropped.items()) if count},
        setup_s=setup_s,
        incomplete=tuple(wanting),
    )


def simulate_round(plan: WavelengthPlan, wiring: Wiring, number: int, probes: Sequence[Probe]) -> RoundMeasurements:
    """Walk every probe through the rules of the round: what exact switches would do."""
    rules: tuple[FlowRule, ...] = (*dark_rules(wiring, fibres(plan.network)), *round_rules(wiring, plan, number))
    walker, arrivals, dropped = RuleWalker(wiring, rules), list[Arrival](), Counter[str]()
    names = {host.name: host.node for host in wiring.hosts}
    for index, probe in enumerate(probes):
        packet = probe_packet(plan, wiring, probe)
        source = client_of(plan.network, plan.lightpaths[probe.lightpath].source)
        walk = walker.walk(source, packet) if probe.fibre is None else walker.walk_over(probe.fibre, packet)
        if walk.host is not None:
            wavelength = int(walk.packet["vlan_vid"]) - VLAN_PRESENT - vlan_of(0)
            arrivals += [Arrival(node=names[walk.host], wavelength=wavelength, probe=index)] * probe.packets
        elif walk.dropped_by is not None and walk.dropped_at is not None:
            dropped[walk.dropped_at] += probe.packets
    return round_result(plan, number, probes, arrivals, dropped)


def simulate_plan(plan: WavelengthPlan, *, packets: int, wrong: int, seed: int = 1) -> tuple[RoundMeasurements, ...]:
    """Every round of the plan, walked; the same probes as on real switches."""
    wiring = wire_plan(plan)
    return tuple(
        simulate_round(plan, wiring, n, round_probes(plan, n, packets=packets, wrong=wrong, seed=seed))
        for n in range(len(plan.rounds))
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


def judge_rounds(plan: WavelengthPlan, rounds: Sequence[RoundMeasurements]) -> Verdict:
    """Rounds as computed, every packet of a lit path arrived where and as it should, every other dropped where it should."""
    sent, delivered = sum(r.sent for r in rounds), sum(r.delivered for r in rounds)
    complete = sum(r.lightpaths for r in rounds) - sum(len(r.incomplete) for r in rounds)
    injected, dropped = (sum(sum(getattr(r, n).values()) for r in rounds) for n in ("injected", "dropped"))
    wrong = [f"round {i} at {node}" for i, r in enumerate(rounds) for node in _differing(r)]
    whole = sum(not r.incomplete and r.lightpaths > 0 for r in rounds)
    strays = sum(r.strays for r in rounds)
    checks = (
        _equal("rounds that delivered all they light", len(plan.rounds), whole, f"{plan.method} {plan.switching}"),
        _equal("lightpaths that delivered every packet", len(plan.lightpaths), complete, _some(rounds)),
        _equal("packets of lit paths, arrived on their wavelength", sent, delivered),
        _equal("packets that went astray", 0, strays),
        _equal("packets on a wrong wavelength, dropped and counted", injected, dropped),
        _equal("switches whose drop counters differ from what they were given", 0, len(wrong), ", ".join(wrong[:5])),
    )
    note = (
        f"{len(plan.rounds)} rounds of {plan.wavelengths} wavelengths; none has fewer than {plan.bound}"
        + ("" if plan.optimal else "; whether fewer suffice is not known" if len(plan.rounds) > plan.bound else "")
        + f"; {plan.conversions} conversions"
    )
    return Verdict(checks=checks, notes=(note,))


def _differing(measured: RoundMeasurements) -> list[str]:
    nodes = sorted({*measured.injected, *measured.dropped})
    return [node for node in nodes if measured.injected.get(node, 0) != measured.dropped.get(node, 0)]


def _some(rounds: Sequence[RoundMeasurements], most: int = 5) -> str:
    listed = [f"round {i}: {name}" for i, r in enumerate(rounds) for name in r.incomplete]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def _equal(name: str, predicted: int, measured: int, detail: str = "") -> Check:
    return Check(
        name=name,
        predicted=float(predicted),
        measured=float(measured),
        tolerance=0.0,
        passed=predicted == measured,
        detail=detail,
    )
