"""Sends the events of a run to its live page, without ever waiting for the page.

The server of the page is started before the sandbox is entered, and inherits nothing of the run.
The run inherits one end of a socket pair, on which messages without room are dropped. Reports of
the run are forwarded a few times per second. Threads read the counters of this machine and others.

Verdicts and figures of studies, campaigns and replications are created between two points, by the
process that measures. They take at most a twentieth of the time.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from testbed.errors import CapabilityError, TestbedError
from testbed.extras import installed, pip_command
from testbed.live.events import Event, InterimResults, RunEnded, RunView, Sample, encode
from testbed.model.progress import CounterReading, Progress, ReadCounters, ReportProgress
from testbed.report.progress_bar import points_bar, progress_bar

# A command executes itself again inside the sandbox. This environment variable then contains the
# file descriptor of the feed.
VARIABLE = "TESTBED_LIVE"
# Time between two samples.
PERIOD_S = 0.2
# Time between two requests to other machines.
ASK_S = 0.5
# Time limits for the start of the server, for sending a view, and for its last answer.
_START_S = 20.0
_VIEW_S = 1.0
_FAREWELL_S = 2.0
# Size of the socket's send buffer, in bytes.
_SEND_BUFFER = 1 << 20
NEEDED = ("aiohttp", "prometheus_client")


class Feed:
    """The run's end of the socket.

    Attributes:
        page: Path of the run's own page, once it is stored.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.page: Path | None = None

    def send(self, event: Event) -> bool:
        """Send an event, and return whether it was sent. Without room for it, it is dropped."""
        try:
            self._sock.send(encode(event), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            # No room, a message that is too long, or no server. A run continues without its page.
            return False
        return True

    def open(self, view: RunView) -> None:
        """Send a view before the measurement, and repeat it for up to a second until it is sent."""
        deadline_s = time.monotonic() + _VIEW_S
        while not self.send(view) and time.monotonic() < deadline_s:
            time.sleep(0.02)

    def close(self, outcome: str) -> None:
        """Send the outcome of the run, and wait until the pages have received it."""
        page = "" if self.page is None else str(self.page.absolute())
        self.send(RunEnded(outcome=outcome, page=page))
        self._sock.settimeout(_FAREWELL_S)
        with suppress(OSError):
            self._sock.recv(64)
        self._sock.close()


_feeds: list[Feed] = []


def start_server(view: RunView | None = None) -> str:
    """Start the process that serves the page, and return the page's address.

    ``live_feed`` then returns the feed, here or in the program that this process executes.

    Args:
        view: Contents of the page until the run has begun.

    Raises:
        CapabilityError: A package is not installed, or the server does not start.
    """
    missing = [name for name in NEEDED if not installed(name)]
    if missing:
        raise CapabilityError(
            f"--live: the Python package {missing[0]} is not installed; {pip_command('live')}"
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        argv = [sys.executable, "-P", "-m", "testbed.live.adapters.server", str(theirs.fileno())]
        subprocess.Popen(
            argv, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    ours.settimeout(_START_S)
    try:
        address = ours.recv(4096).decode()
    except OSError:
        address = ""
    if not address:
        raise CapabilityError(
            "--live: the server of the page did not start; run again without --live"
        )
    ours.settimeout(None)
    if view is not None:
        Feed(ours).open(view)
        Feed(ours).send(
            Sample(clock_s=time.monotonic(), done=0.0, doing="the network is being built")
        )
    ours.set_inheritable(True)
    os.environ[VARIABLE] = str(ours.detach())
    return address


def live_feed() -> Feed | None:
    """Return the feed of the command's live page, or None without ``--live``."""
    descriptor = os.environ.pop(VARIABLE, "")
    if descriptor.isdigit():
        # The variable may be set by accident; then the descriptor is not open.
        with suppress(OSError):
            sock = socket.socket(fileno=int(descriptor))
            sock.set_inheritable(False)
            _feeds[:] = [Feed(sock)]
    return _feeds[0] if _feeds else None


def record_page_path(page: Path) -> None:
    """Record the path of the run's own page, which the live page shows at the end."""
    feed = live_feed()
    if feed is not None:
        feed.page = page


def end_feed(outcome: str) -> None:
    """Send the page the end of the command."""
    feed = live_feed()
    if feed is not None:
        feed.close(outcome)
        _feeds.clear()


@contextmanager
def live_progress(title: str, view: Callable[[], RunView]) -> Iterator[ReportProgress | None]:
    """Show the progress of a run, with a bar on a terminal and on the live page if there is one.

    Args:
        title: Title of the bar.
        view: Returns the contents of the live page; it is called only if there is one.

    Yields:
        A function that takes the progress, or None if nothing is shown.
    """
    feed = live_feed()
    with progress_bar(title) as bar:
        if feed is None:
            yield bar
            return
        feed.open(view())
        with LiveReport(feed, bar) as report:
            yield report


@contextmanager
def live_watch(
    view: Callable[[], RunView],
    doing: str,
    look: ReadCounters | None = None,
    *,
    ask: ReadCounters | None = None,
) -> Iterator[None]:
    """Show a live page, if there is one, until the user ends the command.

    Args:
        view: Returns the contents of the page.
        doing: The current activity.
        look: Reads the counters of this machine.
        ask: Reads the counters of other machines.
    """
    feed = live_feed()
    if feed is None:
        yield
        return
    feed.open(view())
    with LiveReport(feed, None) as report:
        report(Progress(doing=doing, read_local=look, read_remote=ask))
        yield


class LiveReport(AbstractContextManager["LiveReport"]):
    """Forwards the reports of a run.

    The bar receives all of them. The page receives a few per second, and one whenever the active
    faults change.
    """

    def __init__(self, feed: Feed, bar: ReportProgress | None) -> None:
        self._feed = feed
        self._bar = bar
        self._reported_s = 0.0
        self._faults: tuple[str, ...] | None = None
        self._look: ReadCounters | None = None
        self._ask: ReadCounters | None = None
        self._looking = ExitStack()
        self._asking = ExitStack()

    def __exit__(self, *_: object) -> None:
        self._looking.close()
        self._asking.close()

    def __call__(self, progress: Progress) -> None:
        """Forward a report."""
        if self._bar is not None:
            self._bar(progress)
        look = progress.read_local
        if look is not None and look != self._look:
            self._looking.close()
            self._look = look
            self._keep_reading(look, PERIOD_S, self._looking)
        ask = progress.read_remote
        if ask is not None and ask != self._ask:
            self._asking.close()
            self._ask = ask
            self._keep_reading(ask, ASK_S, self._asking)
        now_s = time.monotonic()
        reading = progress.reading
        faults = None if reading is None else reading.faults
        if now_s - self._reported_s < PERIOD_S and faults == self._faults:
            return
        self._reported_s = now_s
        self._faults = faults
        done = progress.done_s / (progress.total_s or 1.0)
        counters = reading or CounterReading()
        self._feed.send(Sample(clock_s=now_s, reading=counters, done=done, doing=progress.doing))

    def _keep_reading(self, read: ReadCounters, every_s: float, until: ExitStack) -> None:
        """Read the counters in a thread and send them to the page, until the stack is closed.

        Reading ends earlier if it fails, because the network is removed or a machine has died.
        """
        stop = threading.Event()

        def read_repeatedly() -> None:
            with suppress(OSError, KeyError, RuntimeError, TestbedError, ValueError):
                while not stop.wait(every_s):
                    reading = read()
                    self._feed.send(Sample(clock_s=time.monotonic(), reading=reading))

        thread = threading.Thread(target=read_repeatedly, name="live", daemon=True)
        thread.start()
        until.callback(thread.join)
        until.callback(stop.set)


# Interim results are computed at most this often, and take at most a twentieth of the time.
_EVERY_S = 2.0
_TIMES_ITS_COST = 20.0
# Takes the number of completed points and the number of all points.
ShowPoints = Callable[[int, int], None]


@contextmanager
def points_shown(title: str, find: Callable[[], InterimResults]) -> Iterator[ShowPoints]:
    """Show the points of a study, with a bar on a terminal and on the live page if there is one.

    Args:
        title: Title of the bar and the page.
        find: Returns the interim results for the page. It may fail, because a verdict or a figure
            may need points that are not measured yet.

    Yields:
        A function that takes the number of completed points and the number of all points.
    """
    feed = live_feed()
    with points_bar(title) as show:
        page = None if feed is None else PointsPage(feed, title, find)

        def both(done: int, total: int) -> None:
            show(done, total)
            if page is not None:
                page.show(done, total)

        yield both


class PointsPage:
    """Sends the points of a study to a live page."""

    def __init__(self, feed: Feed, title: str, find: Callable[[], InterimResults]) -> None:
        self._feed = feed
        self._find = find
        self._not_before_s = 0.0
        feed.open(RunView(title=title, network={}))

    def show(self, completed: int, total: int, doing: str | None = None) -> None:
        """Send the number of points, and interim results unless the last ones are too recent.

        Args:
            completed: Completed points.
            total: All points.
            doing: The current activity; by default, the number of points.
        """
        began_s = time.monotonic()
        if not doing:
            doing = f"{completed} of {total} points"
            if completed == total:
                doing = "all points are there"
        self._feed.send(Sample(clock_s=began_s, done=completed / max(1, total), doing=doing))
        if not completed or (began_s < self._not_before_s and completed < total):
            return
        try:
            results = self._find()
        except Exception:  # noqa: BLE001 - an error that remains is reported with the final results
            results = InterimResults()
        if results != InterimResults():
            self._feed.send(results)
        ended_s = time.monotonic()
        self._not_before_s = ended_s + max(_EVERY_S, _TIMES_ITS_COST * (ended_s - began_s))
