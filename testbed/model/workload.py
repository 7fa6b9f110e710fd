"""Workloads: how plans of one kind are made, run on a fabric, judged, shown and stored.

Each workload has its own class of plans, so that a plan identifies its workload. The built-in
workloads are listed in ``testbed.api.workloads``. Other packages register theirs in the entry-point
group ``testbed.workloads``.
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
# Carries out one plan, and returns the measurements.
Carry = Callable[[P, ReportProgress | None], M]


def lazily(target: str) -> Callable[..., Any]:
    """Return a function that imports its module when it is first called.

    The commands and the library know all workloads, but need to load only the one that runs.

    Args:
        target: The function as "package.module:name".
    """
    module, _, name = target.partition(":")

    def call_imported(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call_imported


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The judgement of a run's measurements.

    Attributes:
        verdict: The verdict.
        document: The JSON document that the workload's command prints.
        rows: The figures that a table shows, one row for each item (a fault, an operation, a
            round).
        stored: The rows that are stored for a run of the command. Its figures are drawn from them.
        files: Content of further files that are stored with the run, by their names.
        prediction: The predictions with which the measurements were compared. They are computed
            once from the plan.
    """

    verdict: Verdict
    document: Json
    rows: tuple[Row, ...] = ()
    stored: tuple[Row, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    prediction: object = None


@dataclass(frozen=True, kw_only=True)
class How:
    """The fabric, machines and options with which a plan is run.

    Attributes:
        fabric: "emulation" or "simulator".
        options: A value of the workload's ``run_options``, or None for the defaults.
        machines: The request of ``--machines``, or None to run on this machine.
        results: The folder in which the command stores runs, or None.
    """

    fabric: str
    options: Any = None
    machines: Any = None
    results: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Workload(Generic[P, M]):
    """A kind of plans, and the functions that run and judge them.

    A plug-in needs ``name``, ``plan``, ``judge`` and one of ``simulate`` and ``emulate``. The
    attributes from ``stored_as`` on make a command of the workload. All functions take values and
    return values. None of them prints or knows a command line.

    Attributes:
        name: Name of the workload.
        plan: The class of its plans.
        judge: Compares the measurements of a plan with its predictions. ``simulate``, ``emulate``
            and ``carry`` return measurements of the same class.
        simulate: Runs a plan in virtual time, or None.
        emulate: Runs a plan on switches, or None. It is called inside the sandbox only.
        carry: Runs a plan instead of both, if a run needs more than its plan (``How``).
        virtual: Whether ``carry`` runs in virtual time only.
        example: Returns a small plan that passes on the simulator, for the conformance suite.
        stored_as: The name under which runs are stored, or "" for the name of the command.
        title: Heading of the page of a run.
        description: Text of the help page.
        command: An example of a command line.
        options: The options class of a plan (``testbed.model.options``).
        run_options: The options class of a run of the command.
        build: Makes a plan of this workload, or of one of ``others``, from the options. Refuses
            invalid options.
        others: Workloads that the options may choose instead of this one. Their plans are run,
            judged and stored by their own functions.
        answer: Returns the document of a plan that is a result by itself. The command prints it,
            and runs the plan only with ``--fabric``.
        instead: Takes a plan and ``run_options``. Returns what the command has done with the plan
            instead of a run, or None if it has to run it.
        foreseen: Returns lines that say what a run of the plan will not be able to decide, and
            what that would require. They are printed before the run.
        fitted: Takes options, plan and fabric. Returns a plan that this machine can carry, and a
            note for the verdict that says so.
        variants: Returns the plans that are run after the first one for comparison.
        together: Returns one judgement of the first plan and its variants.
        opened: Opens a network that stays up for all plans of the command, and returns what runs
            a plan on it. Without it, each plan is run by itself.
        spreads: Whether a plan can run on several machines (``--machines``).
        view: Returns the title of the live view of a run, and the function that creates it.
        figures: Draws figures from the stored rows. Returns them by name.
        shown: Returns the lines and tables (``testbed.report.answers``) that the terminal shows
            above the checks.
        closing: Returns lines and ``rich`` values that the terminal shows for a judgement instead,
            without the checks.
        keeps: Takes a folder, a name and a manifest before a run begins. Returns a function that
            stores the judgement there, and returns its path or None if it does not store it. By
            default rows and figures are stored.
    """

    name: str
    plan: type[P]
    judge: Callable[[P, M], Judgement]
    simulate: Callable[[P, ReportProgress | None], M] | None = None
    emulate: Callable[[P, ReportProgress | None], M] | None = None
    carry: Callable[[P, How, ReportProgress | None], M] | None = None
    virtual: bool = False
    example: Callable[[], P] | None = None

    stored_as: str = ""
    title: str = ""
    description: str = ""
    command: str = ""
    options: type | None = None
    run_options: type | None = None
    build: Callable[[Any], object] | None = None
    others: "tuple[Work, ...]" = ()
    answer: Callable[[P], Json] | None = None
    instead: Callable[[P, Any], str | None] | None = None
    foreseen: Callable[[P], Iterable[str]] | None = None
    fitted: Callable[[Any, P, str], tuple[P, str]] | None = None
    variants: Callable[[Any, P], Sequence[P]] | None = None
    together: Callable[[Sequence[Judgement]], Judgement] | None = None
    opened: Callable[[How], AbstractContextManager[Carry[P, M]]] | None = None
    spreads: bool = False
    view: Callable[[P], tuple[str, Callable[[], Any]]] | None = None
    figures: Callable[[Sequence[Row]], Json] | None = None
    shown: Callable[[Json], Iterable[object]] | None = None
    closing: Callable[[Any], Iterable[object]] | None = None
    keeps: (
        Callable[[Path, str, Manifest], AbstractContextManager[Callable[[Any], Path | None]]] | None
    ) = None

    @property
    def on_switches(self) -> bool:
        """True if a plan can run on switches."""
        return self.emulate is not None or (self.carry is not None and not self.virtual)

    def measured(self, plan: P, how: How, report_progress: ReportProgress | None) -> M:
        """Run a plan and return its measurements.

        Args:
            plan: The plan.
            how: The fabric, and the options of the run.
            report_progress: Called when there is progress to show, or None.

        Raises:
            CapabilityError: The workload does not run on this fabric.
        """
        if self.carry is not None and (self.on_switches or how.fabric == "simulator"):
            return self.carry(plan, how, report_progress)
        carry = self.emulate if how.fabric == "emulation" else self.simulate
        if carry is None:
            where = "on switches only" if how.fabric == "simulator" else "in virtual time only"
            raise CapabilityError(
                f"a plan of the workload {self.name!r} runs {where}, "
                f"not on the fabric {how.fabric!r}"
            )
        return carry(plan, report_progress)

    def judged(self, plan: P, how: How, *, repeats: int = 0) -> tuple[M, Judgement]:
        """Run a plan and judge it, and repeat this while the machine could not keep up.

        Args:
            plan: The plan.
            how: The fabric, and the options of the run.
            repeats: How often an invalid run is repeated at most.
        """

        def run_once() -> tuple[M, Judgement]:
            measured = self.measured(plan, how, None)
            return measured, self.judge(plan, measured)

        def why_invalid(outcome: tuple[M, Judgement]) -> str | None:
            _, judgement = outcome
            return judgement.verdict.invalid

        return repeated(run_once, why_invalid, repeats)


# Any workload.
Work = Workload[Any, Any]
