"""The page of what the striped files were tried with: every item has a row, every row a test, and every test exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.helpers.paths import ROOT

PAGE = (ROOT / "docs" / "measurements" / "striping_trials.md").read_text()
ROWS = {
    int(number): cells for number, cells in re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE)
}
UNTIMED = {19}


@cache
def functions(path: str) -> frozenset[str]:
    """The functions of a file of tests, those in classes (and under conditions) too."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_item_has_its_row() -> None:
    assert sorted(ROWS) == list(range(1, 24))


@pytest.mark.parametrize("item", sorted(set(ROWS) - UNTIMED))
def test_the_tests_of_an_item_exist(item: int) -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", ROWS[item])
    assert named and not [f"{path}::{name}" for path, name in named if name not in functions(path)]


def test_a_name_that_is_none_would_be_found_out() -> None:
    assert "test_that_nobody_has_written" not in functions("tests/docs/test_striping_trials.py")
