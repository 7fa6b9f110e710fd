"""What a workload is to whoever runs one without knowing which: how its plan is carried out on either fabric, and judged.

A plan is a value of a class of the workload's own; that class says which workload it is. Ours are in ``testbed.api.workloads``; those
of other packages come in by the entry-point group ``testbed.workloads``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from testbed.model.progress import ReportProgress
from testbed.model.verdict import Verdict

P = TypeVar("P")
M = TypeVar("M")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a run's measurements say. ``document``: the JSON object of the workload's command; ``rows``: the figures that a table has,
    one row an item (a fault, an operation, a round)."""

    verdict: Verdict
    document: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Workload(Generic[P, M]):
    """``simulate`` and ``emulate`` carry out a plan in virtual time and on switches (None: not there); ``emulate`` is called
    inside the sandbox only. Both give the same kind of measurements, which ``judge`` holds against the plan's predictions. ``example`` makes a small plan that
    passes on the simulator: what the suite for workloads runs."""

    name: str
    plan: type[P]
    judge: Callable[[P, M], Judgement]
    simulate: Callable[[P, ReportProgress | None], M] | None = None
    emulate: Callable[[P, ReportProgress | None], M] | None = None
    example: Callable[[], P] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[P, M]):
    """A run that has ended: its plan, what was measured on which fabric, and the verdict. ``document``: what ``--json`` prints."""

    workload: str
    fabric: str
    plan: P
    measurements: M
    verdict: Verdict
    document: Mapping[str, Any] = field(repr=False)
    rows: tuple[Mapping[str, Any], ...] = field(repr=False, default=())

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.verdict.passed
