"""What the sources of FT-DRB remember, as arrays for compiled code: the link faults list and the metapath of every
pair."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from testbed.arrays import IntArray
from testbed.interconnect.engine_inputs import FtDrbSettings
from testbed.interconnect.static_paths import Paths

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
    """Indexed by source s, by source and cable (s, c), by pair s * H + d of source and destination, or by pair and
    path."""

    notified: IntArray
    """(s, c): failure notifications in a row, at most 255; 0: the cable is not in the link faults list."""
    permanent: IntArray
    """(s, c): 1 where the failure counts as permanent."""
    notified_at: IntArray
    """(s, c): tick of the first notification in the list; 1 x 1 where marking needs no clock."""
    permanents: IntArray
    """(s): how many failures count as permanent."""
    listed: IntArray
    """(s): how many cables are in the list."""
    version: IntArray
    """(s): how often its permanent failures have changed."""
    since_probe: IntArray
    """(s): messages since the last probe that a permanent failure turned off the minimal path."""
    probed_at: IntArray
    """(s): tick of the last probe."""
    probe_due: IntArray
    """(s): 1 where a synthetic probe is to follow the message whose path was chosen last."""
    configured: IntArray
    """(pair): the source's version when the metapath was configured, plus 1; 0: never."""
    known: IntArray
    """(pair): how many paths its metapath has."""
    active: IntArray
    """(pair): how many of them are in use, the first ones."""
    first_middle: IntArray
    """(pair, path): the first intermediate router, or NONE."""
    second_middle: IntArray
    """(pair, path): the second intermediate router, or NONE."""
    latency: IntArray
    """(pair, path): the mean of its latencies, ticks; the zero-load latency until an ACK tells. A pair whose metapath
    was never configured keeps that of its minimal path at 0."""
    measured: IntArray
    """(pair): bit k is 1 where an ACK has told the latency of path k."""
    signature: IntArray
    """(path): what tells apart the paths of the metapath that is being configured."""
    fresh: IntArray
    """(pair): bit k is 1 where one has since the metapath last changed its size."""
    counters: IntArray
    """What happened, by the places above."""


class FtDrb(NamedTuple):
    """All that FT-DRB's steps read and write."""

    paths: Paths
    state: SourceState
    settings: FtDrbSettings


def build_state(paths: Paths, settings: FtDrbSettings) -> SourceState:
    """Sources that know of no failure. Memory is taken as pairs are used (H x H x paths entries at most)."""
    hosts = len(paths.host_router)
    cables = int(paths.cable.max()) + 1
    pairs = hosts * hosts
    whole = dict.fromkeys(("configured", "known", "active", "measured", "fresh"), pairs)
    whole |= dict.fromkeys(("permanents", "listed", "version", "since_probe", "probed_at"), hosts)
    whole |= {"signature": settings.paths, "counters": len(COUNTER_NAMES)}
    return SourceState(
        **{name: np.zeros(size, dtype=np.int64) for name, size in whole.items()},
        notified=np.zeros((hosts, cables), dtype=np.uint8),
        permanent=np.zeros((hosts, cables), dtype=np.uint8),
        notified_at=np.zeros((hosts, cables) if settings.mark_by_clock else (1, 1), dtype=np.int64),
        probe_due=np.zeros(hosts, dtype=np.uint8),
        first_middle=np.zeros((pairs, settings.paths), dtype=np.int32),
        second_middle=np.zeros((pairs, settings.paths), dtype=np.int32),
        latency=np.zeros((pairs, settings.paths), dtype=np.int64),
    )


def most_entries(state: SourceState) -> Mapping[str, int]:
    """How many paths of metapaths, and cables of its link faults list, the source holds that holds the most."""
    by_source = state.known.reshape(len(state.listed), -1)
    return {"paths": int(by_source.sum(axis=1).max()), "cables": int(state.listed.max())}


def count_events(state: SourceState) -> Mapping[str, int]:
    """What happened, by name."""
    return {name: int(value) for name, value in zip(COUNTER_NAMES, state.counters, strict=True)}
