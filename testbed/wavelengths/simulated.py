"""Carries out a wavelength plan in virtual time.

Every probe is traced through the flow rules of its round, as ideal switches would forward it.
"""

from collections import Counter
from collections.abc import Sequence

from testbed.model.wiring import Wiring
from testbed.openflow.flow_table import RuleWalker, Walk
from testbed.wavelengths.assignment import fibres
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from testbed.wavelengths.probes import (
    Arrival,
    Probe,
    probe_packet,
    round_probes,
    round_result,
    wire_plan,
)
from testbed.wavelengths.rules import VLAN_PRESENT, client_of, dark_rules, round_rules, vlan_of


def simulate_round(
    plan: WavelengthPlan, wiring: Wiring, number: int, probes: Sequence[Probe]
) -> RoundMeasurements:
    """Trace all probes of a round through its rules, and return what would be measured.

    Args:
        plan: The plan.
        wiring: The wiring of the plan's network.
        number: Index of the round.
        probes: The packets to send.
    """
    drop_rules = dark_rules(wiring, fibres(plan.network))
    walker = RuleWalker(wiring, (*drop_rules, *round_rules(wiring, plan, number)))
    arrivals: list[Arrival] = []
    dropped: Counter[str] = Counter()
    nodes = {host.name: host.node for host in wiring.hosts}
    for index, probe in enumerate(probes):
        walk = _walk(walker, plan, wiring, probe)
        if walk.host is not None:
            wavelength = int(walk.packet["vlan_vid"]) - VLAN_PRESENT - vlan_of(0)
            arrival = Arrival(node=nodes[walk.host], wavelength=wavelength, probe=index)
            arrivals += [arrival] * probe.packets
        elif walk.dropped_by is not None and walk.dropped_at is not None:
            dropped[walk.dropped_at] += probe.packets
    return round_result(plan, number, probes, arrivals, dropped)


def _walk(walker: RuleWalker, plan: WavelengthPlan, wiring: Wiring, probe: Probe) -> Walk:
    """Trace a probe's packets through the rules, and return their path."""
    packet = probe_packet(plan, wiring, probe)
    if probe.fibre is not None:
        return walker.walk_over(probe.fibre, packet)
    source = client_of(plan.network, plan.lightpaths[probe.lightpath].source)
    return walker.walk(source, packet)


def simulate_plan(
    plan: WavelengthPlan, *, packets: int, wrong: int, seed: int = 1
) -> tuple[RoundMeasurements, ...]:
    """Trace the probes of all rounds, which are the same as on real switches.

    Args:
        plan: The plan.
        packets: Number of packets over each lit path.
        wrong: Number of packets of each wrong probe (see ``round_probes``).
        seed: Seed of the probes.
    """
    wiring = wire_plan(plan)
    results = []
    for number in range(len(plan.rounds)):
        probes = round_probes(plan, number, packets=packets, wrong=wrong, seed=seed)
        results.append(simulate_round(plan, wiring, number, probes))
    return tuple(results)
