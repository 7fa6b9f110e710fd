"""The rules for plain code that ruff does not have (tools/check_plain_code.py)."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest

from tests.helpers.paths import ROOT

MAX_TEST_NAME = 70


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_plain_code", ROOT / "tools" / "check_plain_code.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# `make lint` runs the same command.
@pytest.mark.long
def test_plain_packages_break_no_rule(
    checker: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(checker.plain_files()) >= len(checker.PLAIN)
    status = checker.main([])
    assert (status, capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    "source, message",
    [
        ('"""Of a run of the command."""', 'begins with "Of"'),
        ('def f():\n    """Whether it is there."""', 'begins with "Whether"'),
        ("a, b = 1, []", "unrelated values"),
        ("a = b = []", "chained assignment"),
        ("a = [[x for x in row] for row in rows]", "inside another"),
        ("a = [x for row in rows for x in row]", "several loops"),
        ("a = [x for x in row if x if x > 2]", "several loops or conditions"),
        ("a = 1 if b else 2 if c else 3", "write an if"),
        ("def f(found):\n" + "    g()\n" * 6 + "    return found", "lives for 8 lines"),
    ],
)
def test_check_reports_each_kind_of_violation(
    checker: ModuleType, source: str, message: str
) -> None:
    found = checker.violations(source)
    assert len(found) == 1 and message in found[0].message


@pytest.mark.parametrize(
    "source",
    [
        '"""Options of the command."""',
        "a, b = b, a",
        "a, b = pair",
        "first = second = name",
        "a = [x for x in row if x]",
        "a = 1 if b else 2",
        "def f(found):\n    return found",
        "def f():\n    one = 1\n    def g():\n" + "        pass\n" * 6 + "    return 2",
    ],
)
def test_check_accepts_plain_statements(checker: ModuleType, source: str) -> None:
    assert checker.violations(source) == []


def long_test_names(source: str) -> list[str]:
    """Return the names of test functions in the source that are too long."""
    names = re.findall(r"^ *(?:async )?def (test_\w+)", source, re.MULTILINE)
    return [name for name in names if len(name) > MAX_TEST_NAME]


def test_names_of_tests_have_at_most_70_characters() -> None:
    folders = [ROOT / "tests", *ROOT.glob("plugins/*/tests")]
    files = [file for folder in folders for file in folder.rglob("test_*.py")]
    long_names = {
        str(file.relative_to(ROOT)): names
        for file in files
        if (names := long_test_names(file.read_text()))
    }
    assert len(files) > 400
    assert long_names == {}


def test_long_test_name_is_reported() -> None:
    longest = "test_" + "x" * (MAX_TEST_NAME - 5)
    source = f"def {longest}() -> None:\n    pass\n\n\ndef {longest}y() -> None:\n    pass\n"
    assert long_test_names(source) == [f"{longest}y"]


def test_docstrings_of_test_helpers_name_what_they_describe(checker: ModuleType) -> None:
    files = sorted((ROOT / "tests" / "helpers").glob("*.py"))
    assert len(files) > 40
    violations = [
        f"{file.name}:{violation.line}: {violation.message}"
        for file in files
        for violation in checker.violations(file.read_text())
        if "docstring begins" in violation.message
    ]
    assert violations == []
