"""What a fabric measured of a download, beside what was predicted: duration, packets sent, content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fec.protocol.large_blocks import MEASURED_OVER
from testbed.download.figures import arrival_rates
from testbed.download.plan import FRAME_OVERHEAD_BYTES, DownloadPlan
from testbed.download.prediction import Prediction, Rivals, delays, loss_at, predict, rivals, symbols_needed
from testbed.faults.coming import came_check, fault_moments
from testbed.model.machine.lateness import Lateness, first_not_borne
from testbed.model.verdict import Check, Verdict
from testbed.stream.endpoints import strangers
from topologies.network import label_of

MAX_LAG_S = 0.2


@dataclass(frozen=True, kw_only=True)
class DownloadMeasurements:
    """``seconds``: from the first packet until the last block was decoded (None: never); ``arrivals_s``: per packet, for
    the figure; ``sender_lag_s``: how late the sender was at worst."""

    fabric: str
    seconds: float | None
    sent: int
    received: int
    verified: bool
    arrivals_s: tuple[float, ...] = ()
    sender_lag_s: float = 0.0
    counters: Mapping[str, Any] = field(default_factory=dict)


def judge_download(plan: DownloadPlan, run: DownloadMeasurements) -> Verdict:
    """Content intact; duration and packets sent as predicted of a sender that raises its rate by what is lost.

    The duration's rival is the nearest of: a sender that never raises its rate, a single path over the links that fail, and (where
    no way is left meanwhile) a download that no failure disturbs. The packets' rival always sends at its highest rate.
    """
    expected, others = predict(plan), rivals(plan)
    rival_s, rival_is = _rival_of(expected, others)
    seconds_tolerance, packets_tolerance = tolerances(plan)
    frugal = others.always_highest_sent - expected.sent > 1
    checks = [
        Check.equal(
            "bytes of the file that arrived",
            float(plan.file_bytes),
            float(plan.file_bytes) if run.verified else 0.0,
            rival=0.0,
            rival_is="a file that differs",
            detail="SHA-256 compared",
            key="content",
        ),
        Check.equal(
            "seconds until the file was there",
            expected.seconds,
            plan.limit_s if run.seconds is None else run.seconds,
            tolerance=seconds_tolerance,
            rival=rival_s,
            rival_is=rival_is,
            key="seconds",
            detail=f"a single path takes {others.single_path_s:.2f} s" * (others.single_path_s > expected.seconds)
            + "; it never was" * (run.seconds is None),
        ),
        Check.equal(
            "packets sent",
            expected.sent,
            float(run.sent),
            tolerance=packets_tolerance,
            rival=others.always_highest_sent if frugal else None,
            rival_is="a sender that always sends at its highest rate"
            + "; here that is the rate asked for" * (not frugal),
            key="packets-sent",
        ),
    ]
    over_s = plan.limit_s if run.seconds is None else run.seconds
    checks += [check.of(run.sent) for check in came_check(fault_moments(plan.faults), over_s, "the download")]
    lag = Lateness(name="sender", words="the sender was {was} late", was=run.sender_lag_s, bears=MAX_LAG_S)
    mend = "lower --last-rate, or leave the machine to this run"
    return Verdict(checks=tuple(checks), invalid=first_not_borne((lag,), mend), notes=strangers(run.counters))


def tolerances(plan: DownloadPlan) -> tuple[float, float]:
    """Of the duration in seconds and of the packets sent, from how the sender works.

    It hears of a failure after up to two measurements and an acknowledgement, in which what is lost does not come; of the repair
    as late, in which too many packets are sent; and of the last block's decoding two acknowledgements late at most. What it hears of
    is a round trip old; the last symbol needed may come by the shortest path or by the longest.
    """
    p, propagation = plan.parameters, delays(plan)
    notice_s = 2 * MEASURED_OVER / p.arrival_pps + p.ack_interval_s + propagation.round_s
    lost = [loss_at(plan, fault.start_s) for fault in plan.faults]
    ending_s = 2 * p.ack_interval_s + propagation.spread_s
    raised = sum(min(p.most_pps, p.arrival_pps / max(1 - share, 1e-9)) - p.arrival_pps for share in lost)
    return ending_s + notice_s * sum(lost), ending_s * p.most_pps + notice_s * raised


def _rival_of(expected: Prediction, others: Rivals) -> tuple[float | None, str]:
    """The nearest rival of the duration and what it is; None where no failure takes any packet."""
    if others.constant_rate_s - expected.seconds > 1e-9:
        return others.constant_rate_s, "a sender that never raises its rate"
    if expected.seconds - others.undisturbed_s > 1e-9:
        return others.undisturbed_s, "a download that no failure disturbs"
    return None, "no rival: no failure takes a packet, so that nothing calls for a higher rate"


def download_row(plan: DownloadPlan, run: DownloadMeasurements, verdict: Verdict) -> dict[str, Any]:
    """What is kept of a download: its document, and the rate at which packets arrived, for its figure."""
    shown_s = run.seconds or max(run.arrivals_s, default=0.0)
    document = {k: v for k, v in download_document(plan, run, verdict).items() if k not in ("verdict", "faults")}
    p = plan.parameters
    return document | {
        "predicted_s": document["seconds"]["predicted"],
        "measured_s": run.seconds,
        "packets_sent": run.sent,
        "faults": [
            {
                "link": label_of(f.link),
                "kind": f.kind,
                "start_s": f.start_s,
                "stop_s": None if f.permanent else f.stop_s,
            }
            for f in plan.faults
        ],
        "drawn_s": shown_s,
        "arrivals_pps": arrival_rates(run.arrivals_s, shown_s) if shown_s > 0 else [],
        "last_kilometre_pps": plan.last_rate_bps / (8 * (FRAME_OVERHEAD_BYTES + p.symbol_bytes)),
    }


def download_document(plan: DownloadPlan, run: DownloadMeasurements, verdict: Verdict) -> dict[str, Any]:
    """The object of ``testbed download --json``."""
    expected, others = predict(plan), rivals(plan)
    needed = symbols_needed(plan)
    last = plan.last_rate_bps
    goodput = plan.file_bytes * 8 / run.seconds if run.seconds else 0.0
    return {
        "fabric": run.fabric,
        "method": plan.method,
        "code": plan.code,
        "constant_rate": plan.constant_rate,
        "bytes": plan.file_bytes,
        "verified": run.verified,
        "seconds": {"predicted": expected.seconds, "measured": run.seconds},
        "rivals": {"constant_rate_s": others.constant_rate_s, "single_path_s": others.single_path_s},
        "idle_s": expected.idle_s,
        "goodput_bps": goodput,
        "last_rate_bps": last,
        "ratio": goodput / last,
        "packets": {
            "needed": needed,
            "sent": {"predicted": expected.sent, "measured": run.sent},
            "received": run.received,
        },
        "faults": [
            {"link": label_of(f.link), "kind": f.kind, "start_s": f.start_s, "stop_s": f.stop_s} for f in plan.faults
        ],
        "counters": dict(run.counters),
        "verdict": verdict.to_json(),
    }
