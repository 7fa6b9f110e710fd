"""The book of results as files: pages in ``ROOT/book``. (The site of the documentation has the same as tables:
``docs/generated.py``.)"""

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

PAGES = Path("docs/replication")
"""The pages of the documentation on the chapters, where there is such a folder."""


def write_book(root: Path) -> Path:
    """Write ``ROOT/book``; returns the front page. Raises InputError where a run is damaged."""
    make_directory(root, "--results")
    for name, text in book_pages(
        book_chapters(root), lambda run, name: read_packed(Path(run.directory) / name)
    ).items():
        write_below(root, f"book/{name}", text.encode())
    return root / "book" / "index.html"


def book_chapters(root: Path) -> list[Chapter]:
    """All studies by chapter, each with the stored run that speaks for it; stored runs of others under chapter 0."""
    runs = lists_by_key((run.name, run) for run in stored_runs(root))
    known, of, places = find_experiments(), chapters(), pages_of_studies()
    listed: dict[int, list[Entry]] = {}
    for name in [*known, *sorted(set(runs) - set(known))]:
        study, own = known.get(name), runs.get(name, [])
        entry = Entry(
            name=name,
            title=getattr(study, "title", "") if study is not None else _title(own),
            answers=study.answers if study is not None else "",
            run=representative_run(own),
            quick=representative_run(run for run in own if run.size == "quick"),
            page=places.get(name, ""),
        )
        listed.setdefault(of.get(name, 0), []).append(entry)
    return [Chapter(number=n, entries=tuple(entries)) for n, entries in sorted(listed.items())]


def pack_runs(root: Path, pages: Path = PAGES) -> int:
    """Pack every whole run below ``root``; drawings that a page of ``pages`` shows stay as they are. Returns the bytes
    saved."""
    shown = "".join(page.read_text(encoding="utf-8") for page in sorted(pages.glob("*.md")))
    saved = 0
    for run in stored_runs(root):
        if run.verdict is not None:
            leave = [
                name for name in run.drawings if f"{run.name}/{run.manifest.run}/{name}" in shown
            ]
            saved += pack_run(Path(run.directory), leave)
    return saved


def register_of(found: Sequence[Chapter]) -> list[Row]:
    """The claims that the package of experiments declares, with what the runs of the studies say of them."""
    declared = files("experiments") / "claims.tsv"
    runs = {entry.name: entry.run for chapter in found for entry in chapter.entries}
    return read_register(declared.read_text(encoding="utf-8"), "experiments/claims.tsv", runs)


def _title(runs: Sequence[StoredRun]) -> str:
    """Of a run that is no study of ours: what it says itself, or the name of its campaign."""
    name = runs[-1].name if runs else ""
    if name.startswith("campaign-"):
        return f"Campaign over many networks: {name.split('-')[1]}"
    return str(runs[-1].manifest.study.get("title") or "") if runs else ""
