"""How hard a run was on the machine that carried it: what says whether it kept up, whatever the run achieved."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Strain:
    """``cpu_fraction``: busy time of all processors, 0 to 1, with what a hypervisor took for other machines
    (``stolen_fraction``). ``stalled_fraction``: of the time in which some runnable task waited
    for a processor (None where the kernel does not tell). ``busiest_task`` ran for ``busiest_task_fraction`` of the time: at 1
    it could do no more. ``mean_lateness_s``, ``worst_lateness_s``: of a thread that wants to wake every few milliseconds."""

    cpu_fraction: float
    stolen_fraction: float
    stalled_fraction: float | None
    busiest_task: str
    busiest_task_fraction: float
    mean_lateness_s: float
    worst_lateness_s: float
