"""Liquid scheduling: a collective exchange in as few time frames as its busiest link allows.

Theory of operation. A transfer is the set of directed links that carry it; it holds all of them for one time frame. Two
transfers that share a link cannot be carried at once: they congest. The load of a link is the number of transfers over
it (Gabrielyan 2007, eq. 1), and no schedule has fewer frames than the greatest load, that of the bottleneck links (eq.
2: the duration of the traffic, here ``bottleneck_load``). A schedule of exactly so many frames is liquid (eq. 9): it
moves transfers / duration links' worth of data in every frame (eq. 3: the liquid throughput), as a liquid would. Some
traffics have none.

In a liquid schedule every frame uses every bottleneck. A set of transfers without congestion is a simultaneity; it is a
team where it uses all bottlenecks, and full where no transfer can be added (eq. 4). So a liquid schedule is a partition
into teams.

- ``exact``: the thesis' search, which can also prove that no liquid schedule exists. Full simultaneities are listed
  once each, by splitting categories (eq. 5 to 7); teams are sought among the transfers over bottlenecks first, the
  skeleton (eq. 8); frame after frame takes a full team of the traffic that is left, whose bottlenecks only grow in
  number (eq. 11 to 15). And the thesis' mixed integer programme (eq. 30 to 33).
- ``fast``: transfers that only differ in alike links are one class, scheduled as one; what does not fit is put right by
  weighted ejection. It finds liquid schedules of a million transfers; that it finds none proves nothing.
- ``packing``: bins of lightpaths, for wavelengths; CP-SAT, which finds or refutes.
- ``baselines``, ``wormhole``: what is done without: usual orders of sending, DSATUR, and what an order takes on a
  wormhole network.
- ``traffic``: the traffics of networks; ``methods``: all methods by name; ``checker``: whether a schedule is one.

Pure: values in, schedules out.
"""

from typing import Any

from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule

__all__ = ["Traffic", "check_schedule", "liquid_schedule"]


def __getattr__(name: str) -> Any:
    """``liquid_schedule``, imported when requested: its compiled steps are not needed by who only checks a schedule."""
    if name != "liquid_schedule":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed.scheduling.fast.portfolio import liquid_schedule

    return liquid_schedule
