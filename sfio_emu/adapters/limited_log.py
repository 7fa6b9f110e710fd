"""What a listener logs of refused messages and lost clients, limited so that no client can fill a disk with it."""

import logging
import time
from collections.abc import Callable

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
