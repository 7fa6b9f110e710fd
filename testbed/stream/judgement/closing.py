"""What a command prints when its streams are over: a table a stream, frames and outages in words, and what failed."""

from collections.abc import Iterator

from testbed.report.tables import closing_table
from testbed.report.wording import OUTCOMES, check_words
from testbed.stream.judgement.streams import StreamsJudgement
from testbed.stream.prediction.epoch_analysis import EpochsResult


def closing_words(judged: StreamsJudgement) -> Iterator[object]:
    """Tables of ``rich`` and lines."""
    for session, part in zip(judged.sessions, judged.parts, strict=True):
        yield closing_table(session)
        if part.analysis.campaign is not None:
            yield from campaign_lines(part.analysis.campaign)
    for check in judged.verdict.checks:
        if not check.passed:
            yield f"{OUTCOMES[check.outcome].lower()}: {check.name}: {check_words(check)}"


def campaign_lines(campaign: EpochsResult) -> Iterator[str]:
    """Frames and outages, one a line."""
    frames = campaign.frames if len(campaign.frames) > 1 else ()
    if frames:
        yield "frame   from s   packets  predicted %  measured %  links gone  change ms"
    for part in frames:
        change = "" if part.change_s is None else f"{1000 * part.change_s:.0f}"
        yield (
            f"{part.frame:5d} {part.start_s:8.1f} {part.packets:9d} {100 * part.predicted_loss:12.2f} "
            f"{100 * part.measured_loss:11.2f} {part.lost_links:11d} {change:>10s}"
        )
    yield (
        f"{campaign.faults} faults, up to {campaign.most_at_once} at once; {campaign.failing_s:.1f} s with failures, "
        f"{campaign.overlapping_s:.1f} s of that with several"
    )
    for one in campaign.outages:
        needed = "no N" if one.needed is None else f"N = {one.needed}"
        yield (
            f"beyond reach ({one.reason}): {one.start_s:.2f} to {one.stop_s:.2f} s, loss {100 * one.loss:.1f} %, "
            f"{needed} would help; of {one.blocks} open blocks {one.predicted} to {one.predicted_most} predicted "
            f"undecodable, {one.measured} were"
        )
