"""What every judge says, in numbers and in words, of runs as they should be and of runs spoilt in every way: frozen as
the documents of commands are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from testbed.bulk import calibration
from testbed.bulk.facts import expected_bytes
from testbed.bulk.judgement import judge_bulk
from testbed.bulk.measurements import Goodput, LinkCount, TcpRetransmissions
from testbed.bulk.plan import KilledProcess
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.bulk.workload import bulk_plan
from testbed.download.judgement import judge_download
from testbed.download.simulated import simulate_download
from testbed.download.workload import download_plan
from testbed.faults.fault import Fault
from testbed.metapath.analysis import MetapathFacts, path_shares
from testbed.metapath.judgement import judge_metapaths
from testbed.model.workload import Judgement
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.closing_lines import campaign_lines, closing_words
from testbed.stream.judgement.failure_costs import failure_costs
from testbed.stream.judgement.streams import judge_stream, judge_together
from testbed.stream.measurements import StreamClocks, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan
from testbed.striping import oracle
from testbed.striping.access import subfile_spans
from testbed.striping.judgement import delay_by_late_threads_s, judge_striping
from testbed.striping.measurements import ClientError, OperationRecord, StripingMeasurements
from testbed.striping.prediction import predict
from testbed.striping.workload import striping_plan
from tests.helpers.strains import CALM
from tests.helpers.virtual_times import at_seconds
from tests.recorded.computed import REFUSALS, plain, rendered, told
from tests.testbed.metapath import test_metapath_verdict as metapaths
from tests.testbed.stream.judgement import test_independent_judge as streams


def _stream(plan: StreamPlan, run: StreamMeasurements, *, costs: bool = False) -> Any:
    one = judge_stream(plan, run)
    together = judge_together([one, one], ["first", "second"])
    facts = one.analysis
    campaign = None if facts.theory.faults_alone else facts.epochs_result
    return {
        "document": plain(
            {k: v for k, v in one.document.items() if k not in ("figures", "verdict")}
        ),
        "figures": told(lambda: one.document["figures"], most=600),
        "checks": [
            " | ".join(str(plain(v)) for v in check.to_json().values())
            for check in one.verdict.checks
        ],
        "verdict": [one.verdict.invalid, one.verdict.notes, one.verdict.exit_code],
        "records": [told(lambda r=record: r, most=0) for record in together.records],
        "words": rendered(closing_words(together)) if campaign is None or spoken(campaign) else [],
        "costs": plain(failure_costs(RunFacts(plan, run))) if costs else None,
    }


def spoken(campaign: Any) -> bool:
    return bool(list(campaign_lines(campaign)))


def streams_of_every_kind() -> Iterator[tuple[str, Any]]:
    spoils = cycle(["", *streams.SPOILS])
    pairs = (
        ("down", "one way"),
        ("loss", "down"),
        ("all lost", "blackhole"),
        ("one way", "loss"),
        ("down", "blackhole"),
    )
    kinds = cycle(pairs)
    for stream in streams.STREAMS:
        for spans in streams.SPANS:
            for _ in range(2):
                two, spoil = next(kinds), next(spoils)
                sender = (
                    ""
                    if stream == "fixed N"
                    else streams.SENDERS[len(spoil) % len(streams.SENDERS)]
                )
                plan, run = streams.finished(two, spans, stream, sender)
                run = streams.SPOILS[spoil](plan, run, np.random.default_rng(11)) if spoil else run
                cuts = {"down", "blackhole"} >= set(two) and stream != "fixed N"
                yield f"{stream}, {spans}, {two}, {sender}, {spoil}", _stream(plan, run, costs=cuts)


def impaired_streams() -> Iterator[tuple[str, Any]]:
    spoils = cycle(
        [
            "",
            "loses_some",
            "repeats_and_delays",
            "on_a_busy_machine",
            "comes_otherwise",
            "saves_some",
        ]
    )
    for words in streams.IMPAIRED:
        for beside in list(streams.BESIDE)[: 2 if "ge" in words else 1]:
            plan, run = streams.impaired(words, beside)
            spoil = next(spoils)
            run = streams.SPOILS[spoil](plan, run, np.random.default_rng(12)) if spoil else run
            yield f"{words}, {beside}, {spoil}", _stream(plan, run)


def invalid_streams() -> Iterator[tuple[str, Any]]:
    """Runs on a machine that did not keep up, in one way each."""
    plan, run = streams.finished(("down", "blackhole"), "one after the other", "stratified", "")
    emulated = replace(run, fabric="emulation")
    ways = {
        "late sender": {"health": replace(run.health, sender_lag_s=0.1001)},
        "late sender, busy": {"health": replace(run.health, sender_lag_s=0.3, cpu_fraction=0.987)},
        "sender in time": {"health": replace(run.health, sender_lag_s=0.0999, notes=("a note",))},
        "full": {"health": replace(run.health, unplanned_drops=1)},
        "late receiver": {"counters": {**run.counters, "worst_receive_lag_s": 0.2}},
        "clocks apart": {"clocks": StreamClocks(sender_s=0.011, faults_s=0.01)},
        "clocks apart from here to there": {"clocks": StreamClocks(sender_s=0.01, receiver_s=0.2)},
        "relay late": {
            "counters": {
                **run.counters,
                "impaired_links": {"a->b x": {"late_s": 0.006, "latest_s": 0.01}},
            }
        },
        "relay late for its delay": {
            "counters": {
                **run.counters,
                "impaired_links": {"a->b x": {"late_s": 0.0026, "latest_s": 0.01, "delay_s": 0.01}},
            }
        },
        "relay full": {
            "counters": {
                **run.counters,
                "impaired_links": {"a->b x": {"late_s": 0.0, "latest_s": 0.0, "missed": 3}},
            }
        },
        "cut short": {
            "faults": tuple(
                replace(t, stop_s=t.start_s + 0.74 * (t.fault.stop_s - t.fault.start_s))
                for t in run.faults
            )
        },
        "hardly cut short": {
            "faults": tuple(
                replace(t, stop_s=t.start_s + 0.76 * (t.fault.stop_s - t.fault.start_s))
                for t in run.faults
            )
        },
        "never came": {"faults": run.faults[:1]},
        "beside TCP": {"counters": {**run.counters, "background_bps": 1e6}},
        "corrupted": {"counters": {**run.counters, "corrupted": 2}},
    }
    for name, changes in ways.items():
        yield name, {"verdict": told(lambda c=changes: _verdict(plan, replace(emulated, **c)))}


def _verdict(plan: StreamPlan, run: StreamMeasurements) -> Any:
    verdict = judge_stream(plan, run).verdict
    return [
        verdict.invalid,
        verdict.notes,
        verdict.exit_code,
        [c.key for c in verdict.checks if not c.passed],
    ]


def other_networks() -> Iterator[tuple[str, Any]]:
    for name, options in {
        "swiss-t1": {"faults": "s1->s2@0.8-2,s8->s7@2.5-4 blackhole", "duration_s": 5.0},
        "swiss-t1:delay_s=0.01": {"faults": "s1->s2@0.8-2,s1->s4@1.2-2.4", "duration_s": 4.0},
        "torus:3x3": {
            "faults": "s0_0->s0_1@1-1.6,s0_0->s1_0@1.2-2.5,s0_0->s2_0@1.2-2.5,s0_0->s0_2@1.1-1.7",
            "duration_s": 4.0,
        },
        "ring:4": {"faults": "none", "duration_s": 1.5},
    }.items():
        ends = {"swiss-t1": ("s1", "s6"), "torus:3x3": ("s0_0", "s1_1"), "ring:4": ("s0", "s2")}[
            name.partition(":d")[0]
        ]
        plan = stream_plan(name, *ends, rate_pps=500.0, symbol_bytes=8, hold_s=0.2, **options)
        yield (
            name,
            _stream(
                plan,
                SimulatedStreamFabric().run(plan),
                costs="torus" not in name and options["faults"] != "none",
            ),
        )


def bulk_runs() -> Iterator[tuple[str, Any]]:
    plan = bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=1_000_000)
    small = bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=100_000)
    random = bulk_plan("torus:3x3", message_bytes=100_000, scheduling="random")
    packet = replace(plan, switching="packet", injected=0)
    fault = Fault(link=plan.transfers[0].path[0], start_s=0.1, stop_s=0.3)
    cut = replace(
        plan, faults=(fault,), killed=(KilledProcess(node=plan.transfers[0].sink, at_s=0.2),)
    )
    for name, one in {
        "liquid": plan,
        "small": small,
        "random": random,
        "packets": packet,
        "cut": cut,
    }.items():
        run = SimulatedBulkFabric().run(replace(one, faults=(), killed=()))
        octets = expected_bytes(one, run.packet_payload_bytes)
        links = {
            link: LinkCount(packets=0, bytes=round(n), queue_drops=0) for link, n in octets.items()
        }
        good = replace(
            run,
            fabric="emulation",
            links=links,
            strain=CALM,
            injected=one.injected,
            dropped={"s1": one.injected},
        )
        more = {link: replace(count, bytes=count.bytes + 30_000) for link, count in links.items()}
        count = len(one.transfers)
        ways: dict[str, Any] = {
            "": {},
            "slower": at_seconds(good, good.seconds * 1.07),
            "much slower": at_seconds(good, good.seconds * 1.3),
            "faster": at_seconds(good, good.seconds * 0.85),
            "more bytes": {"links": more},
            "nothing": {"seconds": 0.0},
            "again": {
                "links": more,
                "retransmitted": {k: TcpRetransmissions(30_000, 4) for k in range(count)},
            },
            "time-outs": {
                "retransmitted": {
                    0: TcpRetransmissions(8948, 1, 1),
                    1: TcpRetransmissions(100, 2, 0),
                }
            },
            "many again": {
                "retransmitted": {k: TcpRetransmissions(80_000, 9, 1) for k in range(count)}
            },
            "queues": {
                "links": {k: replace(c, queue_drops=1) for k, c in links.items()},
                "retransmitted": {0: TcpRetransmissions(8948, 1, 1)},
            },
            "changes": {"rule_changes": 4, "circuit_change_s": 0.2, "slowest_change_s": 0.1},
            "few changes": {"rule_changes": 4, "circuit_change_s": 0.003},
            "late": {"strain": replace(CALM, worst_lateness_s=0.05)},
            "a little late": {"strain": replace(CALM, worst_lateness_s=0.009)},
            "late on average": {"strain": replace(CALM, mean_lateness_s=0.002)},
            "dropped": {"dropped": {"s1": one.injected + 2 * count}},
            "many dropped": {"dropped": {"s1": one.injected + 900}},
            "not injected": {"dropped": {}},
            "a lagging machine": {
                "goodput": Goodput(single_path_bps=2e7, concurrent_bps=1.9e7, concurrent_paths=3)
            },
            "one missing": {
                "transfers": (
                    replace(run.transfers[0], done_s=None, deliveries=0),
                    *run.transfers[1:],
                ),
                "failure": "r1 died",
            },
            "one twice": {
                "transfers": (
                    replace(run.transfers[0], deliveries=2, attempts=2),
                    *run.transfers[1:],
                )
            },
            "deadlocks": {
                "deadlocks": tuple(f"ring {k}" for k in range(7)),
                "lost_links": (one.transfers[0].path[0],),
            },
            "virtual": {"fabric": "simulator", "strain": None, "links": run.links},
        }
        for way, changes in ways.items():
            if name == "liquid" or way in (
                "",
                "slower",
                "much slower",
                "time-outs",
                "changes",
                "few changes",
                "a little late",
                "dropped",
            ):
                yield f"{name}, {way}", _short(judge_bulk(one, replace(good, **changes)))
        jobs = (
            calibration.single_path_goodput(one),
            calibration.concurrent_goodput(one),
            len(list(calibration.calibration_ends(one))),
        )
        answers = iter([2e7, 1.9e7, 1.9e7, 1.95e7, 1.8e7, 1.8e7, 1.8e7, 1.7e7])
        first = told(calibration.calibrate, one, lambda _, answers=answers: next(answers))
        again = told(
            calibration.recalibrate,
            one,
            lambda _, answers=answers: next(answers),
            calibration.uncalibrated(one),
        )
        yield (
            f"{name}, calibrated",
            [plain(jobs), first, again, told(calibration.calibrate, one, _slowing())],
        )


def _slowing() -> Callable[[Any], float]:
    answers = iter([2e7, *([1.5e7] * 9)])
    return lambda _: next(answers)


def _short(judgement: Judgement) -> Any:
    """The figures of a document, its checks one a line."""
    document = dict(judgement.document)
    verdict = judgement.verdict
    document.pop("verdict", None)
    checks = [
        " | ".join(str(plain(v)) for v in check.to_json().values()) for check in verdict.checks
    ]
    return {
        "document": {key: told(lambda v=value: v, most=200) for key, value in document.items()},
        "checks": checks,
        "said": [verdict.invalid, verdict.notes, verdict.exit_code],
    }


def downloads() -> Iterator[tuple[str, Any]]:
    for name, options in {
        "calm": {},
        "reed-solomon": {"code": "reed-solomon"},
        "constant": {"constant_rate": True, "faults": "s1->s2@0.1-0.3"},
        "cut": {"faults": "s1->s2@0.1-0.3"},
        "both": {"faults": "s1->s2@0.1-0.3,s1->s6@0.2-0.4 loss 0.5"},
        "for good": {"faults": "s1->s2@0.1-"},
        "far": {"faults": "s1->s2@0.1-0.3", "network": "swiss-t1:delay_s=0.004"},
    }.items():
        where = str(options.pop("network", "swiss-t1"))
        plan = download_plan(
            where, "s1", "s6", file_bytes=300_000, last_mile_rate_bps=4e6, **options
        )
        run = simulate_download(plan)
        for way, changes in {
            "": {},
            "never": {"seconds": None},
            "wrong": {"verified": False},
            "more": {"sent": round(run.sent * 1.5)},
            "slow": {"seconds": (run.seconds or 1.0) * 1.2},
            "late": {"sender_lag_s": 0.5},
            "in time": {"sender_lag_s": 0.04},
            "dropped": {"machine_drops": 30},
            "nothing": {"sent": 0, "seconds": None, "verified": False},
            "over": {"seconds": 0.05},
        }.items():
            if way in ("", "never", "over") or name in ("calm", "both"):
                judged = judge_download(plan, replace(run, **changes))
                yield f"{name}, {way}", [_short(judged), told(lambda j=judged: j.stored, most=0)]


def striped_runs() -> Iterator[tuple[str, Any]]:
    for name, options in {
        "liquid": {"scheduling": "liquid"},
        "free": {},
        "strided": {"access": "strided"},
        "circuit": {"switching": "circuit"},
        "plain": {"optimise": False},
        "reads": {"operation": "both"},
        "alone": {"compute_nodes": 1},
    }.items():
        more = {"compute_nodes": 2, "io_nodes": 2, "file_bytes": 400_000} | options
        try:
            plan = striping_plan(
                "crossbar:4", more.pop("compute_nodes"), more.pop("io_nodes"), **more
            )
        except REFUSALS as error:
            yield name, f"{type(error).__name__}: {error}"
            continue
        expected = predict(plan, 9000)
        seconds = 0.5 if expected is None else expected.seconds
        one = OperationRecord(
            direction="write",
            attempt=1,
            under_faults=False,
            seconds=seconds,
            bytes=plan.file_bytes,
            **_counts(plan),
            verified=True,
            machine_load=CALM,
        )
        told_late = ClientError(rank=1, node="t1", text="gone", after_s=0.4, since_fault_s=2.6)
        told_soon = replace(told_late, rank=0, node="t0", since_fault_s=2.4)
        fault = (
            Fault(link=plan.transfers[0].path[0], start_s=0.1, stop_s=9.0)
            if plan.transfers
            else None
        )
        failing = (
            plan
            if fault is None
            else replace(
                plan,
                faults=(
                    fault,
                    replace(fault, kind="loss", loss_fraction=0.5, start_s=10.0, stop_s=11.0),
                ),
            )
        )
        ways: dict[str, tuple[Any, list[OperationRecord]]] = {
            "": (plan, [one]),
            "slow": (plan, [replace(one, seconds=seconds * 1.15)]),
            "slower": (plan, [replace(one, seconds=seconds * 2.5)]),
            "slowest": (plan, [replace(one, seconds=seconds * 4)]),
            "fast": (plan, [replace(one, seconds=seconds / 1.03)]),
            "too fast": (plan, [replace(one, seconds=seconds / 1.3)]),
            "wrong": (plan, [replace(one, verified=False)]),
            "empty": (plan, [replace(one, bytes=0)]),
            "three": (
                plan,
                [one, replace(one, seconds=9.0), replace(one, direction="read", queue_drops=3)],
            ),
            "broken": (plan, [replace(one, errors=(told_soon,), attempt=2)]),
            "failed": (plan, [replace(one, failure="r1 died")]),
            "cut": (failing, [replace(one, under_faults=True, errors=(told_soon,)), one]),
            "late": (failing, [replace(one, under_faults=True, errors=(told_soon, told_late))]),
            "no harm": (failing, [replace(one, under_faults=True, seconds=0.05)]),
            "came": (failing, [replace(one, under_faults=True, seconds=20.0)]),
            "busy": (plan, [replace(one, machine_load=replace(CALM, cpu_fraction=0.99))]),
            "stolen": (plan, [replace(one, machine_load=replace(CALM, stolen_fraction=0.3))]),
            "late threads": (
                plan,
                [replace(one, thread_delay_s=0.13 * seconds + 0.008 * len(plan.frames))],
            ),
            "hardly late": (plan, [replace(one, thread_delay_s=0.11 * seconds)]),
        }
        for way, (of, operations) in ways.items():
            yield (
                f"{name}, {way}",
                _short(
                    judge_striping(
                        of,
                        StripingMeasurements(
                            fabric="emulation", operations=tuple(operations), mtu_bytes=9000
                        ),
                    )
                ),
            )
        yield (
            f"{name}, predicted",
            [
                plain(expected),
                told(predict, plan, 1500),
                delay_by_late_threads_s(plan, {0: 0.1, 1: 0.2}),
            ],
        )
    content = oracle.file_content(103, 5)
    yield (
        "subfiles",
        [
            plain([part.tobytes() for part in oracle.expected_subfiles(content, unit, n)])
            for unit, n in ((5, 2), (7, 3), (200, 2), (1, 4))
        ],
    )


def _counts(plan: Any) -> dict[str, int]:
    """What the library counts of a file without full messages: a message of each process and subfile, or (not
    optimised) of each fragment."""
    unit, optimised = plan.options.stripe_unit, plan.options.optimise
    edges = [(one.offsets, one.offsets + one.sizes) for one in plan.blocks]
    spans = [
        (a[b > a], b[b > a])
        for one in plan.blocks
        for a, b in subfile_spans(one, unit, plan.options.io_nodes)
    ]
    fragments = sum(int(((b - 1) // unit - a // unit + 1).sum()) for a, b in edges)
    runs = sum(len(a) - int((a[1:] == b[:-1]).sum()) for a, b in spans) if optimised else fragments
    messages = len(spans) if optimised else fragments
    return {"messages": messages, "fragments": fragments, "requests": runs, "disk_calls": messages}


def metapath_runs() -> Iterator[tuple[str, Any]]:
    for routing in ("ft-drb", "single", "recomputed"):
        for kind in ("down", "blackhole"):
            plan = told_plan(routing, kind)
            if plan is None:
                continue
            run = metapaths._run(plan)
            later = tuple(replace(e, at_s=e.at_s + 0.2) for e in run.events)
            for way, one in {
                "": run,
                "more lost": metapaths._run(plan, lost=(1.0, 1.06), escaped=(1.06, 1.07)),
                "lost later": metapaths._run(plan, lost=(1.5, 1.502)),
                "all lost": metapaths._run(plan, lost=(1.0, 2.0)),
                "lost outside": metapaths._run(plan, lost=(2.6, 2.605)),
                "nothing came": metapaths._run(plan, lost=(0.0, 9.0)),
                "never noticed": replace(run, events=()),
                "stuck": replace(run, events=run.events[:3]),
                "slow": replace(run, events=later),
                "late": replace(
                    run, health=replace(run.health, sender_lag_s=0.11, cpu_fraction=0.5)
                ),
                "dropped": replace(
                    run, health=replace(run.health, unplanned_drops=2, notes=("n",))
                ),
            }.items():
                yield f"{routing}, {kind}, {way}", _short(judge_metapaths(plan, one))
    for lost in ((1.5, 1.51), (1.6, 1.75), (2.3, 2.4)):
        plan, run = metapaths._overlapping_run(lost)
        yield (
            f"overlapping, {lost}",
            [
                _short(judge_metapaths(plan, run)),
                told(lambda p=plan, r=run: MetapathFacts(p, r).faults),
            ],
        )
    yield "shares", told(path_shares, run, 0.5)


def told_plan(routing: str, kind: str) -> Any:
    try:
        return metapaths._plan(routing, kind)
    except REFUSALS:
        return None


JUDGED: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    "judged-streams": streams_of_every_kind,
    "judged-impaired-streams": impaired_streams,
    "judged-invalid-streams": invalid_streams,
    "judged-streams-elsewhere": other_networks,
    "judged-bulk": bulk_runs,
    "judged-downloads": downloads,
    "judged-striping": striped_runs,
    "judged-metapaths": metapath_runs,
}
"""Name -> runs by name, with what is said of each."""
