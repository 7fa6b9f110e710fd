"""What is said of a fault names its link, so that parallel links are told apart; one that was in doubt for long is
judged all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.faults.fault import Fault
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink, schedule_each_link
from testbed.stream.prediction.active_faults import DIAGNOSES
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import Link, Network, Node, load_network


def split(network: Network, source: str, sink: str) -> LabelSplit:
    """Three quarters of the labels over the first of two parallel links, the rest over the second."""
    bounds = ((0, 49152), (49152, 65536))
    paths = tuple(
        LabelPath(start=start, stop=stop, links=(network.link_index[(source, sink, key)],))
        for key, (start, stop) in enumerate(bounds)
    )
    return LabelSplit(network=network, source=source, sink=sink, paths=paths)


@pytest.fixture(scope="module")
def finished() -> tuple[StreamPlan, StreamMeasurements]:
    links = tuple(
        Link(source=a, target=b, key=key) for key in (0, 1) for a, b in (("a", "d"), ("d", "a"))
    )
    network = Network(
        name="two cables", nodes=tuple(Node(id=i, kind="switch") for i in "ad"), links=links
    )
    plan = StreamPlan(
        network=network,
        method="by hand",
        forward=split(network, "a", "d"),
        backward=split(network, "d", "a"),
        stream=StreamParameters(hold_s=0.3),
        duration_s=1.0,
        seed=3,
    )
    faults = schedule_each_link(plan, EachLink(precision=0.02, most=2))
    plan = replace(plan, faults=faults, duration_s=faults[-1].stop_s + 0.8)
    return plan, SimulatedStreamFabric().run(plan)


def test_parallel_links_are_told_apart_by_their_keys(
    finished: tuple[StreamPlan, StreamMeasurements],
) -> None:
    analysis = Analysis(*finished)
    assert {f.link: f.predicted_loss for f in analysis.faults} == {"a->d": 0.75, "a->d#1": 0.25}
    assert {f.link: f.measured_loss for f in analysis.faults} == pytest.approx(
        {"a->d": 0.75, "a->d#1": 0.25}, abs=0.03
    )
    second = next(f.diagnosis for f in analysis.faults if f.link == "a->d#1")
    assert second is not None and second.right and second.cables == ("a-d#1",)


def test_a_failure_that_was_in_doubt_to_its_end_is_judged_all_the_same(
    finished: tuple[StreamPlan, StreamMeasurements],
) -> None:
    plan, run = finished
    end_s = run.faults[0].stop_s - 0.01
    events = [event | {"at_s": max(event["at_s"], end_s)} for event in run.counters[DIAGNOSES]]
    late = Analysis(plan, replace(run, counters={**run.counters, DIAGNOSES: events})).faults[0]
    prompt = Analysis(plan, run).faults[0]
    assert late.diagnosis is not None and late.diagnosis.certain_after_s == pytest.approx(
        end_s - late.start_s
    )
    assert 0 < late.steady_blocks < prompt.steady_blocks
    assert late.sent_per_source == pytest.approx(prompt.sent_per_source)


@pytest.mark.parametrize("lossy_as_well", [False, True])
def test_block_size_of_a_failure_ignores_a_lossy_link(
    lossy_as_well: bool,
) -> None:
    down = Fault(link=("s0", "s1", 0), kind="down", start_s=1.0, stop_s=2.5)
    lossy = Fault(link=("s4", "s3", 0), kind="loss", loss_fraction=0.1, start_s=5.0, stop_s=8.0)
    faults = (down, lossy) if lossy_as_well else (down,)
    plan = planned(load_network("ring:6"), "s0", "s3", faults=faults)
    run = SimulatedStreamFabric().run(plan)
    analysis = Analysis(plan, run)
    failed = analysis.faults[0]
    assert (
        failed.predicted_block_size == failed.measured_block_size == 40
    )  # half of the labels; equation 25 says 76
    assert (
        failed.interval[1] - failed.interval[0] < 0.005
    )  # stratified labels tell half from a random share
    assert judge(analysis).passed
    size = "block size, s0->s1 down"
    for other in (
        analysis.theory.policy.base,
        76,
    ):  # N never raised, and N as if losses were random
        spoilt = replace(run, sent=replace(run.sent, block_size=run.sent.block_size * 0 + other))
        assert not next(c for c in judge(Analysis(plan, spoilt)).checks if c.name == size).passed
