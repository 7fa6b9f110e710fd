"""What the machine was late by in a run, held against what the run's checks bear of it by their own theory: the one
rule for every workload whose checks are attached to times.

A bound is worked out from the check, never from what runs came to: a run beyond one says nothing for or against what it
was to show.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.model.machine.load import overload_message


@dataclass(frozen=True, kw_only=True)
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
        return f"{self.description.format(was=self._format(self.measured))}, where the checks bear {self._format(self.limit)}"

    def _format(self, value: float) -> str:
        return f"{value * 1000:.0f} ms" if self.unit == "ms" else f"{value:.3g}"


def first_exceeded(latenesses: Sequence[TimingError], hint: str) -> str | None:
    """The reason of an invalid run, None where the checks bear all of them; ``hint``: what a user can do."""
    found = next((one for one in latenesses if not one.within_limit), None)
    return None if found is None else overload_message(found.reason(), hint)


def as_figures(latenesses: Sequence[TimingError]) -> Mapping[str, Mapping[str, float | None]]:
    """Name -> what it was and what is borne, JSON-ready (null: without bound)."""
    return {one.name: {"was": _finite(one.measured), "bears": _finite(one.limit)} for one in latenesses}


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
