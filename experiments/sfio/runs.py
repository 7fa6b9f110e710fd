"""One run of a striped file for a study's point: on switches, in a directory that is removed, again where the machine lagged."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.model.verdict import Check, Verdict

Row = Mapping[str, Any]
ATTEMPTS = 3


def accessed(network: str, **options: Any) -> dict[str, Any]:
    """Write, or read: the median throughput of the repetitions beside the prediction. ``options``: of StripingOptions."""
    from testbed.striping.keeping_up import why_invalid
    from testbed.striping.plan import StripingOptions
    from testbed.striping.session import plan_session, run_session

    plan = plan_session(network, StripingOptions(**options), now=time.monotonic)
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix=".subfiles-", dir=Path.cwd()) as root:
            session = run_session(plan, Path(root))
        invalid = why_invalid(plan, session.run)
        if invalid is None:
            break
    found = session.document()
    first = found["operations"][0]
    prediction = found["predicted"]
    (typical,) = found["typical_throughput_bps"].values()
    return {
        "throughput_bps": typical,
        "slowest_bps": min(o["throughput_bps"] for o in found["operations"]),
        "seconds": first["bytes"] * 8 / typical,
        "predicted_bps": None if prediction is None else prediction["throughput_bps"],
        "liquid_bps": plan.liquid_links * plan.goodput_bps(9000),
        "liquid_links": plan.liquid_links,
        "verified": all(o["verified"] and not o["errors"] for o in found["operations"]),
        "messages": first["messages"],
        "fragments": first["fragments"],
        "disk_calls": first["disk_calls"],
        "queue_drops": first["queue_drops"],
        "cpu_fraction": first["cpu_fraction"],
        "strain": first["strain"],
        "invalid": invalid,
        "frames": found["frames"],
        "deadlocks": first["deadlocks"],
    }


def transferred(network: str, *, message_bytes: int, link_rate_bps: float, seed: int) -> dict[str, Any]:
    """Plain messages from all to all in the time frames of a liquid schedule over circuits: what the network itself carries."""
    from contextlib import ExitStack

    from testbed.bulk.planning import BulkOptions
    from testbed.bulk.session import open_bulk_fabric, plan_sides, run_side

    options = BulkOptions(message_bytes=message_bytes, link_rate_bps=link_rate_bps, seed=seed, injected=0)
    with ExitStack() as stack:
        fabric = open_bulk_fabric("emulation", stack, calibrate=False)
        row = run_side(fabric, plan_sides(network, options, ("circuit",), now=time.monotonic)[0]).row()
    return {
        "throughput_bps": row["throughput_bps"],
        "seconds": row["seconds"],
        "predicted_bps": None,
        "liquid_bps": row["liquid_throughput_bps"],
        "liquid_links": row["liquid_links"],
        "verified": row["verified"],
        "queue_drops": row["queue_drops"],
        "cpu_fraction": row["cpu_fraction"],
        "frames": row["frames"],
        "deadlocks": row["deadlocks"],
    }


def content_check(rows: Sequence[Row]) -> Check:
    """Every point's content was verified."""
    whole = sum(bool(row["verified"]) for row in rows)
    return Check.equal("runs whose content was verified", len(rows), whole)


def judged(rows: Sequence[Row], checks: Sequence[Check], notes: Sequence[str] = ()) -> Verdict:
    """The verdict of a study: invalid where the machine did not keep up with some of its points, however often they were tried."""
    reasons = [row["invalid"] for row in rows if row.get("invalid")]
    invalid = f"{len(reasons)} of {len(rows)} points: {reasons[0]}" if reasons else None
    return Verdict(checks=(content_check(rows), *checks), notes=tuple(notes), invalid=invalid)


def at_least(name: str, measured: float, least: float, detail: str = "") -> Check:
    """A claim that a figure reaches a threshold."""
    return Check.at_least(name, least, measured, detail=detail or f"at least {least:g}")
