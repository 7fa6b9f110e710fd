"""The judge of streams is judged: held against a plain one that shares nothing with it (tests/oracles/streams), over
drawn runs of every kind of fault, some of them spoilt on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testbed.faults.fault import Fault
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.checks import impairment_checks
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.failure_costs import failure_costs
from testbed.stream.judgement.overview import timeline, whole_route_rors
from testbed.stream.judgement.packet_logs import block_outcomes
from testbed.stream.judgement.run_figures import base_block_size
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import LossReportLog, StreamClocks, StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.active_faults import RETURN_LABELS, faulty_links
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.drawn import ALL, SOAK
from tests.helpers.stream_plans import uncounted
from tests.helpers.wrong_senders import WRONG_SENDERS
from tests.oracles.streams import fates
from tests.oracles.streams import impaired_links as links
from tests.oracles.streams import whole_verdict as full
from tests.oracles.streams.facts import Cut, Facts, Sent
from tests.oracles.streams.single_faults import diagnosis, fault_figures, whole_run
from topologies import Link, Network, Node

MIDDLES = "bce"


def three_ways() -> Network:
    ends = [pair for middle in MIDDLES for pair in (("a", middle), (middle, "d"))]
    delays = dict(zip(ends, (0.0, 0.001, 0.002, 0.0, 0.003, 0.0), strict=True))
    links = (
        Link(source=x, target=y, delay_s=delays[u, v]) for u, v in ends for x, y in ((u, v), (v, u))
    )
    return Network(
        name="three ways",
        nodes=tuple(Node(id=i, kind="switch") for i in "abcde"),
        links=tuple(links),
    )


def split(network: Network, ends: str, edges: tuple[int, ...]) -> LabelSplit:
    paths = tuple(
        LabelPath(
            start=a,
            stop=b,
            links=tuple(network.link_index[pair] for pair in ((ends[0], x, 0), (x, ends[1], 0))),
        )
        for a, b, x in zip((0, *edges), (*edges, 65536), MIDDLES, strict=True)
    )
    return LabelSplit(network=network, source=ends[0], sink=ends[1], paths=paths)


CUT, BACK = (("a", "b", 0), ("c", "a", 0)), ("e", "d", 0)
SPANS = {
    "one after the other": ((0.5, 1.1), (1.6, 2.1)),
    "overlapping": ((0.5, 1.4), (1.0, 1.7)),
    "to the end": ((0.45, 0.9), (1.9, 3.5)),
}
KINDS: dict[str, dict[str, Any]] = {
    "down": {}, "blackhole": {"kind": "blackhole"}, "one way": {"direction": "forward"},
    "loss": {"kind": "loss", "loss_fraction": 0.2}, "all lost": {"kind": "loss", "loss_fraction": 1.0},
}  # fmt: skip
STREAMS: dict[str, dict[str, Any]] = {
    "stratified": {}, "random": {"labels": "random", "decoding_error_rate": 0.02}, "told shares": {"diagnosis": False},
    "fixed N": {"block_size": 30}, "tight cap": {"most_overhead": 0.3},
}  # fmt: skip
SENDERS = ("", "N - 1, no late parity", "N + 1 in answers", "never raises N", "every label twice")


@cache
def finished(
    kinds: tuple[str, str], spans: str, stream: str, sender: str
) -> tuple[StreamPlan, StreamMeasurements]:
    network = three_ways()
    faults = tuple(
        Fault(link=link, start_s=start, stop_s=stop, **KINDS[kind])
        for link, kind, (start, stop) in zip(CUT, kinds, SPANS[spans], strict=True)
    )
    plan = StreamPlan(
        network=network, method="by hand", seed=3, duration_s=3.0, faults=faults,
        forward=split(network, "ad", (13107, 32768)), backward=split(network, "da", (32768, 60000)),
        stream=StreamParameters(rate_pps=500.0, symbol_bytes=4, hold_s=0.1, **STREAMS[stream]),
    )  # fmt: skip
    return plan, SimulatedStreamFabric(*([WRONG_SENDERS[sender]] if sender else [])).run(plan)


def kept(log: Any, chosen: Any) -> Any:
    return replace(log, **{f.name: getattr(log, f.name)[chosen] for f in fields(log)})


def with_logs(plan: StreamPlan, run: StreamMeasurements, **logs: Any) -> StreamMeasurements:
    """The run with other logs, and what follows from them for its blocks."""
    run = replace(uncounted(run), **logs)
    m, playback_s = plan.stream.source_packets, plan.stream.playback_s
    return replace(run, blocks=block_outcomes(run.sent, run.received, m, playback_s))


Spoil = Callable[[StreamPlan, StreamMeasurements, np.random.Generator], StreamMeasurements]


def loses_some(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    share = chance.choice([0.001, 0.02, 0.3])
    return with_logs(
        plan, run, received=kept(run.received, chance.random(len(run.received.time_s)) >= share)
    )


def repeats_and_delays(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Some packets come twice, some late, in the order of arrival."""
    count = len(run.received.time_s)
    again = np.sort(np.append(np.arange(count), chance.integers(0, count, count // 20)))
    got = kept(run.received, again)
    later = got.time_s + chance.exponential(0.02, len(again)) * (chance.random(len(again)) < 0.1)
    return with_logs(plan, run, received=kept(replace(got, time_s=later), np.argsort(later)))


def relabels(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    label = run.sent.label.copy()
    label[chance.integers(0, len(label), 3)] = chance.integers(0, 65536, 3)
    run = uncounted(run)
    return replace(
        run, sent=replace(run.sent, label=label), counters={**run.counters, "corrupted": 1}
    )


def saves_some(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Packets of lost labels arrive all the same, and some packets are sent no more."""
    lost = np.flatnonzero(run.lost & (chance.random(len(run.lost)) < chance.choice([0.05, 1.0])))
    columns = {
        name: np.append(getattr(run.received, name), getattr(run.sent, name)[lost])
        for name in ("block", "symbol")
    }
    received = replace(
        run.received,
        time_s=np.append(run.received.time_s, run.sent.time_s[lost] + 0.001),
        **columns,
    )
    return with_logs(plan, run, received=received)


def sends_more(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Each block of a time says another N."""
    at, more = chance.uniform(0, 2.5), int(chance.integers(-2, 6))
    size = run.sent.block_size + more * ((run.sent.time_s > at) & (run.sent.time_s < at + 0.5))
    return with_logs(
        plan, run, sent=replace(run.sent, block_size=np.maximum(size, run.sent.symbol + 1))
    )


def comes_otherwise(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Faults at other times than planned, by clocks that are apart."""
    times = tuple(replace(t, start_s=t.start_s + chance.uniform(0, 0.02), stop_s=t.stop_s + chance.uniform(-0.02, 0.02))
                  for t in run.faults)  # fmt: skip
    return replace(
        run, faults=times, clocks=StreamClocks(sender_s=0.003, faults_s=0.002, receiver_s=0.001)
    )


def on_a_busy_machine(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Packets lie in switches, and the sender takes some of them for lost meanwhile."""
    run = replace(repeats_and_delays(plan, run, chance), fabric="emulation")
    taken = np.sort(chance.choice(len(run.received.time_s), 2, replace=False))
    told = np.arange(0.1, 3.0, 0.1)
    lost_s = run.received.time_s[taken] - 0.01
    came_s = lost_s + np.array([0.05, np.inf])
    which = {name: getattr(run.received, name)[taken] for name in ("block", "symbol")}
    news = LossReportLog(told_s=told, newest_s=told - 0.01, lost_s=lost_s, came_s=came_s, **which)
    return replace(run, news=news)


def is_late(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """Sender, receiver, reports or clocks are late, by a little more or less than the checks bear."""
    quarter_s, off_s = plan.stream.playback_s / 4, chance.choice([-1e-3, 0.0, 1e-3])
    which = chance.integers(5)
    if which == 0:
        return replace(run, health=replace(run.health, sender_lag_s=quarter_s + off_s))
    if which == 1:
        return replace(run, counters={**run.counters, "worst_receive_lag_s": quarter_s + off_s})
    if which == 2:
        return replace(
            run, clocks=StreamClocks(sender_s=0.015, faults_s=0.005 + off_s, receiver_s=0.0)
        )
    if which == 3:
        return replace(
            run,
            clocks=StreamClocks(
                sender_s=0.001, faults_s=0.001, receiver_s=quarter_s - 0.001 + off_s
            ),
        )
    # No more reports than the receiver counted.
    told = np.arange(0.1, 3.0, 0.1)[: run.counters["reports"]]
    empty = LossReportLog(told_s=told, newest_s=told - chance.uniform(0, 0.4), lost_s=told[:0], came_s=told[:0],
                          block=np.zeros(0, int), symbol=np.zeros(0, int))  # fmt: skip
    counters = {**run.counters, "sent_reports": len(told)}
    return replace(run, fabric="emulation", news=empty, counters=counters)


def believes_otherwise(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    """The sender says other cables, shares and times than it found out."""
    events = [
        {**event, "lost_fraction": event["lost_fraction"] + chance.choice([0.0, 0.1]),
         "certain": bool(chance.random() < 0.7), "names": event["names"] if chance.random() < 0.7 else ["c-d", "e-d"]}
        for event in run.counters.get("diagnoses", ())
    ]  # fmt: skip
    return replace(run, counters={**run.counters, "diagnoses": events})


def only_silence(
    plan: StreamPlan, run: StreamMeasurements, chance: np.random.Generator
) -> StreamMeasurements:
    return with_logs(plan, run, received=kept(run.received, slice(0, 0)))


_SPOILS = (
    loses_some, repeats_and_delays, relabels, saves_some, sends_more, comes_otherwise, on_a_busy_machine, only_silence,
    believes_otherwise, is_late,
)  # fmt: skip
SPOILS: dict[str, Spoil] = {spoil.__name__: spoil for spoil in _SPOILS}


def facts_of(plan: StreamPlan, run: StreamMeasurements) -> Facts:
    policy, stream = block_size_policy(plan), plan.stream
    delay = {
        path: sum(plan.network.links[i].delay_s for i in path.links) for path in plan.forward.paths
    }
    cuts = [
        Cut(frozenset(faulty_links(plan.network, t.fault)), t.fault.kind, t.fault.loss_fraction, t.start_s, t.stop_s,
            (t.fault.start_s, t.fault.stop_s), f"fault:{number}", "-".join(sorted(t.fault.link[:2])))
        for number, t in enumerate(run.faults)
    ]  # fmt: skip
    return Facts(
        m=stream.source_packets, rate_pps=stream.rate_pps, playback_s=stream.playback_s, hold_s=stream.hold_s,
        report_s=stream.report_interval_s, fixed=stream.block_size, tolerance=stream.tolerance,
        der=stream.decoding_error_rate, stratified=stream.labels == "stratified", multiplier=stream.label_multiplier,
        diagnosing=stream.diagnosis and stream.block_size is None, duration_s=plan.duration_s, cuts=cuts,
        paths=[(p.start, p.stop, p.links, delay[p]) for p in plan.forward.paths],
        delays={i: link.delay_s for i, link in enumerate(plan.network.links)},
        ends={i: (link.source, link.target) for i, link in enumerate(plan.network.links)},
        back_s=[sum(plan.network.links[i].delay_s for i in path.links) for path in plan.backward.paths],
        back=[frozenset(plan.backward.path_of(label).links) for label in RETURN_LABELS],
        sent=[Sent(*row) for row in zip(*(getattr(run.sent, k).tolist()
              for k in ("time_s", "block", "symbol", "label", "block_size")), strict=True)],
        received=list(zip(*(getattr(run.received, k).tolist() for k in ("time_s", "block", "symbol")), strict=True)),
        base=policy.base, largest=policy.largest, answer=policy, apart_s=run.clocks.fault_to_sender_s,
        through_s=run.clocks.end_to_end_s, emulated=run.fabric == "emulation",
        corrupted=run.counters.get("corrupted", 0), beliefs=list(run.counters.get("diagnoses", ())),
        symbol_bytes=stream.symbol_bytes,
        told_s=run.news.told_s.tolist(), news_ages_s=(run.news.told_s - run.news.newest_s).tolist(),
        doubts=list(zip(*(getattr(run.news, name).tolist() for name in ("block", "symbol", "lost_s", "came_s")),
                        strict=True)),
        impaired=any(fault.kind == "impaired" for fault in plan.faults),
    )  # fmt: skip


drawn = {
    "kinds": st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS))),
    "spans": st.sampled_from(sorted(SPANS)), "stream": st.sampled_from(sorted(STREAMS)),
    "sender": st.sampled_from(SENDERS), "spoilt": st.sampled_from(["", *SPOILS]), "seed": st.integers(0, 2**16),
}  # fmt: skip
EXAMPLES = 400 if SOAK else 32 if ALL else 4


ALL_LOST = {
    "kinds": ("all lost", "all lost"),
    "stream": "fixed N",
    "sender": "",
    "spoilt": "on_a_busy_machine",
}


@settings(max_examples=EXAMPLES)
@given(**drawn)
@example(
    **ALL_LOST, spans="one after the other", seed=1
)  # every block at rest was begun by a misinformed sender
def test_two_judges_that_share_nothing_find_the_same(kinds, spans, stream, sender, spoilt, seed):
    sender = "" if "block_size" in STREAMS[stream] else sender
    plan, run = finished(kinds, spans, stream, sender)
    if spoilt:
        run = SPOILS[spoilt](plan, run, np.random.default_rng(seed))
    analysis, facts = Analysis(plan, run), facts_of(plan, run)
    verdict = judge(analysis)
    figures = []
    if analysis.theory.faults_alone:
        figures = [fault_figures(facts, cut) for cut in facts.cuts]
    same_epochs(analysis, facts)
    same_faults(analysis, facts, figures)
    same_checks(plan, analysis, verdict, facts, figures)
    same_validity(analysis, verdict, facts, figures)
    same_overview(analysis, facts)
    if (
        not figures
        and set(kinds) <= {"down", "blackhole"}
        and facts.stratified
        and facts.diagnosing
    ):
        costs = failure_costs(analysis)
        for name, value in fates.beyond_rest(facts).items():
            assert costs[name] == pytest.approx(value, abs=1e-6), name


def same_epochs(analysis: Analysis, facts: Facts) -> None:
    """The figures of all states together."""
    result = analysis.epochs_result
    for name, value in (fates.fate_figures(facts) | fates.redundancy(facts)).items():
        assert getattr(result, name) == pytest.approx(value, abs=1e-9), name
    open_then, must, may, failed, beside = fates.beyond_reach(facts)
    outages = result.outages
    sums = [
        sum(getattr(o, n) for o in outages)
        for n in ("blocks", "predicted", "predicted_most", "measured")
    ]
    assert sums == [open_then, must, may, failed]
    assert result.undecodable_within_reach == beside


def same_faults(analysis: Analysis, facts: Facts, figures: list[dict[str, Any]]) -> None:
    assert len(analysis.faults) == len(figures)
    for cut, expected, result in zip(facts.cuts, figures, analysis.faults, strict=bool(figures)):
        for name, value in expected.items():
            assert getattr(result, name) == (
                value if value is None else pytest.approx(value, abs=1e-9)
            ), (cut, name)
        same_loss(facts, cut, expected, result)
        said = result.diagnosis
        told = said and (said.right, said.certain, said.certain_after_packets)
        assert told == diagnosis(facts, cut)
        if said is not None and said.certain:
            during = [b for b in facts.beliefs if cut.start_s <= b["at_s"] < cut.stop_s]
            sure = next(b for b in during if b["certain"] and b["names"])
            assert said.certain_after_s == pytest.approx(sure["at_s"] - cut.start_s, abs=1e-6)
            assert said.cables == tuple(sure["names"])


def same_checks(
    plan: StreamPlan, analysis: Analysis, verdict: Any, facts: Facts, figures: list[dict[str, Any]]
) -> None:
    """The figures and the outcome of each check."""
    expected = full.said_of_all(facts, plan.seed, figures)
    arrived = any(
        high == 0 and not facts.lost(p)
        for p, (_, high) in zip(facts.sent, fates.bounds(facts), strict=True)
    )
    for cut, one, result in zip(facts.cuts, figures, analysis.faults, strict=bool(figures)):
        low, high = result.interval
        inside = low - 1 / 65536 <= one["predicted_loss"] <= high + 1 / 65536
        told = one["packets"] and (one["predicted_loss"] < 1 or arrived)
        outcome = "cannot-tell" if not told else "holds" if inside else "fails"
        expected["loss", cut.name] = full.said_of_loss(cut.kind, one, result.interval), outcome
    assert {(c.key, c.about) for c in verdict.checks} == set(expected)
    for check in verdict.checks:
        said, outcome = expected[check.key, check.about]
        told = (check.predicted, check.measured, check.tolerance, check.rival)
        assert told == tuple(
            value if value is None else pytest.approx(value, abs=1e-9) for value in said
        ), check.name
        assert check.outcome == outcome, check


def same_validity(
    analysis: Analysis, verdict: Any, facts: Facts, figures: list[dict[str, Any]]
) -> None:
    """How late the machine was, and whether the run counts."""
    run = analysis.run
    whole = whole_run(facts, figures) if figures else {"tolerance": 0.0}
    spurious = full.spurious_ror(facts, figures) if figures else 0.0
    if figures:
        for name, value in whole.items():
            if name != "base_block_size":
                assert getattr(analysis.ror, name) == pytest.approx(value, abs=1e-9), name
        assert analysis.ror.spurious == pytest.approx(spurious, abs=1e-9)
        assert base_block_size(analysis) == whole["base_block_size"]
    lag_s = (run.health.sender_lag_s, float(run.counters.get("worst_receive_lag_s", 0.0)))
    late = full.lateness(facts, whole, spurious, lag_s)
    assert {one.name: (one.measured, one.limit) for one in analysis.lateness} == {
        name: (pytest.approx(was, abs=1e-9), pytest.approx(bears, abs=1e-9))
        for name, (was, bears) in late.items()
    }
    assert (verdict.invalid is None) == full.counts(facts, figures, late), verdict.invalid


def same_overview(analysis: Analysis, facts: Facts) -> None:
    """The run in tenths of a second, and ROR of the whole route."""
    shown = timeline(analysis, 0)
    for number, tenth in enumerate(full.tenths(facts)):
        for name, value in tenth.items():
            told = getattr(shown, name)[number]
            assert told == (value if value is None else pytest.approx(value, abs=2e-3)), (
                name,
                number,
            )
    stated, _, infinite = whole_route_rors(analysis)
    ror, helpless = full.whole_route(facts)
    links = analysis.plan.network.links
    assert stated == pytest.approx(ror) and set(infinite) == {links[i].label for i in helpless}


def same_loss(facts: Facts, cut: Cut, expected: dict[str, Any], result: Any) -> None:
    """The interval of a loss: of labels in order, their largest discrepancy; of random ones, the binomial's tails."""
    (low, high), packets = result.interval, expected["packets"]
    if not packets:
        assert (low, high) == (0.0, 1.0)
        return
    share = expected["measured_loss"]
    if facts.stratified and cut.share == 1:
        slack = (
            fates.window_error(facts, cut, packets)
            + 1 / packets
            + 0.02 / max(1.0, packets / facts.m)
        )
        assert (low, high) == pytest.approx((max(0.0, share - slack), min(1.0, share + slack)))
        return
    lost, least = round(share * packets), 6.3e-5 / 2
    assert (
        low == 0
        if not lost
        else 1 - fates.tail(lost - 1, packets, low) == pytest.approx(least, rel=1e-3)
    )
    assert (
        high == 1
        if lost == packets
        else fates.tail(lost, packets, high) == pytest.approx(least, rel=1e-3)
    )


IMPAIRED = {
    "loss:0.2": (("loss", 0.2),), "ge:p=0.05,r=0.2": (("ge", 0.05, 0.2, 1.0, 0.0),),
    "ge:p=0.1,r=0.3,1-h=0.8,1-k=0.05": (("ge", 0.1, 0.3, 0.8, 0.05),),
    "loss:0.05 ge:p=0.05,r=0.4": (("loss", 0.05), ("ge", 0.05, 0.4, 1.0, 0.0)),
    "duplicate:0.2": (("duplicate", 0.2),), "loss:0.1 duplicate:0.3 ge:p=0.1,r=0.3": (
        ("loss", 0.1), ("duplicate", 0.3), ("ge", 0.1, 0.3, 1.0, 0.0)),
    "delay:0.02,jitter=0.01": (("delay", 0.02, 0.01),), "reorder:0.25,delay=0.02": (("reorder", 0.25, 0.02),),
    "trace:ms=20x10+300": (("trace", (*range(10, 201, 10), 500)),),
}  # fmt: skip
OTHER = Fault(link=("d", "b", 0), kind="impaired", impairments="loss:0.1", start_s=1.0, stop_s=1.6)
BESIDE = {
    "alone": (),
    "beside a cut": (Fault(link=("a", "e", 0), start_s=1.2, stop_s=1.5),),
    "after another": (OTHER,),
}


@cache
def impaired(words: str, beside: str) -> tuple[StreamPlan, StreamMeasurements]:
    plan, _ = finished(("down", "down"), "overlapping", "fixed N", "")
    fault = Fault(link=("b", "a", 0), kind="impaired", impairments=words, start_s=0.2, stop_s=2.3)
    plan = replace(
        plan,
        faults=(fault, *BESIDE[beside]),
        stream=replace(plan.stream, rate_pps=1200.0, block_size=22),
    )
    return plan, SimulatedStreamFabric().run(plan)


@settings(max_examples=EXAMPLES)
@given(
    words=st.sampled_from(sorted(IMPAIRED)), beside=st.sampled_from(sorted(BESIDE)), seed=st.integers(0, 2**16),
    spoilt=st.sampled_from(["", *(name for name in SPOILS if name not in ("relabels", "sends_more", "only_silence"))]),
)  # fmt: skip
def test_two_judges_of_impaired_links_find_the_same(
    words: str, beside: str, seed: int, spoilt: str
):
    plan, run = impaired(words, beside)
    if spoilt:
        run = SPOILS[spoilt](plan, run, np.random.default_rng(seed))
    facts, index = facts_of(plan, run), plan.network.link_index
    spans = [
        links.Span(index["a", "b", 0], IMPAIRED[words], run.faults[0].start_s, run.faults[0].stop_s),
        *([links.Span(index["b", "d", 0], (("loss", 0.1),), run.faults[1].start_s, run.faults[1].stop_s)]
          if beside == "after another" else []),
    ]  # fmt: skip
    found = {(c.key, c.about): c for c in impairment_checks(RunFacts(plan, run))}
    for number, span in enumerate(spans):
        seen = links.crossing(facts, spans, span)
        about = f"fault:{number}"
        if sum(seen.alone) < 200:
            assert found.pop(("unpredicted-back", about)).outcome == "cannot-tell"
            continue
        if span.words[0][0] == "trace":
            same_trace(
                facts, seen, span, {k[0]: found.pop(k) for k in list(found) if k[1] == about}
            )
            continue
        for key, figure in links.link_figures(facts, seen, span.words).items():
            check = found.pop((f"{key}-back", about))
            told = {name: getattr(check, name) for name in figure}
            assert told == pytest.approx(figure, abs=1e-9) and check.outcome == links.outcome(
                figure
            ), key
        timed = {k[0].removesuffix("-back"): found.pop(k) for k in list(found) if k[1] == about}
        same_waits(
            run, links.waits(facts, seen), links.mean_wait(span.words), timed, sum(seen.alone)
        )
    for check in found.values():
        figure = links.burst_figures(
            facts, links.crossing(facts, spans, spans[0]), IMPAIRED[words][0]
        )
        told = {name: getattr(check, name) for name in figure}
        assert check.key == "undecodable-in-bursts" and told == pytest.approx(figure, abs=1e-9)


def same_waits(
    run: StreamMeasurements,
    measured: tuple[float, float],
    mean_s: float,
    timed: dict[str, Any],
    packets: int,
) -> None:
    """``packets``: that met the impairment alone; what a check bears falls with the root of them (530 at most here)."""
    assert bool(timed) == bool(mean_s)
    for check, value in zip(
        (timed.get("mean-wait"), timed.get("overtaken")), measured, strict=True
    ):
        assert check is None or check.measured == pytest.approx(value, abs=2e-3)
    if mean_s:
        check = timed["mean-wait"]
        grain = 0.004 if run.fabric == "emulation" else 1e-6
        assert (
            check.predicted == pytest.approx(mean_s, abs=5e-4)
            and grain < check.tolerance < grain + 0.05 / packets**0.5
        )
        bears = 6.9 / packets**0.5 * timed["overtaken"].predicted
        assert timed["overtaken"].tolerance < bears + (0.1 if grain > 1e-3 else 0)
        for check in timed.values():
            off, rival = (
                abs(check.predicted - check.measured),
                abs(check.predicted - (check.rival or 0.0)),
            )
            assert check.passed == (off <= check.tolerance < rival)


def same_trace(facts: Facts, seen: links.Crossing, span: links.Span, found: dict[str, Any]) -> None:
    told = {}
    for window_s in (0.1, 0.3, 1.0):
        bytes_, silence = links.trace_figures(
            facts, seen, span.words[0][1], window_s, 0.005 + seen.unrest_s[1]
        )
        told[f"most bytes in {window_s:g} s"] = bytes_
    telling = [words for words, (most, came, sent) in told.items() if came > most or sent > most]
    for key, check in found.items():
        if key == "most-bytes-back":
            most, came, sent = told[check.name.split(",")[0]]
            assert (check.predicted, check.measured, check.rival) == (most, came, sent)
            assert check.name.split(",")[0] == (telling or [*told])[0 if telling else -1]
            assert check.outcome == (
                "fails" if came > most else "cannot-tell" if sent <= most else "holds"
            )
        else:
            gap, came, sent = silence
            assert (check.predicted, check.measured, check.rival) == pytest.approx(
                (gap - 0.005, came, sent)
            )
            assert check.outcome == ("fails" if came < gap - 0.005 else "holds")
    assert found


def test_a_larger_n_that_is_said_and_not_sent_is_no_redundancy():
    plan, run = finished(("down", "down"), "overlapping", "stratified", "")
    said = replace(run, sent=replace(run.sent, block_size=run.sent.block_size + 3))
    right, boast = (Analysis(plan, one).epochs_result for one in (run, said))
    assert right is not None and boast is not None
    assert boast.settled_late_parity == 0 < boast.settled_packets
    assert boast.redundancy_measured <= right.redundancy_measured + 1 / block_size_policy(plan).base
