"""A wavelength plan in virtual time: every probe is walked through the flow rules of its round, as exact switches
would."""

from collections import Counter
from collections.abc import Sequence

from testbed.model.wiring import Wiring
from testbed.openflow.flow_table import RuleWalker
from testbed.openflow.rules import FlowRule
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
    """Walk every probe through the rules of the round: what exact switches would do."""
    rules: tuple[FlowRule, ...] = (
        *dark_rules(wiring, fibres(plan.network)),
        *round_rules(wiring, plan, number),
    )
    walker, arrivals, dropped = RuleWalker(wiring, rules), list[Arrival](), Counter[str]()
    names = {host.name: host.node for host in wiring.hosts}
    for index, probe in enumerate(probes):
        packet = probe_packet(plan, wiring, probe)
        source = client_of(plan.network, plan.lightpaths[probe.lightpath].source)
        walk = (
            walker.walk(source, packet)
            if probe.fibre is None
            else walker.walk_over(probe.fibre, packet)
        )
        if walk.host is not None:
            wavelength = int(walk.packet["vlan_vid"]) - VLAN_PRESENT - vlan_of(0)
            arrivals += [
                Arrival(node=names[walk.host], wavelength=wavelength, probe=index)
            ] * probe.packets
        elif walk.dropped_by is not None and walk.dropped_at is not None:
            dropped[walk.dropped_at] += probe.packets
    return round_result(plan, number, probes, arrivals, dropped)


def simulate_plan(
    plan: WavelengthPlan, *, packets: int, wrong: int, seed: int = 1
) -> tuple[RoundMeasurements, ...]:
    """Every round of the plan, walked; the same probes as on real switches."""
    wiring = wire_plan(plan)
    return tuple(
        simulate_round(
            plan, wiring, n, round_probes(plan, n, packets=packets, wrong=wrong, seed=seed)
        )
        for n in range(len(plan.rounds))
    )
