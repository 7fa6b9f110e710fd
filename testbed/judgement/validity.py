"""Reasons why a run is invalid, because it measured the machine and not the network.

Each function returns a reason as text, or None.
"""

import numpy as np

from testbed.arrays import FloatArray
from testbed.model.machine.load import LOWER_PACKET_RATE, overload_message

# Share of a run's packets that the machine may drop, or that may be lost in no planned fault. This
# is two orders of magnitude below the precision with which losses are compared.
MAX_UNPLANNED = 1e-4

NOTHING_SENT = "no packet was sent"


def first_reason(*reasons: str | None) -> str | None:
    """Return the first reason that there is."""
    return next(filter(None, reasons), None)


def lost_in_no_fault(lost: int, sent: int, max_share: float = MAX_UNPLANNED) -> str | None:
    """Return a reason if more than this share of the packets was lost outside all faults.

    >>> lost_in_no_fault(2, 10_000)
    '2 of 10000 packets were lost in no planned fault'
    """
    if lost <= max_share * sent:
        return None
    return f"{lost} of {sent} packets were lost in no planned fault"


def dropped_reason(
    drops: int, packets: int, where: str, hint: str = LOWER_PACKET_RATE
) -> str | None:
    """Return a reason if the machine dropped too many of the packets.

    >>> dropped_reason(2, 20_000, "at a full socket")
    >>> dropped_reason(3, 20_000, "at a full socket", "wait")
    'the machine could not keep up: 3 packets were dropped at a full socket; wait'
    """
    if drops <= MAX_UNPLANNED * packets:
        return None
    return overload_message(f"{drops} packets were dropped {where}", hint)


def arrived_early(transit_s: FloatArray, percentile: float, limit_s: float) -> str | None:
    """Return a reason if packets arrived before they were sent.

    Args:
        transit_s: The times in transit of the packets that arrived.
        percentile: The percentile of these times that is compared with the limit, 0 to 100.
        limit_s: How many seconds this percentile may be below 0.
    """
    if not len(transit_s):
        return None
    early_s = -float(np.percentile(transit_s, percentile))
    if early_s <= limit_s:
        return None
    return f"packets arrived {1000 * early_s:.1f} ms before they were sent"
