"""The tables of the book as Markdown, between two marks in the pages of the documentation."""

from collections.abc import Iterable, Sequence

from testbed.model.naming.printable import printable
from testbed.model.stored_runs import StoredRun
from testbed.report.book import (
    COLUMNS,
    Entry,
    check_cells,
    command_of,
    counts_in_words,
    facts_of,
    shown_checks,
    size_in_words,
    tally,
)

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
OVERVIEW = ("study", "size of the run", "verdict", "hold", "fail", "cannot tell", "command")


def page_tables(entries: Sequence[Entry]) -> str:
    """What stands between the marks: the counts, a row a study, then each study's checks."""
    ran = [(entry, entry.run) for entry in entries if entry.run is not None]
    parts = [
        BEGIN,
        "",
        f"{' '.join(counts_in_words(entries))} Written by `testbed replicate --report-only` from `data/replication/`.",
        "",
    ]
    if ran:
        parts += [*_table(OVERVIEW, [_overview(entry, run) for entry, run in ran]), ""]
    for entry, run in ran:
        parts += [_study(entry, run), ""]
    missing = [f"{entry.heading} (`{entry.name}`)" for entry in entries if entry.run is None]
    if missing:
        parts += [f"No stored run: {'; '.join(missing)}.", ""]
    return "\n".join([*parts, END])


def with_tables(page: str, entries: Sequence[Entry]) -> str:
    """A page with the tables between its marks, or at its end where it has none."""
    if BEGIN in page and END in page:
        before, rest = page.split(BEGIN, 1)
        return before + page_tables(entries) + rest.split(END, 1)[1]
    return page.rstrip("\n") + "\n\n## Stored results\n\n" + page_tables(entries) + "\n"


def with_counts(page: str, entries: Sequence[Entry]) -> str:
    """A front page with the counts of all studies between its marks; as it is where it has none."""
    return between_marks(page, [" ".join(counts_in_words(entries))])


def between_marks(page: str, lines: Iterable[str]) -> str:
    """A page with these lines between its marks; as it is where it has none."""
    if BEGIN not in page or END not in page:
        return page
    before, rest = page.split(BEGIN, 1)
    return "\n".join([before + BEGIN, "", *lines, "", END + rest.split(END, 1)[1]])


def errata_of(page: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the table below the page's heading "Errata", the names of its columns first; none where there is no
    such table."""
    _, heading, below = page.partition("\n## Errata\n")
    lines = [line for line in below.split("\n## ")[0].splitlines() if line.startswith("|")] if heading else []
    rows = [tuple(cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")) for line in lines]
    return tuple(tuple(cell.replace("\0", "\\|") for cell in row) for k, row in enumerate(rows) if k != 1)


def _overview(entry: Entry, run: StoredRun) -> tuple[str, ...]:
    counts = tally([run])
    outcomes = [str(counts[name]) for name in ("hold", "fail", "cannot tell")]
    return entry.heading, size_in_words(run), run.state.replace("-", " "), *outcomes, f"`{command_of(run)}`"


def _study(entry: Entry, run: StoredRun) -> str:
    lines = [f"### {entry.heading}: {run.state.replace('-', ' ')}", ""]
    lines += [f"{entry.answers}. `{command_of(run)}`; {'; '.join(facts_of(run))}.", ""]
    deviations = run.manifest.study.get("deviations") or []
    if deviations:
        lines += [*(f"- Differs from the document: {words}" for words in deviations), ""]
    if run.verdict is not None and run.verdict.invalid is not None:
        lines += [f"Invalid: {run.verdict.invalid}", ""]
    checks, more = shown_checks(run)
    if checks:
        rows = [check_cells(check) for check in checks]
        rows += [(f"{more} further checks hold", "", "", "", "", "")] if more else []
        lines += _table(COLUMNS, rows)
    return "\n".join(lines).rstrip("\n")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return [*head, *("| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows)]


def _escaped(text: str) -> str:
    text = printable(text.replace("\n", " "))
    if text.startswith("`") and text.endswith("`"):
        return text.replace("|", "\\|")
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
