"""What a fabric measured of a download, next to what was predicted: duration, packets sent, content."""

import math

from testbed.download.figures import arrival_rates
from testbed.download.plan import FRAME_OVERHEAD_BYTES, DownloadMeasurements, DownloadPlan
from testbed.download.prediction import (
    Alternatives,
    Prediction,
    alternatives,
    delays,
    predict,
    symbols_needed,
    tolerances,
)
from testbed.faults.fault import fault_rows, injection_check, injection_times
from testbed.faults.impaired_link import queue_bytes
from testbed.judgement.validity import dropped_reason, first_reason
from testbed.model.machine.load import TimingError, first_exceeded
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.endpoints import strangers
from topologies import Json, JsonObject

MAX_LAG = 0.5
"""Of what the duration may differ by: so far the sender may fall behind, and so long may packets lie in switches."""


def judge_download(plan: DownloadPlan, run: DownloadMeasurements) -> Judgement:
    """Content intact; duration and packets sent as predicted of a sender that raises its rate by what is lost.

    The duration's rival is the nearest of: a sender that never raises its rate, a single path over the links that fail,
    and (where no way is left meanwhile) a download that no failure disturbs. The packets' rival always sends at its
    highest rate.
    """
    expected, others = predict(plan), alternatives(plan)
    verdict = _verdict(plan, expected, others, run)
    document = _document(plan, expected, others, run) | {"verdict": verdict.to_json()}
    stored = (_row(plan, run, document),)
    return Judgement(
        verdict=verdict, document=document, rows=tuple(document["faults"]), stored=stored
    )


def _verdict(
    plan: DownloadPlan, expected: Prediction, others: Alternatives, run: DownloadMeasurements
) -> Verdict:
    seconds_tolerance, packets_tolerance = tolerances(plan)
    over_s = plan.limit_s if run.seconds is None else run.seconds
    wrong = not symbols_needed(plan) <= run.received <= 2 * run.sent  # links may make copies
    frugal = others.always_highest_sent - expected.sent > 1
    checks = [
        Claim("bytes of the file that arrived", "content")
        .equal(float(plan.file_bytes), float(plan.file_bytes * (run.verified and not wrong)))
        .against(0.0, "a file that differs")
        .noting(
            "SHA-256 compared" + f"; {run.received} packets arrived, too few or too many" * wrong
        )
        .of(run.received),
        Claim("seconds until the file was there", "seconds")
        .equal(expected.seconds, over_s, seconds_tolerance)
        .against(*others.nearest(expected.seconds))
        .noting(
            f"a single path takes {others.single_path_s:.2f} s"
            * (others.single_path_s > expected.seconds)
            + "; it never was" * (run.seconds is None)
        ),
        Claim("packets sent", "packets-sent")
        .equal(expected.sent, float(run.sent), packets_tolerance)
        .against(
            others.always_highest_sent if frugal else None,
            "a sender that always sends at its highest rate"
            + "; here that is the rate asked for" * (not frugal),
        ),
    ]
    checks += [
        check.of(run.sent)
        for check in injection_check(injection_times(plan.faults), over_s, "the download")
    ]
    forward_s, spread_s, _ = delays(plan)
    queue_s = queue_bytes(plan.last_mile_rate_bps) * 8 / plan.last_mile_rate_bps
    waited_s, borne_s = run.longest_s - forward_s - spread_s - queue_s, MAX_LAG * seconds_tolerance
    if any(fault.kind == "impaired" for fault in plan.faults):  # packets may be delayed on purpose
        waited_s = 0.0
    late = (
        TimingError("sender", "the sender fell {was} behind", run.sender_lag_s, borne_s),
        TimingError(
            "switches",
            "packets lay {was} in switches, beside the last mile's queue",
            waited_s,
            borne_s,
        ),
    )
    hint = "lower --last-mile-rate, or leave the machine to this run"
    invalid = first_reason(
        first_exceeded(late, hint),
        dropped_reason(
            run.machine_drops, run.sent, "at a full socket of a switch or the sink", hint
        ),
    )
    return Verdict(checks=tuple(checks), invalid=invalid, notes=strangers(run.counters))


def _row(plan: DownloadPlan, run: DownloadMeasurements, document: Json) -> JsonObject:
    """What is kept of a download: its document, and the rate at which packets arrived, for its figure."""
    shown_s = run.seconds or max(run.arrivals_s, default=0.0)
    retained = {k: v for k, v in document.items() if k != "verdict"}
    return retained | {
        "predicted_s": document["duration_s"]["predicted"],
        "measured_s": run.seconds,
        "packets_sent": run.sent,
        "drawn_s": shown_s,
        "arrivals_pps": arrival_rates(run.arrivals_s, shown_s) if shown_s > 0 else [],
        "last_kilometre_pps": plan.last_mile_rate_bps
        / (8 * (FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes)),
    }


def _document(
    plan: DownloadPlan, expected: Prediction, others: Alternatives, run: DownloadMeasurements
) -> JsonObject:
    """The object of ``testbed download --json`` but for its verdict."""
    last = plan.last_mile_rate_bps
    goodput = plan.file_bytes * 8 / run.seconds if run.seconds else 0.0
    return {
        "fabric": run.fabric,
        "method": plan.method,
        "code": plan.code,
        "constant_rate": plan.constant_rate,
        "file_bytes": plan.file_bytes,
        "verified": run.verified,
        "duration_s": {"predicted": expected.seconds, "measured": run.seconds},
        "alternatives": {
            "constant_rate_s": _finite(others.constant_rate_s),
            "single_path_s": _finite(others.single_path_s),
        },
        "outage_s": expected.outage_s,
        "goodput_bps": goodput,
        "last_mile_rate_bps": last,
        "goodput_ratio": goodput / last,
        "packets": {
            "needed": symbols_needed(plan),
            "sent": {"predicted": expected.sent, "measured": run.sent},
            "received": run.received,
        },
        "faults": fault_rows(plan.faults),
        "counters": dict(run.counters),
    }


def _finite(seconds: float) -> float | None:
    """None for what would never end."""
    return seconds if math.isfinite(seconds) else None
