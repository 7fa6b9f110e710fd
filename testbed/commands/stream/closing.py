"""What a command prints when its streams are over: a table a session, what failed, the verdict, and where the page lies."""

from __future__ import annotations

import sys

from testbed.commands.runs import show_place, state_words
from testbed.model.naming.printable import printable
from testbed.report.tables import closing_table
from testbed.report.terminal import Terminal
from testbed.report.wording import OUTCOMES, check_words
from testbed.stream.prediction.epoch_analysis import EpochsResult
from testbed.stream.run_batch import RunBatchResult


def campaign_lines(campaign: EpochsResult) -> list[str]:
    """Frames and outages in words and figures, one a line."""
    lines = []
    if len(campaign.frames) > 1:
        lines.append("frame   from s   packets  predicted %  measured %  links gone  change ms")
    for part in campaign.frames if len(campaign.frames) > 1 else ():
        change = "" if part.change_s is None else f"{1000 * part.change_s:.0f}"
        lines.append(
            f"{part.frame:5d} {part.start_s:8.1f} {part.packets:9d} {100 * part.predicted_loss:12.2f} "
            f"{100 * part.measured_loss:11.2f} {part.lost_links:11d} {change:>10s}"
        )
    lines.append(
        f"{campaign.faults} faults, up to {campaign.most_at_once} at once; {campaign.failing_s:.1f} s with failures, "
        f"{campaign.overlapping_s:.1f} s of that with several"
    )
    for one in campaign.outages:
        needed = "no N" if one.needed is None else f"N = {one.needed}"
        lines.append(
            f"beyond reach ({one.reason}): {one.start_s:.2f} to {one.stop_s:.2f} s, loss {100 * one.loss:.1f} %, {needed} would "
            f"help; of {one.blocks} open blocks {one.predicted} to {one.predicted_most} predicted undecodable, {one.measured} were"
        )
    return lines


def show_result(result: RunBatchResult) -> None:
    """The closing table and where the page lies, for a reader at a terminal (or in a log)."""
    console = Terminal()
    for part, session in zip(result.run.sessions, result.sessions, strict=True):
        console.print(closing_table(part))
        if session.analysis.campaign is not None:
            for line in campaign_lines(session.analysis.campaign):
                print(printable(line))
    verdict = result.verdict
    for check in verdict.checks:
        if not check.passed:
            print(printable(f"{OUTCOMES[check.outcome].lower()}: {check.name}: {check_words(check)}"))
    print(f"verdict: {state_words(verdict)} ({sum(c.passed for c in verdict.checks)} of {len(verdict.checks)} checks)")
    show_place(result.directory)
    sys.stdout.flush()
