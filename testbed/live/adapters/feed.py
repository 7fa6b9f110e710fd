"""What a run tells its live page, without ever waiting for it: a socket that drops what it cannot take, and a process
that looks.

The page's server is started before the sandbox is entered and inherits nothing of the run; the run inherits one end of
a socket pair. What the run reports itself is passed on a few times a second. Counters are read by a process of their
own at a low priority, forked when the run says how to look: the processes that are measured do nothing for the page.
Other machines are asked by a thread. Verdicts and figures of what is made of points (studies, campaigns, replications)
are made between two points, by the process that measures, and never take more than a twentieth of the time.
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

VARIABLE = "TESTBED_LIVE"
"""In the environment between the two lives of a command, before and inside the sandbox: the descriptor of the feed."""
PERIOD_S = 0.2
ASK_S = 0.5
"""Between two questions to other machines."""
_START_S, _VIEW_S, _FAREWELL_S = 20.0, 1.0, 2.0
_SEND_BUFFER = 1 << 20
NEEDED = ("aiohttp", "prometheus_client")


class Feed:
    """The run's end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.page: Path | None = None
        """Of the run's own page, once it is stored."""

    def send(self, event: Event) -> bool:
        """Whether the event went; False where there is no room for it, and it is dropped."""
        try:
            self._sock.send(encode(event), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:  # no room, too long, or nobody there: a run goes on without its page
            return False
        return True

    def open(self, view: RunView) -> None:
        """A scene is not dropped: it is sent again for up to a second, before anything is measured."""
        until = time.monotonic() + _VIEW_S
        while not self.send(view) and time.monotonic() < until:
            time.sleep(0.02)

    def close(self, outcome: str) -> None:
        """Tell how the run ended, and wait until the pages know."""
        self.send(
            RunEnded(outcome=outcome, page="" if self.page is None else str(self.page.absolute()))
        )
        self._sock.settimeout(_FAREWELL_S)
        with suppress(OSError):
            self._sock.recv(64)
        self._sock.close()


_feeds: list[Feed] = []


def start_server(view: RunView | None = None) -> str:
    """Start the process that serves the page; its address. The feed is found by ``live_feed``, here or in what this
    process becomes. ``view``: what the page shows until the run has begun.

    Raises CapabilityError where the extra is not installed, or where the server does not start.
    """
    lacking = [name for name in NEEDED if not installed(name)]
    if lacking:
        raise CapabilityError(
            f"--live: the Python package {lacking[0]} is not installed; {pip_command('live')}"
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        words = [sys.executable, "-P", "-m", "testbed.live.adapters.server", str(theirs.fileno())]
        subprocess.Popen(
            words, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
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
    """The feed of this command's live page; None without ``--live``."""
    number = os.environ.pop(VARIABLE, "")
    if number.isdigit():
        with suppress(OSError):
            sock = socket.socket(fileno=int(number))
            sock.set_inheritable(False)
            _feeds[:] = [Feed(sock)]
    return _feeds[0] if _feeds else None


def record_page_path(page: Path) -> None:
    """Where the run's own page lies: the live page names it at the end."""
    feed = live_feed()
    if feed is not None:
        feed.page = page


def end_feed(outcome: str) -> None:
    """Tell the page that the command is over."""
    feed = live_feed()
    if feed is not None:
        feed.close(outcome)
        _feeds.clear()


@contextmanager
def live_progress(title: str, view: Callable[[], RunView]) -> Iterator[ReportProgress | None]:
    """Progress of a run for whoever looks: a bar on a terminal, the live page where there is one; None where nobody
    does.

    ``scene`` is called only where there is a live page.
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
    """The live page, where there is one, of something that goes on until its user ends it; nothing on the terminal,
    which is the user's."""
    feed = live_feed()
    if feed is None:
        yield
        return
    feed.open(view())
    with LiveReport(feed, None) as report:
        report(Progress(doing=doing, read_local=look, read_remote=ask))
        yield


class LiveReport(AbstractContextManager["LiveReport"]):
    """Passes a run's reports on: to the bar all of them, to the page a few a second and whenever another fault is in
    force."""

    def __init__(self, feed: Feed, bar: ReportProgress | None) -> None:
        self._feed, self._bar = feed, bar
        self._reported_s = 0.0
        self._faults: tuple[str, ...] | None = None
        self._look: ReadCounters | None = None
        self._ask: ReadCounters | None = None
        self._looking, self._asking = ExitStack(), ExitStack()

    def __exit__(self, *_: object) -> None:
        self._looking.close()
        self._asking.close()

    def __call__(self, progress: Progress) -> None:
        if self._bar is not None:
            self._bar(progress)
        if (look := progress.read_local) is not None and look != self._look:
            self._looking.close()
            self._look = look
            self._keep_reading(look, PERIOD_S, self._looking)
        if (ask := progress.read_remote) is not None and ask != self._ask:
            self._asking.close()
            self._ask = ask
            self._keep_reading(ask, ASK_S, self._asking)
        now, reading = time.monotonic(), progress.reading
        faults = None if reading is None else reading.faults
        if now - self._reported_s < PERIOD_S and faults == self._faults:
            return
        self._reported_s, self._faults = now, faults
        done, counted = progress.done_s / (progress.total_s or 1.0), reading or CounterReading()
        self._feed.send(Sample(clock_s=now, reading=counted, done=done, doing=progress.doing))

    def _keep_reading(self, read: ReadCounters, every_s: float, until: ExitStack) -> None:
        """Read the counters in a thread and send them to the page, until the stack is closed.

        There may be nothing left to read before: the network is taken down, or a machine has died.
        """
        stop = threading.Event()

        def read_on() -> None:
            with suppress(OSError, KeyError, RuntimeError, TestbedError, ValueError):
                while not stop.wait(every_s):
                    reading = read()
                    self._feed.send(Sample(clock_s=time.monotonic(), reading=reading))

        thread = threading.Thread(target=read_on, name="live", daemon=True)
        thread.start()
        until.callback(thread.join)
        until.callback(stop.set)


_EVERY_S, _TIMES_ITS_COST = 2.0, 20.0
ShowPoints = Callable[[int, int], None]


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
