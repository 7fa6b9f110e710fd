#!/usr/bin/env python3
"""Check what ruff cannot: how plain the code and its docstrings read (docs/dev/style.md).

    tools/check_plain_code.py [FILE ...]

Without files, every package in PLAIN is checked. Prints one line per violation, and exits with 1
if there is one. There are four rules:

- A docstring does not begin with a word that hides what it is about ("Of", "That", "Whether").
- An assignment sets one value, unless it unpacks a value or swaps two names.
- A comprehension has one loop and at most one condition, and contains no other comprehension.
  A conditional expression contains no other one.
- A name that lives longer than five lines says what its value is.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Folders that are checked. Folders of EXEMPT, which are inside them, are not.
PLAIN: tuple[str, ...] = (
    "benchmarks/",
    "examples/",
    "experiments/",
    "fec/",
    "plugins/",
    "sfio_emu/",
    "testbed/",
    "tools/",
    "topologies/",
)
EXEMPT: tuple[str, ...] = (
    "plugins/chakra/tests/",
    "plugins/collectives/tests/",
)

POOR_OPENING = re.compile(
    r"(of|that|those|what|which|how|where|when|whether|as|who|whose|why|from|by|to|for|in|its"
    r"|their|not|only|also|but|and|or)\b",
    re.IGNORECASE,
)
GENERIC_NAMES = frozenset(
    [
        *("found", "one", "own", "words", "place", "said", "given", "asked", "known", "made"),
        *("got", "here", "there", "others", "what", "which", "such", "these", "those", "begun"),
        *("done", "seen", "kept", "rest", "most", "least", "whole", "came", "held", "told"),
    ]
)
MAX_GENERIC_LINES = 5
MAX_COMPREHENSION_LINES = 6

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Violation(NamedTuple):
    """A place in a file that breaks a rule."""

    line: int
    message: str


def main(arguments: list[str]) -> int:
    """Print the violations in the given files, or in all packages of PLAIN."""
    paths = [Path(argument) for argument in arguments] or plain_files()
    count = 0
    for path in paths:
        for violation in violations(path.read_text(encoding="utf-8")):
            print(f"{path}:{violation.line}: {violation.message}")
            count += 1
    return 1 if count else 0


def plain_files() -> list[Path]:
    """Return the tracked Python files of the packages in PLAIN."""
    command = ["git", "ls-files", "*.py"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files: list[Path] = []
    for name in listing.stdout.splitlines():
        if name.startswith(PLAIN) and not name.startswith(EXEMPT) and (ROOT / name).exists():
            files.append(ROOT / name)
    return files


def violations(source: str) -> list[Violation]:
    """Return the violations in a module's source, in the order of their lines."""
    tree = ast.parse(source)
    result = [
        *poor_docstrings(tree),
        *unrelated_assignments(tree),
        *dense_expressions(tree),
        *generic_names(tree),
    ]
    return sorted(result)


def poor_docstrings(tree: ast.Module) -> Iterator[Violation]:
    """Yield the docstrings whose first word hides what they are about."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            continue
        docstring = ast.get_docstring(node)
        if docstring is not None and POOR_OPENING.match(docstring):
            first_word = docstring.split()[0]
            yield Violation(
                node.body[0].lineno,
                f'docstring begins with "{first_word}"; begin with a verb or name the thing',
            )


def unrelated_assignments(tree: ast.Module) -> Iterator[Violation]:
    """Yield the chained assignments, and assignments of several values that are no swap."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        if len(node.targets) > 1 and not isinstance(node.value, ast.Name):
            yield Violation(node.lineno, "chained assignment; write one assignment per line")
        target = node.targets[0]
        if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
            continue
        names = {ast.unparse(element) for element in target.elts}
        read = {
            ast.unparse(part)
            for part in ast.walk(node.value)
            if isinstance(part, ast.Name | ast.Attribute | ast.Subscript)
        }
        if not names & read:
            yield Violation(node.lineno, "unrelated values; write one assignment per line")


def dense_expressions(tree: ast.Module) -> Iterator[Violation]:
    """Yield the comprehensions and conditional expressions that are hard to read."""
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            message = dense_comprehension(node)
            if message is not None:
                yield Violation(node.lineno, message)
        elif isinstance(node, ast.IfExp) and contains(node, (ast.IfExp,)):
            yield Violation(node.lineno, "conditional expression inside another; write an if")


def dense_comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> str | None:
    """Return what makes a comprehension hard to read, or None."""
    conditions = sum(len(generator.ifs) for generator in node.generators)
    if contains(node, COMPREHENSIONS):
        return "comprehension inside another; write a loop or a function"
    if len(node.generators) > 1 or conditions > 1:
        return "comprehension with several loops or conditions; write a loop"
    if (node.end_lineno or node.lineno) - node.lineno >= MAX_COMPREHENSION_LINES:
        return f"comprehension of more than {MAX_COMPREHENSION_LINES} lines; write a loop"
    return None


def contains(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
    """Return whether a node of one of these kinds is inside this node."""
    return any(inner is not node and isinstance(inner, kinds) for inner in ast.walk(node))


def generic_names(tree: ast.Module) -> Iterator[Violation]:
    """Yield the generic names that live longer than five lines."""
    for scope in ast.walk(tree):
        if isinstance(scope, FUNCTIONS):
            yield from generic_names_of(scope)


def generic_names_of(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Violation]:
    """Yield the generic names of one function, without those of functions inside it."""
    first_line: dict[str, int] = {}
    last_line: dict[str, int] = {}
    for node in own_nodes(scope):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name):
            name = node.id
        else:
            continue
        if name in GENERIC_NAMES:
            first_line[name] = min(node.lineno, first_line.get(name, node.lineno))
            last_line[name] = max(node.lineno, last_line.get(name, node.lineno))
    for name, line in first_line.items():
        lines = last_line[name] - line + 1
        if lines > MAX_GENERIC_LINES:
            yield Violation(line, f'"{name}" lives for {lines} lines; say what the value is')


def own_nodes(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function that are not inside another function."""
    waiting: list[ast.AST] = [scope.args, *scope.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
