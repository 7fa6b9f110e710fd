"""``testbed experiment new NAME``: the skeleton of a study, which runs at once, with its test and its sentence in the
documentation."""

import importlib
import re
from collections.abc import Callable, Container
from pathlib import Path
from string import Template

from testbed.errors import InputError

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
SENTENCE = Template("`$name` counts the links of rings of switches (`testbed experiment run $name`).")


def write_study(name: str, folder: str, taken: Container[str], page_of: Callable[[str], str]) -> list[Path]:
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
    module, test = home / folder / f"{name}.py", home.parent / "tests/experiments" / folder / f"test_{name}.py"
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
