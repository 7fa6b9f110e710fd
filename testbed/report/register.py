"""The register of claims: each claim of the documents, its checks, their outcomes and sizes.

The package of the studies declares which checks are about a claim. Outcomes, sizes and commands are
taken from stored runs.
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

# Headings of the register.
COLUMNS = ("document", "chapter", "page", "where", "claim", "limit", "shown by", "note")
# How completely a claim was checked (see ``Row.standing``).
STANDINGS = ("full", "reduced", "computed", "by-test", "missing")
# The outcome of a claim is the first of these that any of its checks has.
OUTCOMES = ("fails", "cannot-tell", "holds", "by-test", "missing")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Evidence for a claim: a check of a study, or a test, program or page.

    Attributes:
        study: Name of the study, empty for a test, program or page.
        check: Key of the check.
        size: Size of the run that made the check.
        outcome: One of ``OUTCOMES``.
        command: Command that repeats the run or the test, or the name of the page.
    """

    study: str
    check: str
    size: str
    outcome: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim with its evidence.

    Attributes:
        document: Name of the document.
        chapter: Chapter as the document numbers it.
        page: Page on which the section or figure begins, None if the text has no pages.
        where: Description of the passage.
        claim: The claim.
        limit: "reduced", or "computed" (in virtual time or by a formula), or empty if neither.
        note: Explanation of the limit.
        shown: The evidence.
    """

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
        """The first of ``OUTCOMES`` that any of the checks has.

        It is ``by-test`` if no study is about the claim, and ``missing`` if there is no evidence.
        """
        outcomes = {shown.outcome for shown in self.shown}
        for name in OUTCOMES:
            if name in outcomes:
                return name
        return "missing"

    @property
    def standing(self) -> str:
        """One of ``STANDINGS``; ``full`` if every study of the claim ran at full size.

        The full size of a study is the size that the document used.
        """
        if self.outcome in ("by-test", "missing"):
            return self.outcome
        if self.limit:
            return self.limit
        all_full = all(shown.size == "full" for shown in self.shown if shown.study)
        return "full" if all_full else "reduced"

    @property
    def studies(self) -> list[str]:
        """Names of the studies that are about the claim, in their order."""
        return list(dict.fromkeys(shown.study for shown in self.shown if shown.study))

    def to_json(self) -> list[Json]:
        """Return one object for each piece of evidence, or one object if there is none."""
        claim = {
            "document": self.document,
            "chapter": self.chapter,
            "page": self.page,
            "where": self.where,
            "claim": self.claim,
            "note": self.note,
        }
        nothing = Shown(study="", check="", size="", outcome="missing", command="")
        evidence = self.shown or (nothing,)
        return [claim | vars(shown) | {"standing": self.standing} for shown in evidence]


def read_register(text: str, name: str, runs: Mapping[str, StoredRun | None]) -> list[Row]:
    """Parse the register of declared claims.

    Each line has the fields of ``COLUMNS`` between tabs. The evidence of a claim is a list between
    semicolons of ``STUDY``, ``STUDY:KEY`` (key of its checks, may contain ``*``), or a test,
    program or page.

    Args:
        text: Content of the register.
        name: Name of the register, for error messages.
        runs: The stored run of each study, None for a study without one.

    Raises:
        InputError: A study has no check with that key. The message names the line.
    """
    lines = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    rows = []
    # Line 1 contains the headings.
    for number, line in enumerate(lines, start=2):
        rows.append(_row(line, f"{name}:{number}", runs))
    return rows


def _row(line: Mapping[str, str], position: str, runs: Mapping[str, StoredRun | None]) -> Row:
    shown: list[Shown] = []
    for evidence in line["shown by"].split("; "):
        if not evidence:
            continue
        study, _, key = evidence.partition(":")
        if study in runs:
            shown += _checks(study, key or "*", position, runs[study])
        else:
            shown.append(_without_study(evidence))
    return Row(
        document=line["document"],
        chapter=line["chapter"],
        page=int(line["page"]) if line["page"] else None,
        where=line["where"],
        claim=line["claim"],
        limit=line["limit"],
        note=line["note"],
        shown=tuple(shown),
    )


def _checks(study: str, key: str, position: str, run: StoredRun | None) -> list[Shown]:
    if run is None or run.verdict is None:
        command = f"testbed experiment run {study}"
        return [Shown(study=study, check=key, size="", outcome="missing", command=command)]
    evidence = []
    for check in run.verdict.keyed().checks:
        if fnmatchcase(check.key, key):
            shown = Shown(
                study=study,
                check=check.key,
                size=run.size,
                outcome=check.outcome,
                command=command_of(run),
            )
            evidence.append(shown)
    if not evidence:
        raise InputError(
            f"{position}: {study} has no check {key}; testbed report of its run names the checks"
        )
    return evidence


def _without_study(text: str) -> Shown:
    command = f"python -m pytest {text}" if text.startswith("tests/") else text
    return Shown(study="", check="", size="", outcome="by-test", command=command)


def chapter_of(row: Row) -> str:
    """Return document and chapter without the section, for example "000 4"."""
    return f"{row.document} {row.chapter.split('.')[0]}"


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Return the total number of claims, and the number with each standing and outcome."""
    claims = list(rows)
    standings = Counter(row.standing for row in claims)
    outcomes = Counter(row.outcome for row in claims)
    result = {"claims": len(claims)}
    for name in STANDINGS:
        result[name] = standings[name]
    for name in ("holds", "fails", "cannot-tell"):
        result[name] = outcomes[name]
    return result


def counts_by_chapter(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Return the ``counts`` of each chapter, in the order of the register."""
    rows_by_chapter: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_chapter.setdefault(chapter_of(row), []).append(row)
    return {chapter: counts(claims) for chapter, claims in rows_by_chapter.items()}


def outcome_in_words(row: Row) -> str:
    """Return a text with the number of checks by outcome, or that a test is the evidence."""
    checks = Counter(shown.outcome for shown in row.shown if shown.study)
    if not checks:
        return row.outcome.replace("-", " ") if row.shown else ""
    outcomes = []
    for name in ("holds", "fails", "cannot-tell", "missing"):
        if checks[name]:
            outcomes.append(f"{checks[name]} {name.replace('-', ' ')}")
    return f"{counted(checks.total(), 'check')}: {', '.join(outcomes)}"
