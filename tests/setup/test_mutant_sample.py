"""The sample of mutants: a place comes again only when every other has come, and what never runs is passed over."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.mutants.packages import PACKAGES, Package
from tests.mutants.sample import idle_ranges, sample_order
from tests.mutants.trials import candidates, statement_lines

SOURCE = """from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from a import b

@dataclass(frozen=True)
class Row:
    count: int | None = 1 + 2

def double(x: int | str) -> int | None:
    return 2 * x
"""


def item(start: tuple[int, int], end: tuple[int, int], operator: str) -> Any:
    mutation = SimpleNamespace(
        module_path="row.py", start_pos=start, end_pos=end, operator_name=operator
    )
    return SimpleNamespace(mutations=(mutation,))


def drawn(items: list[Any], tree: Path, seed: int = 1) -> list[tuple[int, str]]:
    order = sample_order(items, tree, seed)
    return [(i.mutations[0].start_pos[0], i.mutations[0].operator_name) for i in order]


def test_each_place_comes_once_before_any_comes_twice(tmp_path: Path) -> None:
    (tmp_path / "row.py").write_text(SOURCE)
    many = [item((8, 24), (8, 29), f"op{k}") for k in range(6)]
    items = [*many, item((11, 11), (11, 16), "mul"), item((11, 11), (11, 12), "two")]
    order = drawn(items, tmp_path)
    assert sorted(line for line, _ in order[:3]) == [8, 11, 11]
    assert len(order) == len(items)
    assert order == drawn(list(reversed(items)), tmp_path)
    assert len({tuple(drawn(items, tmp_path, seed)) for seed in range(8)}) > 1


def test_sample_skips_annotations_decorators_and_type_checking_imports(
    tmp_path: Path,
) -> None:
    (tmp_path / "row.py").write_text(SOURCE)
    idle = [
        ((3, 3), (3, 16)),
        ((6, 19), (6, 23)),
        ((8, 11), (8, 21)),
        ((10, 14), (10, 23)),
        ((10, 28), (10, 38)),
    ]
    awake = [((8, 24), (8, 29)), ((11, 11), (11, 16))]
    assert len(idle_ranges(SOURCE)) == 5
    order = drawn([item(start, end, "op") for start, end in (*idle, *awake)], tmp_path)
    assert sorted(line for line, _ in order) == [8, 11]


def names_of_tests(file: str) -> set[str]:
    """Functions of the file, and cases by the first of their parameters' lists."""
    functions = vars(importlib.import_module(file.removesuffix(".py").replace("/", "."))).items()
    marks = [
        (name, mark) for name, function in functions for mark in getattr(function, "pytestmark", ())
    ]
    cases = {
        f"{name}[{case}]"
        for name, mark in marks
        if mark.name == "parametrize"
        for case in mark.args[1]
    }
    return cases | {name for name, _ in functions if name.startswith("test_")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_every_mutated_module_and_its_tests_are_there(package: Package) -> None:
    modules = package.modules(ROOT)
    assert all((ROOT / place).exists() for place in package.places) and len(modules) >= 2
    for place, _ in package.left_out:
        assert (ROOT / place).exists()
        assert not any(str(module).startswith(place) for module in modules)
    for words in package.tests:
        file, _, name = words.partition("::")
        assert (ROOT / file).exists() and (not name or name in names_of_tests(file))


SEVERAL_LINES = """X = (
    1 +
    2)

def f(a):
    if (a and
            X):
        return [
            a]
    return 0
"""


@pytest.mark.parametrize(
    ("line", "lines"), [(2, [1, 2, 3]), (6, [6, 7]), (8, [8, 9]), (10, [10]), (5, [5])]
)
def test_a_statement_is_all_of_its_lines_but_none_of_those_that_it_holds(
    line: int, lines: list[int]
) -> None:
    assert list(statement_lines(SEVERAL_LINES, line)) == lines


def test_a_compiled_statement_is_tried_with_all_tests_of_its_module() -> None:
    executed = {1: {""}, 5: {""}, 10: {"one"}, 12: {"two"}}
    assert candidates(SEVERAL_LINES, 10, executed) == {"one"}
    assert candidates(SEVERAL_LINES, 2, executed) == {"one", "two"}
    assert candidates(SEVERAL_LINES, 8, executed) == set()
    assert candidates(SEVERAL_LINES + "g = compiled(f)\n", 8, executed) == {"one", "two"}
