"""The words of the field, and none of a dialect of our own: identifiers of the product, and what it says to its users.

One list of words (``BANNED``), each with what is meant instead; a few names are exempt, with a reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

pytestmark = pytest.mark.long

PACKAGES = ("testbed", "fec", "sfio_emu", "topologies", "experiments")
BANNED = {
    "told": "reported, notified",
    "asked": "requested",
    "anew": "again",
    "lacks": "missing",
    "door": "control socket, listener",
    "knock": "connect",
    "coming": "expected",
    "came": "arrived, received",
    "misled": "spurious",
    "news": "loss reports",
    "fates": "deliveries, reports",
    "fate": "delivery, report",
    "accused": "suspected",
    "wanted": "required, requested",
    "kept": "stored, retained",
    "held": "occupied, in use",
    "mend": "hint (for users), repair (of links)",
    "beside": "next to, compared with",
    "scene": "view",
    "ways": "paths, directions",
    "spokesman": "representative",
    "suspects": "candidates",
}
"""Words that no part of an identifier is, and what to say."""
EXEMPT = frozenset(
    {
        "mend",  # a key of `testbed doctor --json`
        "asked", "news", "came", "told_s", "came_s", "suspects",  # keys of stored runs and of --json
        "ask_anew", "identify_anew",  # options of plans
        "held", "came_over",  # fields of compiled records; resources that are held are deadlock theory's own word
    }
)  # fmt: skip
"""Identifiers that stay, and why."""
PHRASES = (
    r"\banew\b", r"\bmend(s|ed|ing)?\b", r"\bknocks?\b", r"\bwhoever\b", r"\bkilometre\b", r"\bmisled\b",
    r"\bspokesman\b", r"\basked for\b",
    r"\bso many (?:seconds|hours|notifications)\b", r"\bfor ever\b", r"nothing that it takes", r"\bhangs on\b",
    r"\bfaults? that stands?\b",
)  # fmt: skip
"""What no message says: patterns. (Studies state what documents say, and their stored rows quote it.)"""
TEXTS = frozenset({"help", "description", "epilog", "hint", "detail"})
"""Keyword arguments whose strings users read."""


def _identifiers(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.keyword(arg=str(name)):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.alias(name=name, asname=other):
                yield other or name.rpartition(".")[2], node.lineno


@cache
def _parts(identifier: str) -> frozenset[str]:
    return frozenset(
        part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)
    )


def _messages(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    """Strings that are raised, printed, or stand in the help of an option."""
    for node in nodes:
        match node:
            case ast.Raise(exc=ast.expr() as said):
                texts = [said]
            case ast.keyword(arg=str(name), value=said) if name in TEXTS:
                texts = [said]
            case ast.Call(func=ast.Name(id="print"), args=said_in_order):
                texts = said_in_order
            case _:
                continue
        for text in texts:
            for inner in ast.walk(text):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    yield inner


@cache
def _words(package: str) -> tuple[list[tuple[Path, str, int]], list[tuple[Path, str, int]]]:
    """Identifiers and messages of a package, each with its file and line; every file is parsed once."""
    kinds = (
        ast.Name,
        ast.Attribute,
        ast.arg,
        ast.keyword,
        ast.FunctionDef,
        ast.ClassDef,
        ast.alias,
    )
    speaking = (ast.Raise, ast.keyword, ast.Call)
    names: list[tuple[Path, str, int]] = []
    messages: list[tuple[Path, str, int]] = []
    for path in sorted((ROOT / package).rglob("*.py")):
        where, nodes = (
            path.relative_to(ROOT),
            [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))],
        )
        names += [
            (where, name, line) for name, line in _identifiers(n for n in nodes if type(n) in kinds)
        ]
        messages += [
            (where, str(text.value), text.lineno)
            for text in _messages(n for n in nodes if type(n) in speaking)
        ]
    return names, messages


@pytest.mark.parametrize("package", PACKAGES)
def test_no_identifier_is_of_the_dialect(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        where = path.relative_to(ROOT)
        strange = _parts(path.stem) & set(BANNED)
        found += [
            f"{where}: a module called {path.stem}: {BANNED[word]}" for word in sorted(strange)
        ]
    for where, name, line in _words(package)[0]:
        for word in sorted(_parts(name) & BANNED.keys()) if name not in EXEMPT else ():
            found.append(f"{where}:{line}: {name} ({word}: {BANNED[word]})")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "experiments"])
def test_no_message_is_of_the_dialect(package: str) -> None:
    found = []
    for where, text, line in _words(package)[1]:
        found += [f"{where}:{line}: {text!r}" for p in PHRASES if re.search(p, text)]
    assert not found, "\n".join(found)


def test_the_test_sees_names_and_messages() -> None:
    nodes = [
        *ast.walk(ast.parse('def _told(door):\n    raise ValueError(f"{door} is made anew")\n'))
    ]
    assert [name for name, _ in _identifiers(nodes) if _parts(name) & set(BANNED)] == [
        "_told",
        "door",
        "door",
    ]
    assert any(re.search(PHRASES[0], str(text.value)) for text in _messages(nodes))


def test_places_are_in_the_tree() -> None:
    assert all(Path(ROOT / package).is_dir() for package in PACKAGES)
