"""``testbed experiment list | run NAME | new NAME``: lists, runs and creates studies.

The testbed's studies are found by walking the package ``experiments``, those of installed plug-ins
as entry points, and a user's study that is not installed by its file.
"""

import argparse
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from keyword import iskeyword
from pathlib import Path
from string import Template
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast, runtime_checkable

from testbed.commands.answer import Answer
from testbed.commands.studies.study_runner import run_study
from testbed.errors import InputError
from testbed.model.studies.study import Study, Subject
from topologies.errors import nearest
from topologies.registry import Registry
from topologies.text.json_types import JsonObject

if TYPE_CHECKING:
    from testbed.stream.run_in_turn import SessionStudy


T = TypeVar("T")
# What a study needs to be listed. One that is not a ``Subject`` has to run itself by ``main``.
_STUDY_ATTRIBUTES = ("name", "answers", "does")


@runtime_checkable
class OwnStudy(Protocol):
    """A study of another package that runs itself.

    Attributes:
        name: Name of the study.
        does: One line that says what the study runs.
        answers: The claim or figure that it answers.
    """

    name: str
    does: str
    answers: str

    def main(self, argv: Sequence[str] | None = None, program: str | None = None) -> int:
        """Run the study, and return the exit code.

        Args:
            argv: The options; None for those of this process.
            program: The command line before the options, for messages.
        """


def _check_study(value: object) -> str | None:
    """Return why a value is not a study, or None."""
    required = list(_STUDY_ATTRIBUTES)
    if not isinstance(value, Subject):
        required.append("main")
    missing = [name for name in required if not hasattr(value, name)]
    return f"it has no {', '.join(missing)}" if missing else None


EXPERIMENTS: "Registry[Study | SessionStudy | OwnStudy]" = Registry(
    "testbed.experiments", "study", _check_study
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands to the parser."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="list all studies, and the figure or claim of the documents that each answers",
    )
    listing.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object on stdout",
    )
    listing.set_defaults(run=_list)
    running = actions.add_parser(
        "run",
        help="run a study; options after its name are those of the study",
    )
    running.add_argument(
        "name",
        metavar="NAME",
        help="name of the study, or the file of a study that is not installed: ./mine/mine.py",
    )
    running.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTIONS",
        help="options of the study: --quick, --seed, --json, ... (testbed experiment run NAME "
        "--help lists them)",
    )
    running.set_defaults(run=_run)
    new = actions.add_parser(
        "new",
        help="create a new study and its test as a small plug-in, which can be run at once",
    )
    new.add_argument(
        "name", metavar="NAME", help="name of the study: lower-case letters, digits and _"
    )
    new.add_argument(
        "--folder",
        metavar="FOLDER",
        type=Path,
        default=Path(),
        help="folder in which the folder NAME is created (default: the current folder). A "
        "folder below experiments/ in a clone of the testbed creates a study of the "
        "testbed",
    )
    new.set_defaults(run=_new)


def find_experiments() -> "dict[str, Study | SessionStudy | OwnStudy]":
    """Return all studies by name, in alphabetical order.

    The testbed's studies are the ``STUDY`` of every module below ``experiments``. Those of other
    packages are entry points.
    """
    _fill_registry()
    studies: dict[str, Study | SessionStudy | OwnStudy] = {}
    for name in sorted(EXPERIMENTS.names()):
        study = EXPERIMENTS.find(name)
        if study is not None:
            studies[name] = study
    return studies


def _fill_registry() -> None:
    """Register the testbed's studies once, and look for plug-ins again."""
    EXPERIMENTS.forget_plugins()
    if not EXPERIMENTS.builtin_names():
        for study, _ in _with_modules():
            EXPERIMENTS.register(study.name, study)


def chapters() -> dict[str, int]:
    """Return the chapter of the documents that each of the testbed's studies belongs to.

    A study names its chapter, or its folder does (``CHAPTER``). Other studies have chapter 0.
    """
    return {
        study.name: study.chapter or _of_nearest_folder(module, "CHAPTER", 0)
        for study, module in _with_modules()
    }


def pages_of_studies() -> dict[str, str]:
    """Return the page of docs/replication of each of the testbed's studies."""
    return {study.name: _page(module, study.chapter) for study, module in _with_modules()}


def _page(module: str, chapter: int | None) -> str:
    """Return the page of a study.

    Args:
        module: Name of its module. The nearest folder with a ``PAGE`` names the page; otherwise it
            is the page of the folder's chapter.
        chapter: The chapter that the study names, which has precedence; or None.
    """
    if chapter:
        return f"chapter_{chapter}"
    folder_chapter = _of_nearest_folder(module, "CHAPTER", 0)
    return str(_of_nearest_folder(module, "PAGE", f"chapter_{folder_chapter}"))


def known_experiment(name: str) -> "Study | SessionStudy | OwnStudy":
    """Return the experiment of that name, or of a Python file.

    Raises:
        InputError: There is none; the error names the nearest.
    """
    if name.endswith(".py"):
        return study_of_file(Path(name))
    _fill_registry()
    study = EXPERIMENTS.find(name)
    if study is None:
        hint = nearest(name, sorted(EXPERIMENTS.names()), "testbed experiment list shows all: ")
        raise InputError(f"no experiment {name!r}; {hint}")
    return study


def study_of_file(file: Path) -> "Study | SessionStudy | OwnStudy":
    """Return the ``STUDY`` of a Python file, which is run as ``import`` would.

    Raises:
        InputError: The file cannot be read, does not load, or has no study.
    """
    if not file.is_file():
        raise InputError(f"{file}: no such file; testbed experiment new NAME writes one")
    name = file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not name.isidentifier() or name in sys.modules:
        raise InputError(f"{file}: {name!r} is not a valid name of a study; rename the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        study = getattr(module, "STUDY", None)
        problem = "it has no STUDY" if study is None else _check_study(study)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's file may raise anything
        problem = f"it does not load ({type(error).__name__}: {error})"
    if problem is not None:
        del sys.modules[name]
        raise InputError(f"{file}: {problem}; testbed experiment new NAME writes a study that runs")
    _send_to_workers(module)
    return cast("Study | SessionStudy | OwnStudy", study)


def _send_to_workers(module: ModuleType) -> None:
    """Have functions of the module pickled by value, because workers cannot import it."""
    try:
        import cloudpickle  # type: ignore[import-untyped]
    except ImportError:
        # Without the extra campaigns there are no workers.
        return
    cloudpickle.register_pickle_by_value(module)


def _with_modules() -> "Iterator[tuple[Study | SessionStudy, str]]":
    """Yield each of the testbed's studies with the name of its module."""
    folders = importlib.import_module("experiments").__path__
    for _, name, _ in pkgutil.walk_packages(folders, "experiments."):
        study = getattr(importlib.import_module(name), "STUDY", None)
        if study is not None:
            yield study, name


def _of_nearest_folder(module: str, constant: str, default: T) -> T:
    """Return a constant of the nearest package around a module that has it, or the default."""
    package = module
    while "." in package:
        package = package.rpartition(".")[0]
        value: T | None = getattr(importlib.import_module(package), constant, None)
        if value is not None:
            return value
    return default


def _list(_: argparse.Namespace) -> Answer:
    """List all studies."""
    documents: list[JsonObject] = []
    lines: list[str] = []
    for name, study in find_experiments().items():
        documents.append({"name": name, "claim": study.answers, "summary": study.does})
        lines += [name, f"    does:    {study.does}", f"    answers: {study.answers}"]
    return Answer({"experiments": documents}, partial(print, *lines, sep="\n"))


def _run(args: argparse.Namespace) -> int:
    """Run a study."""
    study = known_experiment(args.name)
    program = f"testbed experiment run {args.name}"
    sys.stdout.flush()
    if isinstance(study, OwnStudy):
        return study.main(args.options, program=program)
    return run_study(study, args.options, program, args.name)


def _new(args: argparse.Namespace) -> int:
    """Write a study into a folder of the user, or into ``experiments`` of the testbed."""
    name = args.name
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or not name.isidentifier() or iskeyword(name):
        raise InputError(
            f"{name!r} is not a valid name of a study; give lower-case letters, digits and _"
        )
    if name in find_experiments() or importlib.util.find_spec(name) is not None:
        raise InputError(f"a study or module {name!r} exists already; give another name")
    experiments = Path(importlib.import_module("experiments").__path__[0]).resolve()
    folder = args.folder.resolve()
    if folder != experiments and folder.is_relative_to(experiments):
        if not Path.cwd().resolve().is_relative_to(experiments.parent):
            raise InputError(
                f"--folder {args.folder}: the testbed's own studies; give a folder of yours"
            )
        subfolder = str(folder.relative_to(experiments))
        written = write_study(name, subfolder, partial(_page, chapter=None))
        call = name
    else:
        written = write_plugin(name, args.folder)
        call = str(written[0])
        if not written[0].is_absolute():
            call = f"./{call}"
    for path in written:
        print(f"wrote {path}")
    print(f"run:  testbed experiment run {call} --quick")
    if call != name:
        print(
            f"list: pip install -e {written[0].parent} makes it a plug-in, "
            "which every command finds"
        )
    return 0


STUDY = Template('''"""How many links do rings of switches have?

Say here what the study asks, and about which figure or claim of which document.
"""

from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict
from topologies import load_network

SIZES = (4, 8, 16, 32)
QUICK_SIZES = (4, 8)


def points(quick: bool, seed: int) -> Points:
    """Return the parameters of every point."""
    sizes = QUICK_SIZES if quick else SIZES
    return [{"switches": size, "seed": seed} for size in sizes]


def measure(point: Row) -> Results:
    """Measure a point. A row has the parameters of a point and these results."""
    return {"links": len(load_network(f"ring:{point['switches']}").links)}


def judge(rows: Rows) -> Verdict:
    """Check the claims of the document, each against what would be measured if it were false."""
    fewest = min(row["links"] / row["switches"] for row in rows)
    claim = Claim("links per switch, at least").at_least(2.0, fewest)
    claim = claim.cites("page of the document").against(1.0, "a tree")
    return Verdict(checks=(claim,))


def figures(rows: Rows) -> Figures:
    """Draw the number of links over the number of switches."""
    from testbed.report.drawing.charts import chart

    figure, axes = chart(xlabel="switches", ylabel="links")
    axes.plot([row["switches"] for row in rows], [row["links"] for row in rows], "o-")
    return {"links": figure}


STUDY = Study.of_module(
    __name__,
    title="What $name asks, as a title",
    answers="the figure or claim of the document that the study answers",
    deviations=("How the study deviates from the document.",),
)
''')
TEST = Template('''"""The study $name passes with its measurements, and fails with wrong ones."""

from $module import STUDY

ROWS = [{**point, **STUDY.measure(point)} for point in STUDY.points(True, 1)]


def test_quick_run_supports_the_claims() -> None:
    assert STUDY.judged(ROWS).outcome == "holds"


def test_rings_with_missing_links_fail() -> None:
    assert STUDY.judged([row | {"links": 1} for row in ROWS]).outcome == "fails"
''')
PROJECT = Template("""[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "$distribution"
version = "0.1"
description = "A study for the testbed for parallel communications"
requires-python = ">=3.11"
dependencies = ["parallel-communications-testbed"]

[project.entry-points."testbed.experiments"]
$name = "$name:STUDY"

[tool.setuptools]
py-modules = ["$name"]
""")
SENTENCE = Template(
    "`$name` counts the links of rings of switches (`testbed experiment run $name`)."
)


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write a study, its test and its package into the new folder ``folder/name``.

    Raises:
        InputError: The folder exists or cannot be made.
    """
    study_folder = folder / name
    texts = {
        f"{name}.py": STUDY.substitute(name=name),
        f"test_{name}.py": TEST.substitute(name=name, module=name),
        "pyproject.toml": PROJECT.substitute(name=name, distribution=name.replace("_", "-")),
    }
    try:
        study_folder.mkdir(parents=True)
        for file, text in texts.items():
            (study_folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{study_folder}: {error.strerror}; "
            "give another name, or a --folder that can be written"
        ) from None
    return [study_folder / file for file in texts]


def write_study(name: str, folder: str, page_of: Callable[[str], str]) -> list[Path]:
    """Write a study of the testbed itself: module, test, and a sentence on its page.

    Args:
        name: Name of the study.
        folder: The folder of ``experiments``.
        page_of: Returns the page of docs/replication for the name of the module.

    Raises:
        InputError: The folder holds no studies, or the name is taken.
    """
    experiments = Path(importlib.import_module("experiments").__path__[0])
    packages = experiments.rglob("*/__init__.py")
    folders = sorted(str(path.parent.relative_to(experiments)) for path in packages)
    if folder not in folders:
        raise InputError(f"no folder {folder!r} in {experiments}; give one of {', '.join(folders)}")
    project = experiments.parent
    module = experiments / folder / f"{name}.py"
    test = project / "tests/experiments" / folder / f"test_{name}.py"
    if module.exists() or test.exists():
        raise InputError(f"a study {name!r} exists already; give another name")
    dotted = f"experiments.{folder.replace('/', '.')}.{name}"
    page = project / f"docs/replication/{page_of(dotted)}.md"
    texts = {module: STUDY.substitute(name=name), test: TEST.substitute(name=name, module=dotted)}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page.parent.mkdir(parents=True, exist_ok=True)
    with page.open("a") as file:
        file.write(f"\n{SENTENCE.substitute(name=name)}\n")
    return [module, test, page]
