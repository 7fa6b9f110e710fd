"""The load that a machine can carry, and the link rate that it allows for a run of many transfers.

Theory of operation. A software switch processes every packet once for each link, so the work of a
machine in a time frame is the sum of the rates of the links that are busy in it.
``testbed doctor --calibrate`` raises the rate of a fixed set of disjoint paths until the machine
cannot keep up. The last sum with which it kept up is the load that it can carry. A run uses the
usual link rate if its own sum is well below this load, else a lower rate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.text.json_types import JsonObject

# Link rate if the machine can carry it or has not been calibrated.
USUAL_RATE_BPS = 20e6
# No lower rate is chosen, even if the machine cannot carry it.
MIN_RATE_BPS = 1e6
# The fraction of the measured load that a run may use. The rest is needed to change circuits and
# to coordinate the hosts.
SHARE = 0.7
# Link rates are one of these numbers times a power of ten.
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class MachineCapacity:
    """The measured load that a machine can carry.

    Attributes:
        link_bps: Bits per second over all links together.
        rate_bps: Rate of each link in the measurement, in bits per second.
        processors: Number of processors of the machine.
        kernel: Version of the machine's kernel.
        measured: When the load was measured, in ISO 8601.
        limit_reached: Whether the machine failed to carry a higher rate.
    """

    link_bps: float
    rate_bps: float
    processors: int
    kernel: str
    measured: str
    limit_reached: bool

    def to_json(self) -> JsonObject:
        """Return the JSON document, which ``json_values.from_json`` reads."""
        return dict(vars(self))


def busy_links(lengths: Sequence[int], frames: float) -> float:
    """Return the mean number of links that are busy at the same time.

    Args:
        lengths: Number of links of each transfer's path.
        frames: Number of time frames of all transfers.

    >>> busy_links([2, 2, 4], 2)
    4.0
    """
    return sum(lengths) / max(1, frames)


def rate_for(carried: MachineCapacity | None, busy: float) -> float:
    """Return the rate of every link in bits per second.

    It is the usual rate if the machine can carry it. Otherwise it is the largest 1, 2 or 5 times a
    power of ten that the machine can carry, but at least MIN_RATE_BPS.

    Args:
        carried: The load that the machine can carry, or None if it was not measured.
        busy: Mean number of links that are busy at the same time.

    >>> load = MachineCapacity(
    ...     link_bps=640e6, rate_bps=10e6, processors=2, kernel="x", measured="", limit_reached=True
    ... )
    >>> [rate_for(load, busy) for busy in (10, 64, 1000)], rate_for(None, 1000)
    ([20000000.0, 5000000.0, 1000000.0], 20000000.0)
    """
    if carried is None or busy <= 0:
        return USUAL_RATE_BPS
    limit_bps = SHARE * carried.link_bps / busy
    if limit_bps >= USUAL_RATE_BPS:
        return USUAL_RATE_BPS
    power = 10.0 ** math.floor(math.log10(max(limit_bps, MIN_RATE_BPS)))
    rates_bps = [step * power for step in _STEPS]
    return max(
        (rate_bps for rate_bps in rates_bps if MIN_RATE_BPS <= rate_bps <= limit_bps),
        default=MIN_RATE_BPS,
    )


def rate_description(rate_bps: float, carried: MachineCapacity | None, busy: float) -> str:
    """Return a sentence for the page of a run that explains its link rate.

    Args:
        rate_bps: The link rate in bits per second.
        carried: The load that the machine can carry, or None if it was not measured.
        busy: Mean number of links that are busy at the same time.
    """
    rate = f"links of {rate_bps / 1e6:g} Mbit/s"
    if carried is None:
        return (
            f"{rate}, the usual rate: what this machine carries was never measured "
            "(testbed doctor --calibrate)"
        )
    required = f"{busy * rate_bps / 1e6:.0f} Mbit/s over all links at once"
    measured = (
        f"{carried.link_bps / 1e6:.0f} that this machine was measured to carry ({carried.measured})"
    )
    return f"{rate}: that asks for {required}, of {measured}"
