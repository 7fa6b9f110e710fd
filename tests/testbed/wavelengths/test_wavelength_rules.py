"""A round's flow rules, walked packet by packet: lit wavelengths are kept or rewritten to the end, dark ones dropped
and counted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.model.wiring import Wiring
from testbed.openflow.flow_table import RuleWalker
from testbed.openflow.rules import FlowRule
from testbed.wavelengths.assignment import (
    METHODS,
    Effort,
    assign_wavelengths,
    fibres,
    lightpaths_between,
    optical_end_points,
)
from testbed.wavelengths.judgement import judge_rounds
from testbed.wavelengths.plan import SWITCHINGS, WavelengthPlan
from testbed.wavelengths.probes import Probe, probe_packet, round_probes, wire_plan
from testbed.wavelengths.rules import (
    LIT_PRIORITY,
    VLAN_PRESENT,
    client_of,
    dark_rules,
    round_rules,
    vlan_of,
)
from testbed.wavelengths.simulated import simulate_round
from tests.helpers.drawn import drawn
from topologies import load_network

NETWORKS = {
    name: load_network(name) for name in ("optical-cloud", "ring:5", "topohub:topozoo/Abilene")
}


def a_plan(
    name: str, seed: int, *, count: int, wavelengths: int, switching: str, method: str
) -> WavelengthPlan:
    network, chance = NETWORKS[name], random.Random(seed)
    ends = optical_end_points(network)
    pairs = [tuple(chance.sample(ends, 2)) for _ in range(count)]
    paths = lightpaths_between(network, pairs)  # type: ignore[arg-type]
    return assign_wavelengths(
        network,
        paths,
        wavelengths=wavelengths,
        switching=switching,
        method=method,
        effort=Effort(seed=seed),
    )  # type: ignore[arg-type]


def rules_of(plan: WavelengthPlan, wiring: Wiring, number: int) -> tuple[FlowRule, ...]:
    return (*dark_rules(wiring, fibres(plan.network)), *round_rules(wiring, plan, number))


@drawn(30)
@given(
    name=st.sampled_from(sorted(NETWORKS)),
    seed=st.integers(0, 10_000),
    count=st.integers(1, 30),
    wavelengths=st.integers(1, 6),
    switching=st.sampled_from(SWITCHINGS),
    method=st.sampled_from(METHODS),
)
def test_rules_of_any_plan_deliver_what_is_lit_and_drop_what_is_dark(
    name: str, seed: int, count: int, wavelengths: int, switching: str, method: str
) -> None:
    plan = a_plan(
        name, seed, count=count, wavelengths=wavelengths, switching=switching, method=method
    )
    wiring = wire_plan(plan)
    results = []
    for number in range(len(plan.rounds)):
        rules = rules_of(plan, wiring, number)
        if switching == "wsxc":
            assert not any(rule.set_fields for rule in rules)
        assert len({rule.dpid for rule in rules if rule.set_fields}) <= plan.conversions
        results.append(
            simulate_round(
                plan, wiring, number, round_probes(plan, number, packets=3, wrong=2, seed=seed)
            )
        )
    verdict = judge_rounds(plan, results)
    assert verdict.passed, verdict.to_json()["failed"]
    assert sum(r.delivered for r in results) == 3 * count
    assert sum(sum(r.dropped.values()) for r in results) > 0


@drawn(15)
@given(
    seed=st.integers(0, 10_000),
    switching=st.sampled_from(SWITCHINGS),
    method=st.sampled_from(["liquid", "first-fit"]),
)
def test_every_wavelength_of_every_fibre_goes_on_exactly_where_it_is_lit(
    seed: int, switching: str, method: str
) -> None:
    plan = a_plan(
        "optical-cloud", seed, count=40, wavelengths=4, switching=switching, method=method
    )
    wiring = wire_plan(plan)
    walker, lit = RuleWalker(wiring, rules_of(plan, wiring, 0)), plan.lit_wavelengths(0)
    for link in sorted(fibres(plan.network)):
        for wavelength in range(5):
            walk = walker.walk_over(link, {"vlan_vid": VLAN_PRESENT | vlan_of(wavelength)})
            if wavelength in lit.get(link, ()):
                assert walk.host is not None
                if switching == "wsxc":
                    assert walk.packet["vlan_vid"] == VLAN_PRESENT | vlan_of(wavelength)
            else:
                assert (walk.host, walk.dropped_at, walk.links) == (None, link[1], (link,))
                assert (
                    walk.dropped_by is not None
                )  # by the rule that counts, not by the lack of one
                assert dict(walk.dropped_by.match)["in_port"] == wiring.in_port(link)


def test_packets_follow_their_lightpath_and_change_where_it_does() -> None:
    plan = a_plan("ring:5", 3, count=18, wavelengths=2, switching="wixc", method="first-fit")
    assert plan.conversions
    wiring = wire_plan(plan)
    for number, lit_paths in enumerate(plan.rounds):
        walker = RuleWalker(wiring, rules_of(plan, wiring, number))
        for lit in lit_paths:
            path = plan.lightpaths[lit.lightpath]
            packet = probe_packet(
                plan,
                wiring,
                Probe(lightpath=lit.lightpath, wavelength=lit.wavelengths[0], packets=1),
            )
            walk = walker.walk(client_of(plan.network, path.source), packet)
            assert walk.links == path.links
            assert walk.packet["vlan_vid"] == VLAN_PRESENT | vlan_of(lit.wavelengths[-1])


def test_first_cross_connect_refuses_a_mistuned_laser() -> None:
    plan = a_plan("optical-cloud", 1, count=1, wavelengths=2, switching="wsxc", method="liquid")
    wiring, path = wire_plan(plan), plan.lightpaths[0]
    dark = 1 - plan.rounds[0][0].wavelengths[0]
    packet = probe_packet(plan, wiring, Probe(lightpath=0, wavelength=dark, packets=1))
    walk = RuleWalker(wiring, rules_of(plan, wiring, 0)).walk(
        client_of(plan.network, path.source), packet
    )
    assert walk.dropped_at == path.links[0][1] == "x" + path.source[1:]


def test_verdict_fails_on_leak_loss_or_silent_counter() -> None:
    plan = a_plan("optical-cloud", 2, count=30, wavelengths=2, switching="wsxc", method="liquid")
    wiring = wire_plan(plan)
    probes = [round_probes(plan, number, packets=3, wrong=1) for number in range(len(plan.rounds))]
    good = [simulate_round(plan, wiring, number, listed) for number, listed in enumerate(probes)]
    assert judge_rounds(plan, good).passed
    silent = replace(good[0], dropped={})
    lost = replace(good[0], delivered=good[0].delivered - 1, incomplete=("e1->e2",))
    leaked = replace(good[0], misdelivered=1)
    moved = replace(good[0], dropped={"x99": sum(good[0].dropped.values())})
    for bad in (silent, lost, leaked, moved):
        assert not judge_rounds(plan, [bad, *good[1:]]).passed
    assert not judge_rounds(plan, good[1:]).passed


def test_rules_of_the_wrong_round_fail_the_verdict() -> None:
    plan = a_plan("optical-cloud", 4, count=60, wavelengths=2, switching="wsxc", method="liquid")
    swapped = replace(plan, rounds=(plan.rounds[1], plan.rounds[0], *plan.rounds[2:]))
    wiring = wire_plan(plan)
    results = [
        simulate_round(swapped, wiring, n, round_probes(plan, n, packets=1, wrong=1))
        for n in range(len(plan.rounds))
    ]
    verdict = judge_rounds(plan, results)
    assert not verdict.passed
    assert "lightpaths that delivered every packet" in verdict.to_json()["failed"]


def test_more_wavelengths_than_vlans_are_refused_on_the_fabric() -> None:
    plan = a_plan("ring:5", 1, count=2, wavelengths=4094, switching="wsxc", method="liquid")
    with pytest.raises(InputError, match="at most 4093"):
        round_rules(wire_plan(plan), plan, 0)


def test_lit_rules_of_cross_connects_know_ports_and_wavelengths_only() -> None:
    plan = a_plan("optical-cloud", 5, count=50, wavelengths=3, switching="wixc", method="first-fit")
    wiring = wire_plan(plan)
    cores = {
        wiring.switch_at(n.id).dpid
        for n in plan.network.switches
        if n.attributes.get("role") == "cross-connect"
    }
    for rule in round_rules(wiring, plan, 0):
        if rule.dpid in cores:
            assert [name for name, _ in rule.match] == ["in_port", "vlan_vid"]
            assert rule.priority == LIT_PRIORITY
