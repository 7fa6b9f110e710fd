"""The code uses each term of the glossary, and every document has its key."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.helpers.paths import ROOT

GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
TERMS = re.findall(r"^- \*\*(.+?)\*\*: ", GLOSSARY, re.MULTILINE)


@cache
def _code() -> str:
    folders = ("testbed", "fec", "sfio_emu", "topologies", "experiments")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return " ".join(f"{path.stem} {path.read_text()}" for path in files).lower()


@pytest.mark.parametrize("term", TERMS)
def test_the_code_uses_the_term(term: str) -> None:
    words = [word.lower()[:7] for word in re.findall(r"[\w-]+", term) if len(word) > 2]
    assert any(word in _code() for word in words or [term.lower().split(",")[0]])


def test_there_are_terms() -> None:
    assert len(TERMS) > 100


def test_code_cites_by_the_keys_of_the_references() -> None:
    """No document by its number, no author by another year."""
    years = {"Gabrielyan": {"2006", "2007"}, "Gabrielyan and Hersch": {"2002"}, "Zarza": {"2011"}}
    wrong = []
    for folder in (
        "testbed",
        "fec",
        "sfio_emu",
        "topologies",
        "experiments",
        "benchmarks",
        "examples",
    ):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text()
            wrong += [
                (file.name, found)
                for found in re.findall(r"(?:[Dd]ocument|Source:|\() ?00[0-3]\b[^0-9_.]", text)
            ]
            for author, year in re.findall(
                r"\b(Gabrielyan and Hersch|Gabrielyan|Zarza) (\d{4})", text
            ):
                wrong += [(file.name, f"{author} {year}")] if year not in years[author] else []
    assert not wrong
