"""Studies: points that are measured one by one, a verdict on them, and figures drawn from them.

A study is a value. A command (``testbed experiment run``) measures, stores, judges and draws it.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

from testbed.errors import InputError
from testbed.model.verdict import IMPOSSIBLE, Check, Verdict
from topologies.text.json_types import Json, JsonObject

# The parameters and results of a point by name, JSON-ready.
Row = Json
Rows = Sequence[Row]
# The parameters of each point, which ``points`` returns.
Points = list[JsonObject]
# The results at a point, which ``measure`` returns.
Results = JsonObject
# Matplotlib figures by name, which ``figures`` returns.
Figures = Json

# A fraction that is measured may be above 1 by rounding, or because clocks differ.
_MAX_FRACTION = 1.1


def where(rows: Iterable[Row], **values: object) -> list[Row]:
    """Return the rows that have these values, in their order; KeyError if a row lacks a name.

    >>> where([{"nodes": 2, "lost": 0}, {"nodes": 4, "lost": 1}], nodes=4)
    [{'nodes': 4, 'lost': 1}]
    """

    def matches(row: Row) -> bool:
        return all(row[name] == value for name, value in values.items())

    return [row for row in rows if matches(row)]


def parted(rows: Rows, name: str) -> tuple[list[Row], list[Row]]:
    """Separate the rows that have a name from those that do not.

    A study may have points of two kinds, with different names.

    >>> parted([{"nodes": 2}, {"hosts": 4}], "hosts")
    ([{'hosts': 4}], [{'nodes': 2}])
    """
    with_name = [row for row in rows if name in row]
    without_name = [row for row in rows if name not in row]
    return with_name, without_name


def grid(**fields: object) -> Points:
    """Return a point for each combination of values. The last field varies fastest.

    Args:
        **fields: The values of each field. A value that is not a collection, or is a text, is the
            same in all points.

    >>> grid(nodes=(2, 4), way=["liquid"], seed=1)
    [{'nodes': 2, 'way': 'liquid', 'seed': 1}, {'nodes': 4, 'way': 'liquid', 'seed': 1}]
    """
    collections: list[Iterable[object]] = []
    for value in fields.values():
        if isinstance(value, Iterable) and not isinstance(value, str):
            collections.append(value)
        else:
            collections.append([value])
    return [dict(zip(fields, values, strict=True)) for values in product(*collections)]


def verdict_of(rows: Rows, checks: Iterable[Check]) -> Verdict:
    """Return the verdict of a study. It is invalid if a row has a reason under ``invalid``."""
    reasons = [row["invalid"] for row in rows if row.get("invalid")]
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a study.

    Attributes:
        name: Name of the study.
        does: One line that says what the study runs.
        answers: One line that names the figure or claim of the papers that it tests.
        title: Name of the study for people. "": ``name``.
        deviations: Sentences that say how the run differs from the document.
        chapter: Chapter of our documents, if it is not that of the study's folder.
        ror_code: The code to which every ROR of the study belongs
            (``testbed.model.code_description``). The page of the study shows it.
    """

    name: str
    does: str
    answers: str
    title: str = ""
    deviations: tuple[str, ...] = ()
    chapter: int | None = None
    ror_code: str = ""

    def described(self, size: str) -> JsonObject:
        """Return the description in a run's manifest (``Manifest.study``).

        Args:
            size: Size of the run, such as "quick".
        """
        description: JsonObject = {
            "title": self.title,
            "does": self.does,
            "answers": self.answers,
        }
        if self.ror_code:
            description["ror_code"] = self.ror_code
        description["deviations"] = list(self.deviations)
        description["size"] = size
        return description


@dataclass(frozen=True, kw_only=True)
class Study(Subject):
    """A study.

    Attributes:
        points: Called with ``quick`` and ``seed``, and a value of ``options`` if there are any.
            Returns the parameters of all points, JSON-ready and different from each other.
        measure: Called with the parameters of a point. Returns its results, JSON-ready. A row is
            parameters and results together.
        judge: Returns the verdict on the rows, which are in the order of ``points``.
        figures: Returns matplotlib figures of the rows by name.
        emulation: Whether points are measured on real switches, inside a sandbox and one after
            another.
        timed: Whether points are measured one after another because the measurement is of time.
            Otherwise ``--workers`` processes may share the points, unless ``emulation`` is true.
            Then ``measure`` must be a function of a module.
        options: The study's options class (``testbed.model.options``), or None.
        signed: Fields of rows, or within them, that may be negative. A negative number elsewhere
            makes the run invalid.
    """

    points: Callable[..., Rows]
    measure: Callable[[Row], Row]
    judge: Callable[[Rows], Verdict]
    figures: Callable[[Rows], Figures]
    emulation: bool = False
    timed: bool = False
    options: type | None = None
    signed: Collection[str] = ()

    @classmethod
    def of_module(cls, module: str, **values: object) -> Self:
        """Return the study whose functions are those of a module.

        The module has ``points``, ``measure``, ``judge``, ``figures`` and possibly the class
        ``Options``. The study has the name of the module, and does what the first paragraph of the
        module's docstring says.

        Args:
            module: The module's ``__name__``.
            **values: The other fields, or fields that differ from the module.

        Raises:
            TypeError: A field is missing.
        """
        namespace = vars(sys.modules[module])
        first_paragraph = (namespace["__doc__"] or "").split("\n\n")[0]
        summary = " ".join(first_paragraph.replace("``", "").split())
        fields: dict[str, Any] = {"name": module.rpartition(".")[2], "does": summary}
        for name in ("points", "measure", "judge", "figures"):
            if name in namespace:
                fields[name] = namespace[name]
        if "Options" in namespace:
            fields["options"] = namespace["Options"]
        return cls(**(fields | values))

    @property
    def shared(self) -> bool:
        """True if several processes may share the points."""
        return not (self.emulation or self.timed)

    def judged(self, rows: Rows) -> Verdict:
        """Return the verdict on the rows, with a key for each check.

        If there are no rows, or if ``judge`` lacks what it compares (such as a mean of no values or
        a ratio to 0), the verdict has no check, and a note says why the run cannot tell.
        """
        if not rows:
            return Verdict(checks=(), notes=("no point was measured",))
        try:
            verdict = self.judge(rows).keyed()
        except InputError:
            raise
        except (*IMPOSSIBLE, AttributeError, RuntimeError, TypeError) as error:
            why = f"the points lack what the checks compare ({type(error).__name__}: {error})"
            return Verdict(checks=(), notes=(why,))
        impossible: dict[str, float] = {}
        for row in rows:
            impossible.update(_impossible_figures("", row))
        reasons = []
        if verdict.invalid:
            reasons.append(verdict.invalid)
        for name, figure in impossible.items():
            if name not in self.signed:
                reasons.append(f"{name} is {figure:g}, which no run has")
        return replace(verdict, invalid="; ".join(reasons) or None)


def _impossible_figures(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the figures of a field, or within it, that no run can have, with their names.

    They are negative numbers, NaN, and fractions above 1.

    Args:
        name: Name of the field.
        value: Its value.
    """
    if isinstance(value, dict):
        for inner_name, item in value.items():
            yield from _impossible_figures(inner_name, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _impossible_figures(name, item)
    elif isinstance(value, int | float):
        is_fraction = name.endswith(("_fraction", "_share"))
        limit = _MAX_FRACTION if is_fraction else value
        if not 0 <= value <= limit:
            yield name, value
