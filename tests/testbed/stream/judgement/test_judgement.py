"""A verdict can fail: each check, given a measurement that contradicts it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from fec import fec_block_size
from testbed.faults.fault import Fault, FaultTimes
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.overview import timeline, whole_route_rors
from testbed.stream.judgement.streams import judge_stream, judge_together
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import RunHealth, StreamClocks, StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink, schedule_each_link
from testbed.stream.simulated import SimulatedStreamFabric
from topologies import Link, Network, Node


def two_ways() -> Network:
    """Source a, sink d, one way over b and one over c, links both ways."""
    ends = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    links = tuple(Link(source=x, target=y) for u, v in ends for x, y in ((u, v), (v, u)))
    return Network(
        name="two ways", nodes=tuple(Node(id=i, kind="switch") for i in "abcd"), links=links
    )


def split(network: Network, there: bool) -> LabelSplit:
    ends = ("a", "d") if there else ("d", "a")
    paths = []
    for start, stop, middle in (
        (0, 16384 if there else 32768, "b"),
        (16384 if there else 32768, 65536, "c"),
    ):
        links = (network.link_index[(ends[0], middle, 0)], network.link_index[(middle, ends[1], 0)])
        paths.append(LabelPath(start=start, stop=stop, links=links))
    return LabelSplit(network=network, source=ends[0], sink=ends[1], paths=tuple(paths))


@pytest.fixture(scope="module", params=["stratified", "random"])
def finished(request) -> tuple[StreamPlan, StreamMeasurements]:
    network = two_ways()
    plan = StreamPlan(
        network=network,
        method="by hand",
        forward=split(network, True),
        backward=split(network, False),
        stream=StreamParameters(labels=request.param, hold_s=0.3),
        duration_s=1.0,
        seed=3,
    )
    faults = schedule_each_link(plan, EachLink(precision=0.02, most=2))
    plan = replace(plan, faults=faults, duration_s=faults[-1].stop_s + 0.8)
    return plan, SimulatedStreamFabric().run(plan)


def verdict_of(plan: StreamPlan, run: StreamMeasurements):
    return judge(Analysis(plan, run))


def failed(plan: StreamPlan, run: StreamMeasurements) -> str:
    return " | ".join(check.name for check in verdict_of(plan, run).checks if not check.passed)


def test_true_measurements_pass(finished):
    verdict = verdict_of(*finished)
    assert verdict.passed, [c for c in verdict.checks if not c.passed]
    assert {round(c.predicted, 2) for c in verdict.checks if c.name.startswith("loss")} == {
        0.25,
        0.75,
    }


def test_loss_of_another_share_than_predicted_fails(finished):
    plan, run = finished
    shifted = LabelSplit(
        network=plan.network,
        source="a",
        sink="d",
        paths=(
            LabelPath(start=0, stop=24576, links=plan.forward.paths[0].links),
            LabelPath(start=24576, stop=65536, links=plan.forward.paths[1].links),
        ),
    )
    assert "loss, " in failed(replace(plan, forward=shifted), run)


def test_sender_that_never_answers_fails(finished):
    plan, run = finished
    sizes = np.full_like(run.sent.block_size, run.sent.block_size.min())
    deaf = replace(run, sent=replace(run.sent, block_size=sizes))
    assert "block size" in failed(plan, deaf)


def test_busy_start_does_not_count_as_steady_state(
    finished,
):
    plan, run = finished
    calm = Analysis(plan, run)
    busy = Analysis(plan, with_twice_the_packets(run, 0.0, 0.3))
    assert (busy.ror.measured, busy.ror.error) == (calm.ror.measured, calm.ror.error)
    disturbed = Analysis(plan, with_twice_the_packets(run, 0.6, 0.7))
    assert abs(disturbed.ror.measured - calm.ror.measured) < 3 * disturbed.ror.error


def with_twice_the_packets(
    run: StreamMeasurements, start_s: float, stop_s: float
) -> StreamMeasurements:
    """The run as if every packet of that time had been sent once more."""
    times = 1 + ((run.sent.time_s >= start_s) & (run.sent.time_s < stop_s))
    columns = {
        field.name: np.repeat(getattr(run.sent, field.name), times) for field in fields(run.sent)
    }
    return replace(run, sent=replace(run.sent, **columns))


def test_undecodable_block_outside_faults_fails(finished):
    plan, run = finished
    complete = run.blocks.complete_s.copy()
    complete[2] = np.nan
    assert "outside faults" in failed(
        plan, replace(run, blocks=replace(run.blocks, complete_s=complete))
    )


def test_corrupted_content_fails(finished):
    plan, run = finished
    assert "corrupted" in failed(plan, replace(run, counters={**run.counters, "corrupted": 1}))


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (RunHealth(sender_lag_s=0.5, unplanned_drops=0), "lagged 500 ms"),
        (RunHealth(sender_lag_s=0.0, unplanned_drops=3), "3 packets were dropped"),
    ],
)
def test_machine_that_could_not_keep_up_makes_the_run_invalid(finished, health, words):
    plan, run = finished
    verdict = verdict_of(plan, replace(run, health=health))
    assert words in (verdict.invalid or "") and verdict.exit_code == 4 and not verdict.passed


def test_receiver_that_left_packets_lying_makes_the_run_invalid(finished):
    plan, run = finished
    verdict = verdict_of(plan, replace(run, counters={**run.counters, "worst_receive_lag_s": 0.3}))
    assert "lay 300 ms" in (verdict.invalid or "")


def test_losses_outside_faults_above_one_in_10000_make_the_run_invalid(finished):
    plan, run = finished
    keep = np.ones(len(run.received.time_s), dtype=bool)
    keep[5 : 7 + len(keep) // 10_000] = False
    thinned = replace(
        run.received,
        time_s=run.received.time_s[keep],
        block=run.received.block[keep],
        symbol=run.received.symbol[keep],
    )
    assert "lost in no planned fault" in (
        verdict_of(plan, replace(run, received=thinned)).invalid or ""
    )


def test_fault_times_are_those_measured_not_those_planned(finished):
    plan, run = finished
    times = FaultTimes(
        fault=run.faults[0].fault, start_s=run.faults[0].start_s + 0.01, stop_s=run.faults[0].stop_s
    )
    assert (
        Analysis(plan, replace(run, faults=(times, *run.faults[1:]))).faults[0].start_s
        == times.start_s
    )


def test_fault_values_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="start must be"):
        Fault(link=("a", "b", 0), start_s=2.0, stop_s=1.0)


def test_ror_is_judged_only_where_faults_were_made_and_the_sender_adapts(finished):
    plan, run = finished
    analysis = Analysis(plan, run)
    fixed = replace(plan, stream=replace(plan.stream, block_size=60))
    without = Analysis(plan, run)
    vars(without)["faults"] = ()
    judged = []
    for facts in (analysis, without, Analysis(fixed, run)):
        names = [check.name for check in judge(facts).checks]
        judged.append("ROR over the failed links" in names)
    assert judged == [True, False, False]


def test_timeline_counts_every_packet_once_and_late_ones_in_the_last_bin(finished):
    plan, run = finished
    late = run.sent.time_s.copy()
    late[-1] = plan.duration_s + 0.05
    for sent in (run.sent, replace(run.sent, time_s=late)):
        shown = timeline(Analysis(plan, replace(run, sent=sent)), 1, bin_s=0.1)
        assert (
            len(shown.t_s) == len(shown.sent_pps) == len(shown.loss) == -(-plan.duration_s // 0.1)
        )
        counted = [round(rate * 0.1) for rate in shown.sent_pps]
        assert sum(counted) == len(run.sent.block)
        lost = sum(
            share * count
            for share, count in zip(shown.loss, counted, strict=True)
            if share is not None
        )
        assert lost == pytest.approx(len(run.sent.block) - len(run.received.block), abs=0.5)
        first = next(k for k, count in enumerate(counted) if count)
        assert shown.redundancy[first] == pytest.approx(
            shown.block_size[first] / plan.stream.source_packets - 1, abs=1e-4
        )


def test_ror_of_the_route_sums_its_links_and_names_those_that_carry_all(finished):
    plan, run = finished
    facts = Analysis(plan, run)
    policy = facts.theory.policy
    stated, order, infinite = whole_route_rors(facts)
    assert infinite == ()
    shares = [0.25, 0.25, 0.75, 0.75]
    if plan.stream.labels == "random":
        sizes = [
            fec_block_size(plan.stream.source_packets, share, plan.stream.decoding_error_rate)
            for share in shares
        ]
        assert order is None
        assert stated == pytest.approx(
            sum(max(size, policy.base) / policy.base - 1 for size in sizes)
        )
    else:  # never more than random labels, never less than what is lost
        assert sum(1 / (1 - share) - 1 for share in shares) * 0.8 < order < stated < 40
    index = plan.network.link_index
    whole = LabelPath(start=0, stop=65536, links=(index["a", "b", 0], index["b", "d", 0]))
    single = LabelSplit(network=plan.network, source="a", sink="d", paths=(whole,))
    none = None if plan.stream.labels == "random" else 0.0
    on_one_path = Analysis(replace(plan, forward=single), run)
    assert whole_route_rors(on_one_path) == (0.0, none, ("a->b", "b->d"))


def test_as_many_blocks_may_fail_as_the_decoding_error_rate_allows(finished):
    """More than that come with a probability below one in a thousand; with stratified labels none may fail."""
    from scipy.stats import poisson  # most of a second, which no collection need spend

    plan, run = finished
    analysis, rate = Analysis(plan, run), 0.05
    more_failures = replace(plan, stream=replace(plan.stream, decoding_error_rate=rate))
    facts = Analysis(more_failures, run)
    vars(facts)["faults"] = analysis.faults
    verdict = judge(facts)
    allowed = [c.tolerance for c in verdict.checks if c.name.startswith("undecodable blocks, ")]
    if plan.stream.labels == "stratified":
        assert set(allowed) == {0}
    else:
        assert allowed == [
            poisson.isf(1e-3, rate * fault.steady_blocks) for fault in analysis.faults
        ]
        assert min(allowed) > 0


def test_figures_of_each_fault_are_those_of_the_logs(finished):
    plan, run = finished
    analysis = Analysis(plan, run)
    base = analysis.theory.policy.base
    assert len(analysis.faults) == len(run.faults) == 2
    for fault, times in zip(analysis.faults, run.faults, strict=True):
        during = (run.sent.time_s >= times.start_s) & (run.sent.time_s < times.stop_s)
        raised = during & (run.sent.block_size > base)
        first_s = float(run.sent.time_s[raised].min()) - times.start_s
        assert (
            fault.sender_reacted
            and fault.reaction_s is not None
            and first_s <= fault.reaction_s < 0.5
        )
        assert fault.predicted_loss == pytest.approx(0.25 if "b" in fault.link else 0.75)
        assert (
            fault.mean_block_size is not None
            and base < fault.mean_block_size <= run.sent.block_size[during].max()
        )
        low, high = fault.block_size_range
        assert base < low <= fault.measured_block_size <= high
        # The answer is a block that begins with the larger N, soon after the first such packet.
        until = (run.sent.time_s >= times.start_s) & (
            run.sent.time_s < times.start_s + fault.reaction_s
        )
        first = int(until.sum())
        assert first <= fault.transient_packets <= int(during.sum()) / 2
    assert analysis.ror.predicted == pytest.approx(
        sum(f.predicted_block_size / base - 1 for f in analysis.faults)
    )
    assert analysis.ror.measured == pytest.approx(analysis.ror.predicted, rel=0.1)
    ranges = [(f.predicted_block_size, *f.block_size_range) for f in analysis.faults]
    slack = sum(max(high - size, size - low, 0) / base for size, low, high in ranges)
    least, share = (0.05, 0.02) if plan.stream.labels == "stratified" else (0.1, 0.05)
    assert analysis.ror.tolerance == pytest.approx(
        max(least, share * analysis.ror.predicted) + slack
    )


def test_a_sender_that_stays_at_rest_has_not_reacted(finished):
    plan, run = finished
    base = Analysis(plan, run).theory.policy.base
    idle = replace(run, sent=replace(run.sent, block_size=np.full_like(run.sent.block_size, base)))
    assert [(f.sender_reacted, f.reaction_s) for f in Analysis(plan, idle).faults] == [
        (False, None),
        (False, None),
    ]
    fixed = replace(plan, stream=replace(plan.stream, block_size=base))
    assert all(f.sender_reacted for f in Analysis(fixed, idle).faults)  # nobody asked it to


@pytest.mark.parametrize("before_s", [0.003, -0.003])
def test_packet_lost_on_an_intact_path_is_lost_in_no_fault(finished, before_s):
    """A fault does not excuse the loss of packets that do not cross its link."""
    plan, run = finished
    edge_s = run.faults[1].start_s - before_s
    arrived = np.flatnonzero(~run.lost)
    lost = int(arrived[np.abs(run.sent.time_s[arrived] - edge_s).argmin()])
    kept = (run.received.block != run.sent.block[lost]) | (
        run.received.symbol != run.sent.symbol[lost]
    )
    assert (~kept).sum() == 1
    thinned = replace(run, received=without(run.received, kept))
    assert int(Analysis(plan, run).loss_bounds.wrongly_lost.sum()) == 0
    assert int(Analysis(plan, thinned).loss_bounds.wrongly_lost.sum()) == 1


def without(log, kept):
    """The log with the rows of a mask only; lists and arrays of other lengths stay as they are."""
    values = {f.name: getattr(log, f.name) for f in fields(log)}
    return replace(
        log,
        **{
            k: v[kept]
            for k, v in values.items()
            if isinstance(v, np.ndarray) and len(v) == len(kept)
        },
    )


def told_by_two_clocks(
    run: StreamMeasurements, off_s: float, clocks: StreamClocks
) -> StreamMeasurements:
    """The same run, its sender's times off by that much, which the clocks claim to hold."""
    sent = replace(run.sent, time_s=run.sent.time_s + off_s)
    blocks = replace(run.blocks, started_s=run.blocks.started_s + off_s)
    return replace(run, sent=sent, blocks=blocks, clocks=clocks)


def test_packets_that_clocks_cannot_assign_to_a_fault_are_left_out(finished):
    plan, run = finished
    within = StreamClocks(sender_s=0.003, faults_s=0.003)
    alone, apart = Analysis(plan, run), Analysis(plan, told_by_two_clocks(run, 0.005, within))
    assert verdict_of(plan, told_by_two_clocks(run, 0.005, within)).passed
    assert verdict_of(plan, told_by_two_clocks(run, -0.005, within)).passed
    for one, other in zip(alone.faults, apart.faults, strict=True):
        assert (one.undecided_packets, one.reaction_uncertainty_s) == (0, 0.0)
        assert other.reaction_uncertainty_s == 0.006
        per_s = other.packets / (other.stop_s - other.start_s)
        assert (
            0.2 * 0.024 * per_s < other.undecided_packets < 5 * 0.024 * per_s
        )  # 12 ms at each end
        if one.reaction_s is not None:
            assert abs(other.reaction_s - one.reaction_s) <= other.reaction_uncertainty_s


def test_clocks_that_are_worse_than_what_they_time_make_the_run_invalid(finished):
    plan, run = finished
    quickest = min(f.reaction_s for f in Analysis(plan, run).faults if f.reaction_s is not None)
    for clocks, words in (
        (
            StreamClocks(sender_s=0.0101, faults_s=0.01),
            "known to within 20.1 ms of each other only",
        ),
        (StreamClocks(receiver_s=plan.stream.playback_s / 3), "the playback buffer allows"),
    ):
        verdict = verdict_of(plan, replace(run, clocks=clocks))
        assert not verdict.passed
        assert verdict.invalid is not None and words in verdict.invalid
    if quickest < 0.02:
        verdict = verdict_of(plan, replace(run, clocks=StreamClocks(sender_s=quickest * 1.01)))
        assert verdict.invalid is not None and "the quickest reaction took" in verdict.invalid
    slow = Analysis(plan, replace(run, clocks=StreamClocks(faults_s=0.005)))
    vars(slow)["faults"] = tuple(replace(f, reaction_s=0.004) for f in slow.faults)
    late = judge(slow)
    assert late.invalid is not None and "the quickest reaction took 4 ms" in late.invalid
    assert verdict_of(
        plan, replace(run, clocks=StreamClocks(sender_s=1e-4, receiver_s=1e-4, faults_s=1e-4))
    ).passed


@pytest.mark.parametrize("lasted_s", [0.0, 0.001, None])
def test_fault_that_starts_at_its_end_makes_the_run_invalid(finished, lasted_s):
    plan, run = finished
    first = run.faults[0]
    late = () if lasted_s is None else (replace(first, start_s=first.stop_s - lasted_s),)
    emulated = replace(run, fabric="emulation")
    assert verdict_of(plan, emulated).invalid is None
    said = verdict_of(plan, replace(emulated, faults=(*late, *run.faults[1:]))).invalid or ""
    assert ("did not happen" if lasted_s is None else "was active for 0.00 of") in said


def test_document_states_clock_differences_and_lists_other_streams(finished):
    plan, run = finished
    apart = replace(run, clocks=StreamClocks(sender_s=0.003, receiver_s=0.002))
    one, other = judge_stream(plan, run), judge_stream(plan, apart)
    assert "clocks" not in one.document["figures"]
    clocks = other.document["figures"]["clocks"]
    assert (clocks["sender_s"], clocks["receiver_s"], clocks["arrivals_undecided_at_playback"]) == (
        0.003,
        0.002,
        0,
    )
    both = judge_together((one, other), ("first", "second"))
    assert (
        both.document["also"] == [other.document]
        and "also" not in judge_together((one,), ("first",)).document
    )
    assert len(both.rows) == 2 * len(one.rows) and len(both.sessions) == 2
    assert "ror" in {check.key for check in one.verdict.checks}
