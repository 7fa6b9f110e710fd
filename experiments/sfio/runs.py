"""Runs for a point of a study: an access of a striped file, or an exchange of plain messages.

The runs are on emulated switches. They are repeated if the machine did not keep up.
"""

import statistics
from collections.abc import Sequence
from dataclasses import fields
from operator import itemgetter
from pathlib import Path

from testbed.errors import InvalidRunError
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, repeated
from testbed.model.workload import Judgement

Pairs = Sequence[tuple[str, str]]

# How often a run is carried out at most, if the machine does not keep up.
ATTEMPTS = 3

# Number of times that an operation is carried out, unless the study says otherwise.
REPEAT = 3

# Fields of the first operation of an access that are stored.
OPERATION_FIELDS = (
    "messages",
    "fragments",
    "disk_calls",
    "queue_drops",
    "cpu_fraction",
    "deadlocks",
)

# Fields of an exchange of plain messages that are stored.
EXCHANGE_FIELDS = (
    "throughput_bps",
    "seconds",
    "liquid_links",
    "verified",
    "queue_drops",
    "cpu_fraction",
    "frames",
    "deadlocks",
)

# Fields of a run, and the fields that they cannot exceed.
LARGER_FIELDS = {
    "slowest_bps": "throughput_bps",
    "throughput_bps": "peak_bps",
    "mean_bps": "peak_bps",
    "predicted_bps": "liquid_bps",
}

# A field may exceed its limit by this factor, because of rounding and clocks.
LIMIT_TOLERANCE = 1.05

# Number of errors that are stored.
MAX_ERRORS = 4


def measure_access(
    network: str,
    point: Row,
    *,
    folder: Path | None = None,
    nodes: int | None = None,
    **options: object,
) -> Results:
    """Write or read a striped file, and return the median throughput beside the prediction.

    Args:
        network: Name of the network.
        point: Parameters of the point. Those that are options of a run (``StripingOptions``) apply.
        folder: Folder for the subfiles. None: the working directory, where they stay in the page
            cache.
        nodes: Number of compute nodes and of I/O nodes. None: ``options`` or the point say it.
        **options: Further options of the run, which take precedence over the point.

    Raises:
        InvalidRunError: No repetition was completed.
    """
    from testbed.striping.emulated.scratch_folders import scratch_folder
    from testbed.striping.facts import StripingFacts
    from testbed.striping.judgement import invalid_reason, judge_striping
    from testbed.striping.options import StripingOptions
    from testbed.striping.workload import run_striping, striping_plan

    all_options: Results = {"repetitions": REPEAT}
    for field in fields(StripingOptions):
        if field.name in point:
            all_options[field.name] = point[field.name]
    all_options |= options
    if nodes is not None:
        all_options |= {"compute_nodes": nodes, "io_nodes": nodes}
    plan = striping_plan(network, **all_options)

    def run_and_judge() -> tuple[Judgement, str | None]:
        with scratch_folder(folder or Path.cwd()) as root:
            run = run_striping(plan, root)
        judgement = judge_striping(plan, run)
        if judgement.prediction is None:
            # Round trips and processors limit the throughput. They are what is measured, so that
            # a busy machine does not make the run invalid.
            return judgement, None
        return judgement, invalid_reason(StripingFacts(plan, run))

    judgement, invalid = repeated(run_and_judge, itemgetter(1), ATTEMPTS - 1)
    document = judgement.document
    operations = document["operations"]
    prediction = document["predicted"]
    errors = _errors(operations)
    if not document["typical_throughput_bps"]:
        reason = errors[0] if errors else "no reason given"
        raise InvalidRunError(
            f"{network}: no access of the striped file came to its end ({reason})"
        )
    # There is one direction, write or read.
    (typical_bps,) = document["typical_throughput_bps"].values()
    throughputs_bps = [operation["throughput_bps"] for operation in operations]
    verified = all(operation["verified"] for operation in operations)
    results: Results = {
        "throughput_bps": typical_bps,
        "slowest_bps": min(throughputs_bps),
        "mean_bps": statistics.fmean(throughputs_bps),
        "peak_bps": max(throughputs_bps),
        "seconds": operations[0]["bytes"] * 8 / typical_bps,
        "predicted_bps": None if prediction is None else prediction["throughput_bps"],
        "liquid_bps": plan.liquid_links * plan.goodput_bps(9000),
        "liquid_links": plan.liquid_links,
        "verified": verified and not errors,
        "errors": errors[:MAX_ERRORS],
        "invalid": invalid,
        "frames": document["frames"],
    }
    for name in OPERATION_FIELDS:
        results[name] = operations[0][name]
    return results


def _errors(operations: Sequence[Results]) -> list[str]:
    """Return the errors of all operations, with the nodes on which they occurred."""
    errors = []
    for operation in operations:
        for error in operation["errors"]:
            errors.append(f"{error['node']}: {error['text']}")
    return errors


def measure_exchange(
    network: str,
    *,
    message_bytes: int,
    link_rate_bps: float,
    seed: int,
    free: bool = False,
    pairs: Pairs = (),
) -> Results:
    """Exchange plain messages, and return the throughput of the network itself.

    Args:
        network: Name of the network.
        message_bytes: Size of each message.
        link_rate_bps: Rate of every link.
        seed: Seed of the run.
        free: Whether each sender sends its messages one after another, without waiting for others.
            Otherwise messages are sent in the time frames of a liquid schedule, over circuits.
        pairs: Source and sink of each message. Empty: all hosts send to all.
    """
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

    def run_and_judge() -> Judgement:
        with EmulatedBulkFabric(calibrate=False) as fabric:
            return judge_bulk(plan, fabric.run(plan))

    def invalid_reason(judgement: Judgement) -> str | None:
        return judgement.verdict.invalid

    judgement = repeated(run_and_judge, invalid_reason, ATTEMPTS - 1)
    document = judgement.document
    results: Results = {
        "predicted_bps": None,
        "liquid_bps": document["liquid_throughput_bps"],
        "invalid": invalid_reason(judgement),
    }
    for name in EXCHANGE_FIELDS:
        results[name] = document[name]
    return results


def verdict_of_runs(rows: Rows, checks: Sequence[Check], notes: Sequence[str] = ()) -> Verdict:
    """Return the verdict of a study, which also checks the content of every run.

    It is invalid if the machine did not keep up with a point in any attempt, or if a point has
    figures that are impossible.
    """
    reasons = []
    for row in rows:
        reason = row.get("invalid") or impossible(row)
        if reason:
            reasons.append(reason)
    invalid = None
    if reasons:
        invalid = f"{len(reasons)} of {len(rows)} points: {reasons[0]}"
    return Verdict(checks=(_content_check(rows), *checks), notes=tuple(notes), invalid=invalid)


def _content_check(rows: Rows) -> Check:
    verified = [row for row in rows if row["verified"]]
    check = Claim("runs whose content was verified").count(
        len(rows), len(verified), "none: an exact count, byte by byte"
    )
    return check.of(len(rows), "no run")


def impossible(row: Row) -> str | None:
    """Return which field of a run exceeds its largest possible value, or None."""
    limits: Results = {}
    for field, larger_field in LARGER_FIELDS.items():
        limits[field] = row.get(larger_field)
    limits["cpu_fraction"] = 1.0
    if row.get("frames"):
        # The frames of a schedule exclude deadlocks.
        limits["deadlocks"] = 0
    for field, limit in limits.items():
        value = row.get(field)
        if value is None or limit is None:
            continue
        if value > LIMIT_TOLERANCE * limit:
            return f"{field} is {value:g}, more than there can be"
    return None
