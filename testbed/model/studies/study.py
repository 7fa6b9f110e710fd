"""A study: points measured one by one, a verdict over them, figures drawn from them alone.

It is a value: a command (``testbed experiment run``) measures, stores, judges and draws it.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import Self

from testbed.errors import InputError
from testbed.model.verdict import IMPOSSIBLE, Check, Verdict
from topologies.text.json_types import Json, JsonObject

Row = Json
"""A point's parameters and results by name, JSON-ready."""
Rows = Sequence[Row]
Points = list[JsonObject]
"""What ``points`` gives: the parameters of each."""
Results = JsonObject
"""What ``measure`` gives: what was measured at a point."""
Figures = Json
"""What ``figures`` gives: matplotlib figures by name."""


def where(rows: Iterable[Row], **values: object) -> list[Row]:
    """The rows that have these values under these names, in their order. KeyError where a row is missing a name.

    >>> where([{"nodes": 2, "lost": 0}, {"nodes": 4, "lost": 1}], nodes=4)
    [{'nodes': 4, 'lost': 1}]
    """
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def parted(rows: Rows, name: str) -> tuple[list[Row], list[Row]]:
    """The rows that have something under this name, and those that have not: of a study whose points are of two kinds.

    >>> parted([{"nodes": 2}, {"hosts": 4}], "hosts")
    ([{'hosts': 4}], [{'nodes': 2}])
    """
    return [row for row in rows if name in row], [row for row in rows if name not in row]


def grid(**fields: object) -> Points:
    """A point for each combination of values, the last field varying fastest; a field that is no collection is the same
    in all.

    >>> grid(nodes=(2, 4), way=["liquid"], seed=1)
    [{'nodes': 2, 'way': 'liquid', 'seed': 1}, {'nodes': 4, 'way': 'liquid', 'seed': 1}]
    """
    collections = [
        [v] if isinstance(v, str) or not isinstance(v, Iterable) else v for v in fields.values()
    ]
    return [dict(zip(fields, values, strict=True)) for values in product(*collections)]


def verdict_of(rows: Rows, checks: Iterable[Check]) -> Verdict:
    """That of a study whose rows say under ``invalid`` why a run says nothing, or None."""
    return Verdict(
        checks=tuple(checks),
        invalid="; ".join(filter(None, (row.get("invalid") for row in rows))) or None,
    )


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a study is about. ``does`` and ``answers`` are one line each: what it runs, and which figure or claim of the
    papers it speaks to. ``title`` names it in words (default: ``name``); ``deviations`` say, a sentence each, where
    what is run differs from the document. ``chapter``: that of our documents where it is not its folder's.
    ``ror_code``: the code that every ROR of the study belongs to (``testbed.model.code_description``), which its page
    shows.
    """

    name: str
    does: str
    answers: str
    title: str = ""
    deviations: tuple[str, ...] = ()
    chapter: int | None = None
    ror_code: str = ""

    def described(self, size: str) -> JsonObject:
        """What a run's manifest keeps of it (``Manifest.study``); ``size``: of the run."""
        named = {name: getattr(self, name) for name in ("title", "does", "answers")}
        code = {"ror_code": self.ror_code} if self.ror_code else {}
        return {**named, **code, "deviations": list(self.deviations), "size": size}


@dataclass(frozen=True, kw_only=True)
class Study(Subject):
    """``points(quick, seed)`` lists the parameters of every point (JSON-ready, each different); ``measure(point)``
    gives its results (JSON-ready); a row is both together. ``judge(rows)`` gives the verdict, ``figures(rows)``
    matplotlib figures by name.

    ``emulation``: points are measured on real switches, one after another, inside a sandbox; ``timed``: one after
    another, for the clock is what is measured; else ``--workers`` processes may share them (then ``measure`` must be a
    function of a module). ``options``: a class of options of its own (``testbed.model.options``), a value of which is
    then the third argument of ``points``, by default ``options()``. ``signed``: fields of rows, or
    within them, that may be below 0; a run says nothing where another is. Rows keep the order of ``points``.
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
        """The study whose functions are those of a module (its ``__name__``): ``points``, ``measure``, ``judge``,
        ``figures`` and, where it has one, the class ``Options``. It is called as the module is, and does what the first
        paragraph of the module's docstring says. ``values`` are the other fields, or what is otherwise. Raises
        TypeError where one is missing.
        """
        own = vars(sys.modules[module])
        summary = " ".join((own["__doc__"] or "").split("\n\n")[0].replace("``", "").split())
        names = {name: name for name in ("points", "measure", "judge", "figures")} | {
            "options": "Options"
        }
        found = {field: own[name] for field, name in names.items() if name in own}
        return cls(**{"name": module.rpartition(".")[2], "does": summary} | found | values)

    @property
    def shared(self) -> bool:
        """Whether several processes may share the points."""
        return not (self.emulation or self.timed)

    def judged(self, rows: Rows) -> Verdict:
        """The verdict on these points, with a key for each check. Where there is no point, or ``judge`` does not find
        in them what it compares (a mean of nothing, a ratio to nought, no valid run of a kind), it has no check, and a
        note says why: it cannot tell."""
        if not rows:
            return Verdict(checks=(), notes=("no point was measured",))
        try:
            verdict = self.judge(rows).keyed()
        except InputError:
            raise
        except (*IMPOSSIBLE, AttributeError, RuntimeError, TypeError) as error:
            why = f"the points lack what the checks compare ({type(error).__name__}: {error})"
            return Verdict(checks=(), notes=(why,))
        beyond = dict(figure for row in rows for figure in _impossible("", row))
        reasons = [
            f"{name} is {one:g}, which no run has"
            for name, one in beyond.items()
            if name not in self.signed
        ]
        return replace(
            verdict, invalid="; ".join(filter(None, (verdict.invalid, *reasons))) or None
        )


def _impossible(name: str, found: Json) -> Iterator[tuple[str, float]]:
    """Figures of a field, or within it, that are below 0, no number, or a part that is more than the whole."""
    if isinstance(found, dict | list | tuple):
        for own, one in (
            found.items() if isinstance(found, dict) else zip(repeat(name), found, strict=False)
        ):
            yield from _impossible(own, one)
    elif isinstance(found, int | float) and not 0 <= found <= (
        1.1 if name.endswith(("_fraction", "_share")) else found
    ):
        yield name, found
