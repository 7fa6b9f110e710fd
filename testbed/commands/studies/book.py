"""The book of results as files: pages in ``ROOT/book``, and the tables in the pages of the documentation."""

from __future__ import annotations

from pathlib import Path

from testbed.commands.studies.experiment import chapters, find_experiments
from testbed.errors import InputError
from testbed.model.stored_runs import StoredRun, spokesman
from testbed.report.book import Chapter, Entry, book_pages, with_tables
from testbed.results.replication import stored_runs
from topologies.files.formats import write_whole


def write_book(root: Path, pages: Path | None = None) -> Path:
    """Write ``ROOT/book``, and the tables into ``pages``/chapter_N.md where it is given; returns the front page.

    Raises InputError where a run is damaged, or a page of ``pages`` is not there.
    """
    found = book_chapters(root)
    if pages is not None:
        for chapter in found:
            _write_tables(pages / f"chapter_{chapter.number}.md", chapter)
    book = root / "book"
    book.mkdir(parents=True, exist_ok=True)
    for name, text in book_pages(found, _read_drawing).items():
        write_whole(book / name, text.encode())
    return book / "index.html"


def book_chapters(root: Path) -> list[Chapter]:
    """All studies by chapter, each with the stored run that speaks for it; stored runs of others under chapter 0."""
    runs: dict[str, list[StoredRun]] = {}
    for run in stored_runs(root):
        runs.setdefault(run.name, []).append(run)
    known, of = find_experiments(), chapters()
    listed: dict[int, list[Entry]] = {}
    for name in [*known, *sorted(set(runs) - set(known))]:
        study = known.get(name)
        title = study.title if study is not None else ""
        answers = study.answers if study is not None else ""
        entry = Entry(name=name, title=title, answers=answers, run=spokesman(runs.get(name, [])))
        listed.setdefault(of.get(name, 0), []).append(entry)
    return [Chapter(number=n, entries=tuple(entries)) for n, entries in sorted(listed.items())]


def _write_tables(page: Path, chapter: Chapter) -> None:
    if chapter.number == 0:
        return
    if not page.is_file():
        raise InputError(f"{page}: no such page; give the folder of chapter_2.md to chapter_5.md")
    write_whole(page, with_tables(page.read_text(encoding="utf-8"), chapter).encode())


def _read_drawing(run: StoredRun, name: str) -> str:
    return (Path(run.place) / name).read_text(encoding="utf-8")
