"""The page: verdict in words, nothing asked from outside, names that look like markup stay names."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import io
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from testbed.model.run_records import LoadedRun, SessionRun, combined_verdict
from testbed.model.verdict import Verdict
from testbed.report import page as page_module
from testbed.report.column_units import plain
from testbed.report.drawing.stream_figures import drawn_until_s
from testbed.report.markup import tag
from testbed.report.page import build_page
from testbed.report.tables import closing_table
from tests.helpers import sample_runs
from tests.helpers.outlines import figures_outlined

sample_run = functools.cache(sample_runs.sample_run)
VOID = {"meta", "link", "br"}


class Balance(HTMLParser):
    """Collects identifiers and addresses, and fails where an element is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "action"):
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> Balance:
    found = Balance()
    found.feed(page)
    assert found.open == []
    return found


@pytest.fixture
def without_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the test lack the sections of streams, whose figures take a second."""
    monkeypatch.setattr(page_module, "stream_section", lambda part, *, alone: tag("section"))


@functools.cache
def page_of_sample() -> str:
    return build_page(sample_run())


def test_page_is_balanced_and_its_inner_links_lead_somewhere() -> None:
    found = parsed(page_of_sample())
    assert len(found.ids) == len(set(found.ids))
    assert {a[1:] for a in found.addresses if a.startswith("#")} <= set(found.ids)


def test_page_asks_for_nothing_outside_itself() -> None:
    page = page_of_sample()
    outside = [a for a in parsed(page).addresses if not a.startswith("#")]
    assert set(outside) == {"data:,", "manifest.json", "measurements.jsonl", "verdict.json"}
    assert not re.search(r"https?://|@import|url\(", page)


def test_same_run_gives_the_same_page() -> None:
    assert page_of_sample() == build_page(sample_runs.sample_run())


@pytest.mark.parametrize(
    ("run", "badge", "reason"),
    [
        (sample_run, "Passed", "All 24 checks hold"),
        (
            lambda: sample_run(wrong=True),
            "Failed",
            "1 of 24 checks failed: optical-cloud: loss, x3-&gt;x10 down.",
        ),
        (
            lambda: sample_run(invalid="the sender lagged 140 ms"),
            "Invalid",
            "the sender lagged 140 ms",
        ),
        (
            lambda: replace(sample_run(), verdict=Verdict(checks=())),
            "Cannot tell",
            "Nothing was checked",
        ),
        (
            lambda: replace(
                sample_run(), verdict=None, unfinished="the run was interrupted before its end"
            ),
            "Unfinished",
            "There is no verdict: the run was interrupted before its end.",
        ),
    ],
    ids=["passed", "failed", "invalid", "empty", "unfinished"],
)
@pytest.mark.usefixtures("without_streams")
def test_header_gives_the_verdict_and_why(
    run: Callable[[], LoadedRun], badge: str, reason: str
) -> None:
    header = build_page(run()).split("<main>")[0]
    assert f"</span>{badge}</span>" in header
    assert reason in header


def test_names_that_look_like_markup_stay_names() -> None:
    run = sample_run()
    evil = "<script>alert(1)</script>\"'&"
    part = run.sessions[0]
    session = replace(part.session, title=evil, method=evil, fabric=evil)
    nodes = [dict(n, id=evil) if n["id"] == "s7" else n for n in session.network["nodes"]]
    links = [
        {
            **li,
            "source": evil if li["source"] == "s7" else li["source"],
            "target": evil if li["target"] == "s7" else li["target"],
        }
        for li in session.network["links"]
    ]
    session = replace(session, network={**session.network, "nodes": nodes, "links": links})
    faults = (replace(part.faults[0], kind=evil), *part.faults[1:])
    sessions = (replace(part, session=session, faults=faults),)
    manifest = replace(
        run.manifest,
        name=evil,
        command=evil,
        versions={evil: evil},
        capabilities={evil: {"detail": evil}},
    )
    page = build_page(
        LoadedRun(manifest=manifest, sessions=sessions, verdict=combined_verdict(sessions))
    )
    assert page.count("<script>") == 1
    assert "alert(1)" in page
    parsed(page)


def test_infinite_ror_is_written_with_the_reason() -> None:
    page = page_of_sample()
    assert "infinite" in page and "1 link carries every packet" in page
    assert "1 link (t0-&gt;s1) carries every packet: no code makes up for that." in page


def unpredicted(part: SessionRun) -> SessionRun:
    """As an impaired link's run: a loss by theory, no block size, nothing that the ROR is the sum of."""
    impaired = tuple(replace(f, kind="impaired", predicted_block_size=None) for f in part.faults)
    assert part.summary is not None
    return replace(
        part,
        faults=impaired,
        summary=replace(part.summary, ror_predicted=0.0, ror_measured=0.0, infinite_links=()),
    )


def test_ror_that_nothing_predicts_is_not_written_as_zero() -> None:
    run = sample_run()
    parts = tuple(unpredicted(part) for part in run.sessions)
    with figures_outlined():  # what is held here are words and tables
        alone, both = (build_page(replace(run, sessions=those)) for those in (parts[:1], parts))
    said = "ROR</abbr>, measured"
    assert said not in alone and said in page_of_sample()
    assert both.count(">unpredicted<") == len(parts)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(closing_table(parts[0]))
    assert "ROR" not in console.export_text()


def test_page_without_faults_says_so_and_its_timeline_ends_with_packets() -> None:
    part = sample_run().sessions[0]
    timeline = part.timeline
    assert timeline is not None
    count = len(timeline.t_s) // 3
    sent = tuple(100.0 if k < count else 0.0 for k in range(len(timeline.t_s)))
    quiet = replace(part, faults=(), timeline=replace(timeline, sent_pps=sent))
    quiet = replace(
        quiet, session=replace(part.session, duration_s=timeline.t_s[-1] + timeline.bin_s)
    )
    page = build_page(replace(sample_run(), sessions=(quiet,)))
    assert (
        "0 faults" not in page.split("<svg")[0]
        and "for each" not in page
        and "without a single fault: what theory" in page
    )
    assert drawn_until_s(quiet) == pytest.approx(count * timeline.bin_s)
    assert f"Nothing is sent after {plain(drawn_until_s(quiet), 1)} s" in page
    assert drawn_until_s(replace(quiet, summary=None)) == pytest.approx(
        quiet.session.duration_s
    )  # one that still goes on


def test_run_without_sessions_is_a_page_all_the_same() -> None:
    page = build_page(
        LoadedRun(
            manifest=sample_runs.sample_manifest(), sessions=(), verdict=None, unfinished="killed"
        )
    )
    assert "No stream was recorded." in page
    parsed(page)


def test_every_element_of_a_session_is_on_its_page() -> None:
    page = page_of_sample()
    for words in (
        "Network and route", "Loss and redundancy over time", "Block size", "Faults, prediction beside measurement",
        "loaded links", "checks passed", "Notes", "Machine and versions", "Links carry", "Machine capabilities",
        "Records",
    ):  # fmt: skip
        assert words in page, words


def test_attributes_and_children_are_escaped_and_short() -> None:
    assert tag("p", '<"&', title='a"b') == '<p title="a&quot;b">&lt;&quot;&amp;</p>'
    assert (
        tag("line", x1=1.0, y1=2.3456, hidden=True, id=None)
        == '<line x1="1" y1="2.35" hidden></line>'
    )
    assert tag("g", [tag("a"), [tag("b"), "<"]]) == "<g><a></a><b></b>&lt;</g>"


def test_only_the_pages_own_script_may_run() -> None:
    page = page_of_sample()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]  # type: ignore[index]
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{own}';" in policy and page.count("<script") == 1
    assert not re.search(r"<[^>]* on[a-z]+=", page)


@pytest.mark.usefixtures("without_streams")
def test_command_breaks_between_words_and_can_be_copied() -> None:
    run = sample_run()
    manifest = replace(run.manifest, command="testbed stream 'a b.json' --max-faults 2")
    page = build_page(replace(run, manifest=manifest))
    (command,) = re.findall(r'<code class="command">(.*?)</code>', page)
    words = re.findall(r"<span>(.*?)</span>", command)
    assert words[-2:] == ["--max-faults", "2"]
    assert html.unescape(re.sub("<.*?>", "", command)) == manifest.command
    assert re.search(r'<button type="button" class="copy" hidden>', page)


@pytest.mark.usefixtures("without_streams")
def test_date_stands_once_on_the_page() -> None:
    run = sample_run()
    started = "2026-11-28T19:12:45+00:00"
    page = build_page(replace(run, manifest=replace(run.manifest, started=started)))
    header = page.partition("</header>")[0].replace("\u00a0", " ")
    assert header.count("28 November 2026") == 1


def test_heading_of_a_stream_names_its_ends_once() -> None:
    part = sample_run().sessions[0]
    ends = f"{part.session.source} to {part.session.sink}"
    title = f"swiss-t1 {ends}"
    console = Console(file=io.StringIO(), width=100)
    console.print(closing_table(replace(part, session=replace(part.session, title=title))))
    heading = console.file.getvalue().splitlines()[0]  # type: ignore[attr-defined]
    assert heading.startswith(f"{title}, ") and heading.count(ends) == 1


def test_page_and_table_say_stream_not_session() -> None:
    run = sample_run()
    cut = replace(run.sessions[0], summary=None)
    runs = [run, replace(run, sessions=(cut, *run.sessions[1:]), verdict=None)]
    for one in runs:
        with figures_outlined():  # outlines have all words of the figures
            page = re.sub(r"<(style|script)\b.*?</\1>", "", build_page(one), flags=re.DOTALL)
        table = io.StringIO()
        Console(file=table, width=200).print(closing_table(one))
        assert "All streams" in page
        for text in (page, table.getvalue()):
            assert not re.search("session", text, re.IGNORECASE)
    assert "the stream did not end" in combined_verdict([cut]).invalid
