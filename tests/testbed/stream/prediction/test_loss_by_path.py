"""Paths of a label split are numbered, their losses predicted, measured and reported; the page has a row for each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from fec.protocol.loss_report import MAX_PATH
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS
from testbed.model.run_records import LoadedRun, Manifest, SummaryRecord, group_sessions
from testbed.report.page import build_page
from testbed.routing.label_split.spraying import disjoint_return_split, paths_split
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.streams import judgement_of
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.loss_by_path import number_paths, path_of_label
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network
from topologies.network import Link, Network, Node


def ring_plan(*faults: Fault, **changes: object) -> tuple[StreamPlan, StreamMeasurements]:
    stream = replace(StreamParameters(rate_pps=500, hold_s=0.5), **changes)  # type: ignore[arg-type]
    plan = planned(load_network("ring:4"), "s0", "s2", stream=stream, faults=faults, duration_s=4.0)
    return plan, SimulatedStreamFabric().run(plan)


def bundle(width: int) -> Network:
    return Network(
        name="bundle",
        nodes=(Node(id="a", kind="switch"), Node(id="b", kind="switch")),
        links=tuple(
            Link(source=x, target=y, key=k)
            for k in range(width)
            for x, y in (("a", "b"), ("b", "a"))
        ),
    )


def test_labels_on_the_same_links_are_one_path() -> None:
    network = bundle(2)
    split = paths_split(network, "a", "b", [((2 * (k % 2),), Fraction(1)) for k in range(6)])
    paths = number_paths(split)
    assert [(path.number, path.links) for path in paths] == [(1, (0,)), (2, (2,))]
    assert sum(path.labels for path in paths) == LABELS
    table = path_of_label(split)
    assert all(
        paths[table[label] - 1].links == split.path_of(label).links
        for label in range(0, LABELS, 97)
    )


def test_most_used_paths_are_numbered_if_numbers_run_out() -> None:
    width = MAX_PATH + 5
    split = paths_split(
        bundle(width), "a", "b", [((2 * k,), Fraction(1 + (k >= 5))) for k in range(width)]
    )
    paths = number_paths(split)
    assert [path.number for path in paths] == [*range(1, MAX_PATH + 1), 0]
    assert paths[0].links == (10,) and paths[-1].links == ()
    assert path_of_label(split)[0] == 0 and set(path_of_label(split)) == set(range(256))


def test_failed_link_appears_on_its_path_in_logs_reports_and_prediction() -> None:
    plan, run = ring_plan(Fault(link=("s0", "s1", 0), start_s=1.0, stop_s=2.0))
    analysis = Analysis(plan, run)
    dead, alive = sorted(analysis.paths, key=lambda path: "s0->s1" not in path.links)
    assert dead.predicted_loss is not None and dead.predicted_loss > 0.2
    assert dead.measured_loss == pytest.approx(dead.predicted_loss)
    assert alive.measured_loss == alive.predicted_loss == 0
    for path in (dead, alive):
        assert path.reported_lost == path.sent - path.arrived
        assert path.reported_received == path.arrived
    (check,) = [check for check in judge(analysis).checks if check.name.startswith("paths")]
    assert check.passed


def test_a_path_that_lost_what_nobody_predicted_fails_the_verdict() -> None:
    plan, run = ring_plan(Fault(link=("s0", "s1", 0), start_s=1.0, stop_s=2.0))
    innocent = replace(plan, faults=())
    analysis = Analysis(innocent, replace(run, faults=()))
    (check,) = [check for check in judge(analysis).checks if check.name.startswith("paths")]
    assert not check.passed and check.measured == 1


def test_random_losses_of_a_path_agree_within_four_deviations() -> None:
    fault = Fault(link=("s0", "s1", 0), start_s=0.5, stop_s=3.0, kind="loss", loss_fraction=0.3)
    plan, run = ring_plan(fault, labels="random")
    lossy = next(path for path in Analysis(plan, run).paths if "s0->s1" in path.links)
    assert lossy.agrees and lossy.predicted_loss is not None and 0.15 < lossy.predicted_loss < 0.3
    assert lossy.tolerance is not None and 0.01 < lossy.tolerance < 0.1


def test_document_and_page_show_every_path() -> None:
    plan, run = ring_plan(Fault(link=("s0", "s1", 0), start_s=1.0, stop_s=2.0))
    analysis = Analysis(plan, run)
    verdict = judge(analysis)
    judged = judgement_of(analysis, verdict)
    document = judged.document
    assert [path["path"] for path in document["per_path"]] == [1, 2]
    assert "path_reports" not in document["figures"]
    records = judged.records(0, "Ring")
    assert isinstance(records[-1], SummaryRecord)
    sessions = group_sessions(records)
    page = build_page(LoadedRun(manifest=Manifest(command="x"), sessions=sessions, verdict=verdict))
    assert "Loss by path, 2 paths" in page and "s0-&gt;s1 s1-&gt;s2" in page


def test_paths_have_no_numbers_where_nodes_move() -> None:
    from testbed.stream.plan import RouteChange

    plan = planned(load_network("ring:4"), "s0", "s2", duration_s=2.0)
    back = disjoint_return_split(plan.network, "s0", "s2")
    moving = replace(plan, changes=(RouteChange(at_s=1.0, forward=plan.forward, backward=back),))
    assert Analysis(moving, SimulatedStreamFabric().run(moving)).paths == ()
