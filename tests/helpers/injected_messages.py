"""Messages of a simulated network, written down one by one."""

from __future__ import annotations

import numpy as np

from testbed.interconnect.traffic.injection import Injections


def messages(*rows: tuple[float, int, int]) -> Injections:
    """(seconds, source, destination)."""
    return Injections(
        time_ps=np.array([round(t * 1e12) for t, _, _ in rows], dtype=np.int64),
        source=np.array([s for _, s, _ in rows], dtype=np.int32),
        destination=np.array([d for _, _, d in rows], dtype=np.int32),
    )
