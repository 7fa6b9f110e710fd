"""When faults and route changes of a plan really happened: seconds since the run's start, on its one clock."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.faults.fault import Fault
from testbed.model.verdict import Check
from topologies.network import label_of


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


@dataclass(frozen=True, kw_only=True)
class KilledProcess:
    """The process of a node (a receiver, the listener of an I/O node) is killed ``at_s`` seconds after the start."""

    node: str
    at_s: float


def injection_times(faults: Sequence[Fault], killed: Sequence[KilledProcess] = ()) -> tuple[tuple[str, float], ...]:
    """(what breaks, when it begins in seconds) of every fault and every killed process."""
    return (*((label_of(f.link), f.start_s) for f in faults), *((k.node, k.at_s) for k in killed))


def injection_check(moments: Sequence[tuple[str, float]], over_s: float, run: str = "the run") -> tuple[Check, ...]:
    """One check where faults were requested, none where not: that the run went on until the last of them had begun.

    ``moments``: what breaks, and when it begins, in seconds after the start; ``over_s``: when the run was over. A run
    that was over sooner cannot tell: it has not failed, and not passed either.
    """
    if not moments:
        return ()
    what, begins_s = max(moments, key=lambda moment: moment[1])
    arrived = over_s > begins_s
    return (
        Check(
            name=f"every fault came while {run} went on, s",
            key="faults-came",
            predicted=begins_s,
            measured=over_s,
            passed=arrived,
            relation="at-least",
            unsure=not arrived,
            detail=""
            if arrived
            else f"it was over after {over_s:.2f} s, before {what} at {begins_s:g} s: make it longer",
        ),
    )
