"""What a fabric measured of a download, beside what was predicted: duration, packets sent, content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.download.plan import DownloadPlan, predict, symbols_needed
from testbed.model.verdict import Check, Verdict

TIME_SHARE, TIME_S = 0.1, 0.6
SENT_SHARE, SENT_PACKETS = 0.15, 200
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
    """Content intact; duration and packets sent as predicted, within a tenth and the time to notice a failure."""
    expected = predict(plan)
    reaction = TIME_S * (1 + len(plan.faults))
    checks = [
        Check(
            name="file arrived whole",
            predicted=float(plan.file_bytes),
            measured=float(plan.file_bytes) if run.verified else 0.0,
            tolerance=0.0,
            passed=run.verified,
            detail="bytes, SHA-256 compared",
        ),
        _near(
            "seconds until the file was there", expected.seconds, run.seconds, TIME_SHARE * expected.seconds + reaction
        ),
        _near(
            "packets sent",
            expected.sent,
            float(run.sent),
            SENT_SHARE * expected.sent + SENT_PACKETS + reaction * plan.parameters.arrival_pps,
        ),
    ]
    late = run.sender_lag_s > MAX_LAG_S
    return Verdict(checks=tuple(checks), invalid=f"the sender was {run.sender_lag_s:.2f} s late" if late else None)


def download_document(plan: DownloadPlan, run: DownloadMeasurements, verdict: Verdict) -> dict[str, Any]:
    """The object of ``testbed download --json``."""
    expected = predict(plan)
    needed = symbols_needed(plan)
    last = plan.last_rate_bps
    goodput = plan.file_bytes * 8 / run.seconds if run.seconds else 0.0
    return {
        "fabric": run.fabric,
        "method": plan.method,
        "code": plan.code,
        "bytes": plan.file_bytes,
        "verified": run.verified,
        "seconds": {"predicted": expected.seconds, "measured": run.seconds},
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
            {"link": "->".join(f.link[:2]), "kind": f.kind, "start_s": f.start_s, "stop_s": f.stop_s}
            for f in plan.faults
        ],
        "counters": dict(run.counters),
        "verdict": verdict.to_json(),
    }


def _near(name: str, predicted: float, measured: float | None, tolerance: float) -> Check:
    passed = measured is not None and abs(measured - predicted) <= tolerance
    return Check(name=name, predicted=predicted, measured=measured, tolerance=tolerance, passed=passed)
