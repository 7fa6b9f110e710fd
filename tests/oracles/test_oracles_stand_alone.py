"""An oracle imports nothing of what it is held against."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

INTERCONNECT = Path(__file__).parent / "interconnect"
JUDGED = (
    "testbed.interconnect.compiled",
    "testbed.interconnect.ft_drb",
    "testbed.interconnect.model_checking",
)
PARTS = sorted(path for path in INTERCONNECT.glob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", PARTS, ids=lambda path: path.stem)
def test_reference_engine_imports_nothing_of_the_compiled_one(path: Path) -> None:
    tree = ast.walk(ast.parse(path.read_text()))
    named = [node.module or "" for node in tree if isinstance(node, ast.ImportFrom)]
    assert not [name for name in named if name.startswith(JUDGED)]


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "streams").glob("*.py")), ids=lambda path: path.stem
)
def test_judge_of_streams_imports_nothing_of_the_product(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert not [
        name
        for name in named
        if name.startswith(("testbed", "fec", "topologies", "experiments", "sfio"))
    ]
