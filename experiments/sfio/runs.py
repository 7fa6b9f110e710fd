"""One run of a striped file for a study's point: on switches, in a directory that is removed, again where the machine
lagged."""

import statistics
from collections.abc import Sequence
from dataclasses import fields
from operator import itemgetter
from pathlib import Path

from testbed.errors import InvalidRunError
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, repeated
from testbed.model.workload import Judgement

Pairs = Sequence[tuple[str, str]]
ATTEMPTS = 3


REPEAT = 3
"""So many times each operation is carried out, where the study does not say otherwise."""


OF_OPERATIONS = (
    "messages",
    "fragments",
    "disk_calls",
    "queue_drops",
    "cpu_fraction",
    "deadlocks",
)
"""Kept of the first operation of a run."""
OF_EXCHANGES = (
    "throughput_bps", "seconds", "liquid_links", "verified", "queue_drops", "cpu_fraction", "frames", "deadlocks",
)  # fmt: skip
"""Kept of an exchange of plain messages."""
AT_MOST = {"slowest_bps": "throughput_bps", "throughput_bps": "peak_bps", "mean_bps": "peak_bps"}
AT_MOST |= {"predicted_bps": "liquid_bps"}
"""Figures of a run -> those that are no smaller."""


def accessed(
    network: str,
    point: Row,
    *,
    place: Path | None = None,
    nodes: int | None = None,
    **options: object,
) -> Results:
    """Write, or read: the median throughput of the repetitions next to the prediction. ``place``: where the subfiles
    lie (by default in the page cache of the working directory); ``nodes``: that compute, and as many that keep a
    subfile; ``options``: of StripingOptions, beside those that the point names."""
    from testbed.striping.emulated.scratch_folders import scratch_folder
    from testbed.striping.facts import StripingFacts
    from testbed.striping.judgement import invalid_reason, judge_striping
    from testbed.striping.options import StripingOptions
    from testbed.striping.workload import run_striping, striping_plan

    if nodes is not None:
        options |= {"compute_nodes": nodes, "io_nodes": nodes}
    named = {each.name: point[each.name] for each in fields(StripingOptions) if each.name in point}
    plan = striping_plan(network, **{"repetitions": REPEAT} | named | options)

    def once() -> tuple[Judgement, str | None]:
        with scratch_folder(place or Path.cwd()) as root:
            run = run_striping(plan, root)
        judged = judge_striping(plan, run)
        # without a prediction round trips and processors set the pace, and are what is measured
        if judged.prediction is None:
            return judged, None
        return judged, invalid_reason(StripingFacts(plan, run))

    judged, invalid = repeated(once, itemgetter(1), ATTEMPTS - 1)
    found = judged.document
    first = found["operations"][0]
    prediction = found["predicted"]
    errors = [f"{e['node']}: {e['text']}" for o in found["operations"] for e in o["errors"]]
    if not found["typical_throughput_bps"]:
        reason = next(iter(errors), "no reason given")
        raise InvalidRunError(
            f"{network}: no access of the striped file came to its end ({reason})"
        )
    (typical,) = found["typical_throughput_bps"].values()
    every = [operation["throughput_bps"] for operation in found["operations"]]
    return {
        "throughput_bps": typical,
        "slowest_bps": min(every),
        "mean_bps": statistics.fmean(every),
        "peak_bps": max(every),
        "seconds": first["bytes"] * 8 / typical,
        "predicted_bps": None if prediction is None else prediction["throughput_bps"],
        "liquid_bps": plan.liquid_links * plan.goodput_bps(9000),
        "liquid_links": plan.liquid_links,
        "verified": all(o["verified"] and not o["errors"] for o in found["operations"]),
        "errors": errors[:4],
        "invalid": invalid,
        "frames": found["frames"],
        **{name: first[name] for name in OF_OPERATIONS},
    }


def transferred(
    network: str,
    *,
    message_bytes: int,
    link_rate_bps: float,
    seed: int,
    free: bool = False,
    pairs: Pairs = (),
) -> Results:
    """Plain messages from all to all, or between ``pairs``: what the network itself carries. In the time frames of a
    liquid schedule over circuits; or ``free``, each sender's one after another, with nobody waiting for others."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.workload import bulk_plan

    plan = bulk_plan(
        network,
        switching="packet" if free else "circuit",
        scheduling="round-robin" if free else "liquid",
        barrier=not free,
        pattern=tuple(pairs) or "all-to-all",
        inject_packets=0,
        message_bytes=message_bytes,
        link_rate_bps=link_rate_bps,
        seed=seed,
    )

    def once() -> Judgement:
        with EmulatedBulkFabric(calibrate=False) as fabric:
            return judge_bulk(plan, fabric.run(plan))

    judged = repeated(once, lambda judged: judged.verdict.invalid, ATTEMPTS - 1)
    row, invalid = judged.document, judged.verdict.invalid
    found: Results = {
        "predicted_bps": None,
        "liquid_bps": row["liquid_throughput_bps"],
        "invalid": invalid,
    }
    return found | {name: row[name] for name in OF_EXCHANGES}


def content_check(rows: Rows) -> Check:
    """Every point's content was verified."""
    whole = sum(bool(row["verified"]) for row in rows)
    check = Claim("runs whose content was verified").count(
        len(rows), whole, "none: an exact count, byte by byte"
    )
    return check.of(len(rows), "no run")


def impossible(row: Row) -> str | None:
    """Which figure of a run is larger than another lets it be, or None."""
    limits: Results = {name: row.get(most) for name, most in AT_MOST.items()} | {
        "cpu_fraction": 1.0
    }
    limits |= {"deadlocks": 0 if row.get("frames") else None}
    known = {
        key: most for key, most in limits.items() if most is not None and row.get(key) is not None
    }
    wrong = (key for key, most in known.items() if row[key] > 1.05 * most)
    return next((f"{key} is {row[key]:g}, more than there can be" for key in wrong), None)


def judged(rows: Rows, checks: Sequence[Check], notes: Sequence[str] = ()) -> Verdict:
    """The verdict of a study: invalid where the machine did not keep up with some of its points, however often they
    were tried, or where one has figures that no run has."""
    reasons = [reason for row in rows if (reason := row.get("invalid") or impossible(row))]
    invalid = f"{len(reasons)} of {len(rows)} points: {reasons[0]}" if reasons else None
    return Verdict(checks=(content_check(rows), *checks), notes=tuple(notes), invalid=invalid)
