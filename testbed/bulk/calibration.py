"""What one path can carry on this machine, measured just before and just after a bulk run.

First some messages go over one path alone: their goodput is what predictions are made of. Then some go over many
disjoint paths at once: where these are slower than one alone, the machine and not the schedule sets the pace, and the
run would say nothing. No I/O here: the messages are sent by the ``measure`` that the caller gives.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from testbed.bulk.link_rates import overload_hint
from testbed.bulk.measurements import Goodput
from testbed.bulk.plan import BulkPlan, Ends
from testbed.errors import InvalidRunError
from testbed.model.machine.load import overload_message
from topologies import LinkId

MESSAGES_ALONE, MESSAGES_TOGETHER = 3, 2
MIN_S, MAX_MESSAGES = 0.6, 16
"""Small messages are more in number: a few milliseconds that one comes late are no measure of a machine."""
MAX_RATE_RATIO = 64
"""A path has at most this number of messages for each message over the slowest path."""
MIN_TOGETHER = 0.965
"""Disjoint paths at once that are slower than this fraction of one alone: the machine, not the schedule, sets the
pace."""
AT_ONCE_BYTES = 18_000
"""What a link that has rested passes at once: two packets (its token bucket). Of few and short messages that is
much."""
LONGER_FRAMES = "give longer time frames: a larger --message-size, or a lower --link-rate"
ATTEMPTS = 3
"""Another program's burst of work is no reason to give up: so often disjoint paths are measured before they count as
slow."""


@dataclass(frozen=True, kw_only=True)
class CalibrationJob:
    """``count`` messages back to back over the slowest path of these transfers, and as many over the others as go in the
    same time, all at once."""

    transfers: tuple[int, ...]
    count: int


def message_counts(plan: BulkPlan, job: CalibrationJob) -> dict[int, int]:
    """Transfer of the job -> messages over its path."""
    slowest_s = max(plan.transfer_s[i] for i in job.transfers)
    counts = {}
    for i in job.transfers:
        ratio = min(MAX_RATE_RATIO, slowest_s / plan.transfer_s[i])
        counts[i] = round(job.count * ratio)
    return counts


Measure = Callable[[CalibrationJob], float]
"""Carries a job out and gives payload bits a second. A path that is slower than ``plan.link_rate_bps`` counts as if it
had that rate; of several paths the one counts that falls shortest of its rate."""


def single_path_goodput(plan: BulkPlan) -> CalibrationJob:
    """The transfer with the longest path (of equals the first)."""
    longest = max(range(len(plan.transfers)), key=lambda i: (len(plan.transfers[i].path), -i))
    return _job(plan, [longest], MESSAGES_ALONE)


def _job(plan: BulkPlan, transfers: Sequence[int], min_count: int) -> CalibrationJob:
    slowest_s = max(plan.transfer_s[i] for i in transfers)
    count = max(min_count, min(MAX_MESSAGES, math.ceil(MIN_S / slowest_s)))
    return CalibrationJob(transfers=tuple(transfers), count=count)


def concurrent_goodput(plan: BulkPlan) -> CalibrationJob:
    """As many transfers as share no link in either direction of use, found greedily, but no more than a time frame of a
    liquid schedule holds on average; those over bottlenecks first."""
    hard = set(plan.bottlenecks)
    limit = max(1, round(len(plan.transfers) / plan.bottleneck_load))
    order = sorted(
        range(len(plan.transfers)),
        key=lambda i: (-sum(x in hard for x in plan.transfers[i].path), i),
    )
    used: set[LinkId] = set()
    chosen: list[int] = []
    for index in order:
        path = plan.transfers[index].path
        if used.isdisjoint(path) and len(chosen) < limit:
            used.update(path)
            chosen.append(index)
    return _job(plan, sorted(chosen), MESSAGES_TOGETHER)


def calibration_ends(plan: BulkPlan) -> Iterator[Ends]:
    """The end points of all messages that calibrating before and after a run can take, in the order in which it takes
    them."""
    for job in (single_path_goodput(plan), *[concurrent_goodput(plan)] * (2 * ATTEMPTS + 1)):
        for index, count in message_counts(plan, job).items():
            yield from [plan.transfers[index].ends] * count


def uncalibrated(plan: BulkPlan) -> Goodput:
    """Goodput taken to be the links' rate."""
    return Goodput(
        single_path_bps=plan.link_rate_bps, concurrent_bps=plan.link_rate_bps, concurrent_paths=1
    )


def calibrate(plan: BulkPlan, measure: Measure) -> Goodput:
    """Goodput of one path alone, and of many disjoint ones at once.

    Raises InvalidRunError where these are much slower than one alone, however often they are tried.
    """
    alone_bps = measure(single_path_goodput(plan))
    for _ in range(ATTEMPTS):
        found = _measured_together(plan, measure, alone_bps)
        if machine_lag(plan, found) is None:
            return found
    raise InvalidRunError(str(machine_lag(plan, found)))


def recalibrate(plan: BulkPlan, measure: Measure, first: Goodput) -> Goodput:
    """Many paths at once after the run: a machine that lags now may have lagged in the run. The slower of both
    counts."""
    for _ in range(ATTEMPTS):
        if machine_lag(plan, _measured_together(plan, measure, first.single_path_bps)) is None:
            return first
    return _measured_together(plan, measure, first.single_path_bps)


def _measured_together(plan: BulkPlan, measure: Measure, alone_bps: float) -> Goodput:
    job = concurrent_goodput(plan)
    return Goodput(
        single_path_bps=alone_bps, concurrent_bps=measure(job), concurrent_paths=len(job.transfers)
    )


def machine_lag(plan: BulkPlan, goodput: Goodput) -> str | None:
    """Why the machine cannot carry a time frame, None where it can; or why its messages are too short to tell."""
    if goodput.concurrent_bps >= MIN_TOGETHER * goodput.single_path_bps:
        return None
    short = (1 - MIN_TOGETHER) / 2 * single_path_goodput(
        plan
    ).count * plan.message_bytes < AT_ONCE_BYTES
    if plan.equal_rates:
        together = f"got {goodput.concurrent_bps / 1e6:.2f} Mbit/s each"
        alone = f"{goodput.single_path_bps / 1e6:.2f}"
    else:
        together = f"reached {goodput.concurrent_bps / plan.link_rate_bps:.3f} of their rates"
        alone = f"{goodput.single_path_bps / plan.link_rate_bps:.3f}"
    return overload_message(
        f"{goodput.concurrent_paths} disjoint paths at once {together}, one alone {alone}",
        hint="give a larger --message-size: a link that has rested passes two packets at once"
        if short
        else overload_hint(plan.rates),
    )
