"""The book of results as files: the pages in ``ROOT/book``.

The site of the documentation shows the same results as tables (``docs/generated.py``).
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from testbed.commands.studies.experiment import chapters, find_experiments, pages_of_studies
from testbed.model.stored_runs import StoredRun, representative_run
from testbed.report.book import Chapter, Entry, book_pages
from testbed.report.register import Row, read_register
from testbed.results.compressed_files import pack_run, read_packed
from testbed.results.run_folder import make_directory, write_below
from testbed.results.study_store import stored_runs
from topologies import lists_by_key

# The folder of the documentation's pages about the chapters. It may be missing.
PAGES = Path("docs/replication")


def write_book(root: Path) -> Path:
    """Write ``ROOT/book``, and return the path of its front page.

    Raises:
        InputError: A stored run is damaged.
    """
    make_directory(root, "--results")
    for name, text in book_pages(book_chapters(root), _read_drawing).items():
        write_below(root, f"book/{name}", text.encode())
    return root / "book" / "index.html"


def _read_drawing(run: StoredRun, name: str) -> str:
    return read_packed(Path(run.directory) / name)


def book_chapters(root: Path) -> list[Chapter]:
    """Return all studies by chapter, each with its representative run below ``root``.

    Chapter 0 has the studies that are not about one of our documents, and runs that are not of a
    study.
    """
    runs_of = lists_by_key((run.name, run) for run in stored_runs(root))
    studies = find_experiments()
    chapter_of = chapters()
    page_of = pages_of_studies()
    entries_of: dict[int, list[Entry]] = {}
    for name in [*studies, *sorted(set(runs_of) - set(studies))]:
        study = studies.get(name)
        runs = runs_of.get(name, [])
        if study is None:
            title = _title(runs)
            answers = ""
        else:
            title = getattr(study, "title", "")
            answers = study.answers
        entry = Entry(
            name=name,
            title=title,
            answers=answers,
            run=representative_run(runs),
            quick=representative_run(run for run in runs if run.size == "quick"),
            page=page_of.get(name, ""),
        )
        entries_of.setdefault(chapter_of.get(name, 0), []).append(entry)
    return [
        Chapter(number=number, entries=tuple(entries))
        for number, entries in sorted(entries_of.items())
    ]


def pack_runs(root: Path, pages: Path = PAGES) -> int:
    """Pack every finished run below ``root``, and return the number of bytes that this saves.

    Args:
        root: The folder of results.
        pages: A folder of Markdown pages. The drawings that they show are not packed.
    """
    texts = [page.read_text(encoding="utf-8") for page in sorted(pages.glob("*.md"))]
    all_pages = "".join(texts)
    saved_bytes = 0
    for run in stored_runs(root):
        if run.verdict is None:
            continue
        folder = f"{run.name}/{run.manifest.run}"
        shown = [name for name in run.drawings if f"{folder}/{name}" in all_pages]
        saved_bytes += pack_run(Path(run.directory), shown)
    return saved_bytes


def register_of(book: Sequence[Chapter]) -> list[Row]:
    """Return the claims of the documents, with the results of the runs in the book.

    The package of experiments declares the claims.
    """
    claims = files("experiments") / "claims.tsv"
    run_of: dict[str, StoredRun | None] = {}
    for chapter in book:
        for entry in chapter.entries:
            run_of[entry.name] = entry.run
    return read_register(claims.read_text(encoding="utf-8"), "experiments/claims.tsv", run_of)


def _title(runs: Sequence[StoredRun]) -> str:
    """Return a title for runs that are not of a study: that of the last one, or its campaign."""
    if not runs:
        return ""
    last = runs[-1]
    if last.name.startswith("campaign-"):
        return f"Campaign over many networks: {last.name.split('-')[1]}"
    return str(last.manifest.study.get("title") or "")
