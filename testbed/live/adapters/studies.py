"""The live page of what is made of points (studies, campaigns, replications): how far it is, the verdicts so far, the
figures so far.

Verdicts and figures are made between two points, by the process that measures, and never take more than a twentieth of
the time.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from testbed.live.adapters.feed import Feed, live_feed
from testbed.live.events import InterimResults, RunView, Sample
from testbed.report.progress_bar import points_bar

_EVERY_S, _TIMES_ITS_COST = 2.0, 20.0
ShowPoints = Callable[[int, int], None]
Outcomes = Sequence[tuple[str, str]]


@contextmanager
def points_shown(title: str, find: Callable[[], InterimResults]) -> Iterator[ShowPoints]:
    """Call what it gives with how many points are done and how many there are: a bar on a terminal, and the live page
    where there is one. ``find`` is called only there, and may fail: a verdict or a figure may need points that are
    still to come."""
    feed = live_feed()
    with points_bar(title) as show:
        page = None if feed is None else PointsPage(feed, title, find)

        def both(done: int, total: int) -> None:
            show(done, total)
            if page is not None:
                page.show(done, total)

        yield both


class PointsPage:
    """Tells a live page of points."""

    def __init__(self, feed: Feed, title: str, find: Callable[[], InterimResults]) -> None:
        self._feed, self._find = feed, find
        self._not_before_s = 0.0
        feed.open(RunView(title=title, network={}))

    def show(self, done: int, total: int, doing: str | None = None) -> None:
        """``doing``: words for what is done now."""
        began = time.monotonic()
        words = doing or ("all points are there" if done == total else f"{done} of {total} points")
        self._feed.send(Sample(clock_s=began, done=done / max(1, total), doing=words))
        if not done or (began < self._not_before_s and done < total):
            return
        try:
            found = self._find()
        except Exception:  # noqa: BLE001 - what fails with some of the points is left to the end, when it is made of all
            found = InterimResults()
        if found != InterimResults():
            self._feed.send(found)
        ended = time.monotonic()
        self._not_before_s = ended + max(_EVERY_S, _TIMES_ITS_COST * (ended - began))
