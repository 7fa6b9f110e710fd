"""The load of a machine during a run, and the rule by which it kept up or did not.

If the machine could not keep up, the run shows nothing about the network, and its verdict is
invalid. Only figures of the machine decide this, never the results of the run. Each workload sets
the limits that it tolerates (``MachineLoadLimits``). Delays of a run are compared with what its
checks tolerate according to their own theory (``TimingError``). These limits are derived from the
check, never from the results of earlier runs.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MachineLoad:
    """The load of a machine during a run. Fractions are from 0 to 1.

    Attributes:
        cpu_fraction: Fraction of all processors that the run used or waited for, including
            ``stolen_fraction``. Programs of lower priority are not counted, because they give way
            at once.
        stolen_fraction: Fraction of the processors that a hypervisor gave to other machines.
        pressure_fraction: Fraction of the time in which a runnable task waited for a processor.
            None if the kernel does not report it.
        busiest_task: Name of the task that ran for the longest time.
        busiest_task_fraction: Fraction of the time in which this task ran. At 1 it is the
            bottleneck.
        mean_lateness_s: Mean delay of a thread that sleeps for a few milliseconds at a time.
        worst_lateness_s: Largest delay of this thread.
    """

    cpu_fraction: float
    stolen_fraction: float
    pressure_fraction: float | None
    busiest_task: str
    busiest_task_fraction: float
    mean_lateness_s: float
    worst_lateness_s: float


@dataclass(frozen=True, kw_only=True)
class MachineLoadLimits:
    """Limits of the load in a valid run, by the fields of ``MachineLoad``. None: no limit."""

    stolen_fraction: float | None = None
    worst_lateness_s: float | None = None
    mean_lateness_s: float | None = None
    cpu_fraction: float | None = None
    busiest_task_fraction: float | None = None


LOWER_LINK_RATE = "lower --link-rate, or leave the machine to this run"
LOWER_PACKET_RATE = "lower --packet-rate, or leave the machine to this run"


def overload_reason(
    strains: Sequence[MachineLoad],
    limits: MachineLoadLimits,
    seconds: float,
    hint: str = LOWER_LINK_RATE,
) -> str | None:
    """Return why the machine could not keep up, or None if it could.

    The reason is the first limit that the median load reaches.

    Args:
        strains: Loads of one run, or of several runs that are judged together.
        limits: The limits.
        seconds: How long the run took.
        hint: What the user can do.
    """
    stolen_limit = limits.stolen_fraction or 0
    # The placeholders are the value itself, and its thousandfold: milliseconds.
    reasons = (
        (
            "stolen_fraction",
            f"other machines had {{0:.0%}} of its processors (limit {stolen_limit:.0%})",
        ),
        ("worst_lateness_s", f"it stood still for {{1:.0f}} ms of {seconds:.2f} s"),
        ("mean_lateness_s", "a thread woke {1:.1f} ms late on average"),
        ("cpu_fraction", "its processors were busy for {0:.0%} of the time"),
        ("busiest_task_fraction", "its busiest task ran for {0:.0%} of the time"),
    )
    for name, text in reasons:
        limit = getattr(limits, name)
        if limit is not None and strains:
            value = statistics.median(getattr(load, name) for load in strains)
            if value >= limit:
                return overload_message(text.format(value, 1000 * value), hint)
    return None


def overload_message(why: str, hint: str = LOWER_LINK_RATE) -> str:
    """Return the reason of an invalid run, with what the user can do."""
    return f"the machine could not keep up: {why}; {hint}"


@dataclass(frozen=True)
class TimingError:
    """A delay in a run, and its limit.

    Attributes:
        name: Name of the delay in the run's figures.
        description: What was delayed. ``{was}`` stands for the measured value.
        measured: The delay in seconds; with ``unit`` "", a fraction of a judged figure.
        limit: The largest delay that the checks tolerate, in the same unit.
        unit: How the values are shown: "ms", or "" for fractions.
    """

    name: str
    description: str
    measured: float
    limit: float
    unit: Literal["ms", ""] = "ms"

    @property
    def within_limit(self) -> bool:
        """True if the checks tolerate the delay."""
        return self.measured <= self.limit

    def reason(self) -> str:
        """Return a description of the delay with its limit.

        >>> late = "the sender was {was} late"
        >>> TimingError(name="lag", description=late, measured=0.5, limit=0.1).reason()
        'the sender was 500 ms late, where the checks bear 100 ms'
        """
        was = self.description.format(was=self._format(self.measured))
        return f"{was}, where the checks bear {self._format(self.limit)}"

    def _format(self, value: float) -> str:
        return f"{value * 1000:.0f} ms" if self.unit == "ms" else f"{value:.3g}"


def first_exceeded(latenesses: Sequence[TimingError], hint: str) -> str | None:
    """Return why the first delay above its limit makes a run invalid.

    Args:
        latenesses: The delays of the run.
        hint: What the user can do.

    Returns:
        None if the checks tolerate all delays.
    """
    for error in latenesses:
        if not error.within_limit:
            return overload_message(error.reason(), hint)
    return None


def as_figures(latenesses: Sequence[TimingError]) -> Mapping[str, Mapping[str, float | None]]:
    """Return each delay and its limit by name, JSON-ready. An infinite limit is None."""
    return {
        error.name: {"was": _finite(error.measured), "bears": _finite(error.limit)}
        for error in latenesses
    }


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
