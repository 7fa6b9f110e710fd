"""The book of results: for each chapter what was claimed, measured and decided, rendered from stored runs alone.

Self-contained HTML pages with their figures; ``docs/generated.py`` writes the same as tables of the site.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Check
from testbed.report.column_units import NOTHING, seconds_in_words
from testbed.report.drawing.svg_figures import caption_in
from testbed.report.markup import Markup, tag
from testbed.report.page import differences, page_head, picture, whole_page
from testbed.report.sections import badge, table
from testbed.report.wording import OUTCOME_MARKS, RELATIONS, counted, state_of, when

COLUMNS = ("figure or claim", "the document", "asked", "ours", "rival", "verdict")
SIZES = {"full": "at full size", "own options": "with own options", "quick": "at quick size"}
TITLES = {
    2: "Chapter 2: striped files",
    3: "Chapter 3: liquid schedules",
    4: "Chapter 4: capillary routing and redundancy",
    5: "Zarza 2011: FT-DRB and NAC",
    0: "Campaigns and others",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A study of the book: its name, what it speaks to, and the run that speaks for it (None: there is none).

    ``quick``: its newest whole run of reduced size. ``page``: the page of the documentation in which it stands.
    """

    name: str
    title: str
    answers: str
    run: StoredRun | None
    quick: StoredRun | None = None
    page: str = ""

    @property
    def heading(self) -> str:
        return self.title or self.name.replace("_", " ").replace("-", " ")


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A chapter of the documents, with the studies of what it claims."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return TITLES.get(self.number, f"Chapter {self.number}")


def book_pages(
    chapters: Sequence[Chapter], read_drawing: Callable[[StoredRun, str], str]
) -> dict[str, str]:
    """File name -> HTML page: ``index.html`` and one a chapter. ``read_drawing(run, name)`` gives an SVG document."""
    pages = {"index.html": _page("What holds", _index(chapters))}
    for chapter in chapters:
        body = [
            _html_study(entry, entry.run, read_drawing)
            for entry in chapter.entries
            if entry.run is not None
        ]
        missing = [
            tag("li", f"{entry.heading}: {entry.answers}")
            for entry in chapter.entries
            if not entry.run
        ]
        rest = (
            [tag("h2", "Without a stored run"), tag("ul", missing, class_="plain")]
            if missing
            else []
        )
        up = tag("p", tag("a", "all chapters", href="index.html"))
        pages[f"chapter_{chapter.number}.html"] = _page(chapter.title, [up, *body, *rest])
    return pages


def size_in_words(run: StoredRun) -> str:
    """Full, quick or part, and of how many points."""
    whole = run.size if run.verdict is not None else f"part of the {run.size} study"
    return f"{whole}, {counted(run.points, 'point')}"


def facts_of(run: StoredRun) -> list[str]:
    """How and where it was run, in words."""
    manifest = run.manifest
    machine = manifest.machine
    facts = [size_in_words(run), when(manifest.started)]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    if machine.get("cores"):
        facts.append(f"{counted(int(machine['cores']), 'core')}, {machine.get('system', 'Linux')}")
    return [fact for fact in facts if fact]


def command_of(run: StoredRun) -> str:
    """The command that gives the run, without where this one was kept, where it went on or began, and when it was
    stopped."""
    return re.sub(
        r" --(results|resume|extend|hours) ('[^']*'|\S+)| --json", "", run.manifest.command
    )


def tally(runs: Iterable[StoredRun]) -> dict[str, int]:
    """Of the checks of whole runs: how many there are, how they came out, and how many name a rival or say why there is
    none."""
    checks = [check for run in runs if run.verdict is not None for check in run.verdict.checks]
    return {
        "checks": len(checks),
        "hold": sum(c.outcome == "holds" for c in checks),
        "fail": sum(c.outcome == "fails" for c in checks),
        "cannot tell": sum(c.outcome == "cannot-tell" for c in checks),
        "name a rival": sum(c.rival is not None for c in checks),
        "say why there is none": sum(c.rival is None and bool(c.rival_note) for c in checks),
        "carry an interval": sum(c.interval is not None for c in checks),
    }


def counts_in_words(entries: Sequence[Entry]) -> list[str]:
    """How many studies have run at which size, and how their checks came out; a sentence each."""
    runs = [entry.run for entry in entries if entry.run is not None]
    ran = {
        "at full size": sum(run.size == "full" and run.verdict is not None for run in runs),
        "in part": sum(run.verdict is None for run in runs),
        "reduced": sum(run.size != "full" and run.verdict is not None for run in runs),
        "not run": len(entries) - len(runs),
    }
    words = [f"{counted(len(entries), 'study', 'studies')}: " + _listed(ran) + "."]
    for size, at in SIZES.items():
        found = tally(_of_size(entries, size))
        if found["checks"]:
            rest = {name: count for name, count in found.items() if name != "checks"}
            missing = 0.05 * found["carry an interval"]
            by_chance = (
                f" (of 95 %: some {missing:.1f} miss the true value by chance)" if missing else ""
            )
            words.append(
                f"{at.capitalize()} {counted(found['checks'], 'check')}: {_listed(rest)}{by_chance}."
            )
    return words


def check_cells(check: Check) -> tuple[str, ...]:
    """One row of text, a cell for each of ``COLUMNS``."""
    between = (
        ""
        if check.interval is None
        else f" [{number(check.interval[0])}, {number(check.interval[1])}]"
    )
    requested = (
        ""
        if check.predicted is None
        else RELATIONS.get(check.relation, "") + number(check.predicted)
    )
    requested += f" ± {number(check.tolerance)}" if check.tolerance else ""
    rival = "" if check.rival is None else number(check.rival)
    return (
        check.name + (f" ({check.detail})" if check.detail else ""),
        "" if check.document is None else str(check.document),
        requested,
        NOTHING if check.measured is None else number(check.measured) + between,
        f"{rival} ({check.rival_note})"
        if rival and check.rival_note
        else rival or check.rival_note,
        f"{OUTCOME_MARKS[check.outcome]} {check.outcome.replace('-', ' ')}",
    )


def number(value: float) -> str:
    """Four digits that count, whole numbers whole.

    >>> [number(x) for x in (6217735.0, 98.97884, 0.000140154, 12345.6)]
    ['6,217,735', '98.98', '0.00014', '12,346']
    """
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2g}"


def _of_size(entries: Sequence[Entry], size: str) -> list[StoredRun]:
    runs = [entry.quick if size == "quick" else entry.run for entry in entries]
    return [run for run in runs if run is not None and run.size == size and run.verdict is not None]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _page(title: str, body: Sequence[object]) -> str:
    header = tag("header", tag("div", tag("h1", title), class_="headline"))
    return whole_page(page_head(title), header, tag("main", *body))


def _index(chapters: Sequence[Chapter]) -> list[object]:
    entries = [entry for chapter in chapters for entry in chapter.entries]
    body: list[object] = [tag("p", " ".join(counts_in_words(entries)), class_="lead")]
    for size in SIZES:
        if _of_size(entries, size):
            body += [
                tag("h2", f"Checks of the studies that ran {SIZES[size]}"),
                _counts_table(chapters, size),
            ]
    return [*body, tag("h2", "What did not pass"), _not_passed(chapters)]


def _counts_table(chapters: Sequence[Chapter], size: str) -> Markup:
    names = ("studies", *tally([]))
    listed = [
        (tag("a", c.title, href=f"chapter_{c.number}.html"), _of_size(c.entries, size))
        for c in chapters
    ]
    listed.append((tag("b", "All"), [run for _, runs in listed for run in runs]))
    rows = [(name, len(runs), *tally(runs).values()) for name, runs in listed]
    return table(
        [("", "wrap"), *((name, "n") for name in names)], rows, f"Checks {SIZES[size]} by chapter"
    )


def _not_passed(chapters: Sequence[Chapter]) -> Markup:
    rows = []
    for chapter in chapters:
        for entry in chapter.entries:
            for check in _checks(entry.run) if entry.run is not None else ():
                if not check.passed:
                    *cells, outcome = check_cells(check)
                    place = f"chapter_{chapter.number}.html#{entry.name}"
                    rows.append((tag("a", entry.heading, href=place), outcome, *cells))
    if not rows:
        return tag("p", "No check of a stored run failed.")
    return _wrapping(("study", COLUMNS[-1], *COLUMNS[:-1]), rows, "Checks that did not pass")


def _wrapping(names: Iterable[str], rows: Iterable[Iterable[object]], label: str) -> Markup:
    return table([(name, "wrap") for name in names], rows, label)


def _checks(run: StoredRun) -> Sequence[Check]:
    return run.verdict.checks if run.verdict is not None else ()


def _html_study(
    entry: Entry, run: StoredRun, read_drawing: Callable[[StoredRun, str], str]
) -> Markup:
    rows = [check_cells(check) for check in _checks(run)]
    drawings = {name: read_drawing(run, name) for name in run.drawings}  # each is figure-NAME.svg
    return tag(
        "section",
        tag("div", tag("h2", entry.heading), badge(state_of(run.verdict)), class_="headline"),
        tag("p", entry.answers),
        tag("p", " · ".join(facts_of(run)), class_="soft"),
        tag("p", tag("code", command_of(run)), class_="soft"),
        tag("p", f"Invalid: {run.verdict.invalid}")
        if run.verdict is not None and run.verdict.invalid
        else None,
        differences(run.manifest.study.get("deviations") or ()),
        [picture(drawing, caption_in(drawing, name[7:-4])) for name, drawing in drawings.items()],
        _wrapping(COLUMNS, rows, f"Checks of {entry.heading}") if rows else None,
        id=entry.name,
    )
