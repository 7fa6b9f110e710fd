"""Sends telephony and video on real switches through failures, and counts late packets.

The failures are shorter and longer than the playback buffer of the stream. Telephony has 50 packets
per second.
"""

from dataclasses import replace

from testbed.faults.fault import Fault
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    grouped,
    sum_of,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import draw_bars
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.outcome import stream_outcome
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.options import PROFILES
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.run_in_turn import run_and_judge
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

NETWORK = "swiss-t1"
SOURCE = "s1"
SINK = "s6"

# When the failure begins, and the time after it in addition to two playback buffers.
START_S = 1.0
REST_S = 0.6

SINGLE = "single path, retransmission"
FIXED = "RS(30,23), two paths"
CAPILLARY = "capillary"

# Routing method of each sender. The baseline of the literature has a fixed code.
SENDERS = {SINGLE: "single", FIXED: "disjoint-2", CAPILLARY: "capillary"}

# Largest overhead of the single path. With more, the stream would fill its link by itself.
MAX_OVERHEAD = 2.0

# Durations of failures, in playback buffers.
MULTIPLES = (0.5, 2.5)


def points(quick: bool, seed: int) -> Points:
    """Return every sender with a short and a long failure, for VOIP and (not if quick) video."""
    result: Points = []
    for profile in ("voip",) if quick else ("voip", "video"):
        playback_s = PROFILES[profile]["playback_s"]
        durations_s = [multiple * playback_s for multiple in MULTIPLES]
        result += grid(profile=profile, sender=SENDERS, failure_s=durations_s, seed=seed)
    return result


def profile_plan(point: Row) -> StreamPlan:
    """Return the stream of a point; the most loaded link of its route is down once."""
    sender = point["sender"]
    stream = StreamParameters(**PROFILES[point["profile"]])
    if sender == SINGLE:
        stream = replace(
            stream,
            diagnosis=False,
            most_overhead=MAX_OVERHEAD,
            # The link has room for all packets that are sent late.
            late_pps=2 * stream.rate_pps,
        )
    if sender == FIXED:
        stream = replace(stream, source_packets=23, block_size=30)
    settings = {
        **vars(stream),
        "method": SENDERS[sender],
        "faults": (),
        "seed": point["seed"],
    }
    plan = stream_plan(NETWORK, SOURCE, SINK, **settings)
    heaviest = max(plan.forward.loaded, key=lambda link: (plan.forward.load(link), -link))
    stop_s = START_S + point["failure_s"]
    fault = Fault(link=plan.network.links[heaviest].id, start_s=START_S, stop_s=stop_s)
    return replace(plan, faults=(fault,), duration_s=stop_s + 2 * stream.playback_s + REST_S)


def measure(point: Row, fabric: str = "emulation") -> Results:
    """Measure one stream on switches and in the simulator.

    The run on switches is repeated up to twice if the machine could not keep up.
    """
    plan = profile_plan(point)
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=2)
    simulated = profile_row(plan, SimulatedStreamFabric().run(plan))
    failed_link = plan.network.link_index[plan.faults[0].link]
    return {
        **profile_row(plan, session.run),
        "invalid": session.verdict.invalid,
        "virtual_lost": simulated["lost"],
        "block": plan.stream.source_packets,
        "load": float(plan.forward.load(failed_link)),
    }


def profile_row(plan: StreamPlan, run: StreamMeasurements) -> dict[str, float]:
    """Return the lost or late source packets, and the packets sent per source packet."""
    return {
        "lost": float(run.blocks.late_source_packets.sum()),
        "sent_per_source": 1 + stream_outcome(plan, run)["overhead"],
    }


def unavoidable(row: Row) -> float:
    """Return the source packets that a single path loses with any redundancy.

    They are due before the failure ends.
    """
    profile = PROFILES[row["profile"]]
    return float(profile["rate_pps"] * max(0.0, row["failure_s"] - profile["playback_s"]))


def judge(rows: Rows) -> Verdict:
    """Check the losses of each sender.

    Capillary routes lose nothing. A single path loses what no code can repair, and a fixed code
    over two paths loses half.
    """
    checks = []
    for profile, profile_rows in grouped(rows, "profile").items():
        checks += _profile_checks(profile, profile_rows)
    return verdict_of(rows, checks)


def _profile_checks(profile: str, rows: Rows) -> list[Check]:
    longest_s = max(row["failure_s"] for row in rows)
    single = where(rows, sender=SINGLE, failure_s=longest_s)[0]
    fixed = where(rows, sender=FIXED, failure_s=longest_s)[0]
    checks = [_check_single(single), _check_fixed(fixed)]
    for row in where(rows, sender=CAPILLARY):
        checks.append(_check_capillary(row))
    lossy = [row for row in rows if row["virtual_lost"]]
    checks.append(
        Claim(f"{profile}: packets lost in all runs, switches against virtual time")
        .equal(sum_of(rows, "virtual_lost"), sum_of(rows, "lost"), sum_of(lossy, "block"))
        .against(0.0, "none")
    )
    return checks


def _check_single(row: Row) -> Check:
    playback_s = PROFILES[row["profile"]]["playback_s"]
    return (
        Claim(f"{row['profile']}, single path: packets lost by a failure of {row['failure_s']:g} s")
        .at_least(0.98 * unavoidable(row), row["lost"])
        .against(0.0, "a code that outlasts the failure")
        .noting(f"buffer of {playback_s:g} s; {_sent(row)}")
    )


def _check_fixed(row: Row) -> Check:
    rate_pps = PROFILES[row["profile"]]["rate_pps"]
    return (
        Claim(
            f"{row['profile']}, RS(30,23) over two paths: "
            f"packets lost by a failure of {row['failure_s']:g} s"
        )
        .equal(0.5 * rate_pps * row["failure_s"], row["lost"], row["block"])
        .against(0.0, "the code repairs it")
        .noting(f"half of all; {_sent(row)}")
    )


def _check_capillary(row: Row) -> Check:
    rate_pps = PROFILES[row["profile"]]["rate_pps"]
    return (
        Claim(f"{row['profile']}, capillary: packets lost by a failure of {row['failure_s']:g} s")
        .equal(0.0, row["lost"], 1.0)
        .against(
            row["load"] * rate_pps * row["failure_s"],
            "without a code, what the failed link carries",
        )
        .noting(_sent(row))
    )


def _sent(row: Row) -> str:
    return f"{row['sent_per_source']:.2f} packets sent for each source packet"


def figures(rows: Rows) -> Figures:
    """Draw the lost packets: a group of bars per profile and failure."""
    samples = {}
    for fabric, key in (("switches", "lost"), ("virtual time", "virtual_lost")):
        for row in rows:
            group = f"{row['profile']}: {row['failure_s']:g} s"
            samples[f"{row['sender']}, {fabric}", group] = (row[key], 0.0)
    figure = draw_bars(
        "One failure of the most loaded link of each route",
        samples,
        y="source packets lost or late",
    )
    return {"profiles": figure}


STUDY = Study.of_module(
    __name__,
    title="Telephony and video through failures shorter and longer than the playback buffer",
    answers="Gabrielyan 2007, sections 4.1 and 4.3: "
    "real-time streams survive long failures over many paths; "
    "rivals: a single path, a fixed code",
    deviations=(
        "The document measured no stream; "
        "profiles are G.711 telephony and 2 Mbit/s video over Swiss-T1.",
    ),
    emulation=True,
)
