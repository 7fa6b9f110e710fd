"""What a plain stream's logs say of each fault, and that the verdict can fail: made-up runs, no switch."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.stream.ft_drb_fabric import CODED, CROWDED, NAMES, STUDY
from testbed.commands.studies.study_runner import drawn
from testbed.errors import InputError
from testbed.faults.fault import Fault, FaultTimes
from testbed.metapath.analysis import MetapathFacts, message_deliveries, path_shares
from testbed.metapath.coded_deliveries import coded_deliveries
from testbed.metapath.figures import metapath_figures
from testbed.metapath.judgement import judge_metapaths, lost_share
from testbed.metapath.labelled_paths import cable_number, labelled_paths
from testbed.metapath.options import MetapathOptions
from testbed.metapath.plan import (
    MetapathPlan,
    MetapathRun,
    ReceivedDatagrams,
    Rerouting,
    SentDatagrams,
)
from testbed.metapath.planning import each_cable_faults
from testbed.metapath.source import SourceEvent
from testbed.metapath.workload import metapath_plan
from testbed.stream.measurements import (
    BlockOutcomes,
    ReceivedPackets,
    RunHealth,
    SentPackets,
    StreamMeasurements,
)
from tests.helpers.stream_plans import planned
from topologies import load_network

NETWORK = load_network("torus:4x4")
LINK = ("s1_0", "s2_0", 0)
CABLE = NETWORK.link_index[LINK]
OTHER = cable_number(NETWORK, ("s0_0", "s1_0", 0))
OVERLAPPING = (
    Fault(link=LINK, start_s=1.0, stop_s=2.0),
    Fault(link=("s0_0", "s0_1", 0), start_s=1.5, stop_s=2.5),
    Fault(link=("s0_0", "s1_0", 0), start_s=1.7, stop_s=2.2),
)
KNOWN = labelled_paths(NETWORK, "s0_0", "s2_0")
BROKEN = {cable_number(NETWORK, f.link) for f in OVERLAPPING}


def _plan(routing: str = "ft-drb", kind: str = "down", **more: Any) -> MetapathPlan:
    """The name of the routing is a string of its own, as a user's is."""
    fault = Fault(link=LINK, kind=kind, start_s=1.0, stop_s=2.0)  # type: ignore[arg-type]
    return MetapathPlan(
        network=NETWORK,
        source="s0_0",
        sink="s2_0",
        routing="".join(list(routing)),
        faults=(fault,),
        duration_s=3.0,
        **more,  # type: ignore[arg-type]
    )


def _run(
    plan: MetapathPlan,
    lost: tuple[float, float] = (1.0, 1.004),
    escaped: tuple[float, float] = (1.004, 1.02),
) -> MetapathRun:
    """A thousand packets a second with 1 ms of latency; those sent in ``lost`` vanish, those in ``escaped`` carry the
    flag, unless the carrier stays."""
    sent_s = np.arange(3000) / 1000
    diverted = (sent_s >= 1.02) & (sent_s < 2.05)
    there = ~((sent_s >= lost[0]) & (sent_s < lost[1]))
    flagged = (sent_s >= escaped[0]) & (sent_s < escaped[1]) & (plan.faults[0].kind == "down")
    cause = "header" if plan.faults[0].kind == "down" else "silence"
    number = np.arange(3000)
    return MetapathRun(
        sent=SentDatagrams(
            time_s=sent_s,
            message=number,
            path=diverted.astype(np.int64),
            copy=np.zeros(3000, dtype=np.int64),
        ),
        received=ReceivedDatagrams(
            time_s=sent_s[there] + 0.001,
            number=number[there],
            dead_link=np.where(flagged, CABLE, -1)[there],
        ),
        faults=(FaultTimes(fault=plan.faults[0], start_s=1.0, stop_s=2.0, port_status_s=1.003),),
        events=(
            SourceEvent(at_s=1.02, kind="notified", cause=cause, cable=CABLE),
            SourceEvent(at_s=1.02, kind="marked", cause=cause, cable=CABLE),
            SourceEvent(at_s=1.02, kind="configured", paths=(1,)),
            SourceEvent(at_s=2.05, kind="cleared", cause="probe", cable=CABLE),
            SourceEvent(at_s=2.05, kind="configured", paths=(0,)),
        ),
        health=RunHealth(sender_lag_s=0.001, unplanned_drops=0),
    )


def _with_events(run: MetapathRun, *events: SourceEvent) -> MetapathRun:
    """The run of a source that says this, and sends over the first path that is in use."""
    uses = [(0.0, 0), *((event.at_s, event.paths[0]) for event in events if event.paths)]
    place = np.searchsorted([at_s for at_s, _ in uses], run.sent.time_s, side="right") - 1
    return replace(
        run, events=events, sent=replace(run.sent, path=np.array([path for _, path in uses])[place])
    )


def _verdict(plan: MetapathPlan, run: MetapathRun) -> Any:
    return judge_metapaths(plan, run).verdict


def test_a_cut_that_is_escaped_is_told_from_the_logs() -> None:
    plan = _plan()
    (found,) = MetapathFacts(plan, _run(plan)).faults
    assert (found.lost, found.escaped, found.lost_after_reroute) == (4, 16, 0)
    assert found.lost_s == pytest.approx(0.004)
    assert found.first_escape_s == pytest.approx(0.004)
    assert found.detected_s == pytest.approx({"header": 0.02})
    assert (found.marked_by, found.port_status_s) == ("header", pytest.approx(0.003))
    assert (found.reconfigured_s, found.returned_s) == (pytest.approx(0.02), pytest.approx(0.05))
    assert found.latency_before_ms == found.latency_escaped_ms == (1.0, 1.0)


def test_the_verdict_passes_and_each_claim_can_fail() -> None:
    plan = _plan()
    assert _verdict(plan, _run(plan)).passed
    slow = _verdict(plan, _run(plan, lost=(1.0, 1.06), escaped=(1.06, 1.07)))
    assert next(c.name for c in slow.checks if not c.passed).startswith(
        "packets lost until the escape"
    )
    late = _verdict(plan, _run(plan, lost=(1.5, 1.501)))
    assert next(c.name for c in late.checks if not c.passed).startswith(
        "packets lost after reconfiguring"
    )
    stuck = replace(_run(plan), events=_run(plan).events[:3])
    assert next(c.name for c in _verdict(plan, stuck).checks if not c.passed).startswith(
        "return to the minimal path"
    )


def _overlapping_run(
    second_lost: tuple[float, float] = (1.5, 1.51),
) -> tuple[MetapathPlan, MetapathRun]:
    """Three cuts at once: of the path, of the way round it (which loses packets), and of the path again (which loses
    none)."""
    plan = replace(_plan(), faults=OVERLAPPING)
    run = _run(_plan())
    there = ~(
        (run.received.time_s >= second_lost[0] + 0.001)
        & (run.received.time_s < second_lost[1] + 0.001)
    )
    received = ReceivedDatagrams(
        time_s=run.received.time_s[there],
        number=run.received.number[there],
        dead_link=run.received.dead_link[there],
    )
    over = next(
        k
        for k, cables in enumerate(KNOWN.cables)
        if cables & BROKEN == {cable_number(NETWORK, OVERLAPPING[1].link)}
    )
    off = next(k for k, cables in enumerate(KNOWN.cables) if not cables & BROKEN)
    second = cable_number(NETWORK, OVERLAPPING[1].link)
    events = [
        SourceEvent(at_s=at_s, kind=kind, cause="header", cable=cable)
        for at_s, kind, cable in (
            (1.02, "notified", CABLE), (1.02, "marked", CABLE), (1.52, "notified", second), (1.52, "marked", second),
            (2.3, "cleared", CABLE),
        )
    ]  # fmt: skip
    events += [
        SourceEvent(at_s=s, kind="configured", paths=(k,))
        for s, k in ((1.02, over), (1.52, off), (2.3, 0))
    ]
    events.sort(key=lambda event: event.at_s)
    times = tuple(
        FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s, port_status_s=None)
        for f in OVERLAPPING
    )
    return plan, _with_events(replace(run, received=received, faults=times), *events)


def test_faults_that_overlap_are_told_apart() -> None:
    plan, run = _overlapping_run()
    first, second, third = MetapathFacts(plan, run).faults
    assert (first.lost, second.lost, third.lost) == (4, 10, 0)
    assert first.lost_after_reroute == second.lost_after_reroute == third.lost_after_reroute == 0
    assert second.reconfigured_s == pytest.approx(0.02) and third.reconfigured_s == 0
    verdict = judge_metapaths(plan, run).verdict
    assert verdict.passed, [c for c in verdict.checks if not c.passed]
    returns = [c.name for c in verdict.checks if c.name.startswith("return")]
    assert returns == ["return to the minimal path, s0_0->s1_0 down"]


def test_loss_on_avoided_cables_fails_overlapping_faults() -> None:
    plan, run = _overlapping_run((1.6, 1.605))
    verdict = judge_metapaths(plan, run).verdict
    assert [c.name for c in verdict.checks if not c.passed] == [
        "packets lost after reconfiguring, s0_0->s0_1 down"
    ]
    plan, run = _overlapping_run((1.5, 1.56))
    verdict = judge_metapaths(plan, run).verdict
    assert "packets lost until the escape, s0_0->s0_1 down" in [
        c.name for c in verdict.checks if not c.passed
    ]


@pytest.mark.parametrize(("answered_s", "lost_after_reroute"), [(1.52, 20), (1.75, 0)])
def test_losses_of_an_unanswered_fault_do_not_count_against_another(
    answered_s: float, lost_after_reroute: int
) -> None:
    """The third cut, off the path, begins while the source may still send into the second."""
    plan, run = _overlapping_run((1.7, 1.72))
    events = tuple(replace(e, at_s=answered_s) if e.at_s == 1.52 else e for e in run.events)
    third = MetapathFacts(plan, replace(run, events=events)).faults[2]
    assert (third.lost, third.lost_after_reroute) == (20, lost_after_reroute)


def test_a_cable_that_fails_twice_in_an_episode_is_returned_from_once() -> None:
    """Planned end to end, in force 1 ms longer: the source returns after the last one only."""
    aside = OVERLAPPING[1].link
    faults = tuple(
        Fault(link=link, start_s=at, stop_s=at + 0.5)
        for link, at in ((LINK, 1), (aside, 1.5), (LINK, 2))
    )
    plan = replace(
        _plan(options=MetapathOptions(link_up="controller")), faults=faults, duration_s=4.0
    )
    times = tuple(FaultTimes(fault=f, start_s=f.start_s, stop_s=f.stop_s + 0.001) for f in faults)
    run = replace(_run(_plan()), faults=times)
    checks = judge_metapaths(plan, run).verdict.checks
    assert [check.about for check in checks if check.key == "returned"] == ["fault:2"]


def test_silence_must_be_found_in_its_time() -> None:
    plan = _plan(kind="blackhole")
    run = _run(plan, lost=(1.0, 1.07))
    quick = _with_events(run, *(replace(e, at_s=e.at_s + 0.05 * (e.at_s < 2)) for e in run.events))
    assert _verdict(plan, quick).passed
    slow = _verdict(
        plan,
        _with_events(run, *(replace(e, at_s=e.at_s + 0.25 * (e.at_s < 2)) for e in run.events)),
    )
    assert slow.invalid is None and not slow.passed


def test_cut_affects_packets_in_transit_over_long_paths() -> None:
    """Packets that the cut took were counted as lost in no fault, from 50 ms before it on."""
    links = tuple(replace(link, delay_s=0.06) for link in NETWORK.links)
    plan = replace(_plan(), network=replace(NETWORK, links=links))
    run = _run(plan, lost=(0.9, 1.004))
    assert MetapathFacts(plan, run).lost_outside == 0
    assert "no planned fault" not in (_verdict(plan, run).invalid or "")
    earlier = _run(plan, lost=(0.2, 0.21))
    assert "no planned fault" in (_verdict(plan, earlier).invalid or "")


def test_a_run_that_lost_packets_by_itself_or_lagged_is_invalid() -> None:
    plan = _plan()
    assert "no planned fault" in (_verdict(plan, _run(plan, lost=(0.2, 0.21))).invalid or "")
    lagged = replace(_run(plan), health=RunHealth(sender_lag_s=0.5, unplanned_drops=0))
    assert "lagged" in (_verdict(plan, lagged).invalid or "")
    dropped = replace(_run(plan), health=RunHealth(sender_lag_s=0.0, unplanned_drops=3))
    assert "full socket" in (_verdict(plan, dropped).invalid or "")


def test_one_path_loses_all_and_a_recomputed_route_its_share() -> None:
    single = _plan("single")
    assert lost_share(single, LINK) == 1
    assert _verdict(single, _with_events(_run(single, lost=(1.0, 2.0)))).passed
    assert not _verdict(single, _with_events(_run(single))).passed
    again = _plan("recomputed")
    assert lost_share(again, LINK) == pytest.approx(0.25, abs=0.001)
    rerouted = (
        Rerouting(notified_s=1.004, routed_s=1.04, done_s=1.12, rules=300),
        Rerouting(notified_s=2.004, routed_s=2.04, done_s=2.12, rules=300),
    )
    run = replace(_with_events(_run(again, lost=(1.0, 1.03))), rerouted=rerouted)
    (found,) = MetapathFacts(again, run).faults
    assert (found.reconfigured_s, found.returned_s) == (pytest.approx(0.12), pytest.approx(0.12))
    assert _verdict(again, run).passed
    assert not _verdict(again, replace(run, rerouted=())).passed


def test_a_copy_counts_for_its_message() -> None:
    run = MetapathRun(
        sent=SentDatagrams(
            time_s=np.array([0.0, 0.0, 0.1]),
            message=np.array([0, 0, 1]),
            path=np.array([2, 0, 0]),
            copy=np.array([0, 1, 0]),
        ),
        received=ReceivedDatagrams(
            time_s=np.array([0.5]), number=np.array([1]), dead_link=np.array([-1])
        ),
        faults=(),
        health=RunHealth(sender_lag_s=0.0, unplanned_drops=0),
    )
    fates = message_deliveries(run)
    assert fates.lost.tolist() == [False, True]
    assert fates.arrived_s[0] == 0.5
    (share,) = path_shares(run, 0.0)
    assert (share["path"], share["share"], share["predicted_share"]) == (
        0,
        pytest.approx(2 / 3),
        1.0,
    )


def test_rows_and_document_are_drawn_and_printed() -> None:
    plan = _plan()
    run = _run(plan)
    judged = judge_metapaths(plan, run)
    (row,) = judged.stored
    line, calm = row["timeline"], [0] * 15  # from 0.3 s before to 0.5 s after, a bin every 20 ms
    assert line["t_s"] == pytest.approx([k / 50 - 0.3 for k in range(90)])
    assert line["sent"] == [20] * 90
    assert line["lost"] == [*calm, 4, *[0] * 74] and line["escaped"] == [*calm, 16, *[0] * 74]
    assert line["diverted"] == [*calm, 0, *[20] * 51, 10, *[0] * 22]
    assert line["latency_ms"] == line["slow_ms"] == [1.0] * 90
    assert list(metapath_figures([row])) == ["s1_0->s2_0-down"]
    document = judged.document
    assert document["per_fault"][0]["lost"] == 4
    assert document["events"][0]["cable"] == "s1_0->s2_0"


def test_a_coded_stream_counts_what_was_decoded_in_time() -> None:
    plan = planned(NETWORK, "s0_0", "s2_0", faults=(), duration_s=1.0)
    m = plan.stream.source_packets
    sent = SentPackets(
        time_s=np.arange(m) / 1000,
        block=np.zeros(m, int),
        symbol=np.arange(m),
        label=np.zeros(m, int),
        block_size=np.full(m, m),
    )
    got = ReceivedPackets(
        time_s=np.arange(m - 2) / 1000 + 0.001, block=np.zeros(m - 2, int), symbol=np.arange(m - 2)
    )
    blocks = BlockOutcomes(
        block=np.array([0]),
        started_s=np.array([0.0]),
        complete_s=np.array([0.03]),
        arrived=np.array([m]),
        late_source_packets=np.array([0]),
    )
    run = StreamMeasurements(
        fabric="emulation",
        sent=sent,
        received=got,
        blocks=blocks,
        faults=(),
        health=RunHealth(sender_lag_s=0, unplanned_drops=0),
    )
    fates = coded_deliveries(plan, run)
    assert not fates.lost.any()
    assert fates.arrived_s[-1] == 0.03 and fates.arrived_s[0] == 0.001
    never = replace(run, blocks=replace(blocks, complete_s=np.array([np.nan])))
    assert coded_deliveries(plan, never).lost.sum() == 2


def test_each_cable_of_the_minimal_path_fails_in_turn() -> None:
    faults = each_cable_faults(NETWORK, "s0_0", "s2_1")
    assert [f.link for f in faults] == [
        ("s0_0", "s1_0", 0),
        ("s1_0", "s2_0", 0),
        ("s2_0", "s2_1", 0),
    ]
    assert all(a.stop_s < b.start_s for a, b in itertools.pairwise(faults))
    assert len(each_cable_faults(NETWORK, "s0_0", "s2_1", max_faults=1)) == 1
    with pytest.raises(InputError, match="max_faults 0"):
        metapath_plan(NETWORK, "s0_0", "s2_1", max_faults=0)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rate_pps": 1e5}, "rate"),
        ({"packet_bytes": 3}, "bytes"),
        ({"duration_s": 1.5}, "duration"),
        ({"rate_pps": 5000.0}, "80 %"),
        ({"routing": "magic"}, "routing"),
        ({"faults": (Fault(link=LINK, kind="loss", start_s=1, stop_s=2),)}, "loss"),
        ({"faults": (Fault(link=("a", "b", 0), start_s=1, stop_s=2),)}, "no link"),
        (
            {
                "faults": (
                    Fault(link=LINK, start_s=1, stop_s=2),
                    Fault(link=LINK, start_s=1.5, stop_s=2.5),
                )
            },
            "overlap",
        ),
        ({"faults": OVERLAPPING, "routing": "single"}, "overlap"),
        ({"faults": tuple(replace(f, kind="blackhole") for f in OVERLAPPING)}, "overlap"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        replace(_plan(), **change)


def _study_rows() -> list[dict[str, Any]]:
    """Rows as the study measures them, made up to agree with every claim."""
    plan = _plan()
    (plain,) = (dict(row) for row in judge_metapaths(plan, _run(plan)).stored)
    rows = []
    for point in STUDY.points(True, 1):
        routing, kind = point["routing"], point["kind"]
        if kind == "crowded":
            parts = (0.1, 0.2, 0.3, 0.4)
            shares = [
                {"path": k, "share": p, "latency_ms": 1 / p, "predicted_share": p}
                for k, p in enumerate(parts)
            ]
            latency = [1.0, 2.0] if routing != "single" else [10.0, 20.0]
            rows.append(
                {**point, "latency_during_ms": latency, "paths": shares, "lost": 0, "invalid": None}
            )
            continue
        row = {
            **copy.deepcopy(plain),
            **point,
            "datagrams_a_message": 1.0,
            "failed": [],
            "invalid": None,
        }
        if kind == "blackhole":
            row |= {"marked_by": "silence", "port_status_s": None, "reconfigured_s": 0.07}
        if routing == "single":
            row |= {"lost": row["sent"], "lost_s": 1.0, "reconfigured_s": None}
        if routing == "recomputed":
            row |= {"lost": 30 if kind == "down" else 250, "lost_s": 0.03, "reconfigured_s": 0.12}
        if routing == CODED:
            row |= {
                "lost": 0,
                "lost_s": 0.0,
                "latency_during_ms": (2.0, 30.0),
                "datagrams_a_message": 1.4,
            }
        rows.append(row)
    return rows


def test_the_study_passes_on_good_rows_and_is_drawn() -> None:
    rows = _study_rows()
    verdict = STUDY.judge(rows)
    assert verdict.passed, [c.name for c in verdict.checks if not c.passed]
    drawings = drawn(STUDY, rows)
    assert set(drawings) == {"carrier_lost", "silent_blackhole"}
    assert len(CROWDED) + 2 * len(NAMES) - 1 == len(rows)


@pytest.mark.parametrize(
    ("routing", "kind", "change", "claim"),
    [
        ("ft-drb", "down", {"lost_s": 0.06}, "cut: s of packets lost"),
        ("ft-drb, header", "down", {"escaped": 0}, "without an escape"),
        ("ft-drb", "blackhole", {"reconfigured_s": None}, "silent blackhole"),
        ("ft-drb", "blackhole", {"marked_by": "header"}, "anything but silence"),
        ("ft-drb", "down", {"lost_after_reroute": 1}, "after the source reconfigured"),
        ("ft-drb", "down", {"returned_s": None}, "back on its path"),
        ("single", "down", {"lost": 0}, "share lost on one path"),
        (CODED, "blackhole", {"lost": 3}, "not decoded"),
        ("recomputed", "blackhole", {"lost": 0}, "never told"),
        ("recomputed", "down", {"reconfigured_s": 0.001}, "to reconfigure"),
        ("ft-drb, always", "crowded", {"latency_during_ms": [20.0, 40.0]}, "95th percentile"),
        ("ft-drb, four paths", "crowded", {"paths": []}, "four paths"),
        (
            "ft-drb, four paths",
            "crowded",
            {
                "paths": [
                    {"path": k, "share": 0.25, "predicted_share": 0.1 + 0.1 * k} for k in range(4)
                ]
            },
            "equation 3.8",
        ),
    ],
)
def test_every_claim_of_the_study_can_fail(
    routing: str, kind: str, change: dict[str, Any], claim: str
) -> None:
    rows = _study_rows()
    for row in rows:
        if (row["routing"], row["kind"]) == (routing, kind):
            row |= change
    failed = [check.name for check in STUDY.judge(rows).checks if not check.passed]
    assert any(claim in name for name in failed), failed


@pytest.mark.parametrize("kind", ["down", "blackhole"])
def test_impossible_sources_and_clocks_do_not_pass(kind: str) -> None:
    plan = _plan(kind=kind)
    run = _run(plan)
    assert _verdict(plan, run).passed
    count, few, came = len(run.sent.time_s), np.arange(0, 3000, 10), run.received.number % 10 == 0
    tenth = {name: getattr(run.sent, name)[few] for name in ("time_s", "path", "copy")}
    arrived = {name: getattr(run.received, name)[came] for name in ("time_s", "dead_link")}
    received, sent = run.received, run.sent
    later = tuple(replace(t, start_s=t.start_s + 1, stop_s=t.stop_s + 1) for t in run.faults)
    mark = SourceEvent(at_s=1.5, kind="marked", cause="controller", cable=OTHER)
    thousand = {
        name: np.repeat(getattr(received, name), 1000) for name in ("time_s", "number", "dead_link")
    }
    spoilt = [
        ("kept-off", replace(run, sent=replace(sent, path=np.zeros(count, dtype=np.int64)))),
        (
            "before they were sent",
            replace(run, received=replace(received, time_s=received.time_s - 0.01)),
        ),
        (
            "300 of 3000 packets were sent",
            replace(
                run,
                sent=SentDatagrams(message=np.arange(300), **tenth),
                received=ReceivedDatagrams(number=received.number[came] // 10, **arrived),
            ),
        ),
        ("did not happen", replace(_run(plan, lost=(0.0, 0.0), escaped=(0.0, 0.0)), faults=())),
        ("from 2.00 s on", replace(run, faults=later)),
        (
            "never marked",
            replace(run, events=tuple(replace(e, cable=e.cable and OTHER) for e in run.events)),
        ),
        ("wrongly-reported", replace(run, events=(*run.events, mark))),
        (
            "wrongly-reported",
            replace(
                run,
                received=replace(
                    received, dead_link=np.where(received.number % 300 == 9, OTHER, -1)
                ),
            ),
        ),
        ("arrived twice", replace(run, received=ReceivedDatagrams(**thousand))),
        (
            "before they were sent",
            replace(run, received=replace(received, number=np.roll(received.number, 900))),
        ),
        ("were not sent", replace(run, received=replace(received, number=received.number * 1000))),
        ("after the end", replace(run, received=replace(received, time_s=received.time_s * 1000))),
    ]
    for words, one in spoilt:
        verdict = _verdict(plan, one)
        reasons = [
            str(verdict.invalid),
            *(f"{c.key}: {c.detail}" for c in verdict.checks if c.outcome == "fails"),
        ]
        assert not verdict.passed and any(words in said for said in reasons), words
    untouched = _verdict(plan, _run(plan, lost=(0.0, 0.0), escaped=(0.0, 0.0)))
    assert untouched.exit_code == 5, "no packet met the failure"


@pytest.mark.parametrize("kind", ["down", "blackhole"])
def test_source_records_are_checked_against_packets(kind: str) -> None:
    plan = _plan(kind=kind)
    run = _run(plan)
    run = replace(run, counters={"reports": 331}, zero_load_s=0.001)
    assert _verdict(plan, run).passed
    changes: dict[str, tuple[Any, ...]] = {
        "at_s": (1000, 0.5, -1),
        "cable": (2, -1),
        "paths": ((2,), (7,), ()),
    }
    for number, event in enumerate(run.events):
        for name, factors in changes.items():
            was = getattr(event, name)
            for factor in factors if was not in (None, ()) else ():
                said = replace(event, **{name: factor if name == "paths" else was * factor})
                spoilt = replace(
                    run, events=(*run.events[:number], said, *run.events[number + 1 :])
                )
                assert was == (0,) or refused_or_judged(plan, spoilt), (number, name, factor)
    for factor in (1000, 0.5, -1):
        times = tuple(
            replace(t, port_status_s=factor * (t.port_status_s or 0.0)) for t in run.faults
        )
        assert "a switch reported it at" in str(_verdict(plan, replace(run, faults=times)).invalid)
        assert not _verdict(plan, replace(run, counters={"reports": 331 * factor})).passed
        assert not _verdict(plan, replace(run, zero_load_s=0.001 * factor)).passed
        assert not _verdict(
            plan, replace(run, health=replace(run.health, sender_lag_s=-0.001))
        ).passed


def refused_or_judged(plan: MetapathPlan, run: MetapathRun) -> bool:
    """Whether such a run is refused in a line, or does not pass."""
    try:
        return not _verdict(plan, run).passed
    except InputError as error:
        return "\n" not in str(error)


@pytest.mark.parametrize("name", ["message", "path", "copy"])
def test_packets_beyond_the_plan_are_refused_in_a_line(name: str) -> None:
    plan = _plan()
    run = _run(plan)
    for factor in (1000, 10**7):
        column = getattr(run.sent, name) * factor
        assert name == "copy" or refused_or_judged(
            plan, replace(run, sent=replace(run.sent, **{name: column}))
        )
    with pytest.raises(InputError, match="measurements cannot be those of its plan"):
        _verdict(plan, replace(run, sent=replace(run.sent, message=run.sent.message + 3000)))
