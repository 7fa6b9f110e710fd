"""A verdict: prediction, measurement and tolerance side by side, and whether they agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any, Literal, TypedDict, Unpack

from testbed.errors import InputError

Outcome = Literal["holds", "fails", "cannot-tell"]


class Evidence(TypedDict, total=False):
    """What a check may say beside its comparison.

    ``rival``: the value that would be measured if the claim were false; ``rival_is``: what that is, in words ("no gain"), or, alone,
    why there is none. ``uncertainty``: half width of the measurement's 95 % interval. ``stated``: what the document says, with its page.
    ``key`` and ``about`` as of ``Check``.
    """

    rival: float | None
    rival_is: str
    uncertainty: float | None
    stated: float | str | None
    detail: str
    key: str
    about: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One comparison. ``passed`` is that ``measured`` stands in ``relation`` to ``predicted``, or what ``name`` states where it is no
    comparison of the two, and that the rival would not.

    ``unsure``: the run cannot tell, since tolerance or uncertainty takes the rival in, or since nothing was there to be compared;
    such a check is never passed. ``key``: which check it is, whatever its name says, the same in every run ("loss"); ``about``: which part
    of the run it speaks of ("fault:3": ``plan.faults[3]``, "link:s1->s2", "operation:0"), or empty. Both together are unique in a verdict.
    """

    name: str
    predicted: float | None
    measured: float | None
    tolerance: float | None
    passed: bool
    detail: str = ""
    relation: Literal["states", "equals", "at-least", "at-most"] = "states"
    document: float | str | None = None
    rival: float | None = None
    rival_note: str = ""
    interval: tuple[float, float] | None = None
    unsure: bool = False
    key: str = ""
    about: str = ""

    @property
    def outcome(self) -> Outcome:
        return "holds" if self.passed else "cannot-tell" if self.unsure else "fails"

    @classmethod
    def equal(
        cls, name: str, predicted: float, measured: float, *, tolerance: float = 0, **evidence: Unpack[Evidence]
    ) -> Check:
        """Holds where the two differ by ``tolerance`` at most."""
        known = cls(
            name=name, predicted=predicted, measured=measured, tolerance=tolerance, passed=False, relation="equals"
        )
        return _judged(known, lambda low, high: max(low - predicted, predicted - high, 0.0) <= tolerance, evidence)

    @classmethod
    def at_least(cls, name: str, least: float, measured: float, **evidence: Unpack[Evidence]) -> Check:
        """Holds where ``measured`` is ``least`` or more."""
        known = cls(name=name, predicted=least, measured=measured, tolerance=None, passed=False, relation="at-least")
        return _judged(known, lambda _, high: high >= least, evidence)

    @classmethod
    def at_most(cls, name: str, most: float, measured: float, **evidence: Unpack[Evidence]) -> Check:
        """Holds where ``measured`` is ``most`` or less."""
        known = cls(name=name, predicted=most, measured=measured, tolerance=None, passed=False, relation="at-most")
        return _judged(known, lambda low, _: low <= most, evidence)

    def of(self, events: float, why: str = "nothing was there to be compared") -> Check:
        """This check, where it compares so many events (packets, blocks, seconds); of none it cannot tell, and says ``why``."""
        if events > 0:
            return self
        return replace(self, passed=False, unsure=True, detail="; ".join(filter(None, (self.detail, why))))

    def to_json(self) -> Mapping[str, Any]:
        """The fields, ``key`` and ``about`` only where they say something, and ``outcome``."""
        left_out = [name for name in ("key", "about") if not getattr(self, name)]
        return {k: v for k, v in asdict(self).items() if k not in left_out} | {"outcome": self.outcome}


def _judged(check: Check, reached: Callable[[float, float], bool], evidence: Evidence) -> Check:
    """``check`` with its outcome. ``reached(low, high)``: whether some value of that range is as the check demands.

    The rival makes the run unable to tell where it would pass as well, or where the measurement's interval holds both.
    """
    measured, rival, width = check.measured, evidence.get("rival"), evidence.get("uncertainty")
    assert measured is not None
    low, high = (measured, measured) if width is None else (measured - width, measured + width)
    passes = bool(reached(measured, measured))
    unsure = rival is not None and bool(
        (passes and reached(rival, rival)) or (low <= rival <= high and reached(low, high))
    )
    return replace(
        check,
        passed=passes and not unsure,
        unsure=unsure,
        rival=rival,
        rival_note=evidence.get("rival_is", ""),
        interval=None if width is None else (low, high),
        document=evidence.get("stated"),
        detail=evidence.get("detail", ""),
        key=evidence.get("key", ""),
        about=evidence.get("about", ""),
    )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All checks of one run. ``invalid`` is the reason why the run says nothing (then it is never passed), or None.

    Raises InputError where two checks of one key speak of the same.
    """

    checks: tuple[Check, ...]
    invalid: str | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        named = [(check.key, check.about) for check in self.checks if check.key]
        twice = next((pair for pair in named if named.count(pair) > 1), None) if len(set(named)) < len(named) else None
        if twice is not None:
            raise InputError(f"verdict: two checks have the key {twice[0]!r}, both about {twice[1]!r}; keep one")

    @property
    def passed(self) -> bool:
        return self.invalid is None and bool(self.checks) and all(c.passed for c in self.checks)

    @property
    def outcome(self) -> Outcome:
        """That of all checks together, whether or not the run is valid: fails where one fails, else cannot tell where one cannot or there
        is none, else holds."""
        outcomes = {check.outcome for check in self.checks}
        return "fails" if "fails" in outcomes else "holds" if outcomes == {"holds"} else "cannot-tell"

    def passed_about(self, what: str) -> bool | None:
        """What the checks about it say together: False where one fails, None where there is none or one cannot tell."""
        outcomes = {check.outcome for check in self.checks if check.about == what}
        return False if "fails" in outcomes else True if outcomes == {"holds"} else None

    def keyed(self) -> Verdict:
        """The same, where each check that has no key is given the words of its name for one, numbered where two share them.

        >>> Verdict(checks=(Check.equal("ROR, 2 layers", 1, 1), Check.equal("ROR: 2 layers", 2, 2))).keyed().checks[1].key
        'ror-2-layers-2'
        """
        taken, checks = {(check.key, check.about) for check in self.checks}, []
        for check in self.checks:
            if not check.key:
                words = re.sub(r"[^a-z0-9]+", "-", check.name.lower()).strip("-") or "check"
                keys = (words if number == 1 else f"{words}-{number}" for number in count(1))
                check = replace(check, key=next(key for key in keys if (key, check.about) not in taken))
                taken.add((check.key, check.about))
            checks.append(check)
        return replace(self, checks=tuple(checks))

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 4 invalid, 5 cannot tell."""
        return 4 if self.invalid is not None else {"holds": 0, "fails": 1, "cannot-tell": 5}[self.outcome]

    def to_json(self) -> Mapping[str, Any]:
        return {
            "passed": self.passed,
            "invalid": self.invalid,
            "failed": [c.name for c in self.checks if not c.passed],
            "checks": [c.to_json() for c in self.checks],
            "notes": list(self.notes),
        }
