"""What is declared of claims exists, and a claim in full has full runs."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from testbed.cli import main
from testbed.commands.studies.book import book_chapters, register_of
from testbed.commands.studies.experiment import find_experiments
from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.stored_runs import StoredRun
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.book import Chapter
from testbed.report.register import (
    COLUMNS,
    Row,
    counts,
    counts_by_chapter,
    outcome_in_words,
    read_register,
)
from testbed.results.study_store import STORED
from tests.helpers.paths import ROOT


@pytest.fixture(scope="module")
def found() -> list[Chapter]:
    return book_chapters(ROOT / STORED)


@pytest.fixture(scope="module")
def rows(found: list[Chapter]) -> list[Row]:
    return register_of(found)


def test_studies_serve_a_claim_or_say_that_they_do_not(
    rows: list[Row],
) -> None:
    idle = set(find_experiments()) - {study for row in rows for study in row.studies}
    assert all("not in the documents" in find_experiments()[name].answers for name in idle)


def test_evidence_of_each_claim_exists(rows: list[Row]) -> None:
    words = {one.command for row in rows for one in row.shown if not one.study}
    paths = [
        text.removeprefix("python -m pytest ")
        for text in words
        if not text.startswith(("testbed ", "--"))
    ]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert not [
        row.where
        for row in rows
        if any(one.study and one.outcome == "missing" for one in row.shown)
    ]


def test_a_claim_in_full_has_full_runs_and_every_other_its_reason(rows: list[Row]) -> None:
    sizes = [
        (row.where, one.size)
        for row in rows
        if row.standing == "full"
        for one in row.shown
        if one.study
    ]
    assert {size for _, size in sizes} == {"full"}
    own = {"quick", "own options"}
    silent = [
        r.where
        for r in rows
        if r.limit and not r.note and not own & {one.size for one in r.shown} and r.shown
    ]
    assert silent == []


def test_all_four_documents_with_chapter_4_and_appendix_g_are_counted(rows: list[Row]) -> None:
    by_chapter = counts_by_chapter(rows)
    assert (
        by_chapter["000 4"]["claims"]
        + by_chapter["000 Further work"]["claims"]
        + by_chapter["000 G"]["claims"]
        >= 45
    )
    totals = counts(rows)
    assert totals["claims"] == len(rows) == sum(found["claims"] for found in by_chapter.values())
    assert totals["claims"] == sum(
        totals[name] for name in ("full", "reduced", "computed", "by-test", "missing")
    )
    shown = totals["full"] + totals["reduced"] + totals["computed"]
    assert shown == sum(totals[name] for name in ("holds", "fails", "cannot-tell"))


def test_the_command_lists_a_check_of_the_stored_verdict_for_each_claim(
    found: list[Chapter], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "testbed.commands.studies.replicate.book_chapters",
        lambda root: found if root == STORED else [],
    )
    assert main(["replicate", "--claims", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {"document", "chapter", "page", "claim", "check", "study", "size", "outcome", "command"}
    assert all(keys <= claim.keys() for claim in document["claims"])
    assert {claim["document"] for claim in document["claims"]} == {"000", "001", "002", "003"}
    assert {claim["outcome"] for claim in document["claims"]} == {
        "holds",
        "fails",
        "cannot-tell",
        "by-test",
        "missing",
    }
    assert document["counts"]["000 G"]["claims"] == 8
    assert set(document["idle"]) == set(find_experiments()) - {
        claim["study"] for claim in document["claims"]
    }


def stored(*checks: Check, size: str = "full") -> StoredRun:
    manifest = Manifest(
        name="gains", run="1", started="", seconds=1.0, command="testbed experiment run gains", machine={},
        study={"size": size},
    )  # fmt: skip
    return StoredRun(
        directory=PurePath("1"), manifest=manifest, points=1, verdict=Verdict(checks=checks)
    )


HOLDS, FAILS = (
    Claim("gain of two", "gain-two").equal(2, 2),
    Claim("gain of one", "gain-one").equal(1, 2),
)
UNSURE = Claim("loss", "loss").at_least(1, (1.1, 1))


def one_row(shown: str, limit: str = "", run: StoredRun | None = None) -> Row:
    line = "\t".join(("000", "3.9", "62", "3.9, Figure 66", "gain", limit, shown, ""))
    (row,) = read_register("\t".join(COLUMNS) + f"\n{line}\n", "claims.tsv", {"gains": run})
    return row


@pytest.mark.parametrize(
    ("shown", "limit", "size", "standing", "outcome"),
    [
        ("gains:gain-two", "", "full", "full", "holds"),
        ("gains:gain-*", "", "full", "full", "fails"),
        ("gains:gain-two; gains:loss", "", "full", "full", "cannot-tell"),
        ("gains", "", "quick", "reduced", "fails"),
        ("gains:gain-two", "", "own options", "reduced", "holds"),
        ("gains:gain-two; tests/a.py", "computed", "full", "computed", "holds"),
        ("tests/a.py", "", "full", "by-test", "by-test"),
        ("tests/a.py", "reduced", "full", "by-test", "by-test"),
        ("", "missing", "full", "missing", "missing"),
    ],
)
def test_how_a_claim_stands_follows_from_its_checks_and_their_size(
    shown: str, limit: str, size: str, standing: str, outcome: str
) -> None:
    row = one_row(shown, limit, stored(HOLDS, FAILS, UNSURE, size=size))
    assert (row.standing, row.outcome) == (standing, outcome)
    assert [one["outcome"] for one in row.to_json()] and row.to_json()[0]["page"] == 62


def test_rows_page_counts_outcomes_and_studies_without_a_run() -> None:
    assert (
        outcome_in_words(one_row("gains", run=stored(HOLDS, FAILS, UNSURE)))
        == "3 checks: 1 holds, 1 fails, 1 cannot tell"
    )
    assert outcome_in_words(one_row("tests/a.py")) == "by test"
    assert one_row("gains").outcome == "missing"


def test_a_key_that_no_check_has_is_refused_with_the_line() -> None:
    with pytest.raises(InputError, match=r"claims.tsv:2: gains has no check los\*t"):
        one_row("gains:los*t", run=stored(HOLDS))
