"""What a machine has been measured to carry, and the rate of links that follows from it for a run of many transfers at
once.

Theory of operation. A switch in software moves every packet once a link, so that what a machine must do in a time frame
is the sum, over the links that are busy in it, of their rates. ``testbed doctor --calibrate`` raises the rate of a
fixed set of disjoint paths until the machine no longer keeps up; the last sum that it kept up with is the load that it
carries. A run gets the usual rate where its own sum is well below that, and a lower one where not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.text.json_types import JsonObject

USUAL_RATE_BPS = 20e6
"""Of links, where the machine carries it or has not been calibrated."""
MIN_RATE_BPS = 1e6
SHARE = 0.7
"""Of the carried load, what a run may ask of the machine: circuits that change, and coordination, cost next to the
packets."""
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class MachineCapacity:
    """``link_bps``: bits a second over all links together, measured with links of ``rate_bps``; ``processors``,
    ``kernel``: of the machine that it holds for; ``measured``: when, as ISO 8601; ``limit_reached``: whether a higher
    rate was tried in vain."""

    link_bps: float
    rate_bps: float
    processors: int
    kernel: str
    measured: str
    limit_reached: bool

    def to_json(self) -> JsonObject:
        """JSON-ready; ``json_values.from_json`` reads it back."""
        return dict(vars(self))


def busy_links(lengths: Sequence[int], frames: float) -> float:
    """Links that are busy at once on average: ``lengths`` of the transfers' paths in links, over ``frames`` time
    frames.

    >>> busy_links([2, 2, 4], 2)
    4.0
    """
    return sum(lengths) / max(1, frames)


def rate_for(carried: MachineCapacity | None, busy: float) -> float:
    """Bits a second of every link: the usual rate, or the next lower 1, 2 or 5 times a power of ten that the machine
    carries.

    >>> load = MachineCapacity(link_bps=640e6, rate_bps=10e6, processors=2, kernel="x", measured="", limit_reached=True)
    >>> [rate_for(load, busy) for busy in (10, 64, 1000)], rate_for(None, 1000)
    ([20000000.0, 5000000.0, 1000000.0], 20000000.0)
    """
    if carried is None or busy <= 0:
        return USUAL_RATE_BPS
    most = SHARE * carried.link_bps / busy
    if most >= USUAL_RATE_BPS:
        return USUAL_RATE_BPS
    power = 10.0 ** math.floor(math.log10(max(most, MIN_RATE_BPS)))
    return max(
        (step * power for step in _STEPS if MIN_RATE_BPS <= step * power <= most),
        default=MIN_RATE_BPS,
    )


def rate_description(rate_bps: float, carried: MachineCapacity | None, busy: float) -> str:
    """Where a run's link rate comes from, in one sentence for its page."""
    rate = f"links of {rate_bps / 1e6:g} Mbit/s"
    if carried is None:
        return f"{rate}, the usual rate: what this machine carries was never measured (testbed doctor --calibrate)"
    load = f"{busy * rate_bps / 1e6:.0f} Mbit/s over all links at once"
    most = (
        f"{carried.link_bps / 1e6:.0f} that this machine was measured to carry ({carried.measured})"
    )
    return f"{rate}: that asks for {load}, of {most}"
