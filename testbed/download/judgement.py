"""Compares the measurements of a download with its prediction: duration, packets sent, content."""

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
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.endpoints import strangers
from topologies import Json, JsonObject

# Share of the tolerance of the duration that the machine may use up: by a sender that falls behind,
# or by packets that wait in switches.
MAX_LAG = 0.5


def judge_download(plan: DownloadPlan, run: DownloadMeasurements) -> Judgement:
    """Compare the measurements of a download with its prediction.

    The file must be intact. The duration and the number of packets must be those of a sender that
    raises its rate to make up for losses. The rival of the duration is a sender that never raises
    its rate, or, if no path is left for a while, a download without failures. The rival of the
    packets always sends at its highest rate.
    """
    expected = predict(plan)
    rivals = alternatives(plan)
    verdict = _verdict(plan, expected, rivals, run)
    document = _document(plan, expected, rivals, run) | {"verdict": verdict.to_json()}
    stored = (_row(plan, run, document),)
    return Judgement(
        verdict=verdict, document=document, rows=tuple(document["faults"]), stored=stored
    )


def _verdict(
    plan: DownloadPlan,
    expected: Prediction,
    rivals: Alternatives,
    run: DownloadMeasurements,
) -> Verdict:
    duration_s = plan.limit_s
    if run.seconds is not None:
        duration_s = run.seconds
    seconds_tolerance, packets_tolerance = tolerances(plan)
    checks = [
        _content_check(plan, run),
        _duration_check(expected, rivals, run, duration_s, seconds_tolerance),
        _packets_check(expected, rivals, run, packets_tolerance),
    ]
    for check in injection_check(injection_times(plan.faults), duration_s, "the download"):
        checks.append(check.of(run.sent))
    invalid = _overload(plan, run, MAX_LAG * seconds_tolerance)
    return Verdict(checks=tuple(checks), invalid=invalid, notes=strangers(run.counters))


def _content_check(plan: DownloadPlan, run: DownloadMeasurements) -> Check:
    # Impaired links may duplicate packets, so more may arrive than were sent.
    plausible = symbols_needed(plan) <= run.received <= 2 * run.sent
    arrived_bytes = 0.0
    if run.verified and plausible:
        arrived_bytes = float(plan.file_bytes)
    detail = "SHA-256 compared"
    if not plausible:
        detail += f"; {run.received} packets arrived, too few or too many"
    claim = Claim("bytes of the file that arrived", "content")
    check = claim.equal(float(plan.file_bytes), arrived_bytes)
    return check.against(0.0, "a file that differs").noting(detail).of(run.received)


def _duration_check(
    expected: Prediction,
    rivals: Alternatives,
    run: DownloadMeasurements,
    duration_s: float,
    tolerance_s: float,
) -> Check:
    detail = ""
    if rivals.single_path_s > expected.seconds:
        detail += f"a single path takes {rivals.single_path_s:.2f} s"
    if run.seconds is None:
        detail += "; it never was"
    rival_s, rival = rivals.nearest(expected.seconds)
    claim = Claim("seconds until the file was there", "seconds")
    check = claim.equal(expected.seconds, duration_s, tolerance_s)
    return check.against(rival_s, rival).noting(detail)


def _packets_check(
    expected: Prediction,
    rivals: Alternatives,
    run: DownloadMeasurements,
    tolerance: float,
) -> Check:
    check = Claim("packets sent", "packets-sent").equal(expected.sent, float(run.sent), tolerance)
    rival = "a sender that always sends at its highest rate"
    if rivals.always_highest_sent - expected.sent > 1:
        return check.against(rivals.always_highest_sent, rival)
    return check.against(None, f"{rival}; here that is the rate asked for")


def _overload(plan: DownloadPlan, run: DownloadMeasurements, max_lag_s: float) -> str | None:
    """Return why the machine was too slow for this run, or None."""
    forward_s, spread_s, _ = delays(plan)
    queue_s = queue_bytes(plan.last_mile_rate_bps) * 8 / plan.last_mile_rate_bps
    waited_s = run.longest_s - forward_s - spread_s - queue_s
    # Impaired links delay packets on purpose.
    if any(fault.kind == "impaired" for fault in plan.faults):
        waited_s = 0.0
    late_sender = TimingError("sender", "the sender fell {was} behind", run.sender_lag_s, max_lag_s)
    late_switches = TimingError(
        "switches",
        "packets lay {was} in switches, beside the last mile's queue",
        waited_s,
        max_lag_s,
    )
    hint = "lower --last-mile-rate, or leave the machine to this run"
    dropped_at = "at a full socket of a switch or the sink"
    return first_reason(
        first_exceeded((late_sender, late_switches), hint),
        dropped_reason(run.machine_drops, run.sent, dropped_at, hint),
    )


def _row(plan: DownloadPlan, run: DownloadMeasurements, document: Json) -> JsonObject:
    """Return the stored row: the document without verdict, and the arrival rates for the figure."""
    drawn_s = run.seconds or max(run.arrivals_s, default=0.0)
    arrivals_pps: list[float] = []
    if drawn_s > 0:
        arrivals_pps = arrival_rates(run.arrivals_s, drawn_s)
    packet_bits = 8 * (FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes)
    row = {key: value for key, value in document.items() if key != "verdict"}
    return row | {
        "predicted_s": document["duration_s"]["predicted"],
        "measured_s": run.seconds,
        "packets_sent": run.sent,
        "drawn_s": drawn_s,
        "arrivals_pps": arrivals_pps,
        "last_kilometre_pps": plan.last_mile_rate_bps / packet_bits,
    }


def _document(
    plan: DownloadPlan,
    expected: Prediction,
    rivals: Alternatives,
    run: DownloadMeasurements,
) -> JsonObject:
    """Return the object of ``testbed download --json`` without its verdict."""
    goodput_bps = 0.0
    if run.seconds:
        goodput_bps = plan.file_bytes * 8 / run.seconds
    return {
        "fabric": run.fabric,
        "method": plan.method,
        "code": plan.code,
        "constant_rate": plan.constant_rate,
        "file_bytes": plan.file_bytes,
        "verified": run.verified,
        "duration_s": {"predicted": expected.seconds, "measured": run.seconds},
        "alternatives": {
            "constant_rate_s": _finite(rivals.constant_rate_s),
            "single_path_s": _finite(rivals.single_path_s),
        },
        "outage_s": expected.outage_s,
        "goodput_bps": goodput_bps,
        "last_mile_rate_bps": plan.last_mile_rate_bps,
        "goodput_ratio": goodput_bps / plan.last_mile_rate_bps,
        "packets": {
            "needed": symbols_needed(plan),
            "sent": {"predicted": expected.sent, "measured": run.sent},
            "received": run.received,
        },
        "faults": fault_rows(plan.faults),
        "counters": dict(run.counters),
    }


def _finite(seconds: float) -> float | None:
    """Return None for an infinite duration, because JSON has no infinity."""
    if math.isfinite(seconds):
        return seconds
    return None
