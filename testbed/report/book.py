"""The book of results: the claims, measurements and verdicts of each chapter, from stored runs.

The book consists of self-contained HTML pages with their figures. ``docs/generated.py`` writes the
same results as tables of the documentation site.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Check
from testbed.report.column_units import NOTHING, seconds_in_words
from testbed.report.drawing.svg_figures import caption_in
from testbed.report.markup import Markup, tag
from testbed.report.page import differences, page_head, picture, whole_page
from testbed.report.sections import badge, table
from testbed.report.wording import OUTCOME_MARKS, RELATIONS, counted, state_of, when

COLUMNS = ("figure or claim", "the document", "asked", "ours", "rival", "verdict")
# The sizes of a run (``StoredRun.size``), and how pages describe them. "own options" are those that
# the user gave.
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
    """A study of the book.

    Attributes:
        name: Name of the study.
        title: Title, or empty to use the name.
        answers: The question that the study answers.
        run: The stored run whose results are shown, or None.
        quick: The newest complete run of reduced size, or None.
        page: The page of the documentation that contains the study.
    """

    name: str
    title: str
    answers: str
    run: StoredRun | None
    quick: StoredRun | None = None
    page: str = ""

    @property
    def heading(self) -> str:
        """The title, or else the name with spaces."""
        return self.title or self.name.replace("_", " ").replace("-", " ")


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """A chapter of the documents, with the studies of its claims."""

    number: int
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """The heading of the chapter."""
        return TITLES.get(self.number, f"Chapter {self.number}")


def book_pages(
    chapters: Sequence[Chapter], read_drawing: Callable[[StoredRun, str], str]
) -> dict[str, str]:
    """Return the HTML pages of the book by file name: ``index.html`` and one page per chapter.

    Args:
        chapters: The chapters with their studies.
        read_drawing: Returns the SVG document of a run's drawing, given the run and its file name.
    """
    pages = {"index.html": _page("What holds", _index(chapters))}
    for chapter in chapters:
        body = [tag("p", tag("a", "all chapters", href="index.html"))]
        missing = []
        for entry in chapter.entries:
            if entry.run is not None:
                body.append(_html_study(entry, entry.run, read_drawing))
            else:
                missing.append(tag("li", f"{entry.heading}: {entry.answers}"))
        if missing:
            body += [tag("h2", "Without a stored run"), tag("ul", missing, class_="plain")]
        pages[f"chapter_{chapter.number}.html"] = _page(chapter.title, body)
    return pages


def size_in_words(run: StoredRun) -> str:
    """Return the size of a run and its number of points, as in "quick, 12 points"."""
    size = run.size if run.verdict is not None else f"part of the {run.size} study"
    return f"{size}, {counted(run.points, 'point')}"


def facts_of(run: StoredRun) -> list[str]:
    """Return the size, time, duration and machine of a run as texts."""
    manifest = run.manifest
    machine = manifest.machine
    facts = [size_in_words(run), when(manifest.started)]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    if machine.get("cores"):
        facts.append(f"{counted(int(machine['cores']), 'core')}, {machine.get('system', 'Linux')}")
    return [fact for fact in facts if fact]


def command_of(run: StoredRun) -> str:
    """Return the command that repeats the run.

    Options that say where the results were stored, which run was continued, and when the run was
    stopped are left out.
    """
    return re.sub(
        r" --(results|resume|extend|hours) ('[^']*'|\S+)| --json", "", run.manifest.command
    )


def tally(runs: Iterable[StoredRun]) -> dict[str, int]:
    """Count the checks of complete runs.

    Returns:
        The number of checks, the numbers by outcome, and the numbers of checks that name a rival,
        explain why there is none, and have an interval.
    """
    checks: list[Check] = []
    for run in runs:
        checks += _checks(run)
    outcomes = Counter(check.outcome for check in checks)
    return {
        "checks": len(checks),
        "hold": outcomes["holds"],
        "fail": outcomes["fails"],
        "cannot tell": outcomes["cannot-tell"],
        "name a rival": len([c for c in checks if c.rival is not None]),
        "say why there is none": len([c for c in checks if c.rival is None and c.rival_note]),
        "carry an interval": len([c for c in checks if c.interval is not None]),
    }


def counts_in_words(entries: Sequence[Entry]) -> list[str]:
    """Return sentences about the number of studies by size, and about their checks by outcome."""
    runs = [entry.run for entry in entries if entry.run is not None]
    complete = [run for run in runs if run.verdict is not None]
    full = [run for run in complete if run.size == "full"]
    studies = {
        "at full size": len(full),
        "in part": len(runs) - len(complete),
        "reduced": len(complete) - len(full),
        "not run": len(entries) - len(runs),
    }
    sentences = [f"{counted(len(entries), 'study', 'studies')}: {_listed(studies)}."]
    for size, description in SIZES.items():
        totals = tally(_of_size(entries, size))
        check_count = totals.pop("checks")
        if not check_count:
            continue
        by_chance = ""
        # An interval of 95 % misses the true value with a probability of 5 %.
        expected_misses = 0.05 * totals["carry an interval"]
        if expected_misses:
            by_chance = f" (of 95 %: some {expected_misses:.1f} miss the true value by chance)"
        checks = counted(check_count, "check")
        sentences.append(f"{description.capitalize()} {checks}: {_listed(totals)}{by_chance}.")
    return sentences


def check_cells(check: Check) -> tuple[str, ...]:
    """Return a check as a row of text with one cell for each of ``COLUMNS``."""
    name = check.name
    if check.detail:
        name += f" ({check.detail})"
    requested = ""
    if check.predicted is not None:
        requested = RELATIONS.get(check.relation, "") + number(check.predicted)
    if check.tolerance:
        requested += f" ± {number(check.tolerance)}"
    return (
        name,
        "" if check.document is None else str(check.document),
        requested,
        _measured(check),
        _rival(check),
        f"{OUTCOME_MARKS[check.outcome]} {check.outcome.replace('-', ' ')}",
    )


def _measured(check: Check) -> str:
    if check.measured is None:
        return NOTHING
    text = number(check.measured)
    if check.interval is not None:
        low, high = check.interval
        text += f" [{number(low)}, {number(high)}]"
    return text


def _rival(check: Check) -> str:
    if check.rival is None:
        return check.rival_note
    text = number(check.rival)
    return f"{text} ({check.rival_note})" if check.rival_note else text


def number(value: float) -> str:
    """Return a number with four significant digits; integers have all of their digits.

    >>> [number(x) for x in (6217735.0, 98.97884, 0.000140154, 12345.6)]
    ['6,217,735', '98.98', '0.00014', '12,346']
    """
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2g}"


def _of_size(entries: Sequence[Entry], size: str) -> list[StoredRun]:
    """Return the complete runs of this size, at most one per study."""
    runs = []
    for entry in entries:
        run = entry.quick if size == "quick" else entry.run
        if run is not None and run.size == size and run.verdict is not None:
            runs.append(run)
    return runs


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _page(title: str, body: Sequence[object]) -> str:
    header = tag("header", tag("div", tag("h1", title), class_="headline"))
    return whole_page(page_head(title), header, tag("main", *body))


def _index(chapters: Sequence[Chapter]) -> list[object]:
    entries = list(chain.from_iterable(chapter.entries for chapter in chapters))
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
    rows = []
    all_runs: list[StoredRun] = []
    for chapter in chapters:
        link = tag("a", chapter.title, href=f"chapter_{chapter.number}.html")
        runs = _of_size(chapter.entries, size)
        rows.append((link, len(runs), *tally(runs).values()))
        all_runs += runs
    rows.append((tag("b", "All"), len(all_runs), *tally(all_runs).values()))
    columns = [("", "wrap"), *((name, "n") for name in names)]
    return table(columns, rows, f"Checks {SIZES[size]} by chapter")


def _not_passed(chapters: Sequence[Chapter]) -> Markup:
    rows = []
    for chapter in chapters:
        for entry in chapter.entries:
            if entry.run is None:
                continue
            href = f"chapter_{chapter.number}.html#{entry.name}"
            for check in _checks(entry.run):
                if not check.passed:
                    *cells, outcome = check_cells(check)
                    rows.append((tag("a", entry.heading, href=href), outcome, *cells))
    if not rows:
        return tag("p", "No check of a stored run failed.")
    return _wrapping(("study", COLUMNS[-1], *COLUMNS[:-1]), rows, "Checks that did not pass")


def _wrapping(names: Iterable[str], rows: Iterable[Iterable[object]], label: str) -> Markup:
    """Return a table whose columns of text are wrapped."""
    return table([(name, "wrap") for name in names], rows, label)


def _checks(run: StoredRun) -> Sequence[Check]:
    return run.verdict.checks if run.verdict is not None else ()


def _html_study(
    entry: Entry, run: StoredRun, read_drawing: Callable[[StoredRun, str], str]
) -> Markup:
    verdict = run.verdict
    invalid = None
    if verdict is not None and verdict.invalid:
        invalid = tag("p", f"Invalid: {verdict.invalid}")
    pictures = []
    for file_name in run.drawings:
        drawing = read_drawing(run, file_name)
        figure_name = file_name.removeprefix("figure-").removesuffix(".svg")
        pictures.append(picture(drawing, caption_in(drawing, figure_name)))
    rows = [check_cells(check) for check in _checks(run)]
    return tag(
        "section",
        tag("div", tag("h2", entry.heading), badge(state_of(verdict)), class_="headline"),
        tag("p", entry.answers),
        tag("p", " · ".join(facts_of(run)), class_="soft"),
        tag("p", tag("code", command_of(run)), class_="soft"),
        invalid,
        differences(run.manifest.study.get("deviations") or ()),
        pictures,
        _wrapping(COLUMNS, rows, f"Checks of {entry.heading}") if rows else None,
        id=entry.name,
    )
