"""What a workload is: a value that says how its plan is made, carried out on either fabric, judged, shown and stored.

A plan is a value of a class of the workload's own; that class says which workload it is. Ours are listed in
``testbed.api.workloads``; those of other packages come in by the entry-point group ``testbed.workloads``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from testbed.errors import CapabilityError
from testbed.model.progress import ReportProgress
from testbed.model.run_records import Manifest
from testbed.model.verdict import Verdict, repeated
from topologies.text.json_types import Json

P = TypeVar("P")
M = TypeVar("M")
Row = Json
Carry = Callable[[P, ReportProgress | None], M]
"""Carries out one plan."""


def lazily(place: str) -> Callable[..., Any]:
    """The function at "package.module:name", whose module is imported when it is first called: commands and library
    know all workloads, and load the one that is run."""
    module, _, name = place.partition(":")
    return lambda *given, **named: getattr(import_module(module), name)(*given, **named)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a run's measurements say. ``document``: the JSON object of the workload's command; ``rows``: the figures
    that a table has, one row an item (a fault, an operation, a round); ``stored``: the rows that are kept of a run of
    the command, from which its figures are drawn; ``files``: what is kept beside its page. ``prediction``: what the
    measurements were held against, computed once from the plan."""

    verdict: Verdict
    document: Json
    rows: tuple[Row, ...] = ()
    stored: tuple[Row, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    prediction: object = None


@dataclass(frozen=True, kw_only=True)
class How:
    """What belongs to a run and not to its plan. ``fabric``: "emulation" or "simulator"; ``options``: a value of the
    workload's ``run_options`` (None: of the library, the defaults); ``machines``: the request of ``--machines``, or
    None for this one; ``results``: the folder in which the command keeps runs, or None."""

    fabric: str
    options: Any = None
    machines: Any = None
    results: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Workload(Generic[P, M]):
    """How a workload is run. A plug-in needs ``name``, ``plan``, ``judge`` and one of ``simulate`` and ``emulate``;
    what follows makes a command of it. All functions get values and return values; none prints, or knows a command
    line.

    ``simulate`` and ``emulate`` carry out a plan in virtual time and on switches (None: not there); ``emulate`` is
    called inside the sandbox only. ``carry`` does so instead of both where a run takes more than its plan (``How``).
    All give the same kind of measurements, which ``judge`` holds against the plan's predictions. ``example`` makes a
    small plan that passes on the simulator: what the suite for workloads runs.
    """

    name: str
    plan: type[P]
    judge: Callable[[P, M], Judgement]
    simulate: Callable[[P, ReportProgress | None], M] | None = None
    emulate: Callable[[P, ReportProgress | None], M] | None = None
    carry: Callable[[P, How, ReportProgress | None], M] | None = None
    virtual: bool = False
    """Whether ``carry`` runs in virtual time only."""
    example: Callable[[], P] | None = None

    # of its command
    stored_as: str = ""
    """The name under which runs are kept; "": the command's."""
    title: str = ""
    """Heading of the page of a run."""
    description: str = ""
    """What its help page says."""
    command: str = ""
    """A command to begin with."""
    options: type | None = None
    """What its plan is made of (``testbed.model.options``)."""
    run_options: type | None = None
    """What belongs to a run of the command alone."""
    build: Callable[[Any], object] | None = None
    """From the options to the plan, of this workload or of one of ``others``. Refuses bad input before anything is
    built."""
    others: "tuple[Work, ...]" = ()
    """Those that its options may choose instead: how their plans are run, judged and kept."""
    answer: Callable[[P], Json] | None = None
    """From a plan that says something by itself to its document: the command shows it, and runs the plan only with
    ``--fabric``."""
    instead: Callable[[P, Any], str | None] | None = None
    """From plan and ``run_options`` what the command says that it did with the plan instead of a run; None: it runs."""
    foreseen: Callable[[P], Iterable[str]] | None = None
    """What a run of the plan will leave open, and what it would take: said before it begins, a line each."""
    fitted: Callable[[Any, P, str], tuple[P, str]] | None = None
    """From options, plan and fabric to the plan that this machine can carry, and the note that says so in the
    verdict."""
    variants: Callable[[Any, P], Sequence[P]] | None = None
    """The plans that are run after the first, to be compared with it."""
    together: Callable[[Sequence[Judgement]], Judgement] | None = None
    """One judgement of the first plan and its variants."""
    opened: Callable[[How], AbstractContextManager[Carry[P, M]]] | None = None
    """What carries out the plans of the command, one after another, on one network that stays up between them (default:
    each by itself)."""
    spreads: bool = False
    """Whether it runs over several machines (``--machines``)."""
    view: Callable[[P], tuple[str, Callable[[], Any]]] | None = None
    """The title of a run while it goes on, and what makes its live view."""
    figures: Callable[[Sequence[Row]], Json] | None = None
    """Name -> figure, from the stored rows."""
    shown: Callable[[Json], Iterable[object]] | None = None
    """The lines and tables (``testbed.report.answers``) that a terminal is shown of the document, above the checks."""
    closing: Callable[[Any], Iterable[object]] | None = None
    """What a terminal is shown of the judgement instead, without the checks: lines, and what ``rich`` prints."""
    keeps: (
        Callable[[Path, str, Manifest], AbstractContextManager[Callable[[Any], Path | None]]] | None
    ) = None
    """Makes place for a run before it begins (in that folder, under that name), and gives what keeps its judgement
    there: where it lies, or None for a run that is not kept. Default: its rows and figures are."""

    @property
    def on_switches(self) -> bool:
        """Whether a plan can be carried out on switches."""
        return self.emulate is not None or (self.carry is not None and not self.virtual)

    def measured(self, plan: P, how: How, report_progress: ReportProgress | None) -> M:
        """Carry the plan out. Raises CapabilityError where the workload does not run on that fabric."""
        if self.carry is not None and (self.on_switches or how.fabric == "simulator"):
            return self.carry(plan, how, report_progress)
        carry = self.emulate if how.fabric == "emulation" else self.simulate
        if carry is None:
            where = "on switches only" if how.fabric == "simulator" else "in virtual time only"
            raise CapabilityError(
                f"a plan of the workload {self.name!r} runs {where}, not on the fabric {how.fabric!r}"
            )
        return carry(plan, report_progress)

    def judged(self, plan: P, how: How, *, repeats: int = 0) -> tuple[M, Judgement]:
        """Carry the plan out and judge it, again at most so many times while the machine could not keep up."""

        def once() -> tuple[M, Judgement]:
            measured = self.measured(plan, how, None)
            return measured, self.judge(plan, measured)

        return repeated(once, lambda found: found[1].verdict.invalid, repeats)


Work = Workload[Any, Any]
"""Any of them, whatever it plans and measures."""
