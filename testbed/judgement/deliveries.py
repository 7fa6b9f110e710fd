"""The log of a sender compared with the log of a receiver."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from testbed.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Deliveries:
    """Arrivals of the packets that were sent.

    All arrays have the shape (sent,) and the order of the sender's log.

    Attributes:
        copies: The number of copies that arrived.
        arrived_s: When the first copy arrived; nan if none did.
        transit_s: The time from sending to that arrival; nan if none did.
    """

    copies: IntArray
    arrived_s: FloatArray
    transit_s: FloatArray

    @cached_property
    def lost(self) -> BoolArray:
        """A mask of the packets that never arrived."""
        return np.asarray(self.copies == 0)


def packet_deliveries(
    sent_key: NDArray[Any],
    sent_s: FloatArray,
    received_key: NDArray[Any],
    received_s: FloatArray,
) -> Deliveries:
    """Compare what was sent with what was received.

    Cost: O((n + m) log (n + m)) for n packets sent and m packets received.

    Args:
        sent_key: The identity of each packet sent: a number, or a row of a structured array.
        sent_s: When each was sent.
        received_key: The identity of each packet received, of the same type.
        received_s: When each was received, in any order.
    """
    both = np.concatenate((sent_key, received_key))
    keys, index = np.unique(both, return_inverse=True)
    sent_index = index[: len(sent_key)]
    received_index = index[len(sent_key) :]
    copies = np.bincount(received_index, minlength=len(keys))
    first_s = np.full(len(keys), np.nan)
    np.fmin.at(first_s, received_index, received_s)
    arrived_s = first_s[sent_index]
    return Deliveries(
        copies=copies[sent_index],
        arrived_s=arrived_s,
        transit_s=arrived_s - sent_s,
    )
