"""Progress bars and a spinner on stderr.

They print nothing if stderr is not a terminal. rich is imported only when something is drawn, so
that a command in a pipe does not wait for the import.
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
    """Show a bar that fills with the completed share of the run.

    Yields:
        A function that takes the progress of the run, or None if nothing is drawn.
    """
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
    """Show a bar that counts the points of a study.

    Yields:
        A function that takes the number of completed points and the number of all points.
    """
    with _bar(title, "{task.completed:.0f}/{task.total:.0f}") as update:

        def report_points(done: int, total: int) -> None:
            if update is not None:
                update(completed=done, total=total)

        yield report_points


@contextlib.contextmanager
def spinner(doing: str) -> Iterator[None]:
    """Show a spinner during work that cannot report its progress."""
    if not sys.stderr.isatty():
        yield
        return
    from testbed.report.terminal import Terminal

    with Terminal(stderr=True).status(doing):
        yield


@contextlib.contextmanager
def _bar(title: str, progress_format: str) -> Iterator[Callable[..., Any] | None]:
    """Show a bar, and yield the function of rich that updates it.

    It is None in a pipe, and on a terminal that cannot draw.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from testbed.report.terminal import Terminal

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(progress_format, markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task(title, total=1))
