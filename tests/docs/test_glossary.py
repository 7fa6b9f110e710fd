"""Each term of the glossary is found where the glossary says that the code has it, and every document has its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in GLOSSARY.splitlines() if line.startswith("| ")
]
TERMS = [(row[0], re.findall(r"`([^`]+/[^`]*)`", row[3])) for row in ROWS if len(row) == 4 and "/" in row[3]]


def _text(place: Path) -> str:
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return place.name + "".join(file.read_text().lower() for file in files)


@pytest.mark.parametrize(("term", "places"), [pytest.param(*row, id=row[0]) for row in TERMS])
def test_term_is_where_the_glossary_says(term: str, places: list[str]) -> None:
    words = [word.lower()[:7] for word in re.findall(r"[\w-]+", term) if len(word) > 2]
    text = "".join(_text(ROOT / place) for place in places)
    assert any(word in text for word in words or [term.lower().split(",")[0]])


def test_keys_of_the_documents_are_those_of_the_references() -> None:
    references = (ROOT / "docs" / "reference" / "bibliography.md").read_text()
    keys = [row[1].split(" (")[0] for row in ROWS if re.fullmatch(r"00\d", row[0])]
    assert len(keys) == 4
    assert not [key for key in keys if f"**{key}**" not in references]


def test_code_cites_by_the_keys_of_the_references() -> None:
    """No document by its number, no author by another year."""
    years = {"Gabrielyan": {"2006", "2007"}, "Gabrielyan and Hersch": {"2002"}, "Zarza": {"2011"}}
    wrong = []
    for folder in ("testbed", "fec", "sfio_emu", "topologies", "experiments", "benchmarks", "examples"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text()
            wrong += [
                (file.name, found) for found in re.findall(r"(?:[Dd]ocument|Source:|\() ?00[0-3]\b[^0-9_.]", text)
            ]
            for author, year in re.findall(r"\b(Gabrielyan and Hersch|Gabrielyan|Zarza) (\d{4})", text):
                wrong += [(file.name, f"{author} {year}")] if year not in years[author] else []
    assert not wrong
