"""Compares the measurements of a download with its prediction: duration, packets sent, content."""

import math

from testbed.download.facts import DownloadFacts
from testbed.download.figures import arrival_rates
from testbed.download.plan import FRAME_OVERHEAD_BYTES, DownloadMeasurements, DownloadPlan
from testbed.download.prediction import symbols_needed
from testbed.faults.fault import fault_rows, injection_check, injection_times
from testbed.judgement.validity import dropped_reason, first_reason
from testbed.model.machine.load import TimingError, first_exceeded
from testbed.model.verdict import Check, Claim, Verdict
from testbed.model.workload import Judgement
from testbed.stream.endpoints import foreign_notes
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
    facts = DownloadFacts(plan, run)
    verdict = _verdict(facts)
    document = _document(facts) | {"verdict": verdict.to_json()}
    stored = (_row(facts, document),)
    return Judgement(
        verdict=verdict, document=document, rows=tuple(document["faults"]), stored=stored
    )


def _verdict(facts: DownloadFacts) -> Verdict:
    checks = [_content_check(facts), _duration_check(facts), _packets_check(facts)]
    injections = injection_times(facts.plan.faults)
    for check in injection_check(injections, facts.duration_s, "the download"):
        checks.append(check.of(facts.run.sent))
    notes = foreign_notes(facts.run.counters)
    return Verdict(checks=tuple(checks), invalid=_overload(facts), notes=notes)


def _content_check(facts: DownloadFacts) -> Check:
    received = facts.run.received
    detail = "SHA-256 compared"
    if not facts.plausible:
        detail += f"; {received} packets arrived, too few or too many"
    claim = Claim("bytes of the file that arrived", "content")
    check = claim.equal(float(facts.plan.file_bytes), facts.arrived_bytes)
    return check.against(0.0, "a file that differs").noting(detail).of(received)


def _duration_check(facts: DownloadFacts) -> Check:
    predicted_s = facts.expected.seconds
    rivals = facts.rivals
    detail = ""
    if rivals.single_path_s > predicted_s:
        detail += f"a single path takes {rivals.single_path_s:.2f} s"
    if facts.run.seconds is None:
        detail += "; it never was"
    rival_s, rival = rivals.nearest(predicted_s)
    claim = Claim("seconds until the file was there", "seconds")
    check = claim.equal(predicted_s, facts.duration_s, facts.tolerance_s)
    return check.against(rival_s, rival).noting(detail)


def _packets_check(facts: DownloadFacts) -> Check:
    predicted = facts.expected.sent
    claim = Claim("packets sent", "packets-sent")
    check = claim.equal(predicted, float(facts.run.sent), facts.tolerance_packets)
    rival = "a sender that always sends at its highest rate"
    if facts.rivals.always_highest_sent - predicted > 1:
        return check.against(facts.rivals.always_highest_sent, rival)
    return check.against(None, f"{rival}; here that is the rate asked for")


def _overload(facts: DownloadFacts) -> str | None:
    """Return why the machine was too slow for this run, or None."""
    run = facts.run
    max_lag_s = MAX_LAG * facts.tolerance_s
    late_sender = TimingError("sender", "the sender fell {was} behind", run.sender_lag_s, max_lag_s)
    late_switches = TimingError(
        "switches",
        "packets lay {was} in switches, beside the last mile's queue",
        facts.waited_s,
        max_lag_s,
    )
    hint = "lower --last-mile-rate, or leave the machine to this run"
    dropped_at = "at a full socket of a switch or the sink"
    return first_reason(
        first_exceeded((late_sender, late_switches), hint),
        dropped_reason(run.machine_drops, run.sent, dropped_at, hint),
    )


def _row(facts: DownloadFacts, document: Json) -> JsonObject:
    """Return the stored row: the document without verdict, and the arrival rates for the figure."""
    plan = facts.plan
    run = facts.run
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


def _document(facts: DownloadFacts) -> JsonObject:
    """Return the object of ``testbed download --json`` without its verdict."""
    plan = facts.plan
    run = facts.run
    expected = facts.expected
    return {
        "fabric": run.fabric,
        "method": plan.method,
        "code": plan.code,
        "constant_rate": plan.constant_rate,
        "file_bytes": plan.file_bytes,
        "verified": run.verified,
        "duration_s": {"predicted": expected.seconds, "measured": run.seconds},
        "alternatives": {
            "constant_rate_s": _finite(facts.rivals.constant_rate_s),
            "single_path_s": _finite(facts.rivals.single_path_s),
        },
        "outage_s": expected.outage_s,
        "goodput_bps": facts.goodput_bps,
        "last_mile_rate_bps": plan.last_mile_rate_bps,
        "goodput_ratio": facts.goodput_bps / plan.last_mile_rate_bps,
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
