"""What is lost while failures overlap and nodes move, read off the labels alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fec.redundancy.block_size import fec_block_size, stratified_block_size
from testbed.errors import InputError
from testbed.faults.fault import ChangeTimes, Fault, PoissonFaults
from testbed.model.label_split import LABELS, LabelPath, LabelSplit
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.closing_lines import campaign_lines
from testbed.stream.judgement.verdict import judge
from testbed.stream.mobility import frame_network, recomputed
from testbed.stream.plan import RouteChange, StreamParameters, StreamPlan, plan_to_json
from testbed.stream.prediction.active_faults import (
    NEVER,
    epochs,
    is_campaign,
    joined_epochs,
    lost_intervals,
    planned_epochs,
)
from testbed.stream.prediction.stream_theory import StreamTheory
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import mobility_plan
from tests.helpers.stored_plans import plan_from_json
from topologies.manet import Walk, manet_frames
from topologies.network import Link, Network, Node

SHARES = ((0, 16384, "b"), (16384, 32768, "c"), (32768, 65536, "e"))


def split(
    network: Network, source: str, sink: str, shares: tuple[tuple[int, int, str], ...]
) -> LabelSplit:
    index = network.link_index
    paths = (
        LabelPath(
            start=start, stop=stop, links=(index[(source, middle, 0)], index[(middle, sink, 0)])
        )
        for start, stop, middle in shares
    )
    return LabelSplit(network=network, source=source, sink=sink, paths=tuple(paths))


def small_plan(*faults: Fault, **more: object) -> StreamPlan:
    cables = [(x, y) for middle in "bce" for x, y in (("a", middle), (middle, "d"))]
    links = tuple(Link(source=s, target=t) for x, y in cables for s, t in ((x, y), (y, x)))
    network = Network(
        name="three ways", nodes=tuple(Node(id=n, kind="switch") for n in "abced"), links=links
    )
    values: dict[str, object] = {
        "network": network,
        "method": "by hand",
        "forward": split(network, "a", "d", SHARES),
        "backward": split(network, "d", "a", ((0, 32768, "b"), (32768, LABELS, "c"))),
        "stream": StreamParameters(hold_s=0.3),
        "faults": faults,
        "duration_s": 6.0,
        "seed": 3,
    }
    return StreamPlan(**(values | more))  # type: ignore[arg-type]


def test_reach_is_by_binomial_tail_or_windows():
    """Of failures that take 3/4 of all labels: no N up to the sender's largest answers them but where labels are in
    order."""
    faults = (down("a", "b", 1.0, 3.0), down("a", "e", 2.0, 4.0))
    for labels, needed, beyond in (
        ("random", fec_block_size(20, 0.75, 1e-5), True),
        ("stratified", 84, False),
    ):
        plan = small_plan(*faults, stream=StreamParameters(labels=labels))
        (both,) = (epoch for epoch in planned_epochs(plan) if epoch.faults == 2)
        assert both.needed == pytest.approx(needed, abs=4 if labels == "stratified" else 0)
        assert StreamTheory(plan).requirement(both).within_reach != beyond


def down(a: str, b: str, start_s: float, stop_s: float) -> Fault:
    return Fault(link=(a, b, 0), start_s=start_s, stop_s=stop_s)


def test_overlapping_failures_lose_the_union_of_their_labels() -> None:
    plan = small_plan(down("a", "b", 1, 3), down("b", "d", 2, 4), down("a", "c", 2.5, 5))
    found = planned_epochs(plan)
    assert [(e.start_s, e.stop_s, e.loss, e.faults) for e in found] == [
        (0, 1, 0, 0),
        (1, 2, 0.25, 1),
        (2, 2.5, 0.25, 2),
        (2.5, 3, 0.5, 3),
        (3, 4, 0.5, 2),
        (4, 5, 0.25, 1),
        (5, 6, 0, 0),
    ]
    assert [e.needed for e in found[:2]] == [20, stratified_block_size([(0, 16384)], 20)]
    assert lost_intervals(plan.forward, found[3].broken) == ((0, 32768),)
    assert [e.reports_cut for e in found] == [False, False, False, True, True, False, False]


def test_packets_in_transit_may_meet_the_failures_of_two_epochs() -> None:
    plan = small_plan(down("a", "b", 1, 3), down("a", "c", 1, 3), down("e", "d", 3.1, 5))
    course = planned_epochs(plan)
    joined = joined_epochs(plan, course, 0.3)
    times_s = [(round(epoch.start_s, 6), epoch.stop_s, epoch.loss) for epoch in joined]
    assert times_s == [
        (0.7, 1, 0.5),
        (2.7, 3, 0.5),
        (2.8, 3, 1.0),
        (3, 3.1, 0.5),
        (4.7, 5, 0.5),
    ]
    assert [StreamTheory(plan).requirement(epoch).within_reach for epoch in joined] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert all(epoch.start_s >= 3 for epoch in joined_epochs(plan, course, 0.1) if epoch.loss == 1)


def test_loss_of_everything_has_no_block_size() -> None:
    plan = small_plan(down("a", "b", 1, 3), down("a", "c", 1, 3), down("a", "e", 1, 3))
    worst = planned_epochs(plan)[1]
    assert (worst.loss, worst.needed) == (1.0, NEVER)
    assert not StreamTheory(plan).requirement(worst).within_reach


def test_random_losses_on_one_path_multiply() -> None:
    half = {"kind": "loss", "loss_fraction": 0.5, "start_s": 1.0, "stop_s": 2.0}
    plan = small_plan(Fault(link=("a", "e", 0), **half), Fault(link=("e", "d", 0), **half))  # type: ignore[arg-type]
    assert planned_epochs(plan)[1].loss == pytest.approx(0.75 / 2)


def moving_plan(**more: object) -> StreamPlan:
    plan = small_plan()
    there = split(plan.network, "a", "d", ((0, 32768, "c"), (32768, 65536, "e")))
    links = (("a", "b", 0), ("b", "a", 0))
    change = RouteChange(at_s=2.0, vanished=links, forward=there, backward=plan.backward)
    back = RouteChange(at_s=4.0, appeared=links, forward=plan.forward, backward=plan.backward)
    return replace(plan, changes=(change, back), **more)  # type: ignore[arg-type]


def test_links_that_vanish_lose_their_labels_until_the_plan_follows() -> None:
    plan = moving_plan()
    times = [
        ChangeTimes(began_s=2.0, links_s=2.01, switch_start_s=2.3, switch_stop_s=2.4, done_s=2.6),
        ChangeTimes(began_s=4.0, links_s=4.01, switch_start_s=4.2, switch_stop_s=4.3, done_s=4.5),
    ]
    found = [(e.start_s, e.stop_s, e.split, e.loss) for e in epochs(plan, (), times)]
    assert found == [
        (0, 2.01, 0, 0),
        (2.01, 2.4, 0, 0.25),
        (2.4, 4.0, 1, 0),
        (4.0, 4.3, 1, 0),
        (4.3, 6, 2, 0),
    ]


@pytest.mark.parametrize(("handover", "lost"), [("after", True), ("before", False)])
def test_moving_plan_runs_as_predicted_and_a_warned_one_loses_nothing(
    handover: str, lost: bool
) -> None:
    plan = moving_plan(handover=handover)
    assert is_campaign(plan) and plan_from_json(plan_to_json(plan)) == plan
    run = SimulatedStreamFabric().run(plan)
    analysis = Analysis(plan, run)
    verdict = judge(analysis)
    assert verdict.passed, [c for c in verdict.checks if not c.passed]
    assert analysis.epochs_result is not None
    assert any(part.measured_loss > 0 for part in analysis.epochs_result.frames) is lost


def test_walk_under_random_failures_is_predicted_packet_by_packet() -> None:
    frames = list(manet_frames(Walk(nodes=30, degree=5.8, step=0.01, seed=1), count=4))
    spec = PoissonFaults(rate_per_s=0.05, lasts_s=1.0)
    plan = mobility_plan(
        frames,
        "n0",
        "n29",
        frame_s=3.0,
        rate_pps=200,
        playback_s=2.0,
        hold_s=2.0,
        late_pps=1600,
        faults=spec,
    )
    assert len(plan.changes) == 3 and plan.duration_s == 14.8 and len(plan.faults) >= 10
    assert all(recomputed(plan, k) == (c.forward, c.backward) for k, c in enumerate(plan.changes))
    present = {link.id for link in frame_network(plan, 2).links}
    assert present == {link.id for link in frames[3].links if "h" not in link.source + link.target}
    run = SimulatedStreamFabric().run(plan)
    analysis = Analysis(plan, run)
    verdict = judge(analysis)
    assert verdict.passed, [c for c in verdict.checks if not c.passed]
    assert plan.exact_route.loaded == plan.forward.loaded
    campaign = analysis.epochs_result
    assert campaign is not None and len(campaign.frames) == 4
    table = list(campaign_lines(campaign))[1:5]
    assert [int(line.split()[2]) for line in table] == [part.packets for part in campaign.frames]


def test_packet_lost_where_none_should_be_fails_the_verdict() -> None:
    """The measured fates are what is judged: a packet in a hundred taken away shows."""
    plan = small_plan(down("a", "b", 1, 3), down("a", "c", 2, 4))
    run = SimulatedStreamFabric().run(plan)
    assert judge(Analysis(plan, run)).passed
    gone = slice(None, None, 100)
    keep = [
        i for i in range(len(run.received.block)) if i not in range(len(run.received.block))[gone]
    ]
    received = replace(
        run.received, **{k: getattr(run.received, k)[keep] for k in ("time_s", "block", "symbol")}
    )
    worse = replace(run, received=received)
    analysis = Analysis(plan, worse)
    assert analysis.epochs_result is not None and analysis.epochs_result.wrongly_lost > 30
    assert not judge(analysis).passed


def test_packets_under_way_at_a_change_are_not_judged() -> None:
    plan = small_plan(down("a", "b", 1, 3), down("a", "c", 2, 4))
    run = SimulatedStreamFabric().run(plan)
    facts = RunFacts(plan, run)
    vars(facts)["longest_transit_s"] = np.full(len(run.sent.time_s), 0.1)
    fates = facts.loss_bounds
    unsure = run.sent.time_s[~fates.certain]
    assert len(unsure) and all(
        any(edge - 0.1 <= t <= edge + 0.01 for edge in (1, 2, 3, 4)) for t in unsure
    )
    assert set(run.sent.label[~fates.certain] // 16384) <= {0, 1}


def test_frame_without_a_path_is_named() -> None:
    frames = list(manet_frames(Walk(nodes=20, degree=2.0, seed=4), count=2))
    with pytest.raises(InputError, match=r"mobility: frame 0: .*; take other end points"):
        mobility_plan(frames, "n0", "n19")
