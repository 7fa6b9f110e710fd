"""Liquid scheduling: a collective exchange in as few time frames as its busiest link allows.

A transfer is the set of directed links that carry it; it occupies all of them for one time frame.
Two transfers that share a link congest, so they cannot be carried in the same frame. The load of a
link is the number of transfers over it (Gabrielyan 2007, equation 1). No schedule has fewer frames
than the greatest load, which is the load of the bottleneck links (equation 2: the duration of the
traffic, here ``bottleneck_load``). A schedule with exactly this number of frames is liquid
(equation 9): in every frame it transfers the data of transfers / duration links (equation 3: the
liquid throughput), as a liquid in a network of pipes would. Some traffics have no liquid schedule.

In a liquid schedule, every frame uses every bottleneck. A set of transfers without congestion is a
simultaneity. It is a team if it uses all bottlenecks, and it is full if no transfer can be added
(equation 4). A liquid schedule is therefore a partition of the traffic into teams.

- ``exact``: the search of the thesis, which can also prove that no liquid schedule exists. Full
  simultaneities are listed once each, by splitting categories (equations 5 to 7). Teams are first
  searched among the transfers over bottlenecks, the skeleton (equation 8). Frame after frame takes
  a full team of the remaining traffic, whose bottlenecks can only become more (equations 11 to 15).
  The package also has the mixed integer programme of the thesis (equations 30 to 33).
- ``fast``: transfers that differ only in which of several interchangeable links they use form one
  class, and classes are scheduled. Weighted ejection repairs what does not fit. It finds liquid
  schedules of a million transfers; if it finds none, this proves nothing. Its module ``packing``
  packs lightpaths into bins, for wavelengths, and CP-SAT finds or refutes such a packing.
- ``baselines``, ``wormhole``: exchanges without liquid scheduling: usual sending orders, DSATUR,
  and the duration of a sending order on a wormhole network.
- ``published``: schedulers of other authors.
- ``traffic``: the traffics of networks. ``methods``: all methods by name. ``checker``: the check
  that a schedule is valid.

All functions are pure: they take values and return schedules.
"""

from typing import TYPE_CHECKING, Any

from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_schedule

if TYPE_CHECKING:
    from testbed.scheduling.fast.portfolio import liquid_schedule

__all__ = ["Traffic", "check_schedule", "liquid_schedule"]


def __getattr__(name: str) -> Any:
    """Import ``liquid_schedule`` when it is first used.

    A program that only checks schedules then does not load its compiled steps.
    """
    if name != "liquid_schedule":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed.scheduling.fast.portfolio import liquid_schedule

    return liquid_schedule
