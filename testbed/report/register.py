"""The register of claims: each claim of the documents, the checks that speak of it, what came out, and at which size.

The package of the studies declares which checks speak of a claim; outcomes, sizes and commands are those of stored
runs.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from testbed.errors import InputError
from testbed.model.stored_runs import StoredRun
from testbed.report.book import command_of
from testbed.report.wording import counted
from topologies.text.json_types import Json

COLUMNS = ("document", "chapter", "page", "where", "claim", "limit", "shown by", "note")
STANDINGS = ("full", "reduced", "computed", "by-test", "missing")
OUTCOMES = ("fails", "cannot-tell", "holds", "by-test", "missing")
"""Of several checks of one claim the first of these that there is."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What speaks of a claim: a check of a study by its key, or (``study`` empty) a test, program or page,
    ``command``."""

    study: str
    check: str
    size: str
    outcome: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim: ``chapter`` as the document numbers it, ``page`` on which its section or figure begins (None: the text
    has no pages), ``where`` in words. ``limit``: "reduced" or "computed" (in virtual time, or by a formula) where it is
    shown so, which ``note`` explains."""

    document: str
    chapter: str
    page: int | None
    where: str
    claim: str
    limit: str
    note: str
    shown: tuple[Shown, ...]

    @property
    def outcome(self) -> str:
        """Of all checks together; ``by-test`` where no study speaks of it, ``missing`` where nothing does."""
        return next(
            name
            for name in OUTCOMES
            if name in {one.outcome for one in self.shown} or name == "missing"
        )

    @property
    def standing(self) -> str:
        """One of ``STANDINGS``: ``full`` where studies show it, each at its full size, which is the document's."""
        if self.outcome in ("by-test", "missing"):
            return self.outcome
        whole = all(one.size == "full" for one in self.shown if one.study)
        return self.limit or ("full" if whole else "reduced")

    @property
    def studies(self) -> list[str]:
        return list(dict.fromkeys(one.study for one in self.shown if one.study))

    def to_json(self) -> list[Json]:
        """An object for each check, test or page that speaks of it; one where nothing does."""
        nothing = Shown(study="", check="", size="", outcome="missing", command="")
        own = {
            name: getattr(self, name)
            for name in ("document", "chapter", "page", "where", "claim", "note")
        }
        return [own | vars(one) | {"standing": self.standing} for one in self.shown or (nothing,)]


def read_register(text: str, place: str, runs: Mapping[str, StoredRun | None]) -> list[Row]:
    """The register of declared claims, a line each with ``COLUMNS`` between tabs.

    What shows a claim stands between semicolons: ``STUDY``, ``STUDY:KEY`` (of its checks, with ``*``), or a test,
    program or page. ``runs``: study -> the run that speaks for it. InputError, naming the line, where a study has no
    check of that key.
    """
    return [
        _row(line, f"{place}:{number}", runs) for number, line in enumerate(_lines(text), start=2)
    ]


def _lines(text: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)


def _row(line: Mapping[str, str], place: str, runs: Mapping[str, StoredRun | None]) -> Row:
    shown: list[Shown] = []
    for words in filter(None, line["shown by"].split("; ")):
        study, _, key = words.partition(":")
        shown += (
            _checks(study, key or "*", place, runs[study])
            if study in runs
            else [_without_study(words)]
        )
    rest = {name: line[name] for name in ("document", "chapter", "where", "claim", "limit", "note")}
    return Row(**rest, page=int(line["page"]) if line["page"] else None, shown=tuple(shown))


def _checks(study: str, key: str, place: str, run: StoredRun | None) -> list[Shown]:
    if run is None or run.verdict is None:
        return [
            Shown(
                study=study,
                check=key,
                size="",
                outcome="missing",
                command=f"testbed experiment run {study}",
            )
        ]
    found = [
        Shown(
            study=study,
            check=check.key,
            size=run.size,
            outcome=check.outcome,
            command=command_of(run),
        )
        for check in run.verdict.keyed().checks
        if fnmatchcase(check.key, key)
    ]
    if not found:
        raise InputError(
            f"{place}: {study} has no check {key}; testbed report of its run names the checks"
        )
    return found


def _without_study(words: str) -> Shown:
    command = f"python -m pytest {words}" if words.startswith("tests/") else words
    return Shown(study="", check="", size="", outcome="by-test", command=command)


def chapter_of(row: Row) -> str:
    """Document and chapter, without its sections: "000 4"."""
    return f"{row.document} {row.chapter.split('.')[0]}"


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """How many claims there are, how they stand, and how those that studies show came out."""
    every = list(rows)
    standing, outcome = (
        Counter(row.standing for row in every),
        Counter(row.outcome for row in every),
    )
    return {
        "claims": len(every),
        **{name: standing[name] for name in STANDINGS},
        **{name: outcome[name] for name in ("holds", "fails", "cannot-tell")},
    }


def counts_by_chapter(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """``counts`` of each chapter, in the order of the register."""
    return {
        name: counts(r for r in rows if chapter_of(r) == name)
        for name in dict.fromkeys(map(chapter_of, rows))
    }


def outcome_in_words(row: Row) -> str:
    """How many of its checks came out how, or that a test shows it."""
    checks = Counter(one.outcome for one in row.shown if one.study)
    if not checks:
        return row.outcome.replace("-", " ") if row.shown else ""
    said = [
        f"{checks[name]} {name.replace('-', ' ')}"
        for name in ("holds", "fails", "cannot-tell", "missing")
    ]
    return (
        counted(checks.total(), "check")
        + ": "
        + ", ".join(words for words in said if not words.startswith("0 "))
    )
