"""The times of a bulk run, all of them longer or shorter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from testbed.bulk.measurements import BulkMeasurements


def at_seconds(run: BulkMeasurements, seconds: float) -> dict[str, Any]:
    """The times of a run that took so long in all."""
    longer = seconds / run.seconds
    own = [(one, one.started_s or 0.0, one.done_s or 0.0) for one in run.transfers]
    transfers = (
        replace(one, started_s=start * longer, done_s=done * longer) for one, start, done in own
    )
    return {"seconds": seconds, "transfers": tuple(transfers)}
