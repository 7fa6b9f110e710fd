"""The tables in the pages of docs/replication are those that the committed runs give, and every check in them has a
rival or a word why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from testbed.commands.studies.book import book_chapters, tables_of_pages
from testbed.commands.studies.experiment import find_experiments
from testbed.report.book import Entry
from testbed.results.study_store import STORED, stored_runs
from tests.helpers.paths import ROOT

PAGES = ROOT / "docs" / "replication"
CHAPTERS = book_chapters(ROOT / STORED, PAGES)
ENTRIES = [entry for chapter in CHAPTERS for entry in chapter.entries]


def test_of_each_study_and_size_the_newest_run_is_kept_packed() -> None:
    """A run more is an archive more: what it supersedes goes with it."""
    kept = Counter((run.name, run.size) for run in stored_runs(ROOT / STORED))
    assert [key for key, runs in kept.items() if runs > 1] == []
    assert len([path for path in (ROOT / STORED).rglob("*") if path.is_file() and "book" not in path.parts]) <= 250


def test_the_tables_are_those_of_the_stored_runs() -> None:
    stale = [page.name for page, text in tables_of_pages(CHAPTERS, PAGES).items() if text != page.read_text()]
    assert not stale, "run: testbed replicate --report-only --update-docs docs/replication"


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.run is not None], ids=lambda entry: entry.name)
def test_every_published_check_has_a_rival_or_says_why_there_is_none(entry: Entry) -> None:
    runs = [run for run in (entry.run, entry.quick) if run is not None and run.verdict is not None]
    found = [check for run in runs if run.verdict is not None for check in run.verdict.checks]
    assert not [check.name for check in found if check.rival is None and not check.rival_note]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_study_has_a_title_in_words(entry: Entry) -> None:
    assert entry.title and "_" not in entry.title and entry.title.casefold() != entry.name.replace("_", " ")


def test_every_study_of_the_document_says_where_it_stands() -> None:
    assert {entry.name for entry in ENTRIES if entry.page} == set(find_experiments())
    assert all(Path(PAGES / f"{entry.page}.md").is_file() for entry in ENTRIES if entry.page)
