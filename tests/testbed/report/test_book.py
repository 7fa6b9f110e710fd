"""The book says what stored runs say: every check with its rival, what did not pass, and what was not run."""

from __future__ import annotations

import html
from pathlib import PurePath

from testbed.model.run_records import Manifest
from testbed.model.stored_runs import StoredRun, representative_run
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.book import Chapter, Entry, book_pages, counts_in_words, number, tally

GAIN = (
    Claim("gain").equal(1.7, (1.71, 0.05), 0.1).against(1.0, "no gain").cites("1.5 to 2, page 66")
)
WEAK = Claim("order_of|methods").at_least(0.5, 1.0).against(0.9)
MANIFEST = Manifest(
    name="gains",
    run="20260102T030405Z-seed1",
    started="2026-01-02T03:04:05+00:00",
    seconds=61.0,
    command="testbed experiment run gains",
    machine={"cores": 2, "system": "Debian"},
    study={"size": "full", "deviations": ["500 kB instead of 2 MB"]},
)


def stored(
    *checks: Check,
    size: str = "full",
    run: str = "1",
    whole: bool = True,
    invalid: str | None = None,
) -> StoredRun:
    manifest = Manifest(**{**vars(MANIFEST), "run": run, "study": {**MANIFEST.study, "size": size}})
    verdict = Verdict(checks=checks, invalid=invalid) if whole else None
    return StoredRun(
        directory=PurePath(run),
        manifest=manifest,
        points=7,
        verdict=verdict,
        drawings=("figure-gains.svg",),
    )


def chapter(*runs: StoredRun | None) -> Chapter:
    entries = [
        Entry(name=f"study_{i}", title="Gains", answers="Figure 66", run=run)
        for i, run in enumerate(runs)
    ]
    return Chapter(number=3, entries=tuple(entries))


def test_numbers_have_the_digits_that_count() -> None:
    written = [number(x) for x in (6217735.0, 98.97884, 0.000140154, 12345.6, -0.5, 0.0)]
    assert written == ["6,217,735", "98.98", "0.00014", "12,346", "-0.5", "0"]


def test_checks_are_counted_by_size_and_by_whether_they_have_a_rival() -> None:
    counted = Claim("packets").equal(3, 3).against(None, "none: packets are counted")
    full, quick = stored(GAIN, counted), stored(WEAK, Claim("n").equal(1, 1), size="quick")
    assert list(tally([full]).values()) == [2, 2, 0, 0, 1, 1, 1]
    assert list(tally([quick]).values()) == [2, 1, 0, 1, 1, 0, 0]
    own = Entry(
        name="own", title="Own", answers="", run=stored(Claim("n").equal(1, 2), size="own options")
    )
    both = Entry(name="gains", title="Gains", answers="Figure 66", run=full, quick=quick)
    assert "With own options 1 check: 0 hold, 1 fail" in counts_in_words([both, own])[2]
    index = book_pages([Chapter(number=3, entries=(both,))], lambda run, name: "<svg/>")[
        "index.html"
    ]
    assert "at full size" in index and "at quick size" in index and "1 cannot tell" in index


def test_book_pages_show_figures_failures_and_the_completed_part() -> None:
    failed = Claim("a < b").equal(1, 3)
    pages = book_pages(
        [chapter(stored(GAIN, failed), stored(whole=False))], lambda run, name: "<svg/>"
    )
    assert set(pages) == {"index.html", "chapter_3.html"}
    assert html.escape("a < b") in pages["index.html"] and "1 in part" in pages["index.html"]
    assert "data:image/svg+xml;base64," in pages["chapter_3.html"]
    assert "part of the full study, 7 points" in pages["chapter_3.html"]


def test_a_chapter_shows_every_check_with_its_rival() -> None:
    every = [Claim(f"f{i}").equal(1, 2) for i in range(20)] + [
        Claim(f"n{i}").equal(1, 1) for i in range(40)
    ]
    page = book_pages([chapter(stored(*every, GAIN))], lambda run, name: "<svg/>")["chapter_3.html"]
    assert all(f">{check.name}<" in page for check in every) and "1 (no gain)" in page


def test_book_prefers_full_then_partial_then_quick_runs() -> None:
    quick, part, full = (
        stored(GAIN, size="quick", run="9"),
        stored(whole=False, run="8"),
        stored(GAIN, run="3"),
    )
    newer, invalid = stored(GAIN, run="4"), stored(GAIN, run="7", invalid="the machine was busy")
    assert representative_run([quick, part, full, newer, invalid]) is newer
    assert representative_run([quick, part]) is part
    assert representative_run([invalid, quick]) is quick
    assert representative_run([]) is None
    assert [r.state for r in (quick, part, invalid)] == ["passed", "unfinished", "invalid"]
    assert (
        stored(WEAK).state == "cannot-tell"
        and stored(WEAK, Claim("n").equal(1, 2)).state == "failed"
    )


def test_a_run_that_cannot_tell_wears_no_badge_of_failure() -> None:
    unsure = book_pages([chapter(stored(GAIN, WEAK))], lambda run, name: "<svg/>")["chapter_3.html"]
    assert (
        "badge-word cannot-tell" in unsure
        and "Cannot tell" in unsure
        and "badge-word failed" not in unsure
    )
    failing = Claim("more").at_least(2.0, 1.0).against(None, "none: a count")
    assert (
        "badge-word failed"
        in book_pages([chapter(stored(GAIN, WEAK, failing))], lambda run, name: "<svg/>")[
            "chapter_3.html"
        ]
    )
    assert (
        "badge-word invalid"
        in book_pages([chapter(stored(WEAK, invalid="too busy"))], lambda run, name: "<svg/>")[
            "chapter_3.html"
        ]
    )
