"""``testbed experiment list | run NAME | new NAME``: our studies, found by walking the package, and those of others,
found as entry points."""

import argparse
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from testbed.commands.answer import Answer
from testbed.commands.studies.study_runner import run_study
from testbed.errors import InputError
from testbed.model.studies.study import Study, Subject
from testbed.renamed import renames
from topologies.errors import nearest
from topologies.registry import Registry

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import SessionStudy


T = TypeVar("T")


@runtime_checkable
class OwnStudy(Protocol):
    """A study of another package that runs itself."""

    name: str
    does: str
    answers: str

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int: ...


def _check_study(thing: object) -> str | None:
    needed = ("name", "answers", "does", *(() if isinstance(thing, Subject) else ("main",)))
    lacking = [name for name in needed if not hasattr(thing, name)]
    return f"it has no {', '.join(lacking)}" if lacking else None


EXPERIMENTS: "Registry[Study | SessionStudy | OwnStudy]" = Registry(
    "testbed.experiments", "study", _check_study
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list", help="each experiment and the figure or claim of the papers it answers"
    )
    listing.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    listing.set_defaults(run=_list)
    running = actions.add_parser(
        "run", help="run one; options after the name are the experiment's own"
    )
    running.add_argument("name", metavar="NAME")
    running.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTIONS",
        help="--quick, --fabric, --seed, --json",
    )
    running.set_defaults(run=_run)
    new = actions.add_parser(
        "new", help="write the skeleton of a study, its test and its sentence; it runs at once"
    )
    new.add_argument("name", metavar="NAME")
    new.add_argument(
        "--folder",
        required=True,
        help="of experiments, into which it goes: liquid, stream/failures, ...",
    )
    new.set_defaults(run=_new)


def find_experiments() -> "dict[str, Study | SessionStudy | OwnStudy]":
    """Name -> study, in alphabetical order.

    Our own are the ``STUDY`` of every module below ``experiments``; those of others come in as entry points.
    """
    _fill()
    return {
        name: one
        for name in sorted(EXPERIMENTS.names())
        if (one := EXPERIMENTS.find(name)) is not None
    }


def _fill() -> None:
    """Our own studies through the door by which others' come; plug-ins are looked for again each time."""
    EXPERIMENTS.forget_plugins()
    for study in () if EXPERIMENTS.builtin_names() else [study for study, _ in _with_modules()]:
        EXPERIMENTS.register(study.name, study)


def chapters() -> dict[str, int]:
    """Name -> chapter of our documents, of our own studies: what a study says itself, or its folder's ``CHAPTER``."""
    return {
        study.name: study.chapter or _said(module, "CHAPTER", 0)
        for study, module in _with_modules()
    }


def pages_of_studies() -> dict[str, str]:
    """Name -> page of docs/replication, of our own studies."""
    return {study.name: _page(module, study.chapter) for study, module in _with_modules()}


def _page(module: str, chapter: int | None) -> str:
    """That of its own chapter, else the ``PAGE`` of the nearest folder that has one, else that of its folder's
    chapter."""
    return (
        f"chapter_{chapter}"
        if chapter
        else str(_said(module, "PAGE", f"chapter_{_said(module, 'CHAPTER', 0)}"))
    )


def known_experiment(name: str) -> "Study | SessionStudy | OwnStudy":
    """The experiment of that name. Raises InputError, with the nearest name, where there is none."""
    _fill()
    found = EXPERIMENTS.find(name)
    if found is None:
        hint = nearest(name, sorted(EXPERIMENTS.names()), "testbed experiment list shows all: ")
        raise InputError(f"no experiment {name!r}; {hint}")
    return found


def _with_modules() -> "Iterator[tuple[Study | SessionStudy, str]]":
    """Each study with the name of the module in which it lies, however deep below ``experiments``."""
    for _, name, _ in pkgutil.walk_packages(
        importlib.import_module("experiments").__path__, "experiments."
    ):
        study = getattr(importlib.import_module(name), "STUDY", None)
        if study is not None:
            yield study, name


def _said(module: str, what: str, otherwise: T) -> T:
    """What the nearest folder around a module says."""
    while "." in module:
        module = module.rpartition(".")[0]
        found: T | None = getattr(importlib.import_module(module), what, None)
        if found is not None:
            return found
    return otherwise


def _list(_: argparse.Namespace) -> Answer:
    listed = [
        {"name": n, "answers": e.answers, "does": e.does} for n, e in find_experiments().items()
    ]
    texts = [
        f"{one['name']}\n    does:    {one['does']}\n    answers: {one['answers']}"
        for one in listed
    ]
    document = {"experiments": listed}
    return Answer(
        document, lambda: print(*texts, sep="\n"), former=renames("Keys of JSON", "experiment")
    )


def _run(args: argparse.Namespace) -> int:
    chosen, program = known_experiment(args.name), f"testbed experiment run {args.name}"
    sys.stdout.flush()
    if isinstance(chosen, OwnStudy):
        return chosen.main(args.options, program=program)

    return run_study(chosen, args.options, program)


def _new(args: argparse.Namespace) -> int:
    for path in write_study(
        args.name, args.folder, find_experiments(), lambda module: _page(module, None)
    ):
        print(f"wrote {path}")
    print(f"run:  testbed experiment run {args.name} --quick")
    return 0


STUDY = Template('''"""What do rings of switches have for links? (Say here what is asked, of which figure or claim of
which document: `testbed experiment list` shows this paragraph.)"""

from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict
from topologies import load_network

SIZES, QUICK_SIZES = (4, 8, 16, 32), (4, 8)


def points(quick: bool, seed: int) -> Points:
    """The parameters of every point."""
    return [{"switches": size, "seed": seed} for size in (QUICK_SIZES if quick else SIZES)]


def measure(point: Row) -> Results:
    """What is measured at a point; a row is both together."""
    return {"links": len(load_network(f"ring:{point['switches']}").links)}


def judge(rows: Rows) -> Verdict:
    """What the document claims, each told apart from what would be measured if it were false."""
    least = min(row["links"] / row["switches"] for row in rows)
    claim = Claim("links a switch, least").at_least(2.0, least).cites("page of the document").against(1.0, "a tree")
    return Verdict(checks=(claim,))


def figures(rows: Rows) -> Figures:
    """Links over switches."""
    from testbed.report.drawing.charts import chart

    figure, axes = chart(xlabel="switches", ylabel="links")
    axes.plot([row["switches"] for row in rows], [row["links"] for row in rows], "o-")
    return {"links": figure}


STUDY = Study.of_module(
    __name__,
    title="What $name asks, in words",
    answers="the figure or claim of the document that it speaks to",
    deviations=("Where what is run differs from the document.",),
)
''')
TEST = Template('''"""$name judges what it measures, and does not pass where that is spoilt."""

from experiments.$folder.$name import STUDY

ROWS = [{**point, **STUDY.measure(point)} for point in STUDY.points(True, 1)]


def test_the_quick_run_bears_the_claims_out() -> None:
    assert STUDY.judged(ROWS).outcome == "holds"


def test_rings_with_links_missing_fail() -> None:
    assert STUDY.judged([row | {"links": 1} for row in ROWS]).outcome == "fails"
''')
SENTENCE = Template(
    "`$name` counts the links of rings of switches (`testbed experiment run $name`)."
)


def write_study(
    name: str, folder: str, taken: Container[str], page_of: Callable[[str], str]
) -> list[Path]:
    """Write the module into that folder of ``experiments``, its test, and its sentence at the end of its page of
    docs/replication (``page_of`` the module).

    InputError where the name is none, is among those ``taken``, or the folder is none.
    """
    home = Path(importlib.import_module("experiments").__path__[0])
    folders = sorted(str(path.parent.relative_to(home)) for path in home.rglob("*/__init__.py"))
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InputError(f"{name!r} is no name of a study; give lower-case letters, digits and _")
    if folder not in folders:
        raise InputError(f"no folder {folder!r} in {home}; give one of {', '.join(folders)}")
    module, test = (
        home / folder / f"{name}.py",
        home.parent / "tests/experiments" / folder / f"test_{name}.py",
    )
    if name in taken or module.exists() or test.exists():
        raise InputError(f"there is a study {name!r} already; give another name")
    dotted = folder.replace("/", ".")
    page = home.parent / f"docs/replication/{page_of(f'experiments.{dotted}.{name}')}.md"
    for path, text in ((module, STUDY), (test, TEST)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.substitute(name=name, folder=dotted))
    page.parent.mkdir(parents=True, exist_ok=True)
    with page.open("a") as file:
        file.write(f"\n{SENTENCE.substitute(name=name)}\n")
    return [module, test, page]
