"""The duration of a scheduled exchange over links of different capacities."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from testbed.arrays import FloatArray
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic


@dataclass(frozen=True, kw_only=True)
class ExchangeTime:
    """Durations of an exchange of messages of one size.

    Attributes:
        seconds: Duration of the schedule in seconds, if each frame lasts as long as its slowest
            transfer.
        routed_bound_s: Time of the busiest link in seconds. No schedule over the same routes is
            shorter.
        slowest_bps: Capacity of the slowest link in use, in bits per second.
        fastest_bps: Capacity of the fastest link in use, in bits per second.
    """

    seconds: float
    routed_bound_s: float
    slowest_bps: float
    fastest_bps: float

    @property
    def unequal(self) -> bool:
        """True if the links in use have different capacities."""
        return self.slowest_bps != self.fastest_bps


def exchange_time(
    traffic: Traffic, schedule: Schedule, capacities_bps: Mapping[str, float], message_bytes: float
) -> ExchangeTime:
    """Return the duration of a schedule of messages of one size.

    Args:
        traffic: The traffic; each transfer is one of ``traffic.parts`` equal parts of a message.
        schedule: The schedule.
        capacities_bps: Capacity of each link in bits per second, by the link's name.
        message_bytes: Size of each message in bytes.

    >>> traffic = Traffic.from_transfers([["a", "slow"], ["b", "fast"]])
    >>> schedule = Schedule.of_frames([[0], [1]], 1, method="by hand")
    >>> rates = {"a": 2e6, "b": 2e6, "slow": 1e6, "fast": 2e6}
    >>> exchange_time(traffic, schedule, rates, 125_000).seconds
    1.5
    """
    capacity: FloatArray = np.array([capacities_bps[link] for link in traffic.links])
    part_bits = message_bytes * 8 / traffic.parts
    transfer_s = part_bits / np.minimum.reduceat(capacity[traffic.indices], traffic.offsets[:-1])
    frame_s = np.zeros(schedule.length)
    np.maximum.at(frame_s, schedule.frame_of, transfer_s)
    return ExchangeTime(
        seconds=float(frame_s.sum()),
        routed_bound_s=float((traffic.loads * part_bits / capacity).max()),
        slowest_bps=float(capacity.min()),
        fastest_bps=float(capacity.max()),
    )
