"""Every check of the committed runs has a rival or a word why not, and every study its page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testbed.commands.studies.book import book_chapters
from testbed.commands.studies.experiment import find_experiments
from testbed.report.book import Chapter, Entry
from testbed.results.study_store import STORED, stored_runs
from tests.helpers.paths import ROOT

PAGES = ROOT / "docs" / "replication"


@pytest.fixture(scope="module")
def found() -> list[Chapter]:
    return book_chapters(ROOT / STORED)


@pytest.fixture(scope="module")
def entries(found: list[Chapter]) -> list[Entry]:
    return [entry for chapter in found for entry in chapter.entries]


SEEDS = {"fault_injection_streaming": 3, "ror_validation": 3}
"""Studies whose full size is kept with several seeds: what the testbed is there to show."""


def test_newest_run_of_each_study_and_size_is_stored_packed() -> None:
    """A run more is an archive more: what it supersedes goes with it."""
    runs = stored_runs(ROOT / STORED)
    kept = Counter(
        (run.name, run.size, run.manifest.seed if run.name in SEEDS else None) for run in runs
    )
    assert [key for key, count in kept.items() if count > 1] == []
    full = Counter(run.name for run in runs if run.size == "full" and run.name in SEEDS)
    assert full == SEEDS
    assert (
        len(
            [
                path
                for path in (ROOT / STORED).rglob("*")
                if path.is_file() and "book" not in path.parts
            ]
        )
        <= 250
    )


def test_every_published_check_has_a_rival_or_says_why_there_is_none(entries: list[Entry]) -> None:
    runs = [run for entry in entries for run in (entry.run, entry.quick) if run is not None]
    verdicts = [(run.name, run.verdict) for run in runs if run.verdict is not None]
    assert len(verdicts) > 50
    checks = [(name, check) for name, verdict in verdicts for check in verdict.checks]
    mute = [
        (name, check.name) for name, check in checks if check.rival is None and not check.rival_note
    ]
    assert mute == []


def test_every_study_has_a_title_in_words(entries: list[Entry]) -> None:
    titles = [(entry.title, entry.name.replace("_", " ")) for entry in entries]
    assert titles
    assert [t for t, name in titles if not t or "_" in t or t.casefold() == name] == []


def test_every_study_of_the_document_says_where_it_stands(entries: list[Entry]) -> None:
    assert {entry.name for entry in entries if entry.page} == set(find_experiments())
    assert all(Path(PAGES / f"{entry.page}.md").is_file() for entry in entries if entry.page)
