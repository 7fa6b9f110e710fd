"""Progress on a terminal: a bar for a run that tells where it is, and for points that are counted; silence in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from testbed.model.progress import Progress, Tell


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Tell | None]:
    """A rich progress bar on a terminal's stderr; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def tell(progress: Progress) -> None:
            bar.update(task, completed=progress.done_s / progress.total_s, description=f"{title}: {progress.doing}")

        yield tell
