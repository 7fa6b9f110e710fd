"""Many pairs at once: escapes prepared for some cables alone lead as all of them would, and real switches lose nothing
for long."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import random_faults
from testbed.metapath.escape_check import stranded_paths
from testbed.metapath.escape_rules import escape_rules
from testbed.metapath.labelled_paths import cable_number, labelled_paths, path_label
from testbed.metapath.many_pairs import ManyPairsPlan, draw_plan
from testbed.model.wiring import wire
from testbed.openflow.flow_table import RuleWalker
from topologies import load_network

NETWORK = load_network("torus:4x4")


@pytest.mark.parametrize("seed", range(3))
def test_escapes_for_the_cables_that_may_die_lead_as_all_escapes_do(seed: int) -> None:
    faults = random_faults(NETWORK, 3, seed=seed)
    wiring, known = wire(NETWORK), labelled_paths(NETWORK, "h0_0", "h2_1", most=4)
    dead = frozenset(cable_number(NETWORK, fault.link) for fault in faults)
    whole, few = (escape_rules(wiring, known, dead=each) for each in (None, dead))
    assert len(few.rules) < len(whole.rules) / 4
    for count in range(len(faults) + 1):
        for down in itertools.combinations([fault.link for fault in faults], count):
            walks = [
                RuleWalker(wiring, rules.rules, groups=rules.groups, down=down) for rules in (whole, few)
            ]  # fmt: skip
            for path in range(len(known.paths)):
                packet = {**walks[0].stream_packet("h0_0", "h2_1", 47000), "ip_dscp": 0, "udp_src": path_label(path)}
                ends = [walker.walk("h0_0", packet) for walker in walks]
                assert ends[0].links == ends[1].links and ends[0].host == ends[1].host
            assert stranded_paths(wiring, few, down) == ()


def test_a_plan_draws_each_host_once_and_the_same_cables_for_every_routing() -> None:
    plans = [_drawn(routing) for routing in ("ft-drb", "single")]
    assert plans[0].pairs == plans[1].pairs and plans[0].faults == plans[1].faults
    assert len({end for pair in plans[0].pairs for end in pair}) == 8 and len(plans[0].dead) == 3


def test_a_plan_refuses_what_cannot_be_told_apart() -> None:
    plan = _drawn("single")
    with pytest.raises(InputError, match="two pairs"):
        replace(plan, pairs=(("h0_0", "h1_1"), ("h1_1", "h2_2")))
    with pytest.raises(InputError, match="outlast"):
        replace(plan, duration_s=100.0)
    with pytest.raises(InputError, match="9 pairs need 18 hosts"):
        draw_plan(NETWORK, 9, 3, seed=1, routing="single", failed_s=1.0, duration_s=2.0, rate_pps=50.0)


def _drawn(routing: str) -> ManyPairsPlan:
    return draw_plan(NETWORK, 4, 3, seed=2, routing=routing, failed_s=0.8, duration_s=2.0, rate_pps=50.0)  # type: ignore[arg-type]


def _run_pairs() -> dict[str, Any]:
    import numpy as np

    from testbed.metapath.emulated.many_pairs import run_many_pairs

    plan = _drawn("ft-drb")
    run = run_many_pairs(plan)
    late = [
        int((np.isnan(pair.arrival_s()) & (pair.sent.time_s > plan.failed_s + 0.6)).sum()) for pair in run
    ]  # fmt: skip
    marked = sum(any(event.kind == "marked" for event in pair.events) for pair in run)
    return {"late": late, "marked": marked, "sent": [len(pair.sent.time_s) for pair in run]}


@pytest.mark.emulation
def test_four_pairs_on_switches_lose_nothing_once_three_cables_are_cut(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(_run_pairs)
    assert found["late"] == [0, 0, 0, 0] and found["marked"] > 0 and min(found["sent"]) >= 80
