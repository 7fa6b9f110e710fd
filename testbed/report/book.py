"""The book of results: for each chapter a table of what was claimed, measured and decided, rendered from stored runs alone.

As self-contained HTML pages with their figures, and as Markdown tables for the pages of the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Check
from testbed.report.drawing.axes import plain, seconds_in_words
from testbed.report.markup import Markup, tag
from testbed.report.page import differences, page_head, picture
from testbed.report.sections import badge, scrolling
from testbed.report.wording import OUTCOME_MARKS, RELATIONS, counted, state_of, when

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
COLUMNS = ("figure or claim", "document", "predicted", "ours", "rival", "verdict")
MOST_ROWS = 14
"""Checks that hold beyond this number are counted in one row; those that do not are all shown."""
TITLES = {
    2: "Chapter 2: striped files",
    3: "Chapter 3: liquid schedules",
    4: "Chapter 4: capillary routing and redundancy",
    5: "Zarza 2011: FT-DRB and NAC",
    0: "Others",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A study of the book: its name, what it speaks to, and the run that speaks for it (None: there is none)."""

    name: str
    title: str
    answers: str
    run: StoredRun | None


@dataclass(frozen=True, kw_only=True)
class Chapter:
    number: int
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return TITLES.get(self.number, f"Chapter {self.number}")


def chapter_tables(chapter: Chapter) -> str:
    """What stands between the marks of a page of the documentation, as Markdown."""
    parts = [BEGIN, "", f"{_counts_in_words([chapter])} Written by `testbed replicate --book` from `replication/`.", ""]
    for entry in chapter.entries:
        if entry.run is not None:
            parts += [_markdown_study(entry, entry.run), ""]
    missing = [f"`{entry.name}`" for entry in chapter.entries if entry.run is None]
    if missing:
        parts += [f"No stored run: {', '.join(missing)}.", ""]
    return "\n".join([*parts, END])


def with_tables(page: str, chapter: Chapter) -> str:
    """A page with the tables between its marks, or at its end where it has none."""
    if BEGIN in page and END in page:
        before, rest = page.split(BEGIN, 1)
        return before + chapter_tables(chapter) + rest.split(END, 1)[1]
    return page.rstrip("\n") + "\n\n## Stored results\n\n" + chapter_tables(chapter) + "\n"


def book_pages(chapters: Sequence[Chapter], read_drawing: Callable[[StoredRun, str], str]) -> dict[str, str]:
    """File name -> HTML page: ``index.html`` and one a chapter. ``read_drawing(run, name)`` gives an SVG document."""
    pages = {"index.html": _page("What holds", _index(chapters))}
    for chapter in chapters:
        body = [_html_study(entry, entry.run, read_drawing) for entry in chapter.entries if entry.run is not None]
        missing = [
            tag("li", f"{entry.title or entry.name}: {entry.answers}") for entry in chapter.entries if not entry.run
        ]
        rest = [tag("h2", "Without a stored run"), tag("ul", missing, class_="plain")] if missing else []
        up = tag("p", tag("a", "all chapters", href="index.html"))
        pages[f"chapter_{chapter.number}.html"] = _page(chapter.title, [up, *body, *rest])
    return pages


def shown_checks(run: StoredRun) -> tuple[list[Check], int]:
    """The checks that get a row: all that do not hold and the first that do; and how many are left out."""
    checks = run.verdict.checks if run.verdict is not None else ()
    holding = [c for c in checks if c.passed]
    room = max(0, MOST_ROWS - sum(not c.passed for c in checks))
    kept = {id(c) for c in holding[:room]}
    return [c for c in checks if not c.passed or id(c) in kept], max(0, len(holding) - room)


def size_in_words(run: StoredRun) -> str:
    """Full, quick or part, and of how many points."""
    whole = run.size if run.verdict is not None else f"part of the {run.size} study"
    return f"{whole}, {counted(run.points, 'point')}"


def _counts(chapters: Iterable[Chapter]) -> dict[str, int]:
    entries = [entry for chapter in chapters for entry in chapter.entries]
    runs = [entry.run for entry in entries if entry.run is not None]
    checks = [c for run in runs if run.verdict is not None for c in run.verdict.checks]
    return {
        "studies": len(entries),
        "at full size": sum(run.size == "full" and run.verdict is not None for run in runs),
        "in part": sum(run.verdict is None for run in runs),
        "quick": sum(run.size == "quick" and run.verdict is not None for run in runs),
        "not run": len(entries) - len(runs),
        "checks": len(checks),
        "hold": sum(c.outcome == "holds" for c in checks),
        "fail": sum(c.outcome == "fails" for c in checks),
        "cannot tell": sum(c.outcome == "cannot-tell" for c in checks),
        "name a rival": sum(c.rival is not None for c in checks),
    }


def _counts_in_words(chapters: Iterable[Chapter]) -> str:
    n = _counts(chapters)
    return (
        f"{n['studies']} studies: {n['at full size']} at full size, {n['in part']} in part, {n['quick']} quick, "
        f"{n['not run']} not run. {n['checks']} checks: {n['hold']} hold, {n['fail']} fail, "
        f"{n['cannot tell']} cannot tell; {n['name a rival']} name a rival."
    )


def _cells(check: Check) -> tuple[str, ...]:
    """One row of text: claim, document, predicted, ours, rival, verdict."""
    between = "" if check.interval is None else f" [{plain(check.interval[0], 4)}, {plain(check.interval[1], 4)}]"
    predicted = "" if check.predicted is None else RELATIONS.get(check.relation, "") + plain(check.predicted, 4)
    predicted += f" ± {plain(check.tolerance, 3)}" if check.tolerance else ""
    rival = "" if check.rival is None else plain(check.rival, 4)
    return (
        check.name + (f" ({check.detail})" if check.detail else ""),
        "" if check.document is None else str(check.document),
        predicted,
        "" if check.measured is None else plain(check.measured, 4) + between,
        f"{rival} ({check.rival_note})" if rival and check.rival_note else rival or check.rival_note,
        f"{OUTCOME_MARKS[check.outcome]} {check.outcome.replace('-', ' ')}",
    )


def _facts(run: StoredRun) -> list[str]:
    """How and where it was run, in words."""
    manifest = run.manifest
    machine = manifest.machine
    facts = [size_in_words(run), when(manifest.started)]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    if machine.get("cores"):
        facts.append(f"{counted(int(machine['cores']), 'core')}, {machine.get('system', 'Linux')}")
    return [fact for fact in facts if fact]


def _markdown_study(entry: Entry, run: StoredRun) -> str:
    state = run.state.replace("-", " ")
    lines = [f"### `{entry.name}`: {state}", "", f"{entry.title or entry.answers}. {'; '.join(_facts(run))}."]
    lines += [f"Command: `{run.manifest.command}`.", ""]
    deviations = run.manifest.study.get("deviations") or []
    if deviations:
        lines += [*(f"- Differs from the document: {words}" for words in deviations), ""]
    if run.verdict is not None and run.verdict.invalid is not None:
        lines += [f"Invalid: {run.verdict.invalid}", ""]
    checks, more = shown_checks(run)
    if checks:
        lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        lines += ["| " + " | ".join(_escaped(cell) for cell in _cells(check)) + " |" for check in checks]
        lines += [f"| {more} further checks hold | | | | | |"] if more else []
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _page(title: str, body: Sequence[Any]) -> str:
    header = tag("header", tag("div", tag("h1", title), class_="headline"))
    return (
        "<!doctype html>\n" + tag("html", page_head(title), tag("body", header, tag("main", *body)), lang="en") + "\n"
    )


def _index(chapters: Sequence[Chapter]) -> list[Any]:
    columns = list(_counts([]))
    head = tag("tr", tag("th", ""), [tag("th", name, scope="col") for name in columns])
    rows = []
    for chapter in chapters:
        n = _counts([chapter])
        link = tag("a", chapter.title, href=f"chapter_{chapter.number}.html")
        rows.append(tag("tr", tag("td", link), [tag("td", str(n[name]), class_="n") for name in columns]))
    total = _counts(chapters)
    rows.append(tag("tr", tag("td", tag("b", "All")), [tag("td", str(total[name]), class_="n") for name in columns]))
    return [
        tag("p", _counts_in_words(chapters), class_="lead"),
        scrolling(tag("table", tag("thead", head), tag("tbody", rows)), "Counts by chapter"),
        tag("h2", "What did not pass"),
        _not_passed(chapters),
    ]


def _not_passed(chapters: Sequence[Chapter]) -> Markup:
    rows = []
    for entry in (entry for chapter in chapters for entry in chapter.entries):
        for check in entry.run.verdict.checks if entry.run is not None and entry.run.verdict is not None else ():
            if not check.passed:
                rows.append(
                    tag("tr", tag("td", entry.name), [tag("td", cell, class_="wrap") for cell in _cells(check)])
                )
    if not rows:
        return tag("p", "No check of a stored run failed.")
    head = tag("tr", [tag("th", name, scope="col") for name in ("study", *COLUMNS)])
    return scrolling(tag("table", tag("thead", head), tag("tbody", rows)), "Checks that did not pass")


def _html_study(entry: Entry, run: StoredRun, read_drawing: Callable[[StoredRun, str], str]) -> Markup:
    heading = entry.title or entry.name.replace("_", " ")
    checks, more = shown_checks(run)
    head = tag("tr", [tag("th", name, scope="col") for name in COLUMNS])
    rows = [tag("tr", [tag("td", cell, class_="wrap") for cell in _cells(check)]) for check in checks]
    return tag(
        "section",
        tag("div", tag("h2", heading), badge(state_of(run.verdict)), class_="headline"),
        tag("p", entry.answers),
        tag("p", " · ".join(_facts(run)), class_="soft"),
        tag("p", tag("code", run.manifest.command), class_="soft"),
        differences(run.manifest.study.get("deviations") or ()),
        [picture(read_drawing(run, name), _caption(name)) for name in run.drawings],
        scrolling(tag("table", tag("thead", head), tag("tbody", rows)), f"Checks of {entry.name}") if rows else None,
        tag("p", f"{counted(more, 'further check')} hold.") if more else None,
    )


def _caption(name: str) -> str:
    return name.removeprefix("figure-").removesuffix(".svg").replace("_", " ").replace("-", " ")
