"""Rounds of wavelengths on real switches: conversion, a dark network, and the command on the optical cloud."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]


def five_arcs() -> Any:
    """One round of five lightpaths round a ring of two wavelengths: only conversion makes that possible."""
    from testbed.wavelengths.assignment import assign_wavelengths, lightpaths_between
    from topologies import load_network

    network = load_network("ring:5")
    pairs = [(f"h{i}", f"h{(i + 2) % 5}") for i in range(5)]
    return assign_wavelengths(
        network, lightpaths_between(network, pairs), wavelengths=2, switching="wixc"
    )


def converted_and_dark() -> dict[str, Any]:
    """The arcs in their round; then the same packets with no round lit."""
    from testbed.wavelengths import emulated as fabric
    from testbed.wavelengths.assignment import fibres
    from testbed.wavelengths.judgement import judge_rounds
    from testbed.wavelengths.probes import round_probes
    from testbed.wavelengths.rules import dark_rules

    plan = five_arcs()
    with fabric.lit_network(plan) as (net, controller, wiring):
        ends = fabric.Clients(net, wiring, plan)
        probes = round_probes(plan, 0, packets=50, wrong=5)
        good = fabric.run_round(controller, wiring, plan, 0, probes, ends)
        verdict = judge_rounds(plan, [good])
        controller.remove(2)
        fabric.settle()
        drops = dark_rules(wiring, fibres(plan.network))
        before = sum(fabric.dropped_packets(wiring, drops).values())
        arrived_dark = len(ends.exchange(1, probes))
        sent = sum(p.packets for p in probes)
        limit = time.monotonic() + 15
        dropped = 0
        while dropped < sent and time.monotonic() < limit:
            dropped = sum(fabric.dropped_packets(wiring, drops).values()) - before
            time.sleep(0.05)
        ends.close()
    return {
        "conversions": plan.conversions,
        "verdict": dict(verdict.to_json()),
        "delivered": good.delivered,
        "dark": [arrived_dark, sent, dropped],
    }


def test_converted_wavelengths_arrive_and_a_dark_network_counts_its_drops(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(converted_and_dark)
    assert found["conversions"] > 0
    assert found["verdict"]["passed"], found["verdict"]
    assert found["delivered"] == 250
    arrived, sent, dropped = found["dark"]
    assert (arrived, dropped) == (0, sent)


@pytest.mark.long
def test_command_runs_an_optical_cloud_on_switches() -> None:
    words = [
        "optical-cloud:graph=ring:6",
        "--wavelengths",
        "4",
        "--fabric",
        "emulation",
        "--packets-per-path",
        "5",
        "--json",
    ]
    done = run([*TESTBED, "wavelengths", *words], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["verdict"]["passed"]
    assert (found["rounds"], len(found["per_round"])) == (2, 2)
    assert sum(r["delivered"] for r in found["per_round"]) == 30 * 5
    assert sum(r["dropped"] for r in found["per_round"]) == 30 * 4
