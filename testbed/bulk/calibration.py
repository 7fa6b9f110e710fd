"""Measures the goodput of paths on this machine, just before and just after a bulk run.

First, messages are sent over one path alone; predictions use their goodput. Then messages are sent
over several disjoint paths at the same time. If these are slower than one alone, the machine and
not the schedule limits the run, which would be invalid. This module has no I/O: the caller's
``measure`` sends the messages.
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

# Minimum number of messages over one path alone, and over each of several paths.
MESSAGES_ALONE = 3
MESSAGES_TOGETHER = 2
# More messages are sent if they are small, so that a delay of a few milliseconds does not count: as
# many as take this time, up to a limit.
MIN_S = 0.6
MAX_MESSAGES = 16
# Maximum number of messages over a path for each message over the slowest path.
MAX_RATE_RATIO = 64
# If disjoint paths together are slower than this fraction of one alone, the machine limits the run.
MIN_TOGETHER = 0.965
# An idle link passes two packets at once (its token bucket), which matters for few and short
# messages.
AT_ONCE_BYTES = 18_000
LONGER_FRAMES = "give longer time frames: a larger --message-size, or a lower --link-rate"
# Number of measurements of disjoint paths before they count as slow, because another program may
# have been busy for a moment.
ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class CalibrationJob:
    """Messages that are sent over several paths at the same time.

    Attributes:
        transfers: The indices of the transfers whose paths are used.
        count: Number of messages over the slowest of these paths. The others carry as many as take
            the same time.
    """

    transfers: tuple[int, ...]
    count: int


def message_counts(plan: BulkPlan, job: CalibrationJob) -> dict[int, int]:
    """Return the number of messages over the path of each transfer of a job."""
    slowest_s = max(plan.transfer_s[i] for i in job.transfers)
    counts = {}
    for i in job.transfers:
        ratio = min(MAX_RATE_RATIO, slowest_s / plan.transfer_s[i])
        counts[i] = round(job.count * ratio)
    return counts


# Executes a job and returns the payload bits per second of the path that is slowest relative to its
# rate. The result is scaled to a path of the rate ``plan.link_rate_bps``.
Measure = Callable[[CalibrationJob], float]


def single_path_goodput(plan: BulkPlan) -> CalibrationJob:
    """Return the job of the transfer with the longest path, the first of several."""
    lengths = [len(transfer.path) for transfer in plan.transfers]
    longest = lengths.index(max(lengths))
    return _job(plan, [longest], MESSAGES_ALONE)


def _job(plan: BulkPlan, transfers: Sequence[int], min_count: int) -> CalibrationJob:
    slowest_s = max(plan.transfer_s[i] for i in transfers)
    count = max(min_count, min(MAX_MESSAGES, math.ceil(MIN_S / slowest_s)))
    return CalibrationJob(transfers=tuple(transfers), count=count)


def concurrent_goodput(plan: BulkPlan) -> CalibrationJob:
    """Return the job of several transfers that share no link.

    They are chosen greedily, those over most bottlenecks first. There are at most as many as a time
    frame of a liquid schedule has on average.
    """
    bottlenecks = set(plan.bottlenecks)
    limit = max(1, round(len(plan.transfers) / plan.bottleneck_load))

    def crossed_bottlenecks(index: int) -> int:
        return len([link for link in plan.transfers[index].path if link in bottlenecks])

    used: set[LinkId] = set()
    chosen: list[int] = []
    for index in sorted(range(len(plan.transfers)), key=crossed_bottlenecks, reverse=True):
        path = plan.transfers[index].path
        if used.isdisjoint(path) and len(chosen) < limit:
            used.update(path)
            chosen.append(index)
    return _job(plan, sorted(chosen), MESSAGES_TOGETHER)


def calibration_ends(plan: BulkPlan) -> Iterator[Ends]:
    """Yield the end points of all messages that calibration may send, in this order.

    The last measurement of ``recalibrate`` comes after all its attempts have failed.
    """
    concurrent_jobs = [concurrent_goodput(plan)] * (2 * ATTEMPTS + 1)
    for job in (single_path_goodput(plan), *concurrent_jobs):
        for index, count in message_counts(plan, job).items():
            yield from [plan.transfers[index].ends] * count


def uncalibrated(plan: BulkPlan) -> Goodput:
    """Return the links' rate as the goodput, without a measurement."""
    return Goodput(
        single_path_bps=plan.link_rate_bps, concurrent_bps=plan.link_rate_bps, concurrent_paths=1
    )


def calibrate(plan: BulkPlan, measure: Measure) -> Goodput:
    """Measure the goodput of one path alone, and of several disjoint paths at the same time.

    Raises:
        InvalidRunError: The latter are much slower in every attempt.
    """
    alone_bps = measure(single_path_goodput(plan))
    for _ in range(ATTEMPTS):
        goodput = _measure_concurrent(plan, measure, alone_bps)
        if machine_lag(plan, goodput) is None:
            return goodput
    raise InvalidRunError(str(machine_lag(plan, goodput)))


def recalibrate(plan: BulkPlan, measure: Measure, first: Goodput) -> Goodput:
    """Measure several paths after the run, and return the goodput that counts.

    A machine that is too slow now may have been too slow in the run. The first goodput counts if
    the machine is fast enough in one of the attempts, else a new one.

    Args:
        plan: The bulk plan.
        measure: Executes a job.
        first: The goodput before the run.
    """
    for _ in range(ATTEMPTS):
        goodput = _measure_concurrent(plan, measure, first.single_path_bps)
        if machine_lag(plan, goodput) is None:
            return first
    return _measure_concurrent(plan, measure, first.single_path_bps)


def _measure_concurrent(plan: BulkPlan, measure: Measure, alone_bps: float) -> Goodput:
    job = concurrent_goodput(plan)
    return Goodput(
        single_path_bps=alone_bps, concurrent_bps=measure(job), concurrent_paths=len(job.transfers)
    )


def machine_lag(plan: BulkPlan, goodput: Goodput) -> str | None:
    """Return why the machine is too slow for a time frame, or None.

    If the messages are too short to tell, the reason says so.
    """
    if goodput.concurrent_bps >= MIN_TOGETHER * goodput.single_path_bps:
        return None
    sent_bytes = single_path_goodput(plan).count * plan.message_bytes
    if (1 - MIN_TOGETHER) / 2 * sent_bytes < AT_ONCE_BYTES:
        hint = "give a larger --message-size: an idle link forwards two packets at once"
    else:
        hint = overload_hint(plan.rates)
    if plan.equal_rates:
        together = f"got {goodput.concurrent_bps / 1e6:.2f} Mbit/s each"
        alone = f"{goodput.single_path_bps / 1e6:.2f}"
    else:
        together = f"reached {goodput.concurrent_bps / plan.link_rate_bps:.3f} of their rates"
        alone = f"{goodput.single_path_bps / plan.link_rate_bps:.3f}"
    return overload_message(
        f"{goodput.concurrent_paths} disjoint paths at once {together}, one alone {alone}",
        hint=hint,
    )
