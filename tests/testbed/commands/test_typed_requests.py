"""What commands hand to workloads is typed: no parameter or result is Any, but for argparse's own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

FILES = sorted(
    [
        *(ROOT / "testbed" / "commands").rglob("*.py"),
        *(ROOT / "testbed").glob("*/session.py"),
        ROOT / "testbed/stream/run_in_turn.py",
    ]
)
ARGPARSE = {
    "subparsers",
    "parser",
    "args",
    "options",
    "values",
    "words",
    "namespace",
    "document",
    "found",
}
"""Parsers, and values that are checked before they are anything: what a command line or a file holds."""
FREE = {
    "without_program",
    "parse_known_args",
    "parse_args",
    "known_experiment",
    "study_manifest",
    "of_module",
    "_document",
    "_toml",
    "_said",
    "letters_of",
    "machine_code",
    "caller",
}
"""argparse's own signatures, studies (which other packages make, too), what is read from a file, and numba's own
values."""


def untyped(file: Path) -> list[str]:
    """Functions with a parameter, or a result, that is simply Any."""
    wrong = []
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.FunctionDef) or node.name in FREE:
            continue
        for one in (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
            if one is not None and one.arg not in ARGPARSE and _is_any(one.annotation):
                wrong.append(f"{file.name}: {node.name}({one.arg})")
        if _is_any(node.returns):
            wrong.append(f"{file.name}: {node.name} ->")
    return wrong


def _is_any(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nothing_between_commands_and_workloads_is_any(file: Path) -> None:
    assert not untyped(file)


def test_any_would_be_found(tmp_path: Path) -> None:
    file = tmp_path / "command.py"
    file.write_text("from typing import Any\ndef _stream(args: object, request: Any) -> Any: ...\n")
    assert untyped(file) == ["command.py: _stream(request)", "command.py: _stream ->"]
