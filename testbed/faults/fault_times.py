"""When faults and route changes of a plan really happened: seconds since the run's start, on its one clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.faults.fault import Fault


@dataclass(frozen=True, kw_only=True)
class FaultTimes:
    """When a fault of the plan was really in force (the moment the link's state had changed, both ways)."""

    fault: Fault
    start_s: float
    stop_s: float
    port_status_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeTimes:
    """When a route change of the plan really happened. ``began_s``: the first link was touched; ``links_s``: all links
    that vanish had gone; between ``switch_start_s`` and ``switch_stop_s`` new packets passed from the old split to the
    new one; ``done_s``: nothing of the old one was left. ``recomputed_s``: time to route and split again, of the
    change's time."""

    began_s: float
    links_s: float
    switch_start_s: float
    switch_stop_s: float
    done_s: float
    recomputed_s: float = 0.0
    rules: int = 0


def names_of_faults(planned: Sequence[Fault], arrived: Sequence[FaultTimes]) -> list[str]:
    """Which of the planned faults each that came is, as checks say what they are about: "fault:3" for ``planned[3]``.

    Of planned faults that are equal, each is named once, in order.
    """
    left, names = list(enumerate(planned)), []
    for times in arrived:
        entry = next(entry for entry in left if entry[1] == times.fault)
        left.remove(entry)
        names.append(f"fault:{entry[0]}")
    return names
