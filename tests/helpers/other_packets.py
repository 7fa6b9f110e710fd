"""A fabric that loses other packets than the labels say: what would be measured if a failure did not take the labels of
its links."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import uncounted


class OtherPackets(SimulatedStreamFabric):
    """A network that loses other packets than the labels say.

    The number and times of losses remain, except that a share of them hits the packet that was
    sent ``by`` packets later.
    """

    def __init__(self, by: int, share: float) -> None:
        super().__init__()
        self._by, self._share = by, share

    def run(self, plan: StreamPlan, progress: Any = None) -> StreamMeasurements:
        run = super().run(plan, progress)
        lost = run.lost
        moved = np.flatnonzero(lost)
        moved = moved[: max(1, round(self._share * len(moved)))]
        lost[moved] = False
        lost[(moved + self._by) % len(lost)] = True
        sent, there = run.sent, ~lost
        late_s = float(np.median(run.received.time_s - sent.time_s[~run.lost]))
        received = replace(
            run.received,
            time_s=sent.time_s[there] + late_s,
            block=sent.block[there],
            symbol=sent.symbol[there],
        )
        return replace(uncounted(run), received=received)
