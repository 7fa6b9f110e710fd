"""What a listener does next to its one thread: it syncs files and reads folders. The thread of the listener owns
everything; the others only work for it. What it says of refused messages and lost clients is limited, so that no client
can fill a disk with it."""

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor

from sfio_emu.listener.ports import Answer, CallFailed, FileSync, failed

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


class WorkThreads:
    """Work that takes longer than a turn of the listener: files brought to the medium by one thread, anything else by
    another. Who requests a sync while one is under way shares the next with all others that wait for the same file
    (group commit).

    `done(token, answer)` is called in these threads for each request.
    """

    def __init__(self, done: Callable[[object, Answer], None]) -> None:
        self._done = done
        self._syncs, self._others = ThreadPoolExecutor(1, "syncs"), ThreadPoolExecutor(1, "names")
        self._requested: deque[tuple[object, FileSync]] = deque()

    def submit(self, token: object, work: Callable[[], Answer]) -> None:
        """Do work that gives its answer, and raises nothing."""
        self._others.submit(lambda: self._done(token, work()))

    def sync(self, token: object, file: FileSync) -> None:
        """Sync a file."""
        self._requested.append((token, file))
        self._syncs.submit(self._sync_all)

    def _sync_all(self) -> None:
        requested = [self._requested.popleft() for _ in range(len(self._requested))]
        results = _sync_once(sync for _, sync in requested)
        for token, sync in requested:
            failure = results[sync.key]
            self._done(token, Answer() if failure is None else failed(failure))

    def close(self) -> None:
        """Wait for the requested work."""
        for pool in (self._syncs, self._others):
            pool.shutdown()


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
