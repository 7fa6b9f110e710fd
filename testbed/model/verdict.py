"""A verdict: prediction, measurement and tolerance side by side, and whether they agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison. ``passed`` is |measured - predicted| <= tolerance, or what ``name`` states where it is no difference."""

    name: str
    predicted: float | None
    measured: float | None
    tolerance: float | None
    passed: bool
    detail: str = ""

    @classmethod
    def equal(cls, name: str, predicted: float, measured: float, *, tolerance: float = 0, detail: str = "") -> Check:
        """Passes where the two differ by ``tolerance`` at most."""
        passed = bool(abs(measured - predicted) <= tolerance)
        return cls(name=name, predicted=predicted, measured=measured, tolerance=tolerance, passed=passed, detail=detail)

    @classmethod
    def at_least(cls, name: str, least: float, measured: float, *, detail: str = "") -> Check:
        """Passes where ``measured`` is ``least`` or more."""
        passed = bool(measured >= least)
        return cls(name=name, predicted=least, measured=measured, tolerance=None, passed=passed, detail=detail)

    @classmethod
    def at_most(cls, name: str, most: float, measured: float, *, detail: str = "") -> Check:
        """Passes where ``measured`` is ``most`` or less."""
        passed = bool(measured <= most)
        return cls(name=name, predicted=most, measured=measured, tolerance=None, passed=passed, detail=detail)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All checks of one run. ``invalid`` is the reason why the run says nothing (then it is never passed), or None."""

    checks: tuple[Check, ...]
    invalid: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        return self.invalid is None and bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 invalid."""
        return 4 if self.invalid is not None else 0 if self.passed else 1

    def to_json(self) -> Mapping[str, Any]:
        return {
            "passed": self.passed,
            "invalid": self.invalid,
            "failed": [c.name for c in self.checks if not c.passed],
            "checks": [asdict(c) for c in self.checks],
            "notes": list(self.notes),
        }
