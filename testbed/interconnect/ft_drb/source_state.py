"""The state of FT-DRB's sources as arrays: link faults lists and metapaths."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.engine_inputs import FtDrbSettings
from testbed.interconnect.static_paths import Paths

# Indices of the counters. COUNTER_NAMES are their names in results.
NOTIFICATIONS, LATENCIES, MARKED, CLEARED, CONFIGURED, GROWN, SHRUNK = range(7)
PROBES, DIRECT, ALTERNATIVE, ESCAPES, NO_WAY, BALANCED = range(7, 13)
"""Places of the counters; COUNTER_NAMES are their names in results."""
COUNTER_NAMES = [
    "notifications",
    "latencies",
    "marked_permanent",
    "cleared",
    "metapaths_configured",
    "metapaths_grown",
    "metapaths_shrunk",
    "probes",
    "sent_direct",
    "sent_alternative",
    "escapes",
    "escapes_without_way",
    "sent_balanced",
]


class SourceState(NamedTuple):
    """The state of all sources, as arrays for compiled code.

    The shapes below are named by their indices: s is a source, c a cable, and a pair is s * H + d
    for source s and destination d of H hosts.

    Attributes:
        notified: (s, c) Number of consecutive failure notifications, at most 255. If it is 0, the
            cable is not in the link faults list.
        permanent: (s, c) 1 if the failure counts as permanent.
        notified_at: (s, c) Tick of the first notification in the list. 1 x 1 if marking needs no
            clock.
        permanents: (s) Number of failures that count as permanent.
        listed: (s) Number of cables in the list.
        version: (s) Number of changes of its permanent failures.
        since_probe: (s) Messages since the last probe that a permanent failure diverted from the
            minimal path.
        probed_at: (s) Tick of the last probe.
        probe_due: (s) 1 if a synthetic probe follows the message whose path was chosen last.
        configured: (pair) Version of the source when the metapath was configured, plus 1; 0: never.
        known: (pair) Number of paths of its metapath.
        active: (pair) Number of paths in use, which are the first ones.
        first_middle: (pair, path) The first intermediate router, or NONE.
        second_middle: (pair, path) The second intermediate router, or NONE.
        latency: (pair, path) Mean of its latencies, in ticks; the zero-load latency until the first
            ACK. For a pair whose metapath was never configured, entry 0 is the minimal path.
        measured: (pair) Bit k is 1 if an ACK has reported the latency of path k.
        signature: (path) A number that distinguishes the paths of the metapath that is being
            configured.
        fresh: (pair) Bit k is 1 if an ACK has reported the latency of path k since the metapath
            last changed its size.
        counters: Number of events of each kind, by the indices above.
    """

    notified: IntArray
    permanent: IntArray
    notified_at: IntArray
    permanents: IntArray
    listed: IntArray
    version: IntArray
    since_probe: IntArray
    probed_at: IntArray
    probe_due: IntArray
    configured: IntArray
    known: IntArray
    active: IntArray
    first_middle: IntArray
    second_middle: IntArray
    latency: IntArray
    measured: IntArray
    signature: IntArray
    fresh: IntArray
    counters: IntArray


class FtDrb(NamedTuple):
    """All data that FT-DRB's steps read and write."""

    paths: Paths
    state: SourceState
    settings: FtDrbSettings


def build_state(paths: Paths, settings: FtDrbSettings) -> SourceState:
    """Return the state of sources that know of no failure.

    The arrays have at most H x H x paths entries. They are zero, so the kernel provides memory only
    for the pairs that are used.
    """
    hosts = len(paths.host_router)
    cables = int(paths.cable.max()) + 1
    pairs = hosts * hosts
    sizes = dict.fromkeys(("configured", "known", "active", "measured", "fresh"), pairs)
    sizes |= dict.fromkeys(("permanents", "listed", "version", "since_probe", "probed_at"), hosts)
    sizes |= {"signature": settings.paths, "counters": len(COUNTER_NAMES)}
    clock_shape = (hosts, cables) if settings.mark_by_clock else (1, 1)
    return SourceState(
        **{name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()},
        notified=np.zeros((hosts, cables), dtype=np.uint8),
        permanent=np.zeros((hosts, cables), dtype=np.uint8),
        notified_at=np.zeros(clock_shape, dtype=np.int64),
        probe_due=np.zeros(hosts, dtype=np.uint8),
        first_middle=np.zeros((pairs, settings.paths), dtype=np.int32),
        second_middle=np.zeros((pairs, settings.paths), dtype=np.int32),
        latency=np.zeros((pairs, settings.paths), dtype=np.int64),
    )


def max_entries(state: SourceState) -> Mapping[str, int]:
    """Return the largest number of paths, and of listed cables, that one source stores."""
    by_source = state.known.reshape(len(state.listed), -1)
    return {"paths": int(by_source.sum(axis=1).max()), "cables": int(state.listed.max())}


def count_events(state: SourceState) -> Mapping[str, int]:
    """Return the number of events by name."""
    return {name: int(value) for name, value in zip(COUNTER_NAMES, state.counters, strict=True)}
