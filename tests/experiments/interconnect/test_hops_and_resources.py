"""What hangs on the hop, and what FT-DRB needs: figures that are known by hand, and runs spoilt as their rivals say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from experiments.interconnect.document_parameters import hop_models, resources
from experiments.interconnect.runs import model_of, parameters_of
from experiments.interconnect.study_points import LINK_PACKETS_PER_S, Run, network_of, traffic_of
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.simulation import simulate
from testbed.model.studies import where
from tests.helpers.injected_messages import messages

Row = dict[str, Any]
STUDIES = {"hops": hop_models.STUDY, "resources": resources.STUDY}


@cache
def measured(name: str) -> tuple[Row, ...]:
    """Rows of the first seed of the quick points, an eighth as long."""
    study = STUDIES[name]
    points = [point for point in study.points(True, 1) if point["seed"] == 1]
    shorter = [{**point, "seconds": point["seconds"] / 8} for point in points]
    return tuple({**point, **study.measure(point)} for point in shorter)


def spoilt(
    name: str, which: Callable[[Row], bool], **changes: Callable[[Row], Any]
) -> dict[str, str]:
    rows = [
        row | {field: value(row) for field, value in changes.items()} if which(row) else row
        for row in measured(name)
    ]
    return {check.name: check.outcome for check in STUDIES[name].judge(rows).checks}


def test_a_head_waits_as_long_as_the_packet_before_it_takes():
    """Two packets come to one router at once, for one node: the second waits for the first one's 8.192 us."""
    run = Run(network="ring:8", pattern="uniform", seed=1, seconds=1.0, bytes=2048, routing="dor")
    model = model_of(run.network, parameters_of(run))
    done = simulate(
        model,
        messages((0.0, 1, 0), (0.0, 7, 0)),
        parameters_of(run),
        recording=Recording(grants=100),
    )
    wait_s, passed_over = resources.longest_wait(model, done)
    assert (wait_s, passed_over) == (pytest.approx(8.192e-6), 1)


def test_signals_of_flow_control_are_those_of_a_walk_through_the_grants():
    run = Run(
        network="torus:8x8",
        pattern="gather",
        seed=3,
        seconds=2e-4,
        rate=0.2 * LINK_PACKETS_PER_S,
        routing="dor",
    )
    model, parameters = model_of(run.network, parameters_of(run)), parameters_of(run)
    done = simulate(model, traffic_of(run), parameters, recording=Recording(grants=1_000_000))
    takes, behind, held, leaving, full, freed = (
        parameters.serialization_ticks(512),
        {},
        {},
        [],
        0,
        0,
    )
    for tick, channel, packet in done.trace.tolist():
        while leaving and leaving[0][0] <= tick:
            held[leaving.pop(0)[1]] -= 1
        if packet in behind:
            leaving.append((tick + takes, behind.pop(packet)))
            freed += 1
        if channel < model.layout.links and model.links.host[channel] < 0:
            behind[packet] = channel
            held[channel] = held.get(channel, 0) + 1
            full += held[channel] == parameters.slots
    signals, credits_sent = resources.flow_control_signals(model, done, parameters)
    assert (signals, credits_sent) == (2 * full, freed) and 0 < signals < 2 * freed


@pytest.mark.parametrize("name", resources.NETWORKS)
def test_a_router_that_fails_takes_all_its_cables_and_its_nodes(name: str):
    network = network_of(name)
    dead = resources.dead_routers(network, 2, 5)
    faults = resources.faults_of_routers(network, dead)
    near = {
        frozenset(link.id[:2]) for link in network.links if {link.source, link.target} & set(dead)
    }
    between = {frozenset(fault.ends) for fault in faults}
    hosts = {host.id: number for number, host in enumerate(network.hosts)}
    gone = [number for host, number in hosts.items() if any(host in pair for pair in near)]
    assert between == {pair for pair in near if not pair & hosts.keys()}
    run = Run(network=name, pattern="uniform", seed=1, seconds=0.01)
    kept = resources.between_live(network, traffic_of(run), dead)
    assert len(kept) and not np.isin([kept.source, kept.destination], gone).any()
    assert bool(gone) == (name == "torus:8x8") == (len(kept) < len(traffic_of(run)))


def test_study_fails_for_starving_heads_dear_acks_and_lost_messages():
    before = spoilt("resources", lambda row: False)
    assert set(before.values()) <= {"holds", "cannot-tell"}
    starving = spoilt(
        "resources", lambda row: row["part"] == "waits", longest_wait_s=lambda row: row["seconds"]
    )
    dear = spoilt(
        "resources",
        lambda row: row["part"] == "stored",
        ack_links=lambda row: 2 * row["message_links"],
    )
    drb = spoilt(
        "resources", lambda row: row["part"] == "routers", received=lambda row: row["received"] - 1
    )
    signals = spoilt(
        "resources",
        lambda row: row["part"] == "waits",
        on_off_signals=lambda row: 2 * row["credits"],
    )
    for found, words, count in (
        (starving, "longest wait", 4),
        (signals, "on/off", 2),
        (dear, "bytes of ACKs", 2),
        (drb, "are lost", 2),
    ):
        assert sum(outcome == "fails" and words in name for name, outcome in found.items()) == count


@pytest.mark.parametrize("network", ["torus:8x8", "fat-tree:4,3"])
def test_the_hop_of_a_run_is_that_of_its_point(network: str):
    rows = where(measured("hops"), network=network, pattern="uniform", faults=0)
    late = {
        (row["switching"], row["router_delay_s"], row["seconds"]): row["latency_s"] for row in rows
    }
    for (switching, delay_s, seconds), latency_s in late.items():
        if delay_s == 1e-6:
            assert latency_s > late[switching, 1.27e-7, seconds] + 0.8e-6
        if switching == "store-and-forward":
            assert latency_s > late["cut-through", delay_s, seconds] + 2 * 2.048e-6


def test_hops_study_fails_for_dearer_failures_and_lost_packets():
    lost = spoilt(
        "hops", lambda row: row == measured("hops")[-1], received=lambda row: row["received"] - 1
    )
    assert lost["sent = received in every run"] == "fails"
    dear = spoilt(
        "hops",
        lambda row: row["fault_kind"] == "transient",
        latency_s=lambda row: 1.3 * row["latency_s"],
    )
    assert "fails" in {
        outcome for name, outcome in dear.items() if "under transient failures" in name
    }
    lowest = "fat-tree:4,3 uniform: performance at 10 % failed links, the lowest of all hops (%)"
    as_stated = spoilt(
        "hops",
        lambda row: (
            row["network"] == "fat-tree:4,3"
            and row["pattern"] == "uniform"
            and row["fault_kind"] == "start"
        ),
        latency_s=lambda row: row["latency_s"] / 0.84,
    )
    assert (spoilt("hops", lambda row: False)[lowest], as_stated[lowest]) == ("fails", "holds")


def test_at_full_size_each_figure_of_hops_has_one_to_be_compared_with():
    """The lowest hop may be one at which no other pattern was run."""
    row = measured("hops")[0]
    points = hop_models.STUDY.points(False, 1)
    found = {key: row[key] for key in row.keys() - points[0].keys() - {"faults", "fault_kind"}}
    for seconds in (0.05, 8.0):
        rows = [{**found, **point} for point in points]
        for one in rows:
            if (one["seconds"], one["pattern"]) == (seconds, "uniform") and one.get("faults"):
                one["latency_s"] = 1.2 * found["latency_s"]
        verdict = hop_models.STUDY.judge(rows)
        assert len(verdict.checks) == 8 and f"{seconds:g} s" in verdict.checks[1].detail
