"""How hard a run was on the machine that carried it, and the one rule that says whether the machine kept up.

A run on a machine that did not keep up says nothing about the network, for or against: its verdict is invalid. That is
decided by figures of the machine alone, never by what the run achieved. Each workload says how much it bears
(``MachineLoadLimits``). What a run was late by is held against what its checks bear of it by their own theory
(``TimingError``): a bound is worked out from the check, never from what runs came to.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MachineLoad:
    """``cpu_fraction``: of all processors, 0 to 1, what the run had or waited for, with what a hypervisor took for
    other machines (``stolen_fraction``); what programs of lower priority had, which give way at once, is left out.
    ``pressure_fraction``: of the time in which some runnable task waited for a processor (None where the kernel does
    not tell). ``busiest_task`` ran for ``busiest_task_fraction`` of the time: at 1 it could do no more.
    ``mean_lateness_s``, ``worst_lateness_s``: of a thread that wants to wake every few milliseconds."""

    cpu_fraction: float
    stolen_fraction: float
    pressure_fraction: float | None
    busiest_task: str
    busiest_task_fraction: float
    mean_lateness_s: float
    worst_lateness_s: float


@dataclass(frozen=True, kw_only=True)
class MachineLoadLimits:
    """What a machine may show at most in a run that counts, by the fields of ``MachineLoad``; None: that figure is not
    judged."""

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
    """Why the machine did not keep up, None where it did: the first limit that the median over ``strains`` reaches.

    ``strains``: of one run, or of several that are judged together; ``seconds``: how long the run took;
    ``hint``: what a user can do.
    """
    found = (
        (
            "stolen_fraction",
            f"other machines had {{0:.0%}} of its processors (limit {limits.stolen_fraction or 0:.0%})",
        ),
        ("worst_lateness_s", f"it stood still for {{1:.0f}} ms of {seconds:.2f} s"),
        ("mean_lateness_s", "a thread woke {1:.1f} ms late on average"),
        ("cpu_fraction", "its processors were busy for {0:.0%} of the time"),
        ("busiest_task_fraction", "its busiest task ran for {0:.0%} of the time"),
    )
    for name, text in found:
        limit = getattr(limits, name)
        if limit is not None and strains:
            value = statistics.median(getattr(strain, name) for strain in strains)
            if value >= limit:
                return overload_message(text.format(value, 1000 * value), hint)
    return None


def overload_message(why: str, hint: str = LOWER_LINK_RATE) -> str:
    """The reason of an invalid run in words, with what a user can do about it."""
    return f"the machine could not keep up: {why}; {hint}"


@dataclass(frozen=True)
class TimingError:
    """``name`` in the run's figures; ``description``: what was late, with ``{was}`` where the figure stands.
    ``measured`` and ``limit`` in seconds, or as a part of a figure that is judged (``unit`` "")."""

    name: str
    description: str
    measured: float
    limit: float
    unit: Literal["ms", ""] = "ms"

    @property
    def within_limit(self) -> bool:
        return self.measured <= self.limit

    def reason(self) -> str:
        """In words, with the bound.

        >>> TimingError(name="lag", description="the sender was {was} late", measured=0.5, limit=0.1).reason()
        'the sender was 500 ms late, where the checks bear 100 ms'
        """
        was = self.description.format(was=self._format(self.measured))
        return f"{was}, where the checks bear {self._format(self.limit)}"

    def _format(self, value: float) -> str:
        return f"{value * 1000:.0f} ms" if self.unit == "ms" else f"{value:.3g}"


def first_exceeded(latenesses: Sequence[TimingError], hint: str) -> str | None:
    """The reason of an invalid run, None where the checks bear all of them; ``hint``: what a user can do."""
    found = next((one for one in latenesses if not one.within_limit), None)
    return None if found is None else overload_message(found.reason(), hint)


def as_figures(latenesses: Sequence[TimingError]) -> Mapping[str, Mapping[str, float | None]]:
    """Name -> what it was and what is borne, JSON-ready (null: without bound)."""
    return {
        one.name: {"was": _finite(one.measured), "bears": _finite(one.limit)} for one in latenesses
    }


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
