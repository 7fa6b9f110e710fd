"""Telephony at 50 packets a second and video, on real switches, through failures shorter and longer than their playback
buffers."""

from dataclasses import replace
from itertools import product

from testbed.faults.fault import Fault
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    sum_of,
    verdict_of,
    where,
)
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import draw_bars
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.outcome import stream_outcome
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.options import PROFILES
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
START_S, REST_S = 1.0, 0.6
SENDERS = {
    "single path, retransmission": "single",
    "RS(30,23), two paths": "disjoint-2",
    "capillary": "capillary",
}
"""Name -> routing method; the baseline of the literature has a fixed code."""
MOST_OVERHEAD = 2.0
"""Of the single path: with more it would fill its link by itself."""
MULTIPLES = (0.5, 2.5)
"""Failures, in playback buffers."""


def points(quick: bool, seed: int) -> Points:
    """Every sender through a short and a long failure, for VOIP and (not when quick) video."""
    profiles = ("voip",) if quick else ("voip", "video")
    return [
        {
            "profile": profile,
            "sender": sender,
            "failure_s": multiple * PROFILES[profile]["playback_s"],
            "seed": seed,
        }
        for profile, sender, multiple in product(profiles, SENDERS, MULTIPLES)
    ]


def profile_plan(point: Row) -> StreamPlan:
    """The stream, with the most loaded link of its route down once."""
    stream, sender = StreamParameters(**PROFILES[point["profile"]]), point["sender"]
    if sender == "single path, retransmission":
        late_pps = 2 * stream.rate_pps  # all of it fits into one link
        stream = replace(stream, diagnosis=False, most_overhead=MOST_OVERHEAD, late_pps=late_pps)
    if sender == "RS(30,23), two paths":
        stream = replace(stream, source_packets=23, block_size=30)
    settings = vars(stream) | {"method": SENDERS[sender], "faults": (), "seed": point["seed"]}
    plan = stream_plan(NETWORK, SOURCE, SINK, **settings)
    worst = max(plan.forward.loaded, key=lambda i: (plan.forward.load(i), -i))
    stop_s = START_S + point["failure_s"]
    fault = Fault(link=plan.network.links[worst].id, start_s=START_S, stop_s=stop_s)
    return replace(plan, faults=(fault,), duration_s=stop_s + 2 * stream.playback_s + REST_S)


def measure(point: Row, fabric: str = "emulation") -> Results:
    """One stream on switches, repeated up to twice where the machine could not keep up, and the same in virtual
    time."""
    plan = profile_plan(point)
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=2)
    return {
        **profile_row(plan, session.run),
        "invalid": session.verdict.invalid,
        "virtual_lost": profile_row(plan, SimulatedStreamFabric().run(plan))["lost"],
        "block": plan.stream.source_packets,
        "load": float(plan.forward.load(plan.network.link_index[plan.faults[0].link])),
    }


def profile_row(plan: StreamPlan, run: StreamMeasurements) -> dict[str, float]:
    """Source packets lost or late, and packets sent for each source packet."""
    return {
        "lost": float(run.blocks.late_source_packets.sum()),
        "sent_per_source": 1 + stream_outcome(plan, run)["overhead"],
    }


def unavoidable(row: Row) -> float:
    """Source packets that a single path loses whatever is spent: those due before the failure ends."""
    profile = PROFILES[row["profile"]]
    return float(profile["rate_pps"] * max(0.0, row["failure_s"] - profile["playback_s"]))


def judge(rows: Rows) -> Verdict:
    """Capillary routes lose nothing; a single path loses what no code saves, and a fixed code over two paths its
    half."""
    checks = []
    for profile, own in grouped(rows, "profile").items():
        rate_pps, playback_s = PROFILES[profile]["rate_pps"], PROFILES[profile]["playback_s"]
        longest = max(row["failure_s"] for row in own)
        single, static = (
            where(own, sender=name, failure_s=longest)[0]
            for name in ("single path, retransmission", "RS(30,23), two paths")
        )
        total, lost, lossy = (
            sum_of(own, "virtual_lost"),
            sum_of(own, "lost"),
            [r for r in own if r["virtual_lost"]],
        )
        checks += [
            Claim(f"{profile}, single path: packets lost by a failure of {longest:g} s")
            .at_least(0.98 * unavoidable(single), single["lost"])
            .against(0.0, "a code that outlasts the failure")
            .noting(f"buffer of {playback_s:g} s; {_sent(single)}"),
            Claim(
                f"{profile}, RS(30,23) over two paths: packets lost by a failure of {longest:g} s"
            )
            .equal(0.5 * rate_pps * longest, static["lost"], static["block"])
            .against(0.0, "the code repairs it")
            .noting(f"half of all; {_sent(static)}"),
            *(
                Claim(f"{profile}, capillary: packets lost by a failure of {row['failure_s']:g} s")
                .equal(0.0, row["lost"], 1.0)
                .against(
                    row["load"] * rate_pps * row["failure_s"],
                    "without a code, what the failed link carries",
                )
                .noting(_sent(row))
                for row in where(own, sender="capillary")
            ),
            Claim(f"{profile}: packets lost in all runs, switches against virtual time")
            .equal(total, lost, sum_of(lossy, "block"))
            .against(0.0, "none"),
        ]
    return verdict_of(rows, checks)


def _sent(row: Row) -> str:
    return f"{row['sent_per_source']:.2f} packets sent for each source packet"


def figures(rows: Rows) -> Figures:
    """Packets lost, a group of bars for each profile and failure."""
    samples = {
        (f"{row['sender']}, {place}", f"{row['profile']}: {row['failure_s']:g} s"): (row[lost], 0.0)
        for place, lost in (("switches", "lost"), ("virtual time", "virtual_lost"))
        for row in rows
    }
    title = "One failure of the most loaded link of each route"
    return {"profiles": draw_bars(title, samples, y="source packets lost or late")}


STUDY = Study.of_module(
    __name__,
    title="Telephony and video through failures shorter and longer than the playback buffer",
    answers="Gabrielyan 2007, sections 4.1 and 4.3: real-time streams survive long failures over many paths; rivals: "
    "a single path, a fixed code",
    deviations=(
        "The document measured no stream; profiles are G.711 telephony and 2 Mbit/s video over Swiss-T1.",
    ),
    emulation=True,
)
