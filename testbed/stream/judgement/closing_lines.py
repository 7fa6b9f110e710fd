"""Lines about a stream that a command prints at its end, and before its beginning."""

import math
from collections.abc import Iterator

from testbed.faults.fault import Fault
from testbed.report.wording import OUTCOMES, check_words
from testbed.stream.impaired.checks import span_label
from testbed.stream.impaired.tolerances import packets_needed
from testbed.stream.impaired.traversals import GUARD_S
from testbed.stream.judgement.run_figures import (
    EpochsResult,
    Outage,
    SplitPeriod,
)
from testbed.stream.judgement.streams import StreamsJudgement
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import ImpairedSpan
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies import label_of


def closing_words(judged: StreamsJudgement) -> Iterator[object]:
    """Yield the output of a command for finished streams: tables of ``rich``, and lines."""
    from testbed.report.tables import closing_table

    for session, part in zip(judged.sessions, judged.parts, strict=True):
        yield closing_table(session)
        if not part.analysis.theory.faults_alone:
            yield from campaign_lines(part.analysis.epochs_result)
    for check in judged.verdict.checks:
        if not check.passed:
            yield f"{OUTCOMES[check.outcome].lower()}: {check.name}: {check_words(check)}"


def campaign_lines(result: EpochsResult) -> Iterator[str]:
    """Yield lines about frames, faults and outages, if faults overlap or nodes move."""
    if len(result.frames) > 1:
        yield "frame   from s   packets  predicted %  measured %  links gone  change ms"
        for period in result.frames:
            yield _frame_line(period)
    yield (
        f"{result.faults} faults, up to {result.most_at_once} at once; "
        f"{result.failing_s:.1f} s with failures, "
        f"{result.overlapping_s:.1f} s of that with several"
    )
    for outage in result.outages:
        yield _outage_line(outage)


def _frame_line(period: SplitPeriod) -> str:
    change = ""
    if period.change_s is not None:
        change = f"{1000 * period.change_s:.0f}"
    predicted = 100 * period.predicted_loss
    measured = 100 * period.measured_loss
    return (
        f"{period.frame:5d} {period.start_s:8.1f} {period.packets:9d} "
        f"{predicted:12.2f} {measured:11.2f} {period.lost_links:11d} {change:>10s}"
    )


def _outage_line(outage: Outage) -> str:
    needed = "no N" if outage.needed is None else f"N = {outage.needed}"
    return (
        f"beyond reach ({outage.reason}): {outage.start_s:.2f} to {outage.stop_s:.2f} s, "
        f"loss {100 * outage.loss:.1f} %, {needed} would help; "
        f"of {outage.blocks} open blocks {outage.predicted} to {outage.predicted_most} predicted "
        f"undecodable, {outage.measured} were"
    )


def foreseen(plan: StreamPlan) -> Iterator[str]:
    """Yield a line for each fault and impaired link that too few packets will meet for a check.

    The line says what would be sufficient, such as a longer fault.
    """
    theory = StreamTheory(plan)
    for span in theory.impaired_spans:
        packets = _packets_that_meet_only(theory, span)
        needed = packets_needed(span.impairments)
        crossed = any(span.link in path.links for path in plan.forward.paths)
        if crossed and packets < needed:
            more = f"it takes {needed:.0f}"
            if math.isinf(needed):
                more = "no number of packets is enough"
            meet = f"some {packets} packets will meet nothing but it"
            yield f"{span_label(plan, span)}: {meet}, and {more}"
    if theory.impaired_spans or not theory.faults_alone:
        return
    for fault in plan.faults:
        if _duration_s(plan, fault) <= theory.uncounted_s(fault):
            longer = f"it has to last longer than {theory.uncounted_s(fault):g} s"
            yield f"{label_of(fault.link)} {fault.kind}: {longer} for packets to count"


def _duration_s(plan: StreamPlan, fault: Fault) -> float:
    return min(fault.stop_s, plan.duration_s) - fault.start_s


def _packets_that_meet_only(theory: StreamTheory, span: ImpairedSpan) -> int:
    """Return the minimum number of packets that will cross this impaired link and no other one."""
    plan = theory.plan
    stream = plan.stream
    impaired_then = set()
    for other in theory.impaired_spans:
        overlaps = other.start_s < span.stop_s and span.start_s < other.stop_s
        if other is not span and overlaps:
            impaired_then.add(other.link)
    labels = 0
    for path in plan.forward.paths:
        if span.link in path.links and impaired_then.isdisjoint(path.links):
            labels += path.stop - path.start
    begins_s = 0.0
    if span.fault is not None:
        begins_s = span.start_s + GUARD_S
    ends_s = min(span.stop_s, plan.duration_s - stream.playback_s) - GUARD_S
    return int(theory.least_share_pps(labels) * max(0.0, ends_s - begins_s))
