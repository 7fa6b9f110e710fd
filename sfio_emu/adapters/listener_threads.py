"""What a listener does next to its one thread: it says that it lives while a call of the disk stands still, and syncs
files.

The thread of the listener owns everything; the others only send heartbeats between answers, and call fsync. What the
listener says of refused messages and lost clients is limited, so that no client can fill a disk with it.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence

from sfio_emu.listener.ports import CallFailed, FileSync
from sfio_emu.wire import BEAT_S

LOG = logging.getLogger("sfio_emu.listener")
LINES_AT_ONCE = 5
PERIOD_S = 10.0
MAX_KINDS = 256


class LimitedLog:
    """At most LINES_AT_ONCE lines in PERIOD_S seconds of each kind and client address; how many were left out is said
    later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[tuple[str, str], list[float]] = {}  # begin of the period, lines in it

    def warn(self, kind: str, peer: str, text: str) -> None:
        """One line about the client at `peer` (address:port)."""
        now_s, key = self._clock(), (kind, peer.rpartition(":")[0])
        if len(self._counts) >= MAX_KINDS and key not in self._counts:
            key = (kind, "others")
        period = self._counts.setdefault(key, [now_s, 0])
        if now_s - period[0] > PERIOD_S:
            left_out = int(period[1]) - LINES_AT_ONCE
            if left_out > 0:
                LOG.warning("%s: %d more such lines about clients at %s were left out", kind, left_out, key[1])
            period[:] = [now_s, 0]
        period[1] += 1
        if period[1] <= LINES_AT_ONCE:
            LOG.warning("%s %s: %s", kind, peer, text)


class HeartbeatThread:
    """Calls `beat` every BEAT_S seconds while one turn of the listener lasts longer than that: its disk stands still.

    `lock` is held meanwhile. Who takes a turn calls `begin` and `end`; `end` waits for a beat under way.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True, name="heartbeats")
        self.lock = threading.Lock()
        self._beat = beat
        self._since_s = 0.0
        self._closing = threading.Event()

    def begin(self) -> None:
        self._since_s = time.monotonic()

    def end(self) -> None:
        with self.lock:
            self._since_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        slow_since_s, wait_s = 0.0, BEAT_S
        while not self._closing.wait(wait_s):
            wait_s = BEAT_S
            with self.lock:
                since_s = self._since_s
                lasts_s = time.monotonic() - since_s if since_s else 0.0
                if not since_s:
                    continue
                if lasts_s < BEAT_S:  # look again when it will have lasted so long
                    wait_s = BEAT_S - lasts_s
                    continue
                if slow_since_s != since_s:
                    LOG.warning("a call of the disk has taken more than %g s: clients are told to wait", BEAT_S)
                slow_since_s = since_s
                self._beat()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()


class SyncThread:
    """Files brought to the medium by a thread, one after the other; who asks while one is under way shares the next
    with all others that wait for the same file (group commit).

    `done(token, handle, failure)` is called in that thread for each that asked: the first that failed, or None.
    """

    def __init__(self, done: Callable[[object, int, CallFailed | None], None]) -> None:
        self._done = done
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._requested: list[tuple[object, Sequence[tuple[int, FileSync]]]] = []
        self._closing = False

    def submit(self, token: object, files: Sequence[tuple[int, FileSync]]) -> None:
        """Sync files, each named by a handle in what is said of its failure."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="syncs")
                self._thread.start()
            self._requested.append((token, files))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requested or self._closing)
                requested, self._requested = self._requested, []
            if not requested:
                return
            results = _sync_once(sync for _, files in requested for _, sync in files)
            for token, files in requested:
                failed = ((handle, results[sync.key]) for handle, sync in files if results[sync.key] is not None)
                handle, failure = next(failed, (0, None))
                self._done(token, handle, failure)

    def close(self) -> None:
        """Let what was asked end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()


def _sync_once(syncs: Iterable[FileSync]) -> dict[Hashable, CallFailed | None]:
    """Sync each file once; what failed, by file."""
    results: dict[Hashable, CallFailed | None] = {}
    for sync in syncs:
        try:
            if sync.key not in results:
                results[sync.key] = None
                sync.run()
        except CallFailed as failure:
            results[sync.key] = failure
        finally:
            sync.close()
    return results
