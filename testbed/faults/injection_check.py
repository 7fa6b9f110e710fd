"""Whether faults that were requested came at all: a run that was over before them says nothing about them."""

from collections.abc import Sequence
from typing import Protocol

from testbed.faults.fault import Fault
from testbed.model.verdict import Check
from topologies.network import label_of


class ProcessKill(Protocol):
    """A process that is ended: of a node, at a moment."""

    @property
    def node(self) -> str: ...
    @property
    def at_s(self) -> float: ...


def injection_times(faults: Sequence[Fault], killed: Sequence[ProcessKill] = ()) -> tuple[tuple[str, float], ...]:
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
            tolerance=None,
            passed=arrived,
            relation="at-least",
            unsure=not arrived,
            detail=""
            if arrived
            else f"it was over after {over_s:.2f} s, before {what} at {begins_s:g} s: make it longer",
        ),
    )
