"""Progress on a terminal's stderr: of a run that reports where it is, of points that are counted, of work that shows
nothing.

In a pipe all three stay silent. rich is imported only where something is drawn: a command in a pipe never waits for it.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from testbed.model.progress import Progress, ReportProgress


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[ReportProgress | None]:
    """A bar that fills with the share of the run that is done; None where nobody looks."""
    with _bar(title, "{task.percentage:>3.0f} %") as update:
        if update is None:
            yield None
            return

        def report_progress(progress: Progress) -> None:
            update(
                completed=progress.done_s,
                total=progress.total_s,
                description=f"{title}: {progress.doing}",
            )

        yield report_progress


@contextlib.contextmanager
def points_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar over points that are measured one by one: call what it gives with how many are done, and how many there
    are."""
    with _bar(title, "{task.completed:.0f}/{task.total:.0f}") as update:
        yield (
            (lambda done, total: None)
            if update is None
            else (lambda done, total: update(completed=done, total=total))
        )


@contextlib.contextmanager
def spinner(doing: str) -> Iterator[None]:
    """Something that turns while work goes on that cannot say how far it is."""
    if not sys.stderr.isatty():
        yield
        return
    from testbed.report.terminal import Terminal

    with Terminal(stderr=True).status(doing):
        yield


@contextlib.contextmanager
def _bar(title: str, share: str) -> Iterator[Callable[..., Any] | None]:
    """rich's ``update`` of one bar; None in a pipe and on a terminal that cannot draw."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from testbed.report.terminal import Terminal

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(share, markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(title, total=1))
