"""The page: verdict in words, nothing asked from outside, names that look like markup stay names."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from testbed.model.run_records import LoadedRun, combined_verdict
from testbed.model.verdict import Verdict
from testbed.report.markup import tag
from testbed.report.page import build_page
from tests.helpers import sample_runs

sample_run = sample_runs.sample_run
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


def test_page_is_balanced_and_its_inner_links_lead_somewhere() -> None:
    found = parsed(build_page(sample_run()))
    assert len(found.ids) == len(set(found.ids))
    assert {a[1:] for a in found.addresses if a.startswith("#")} <= set(found.ids)


def test_page_asks_for_nothing_outside_itself() -> None:
    page = build_page(sample_run())
    outside = [a for a in parsed(page).addresses if not a.startswith("#")]
    assert set(outside) == {"data:,", "manifest.json", "measurements.jsonl", "verdict.json"}
    assert not re.search(r"https?://|@import|url\(", page)


def test_same_run_gives_the_same_page() -> None:
    assert build_page(sample_run()) == build_page(sample_run())


@pytest.mark.parametrize(
    ("run", "badge", "reason"),
    [
        (sample_run(), "Passed", "All 24 checks hold"),
        (sample_run(wrong=True), "Failed", "1 of 24 checks failed: optical-cloud: loss, x3-&gt;x10 down."),
        (sample_run(invalid="the sender lagged 140 ms"), "Invalid", "the sender lagged 140 ms"),
        (replace(sample_run(), verdict=Verdict(checks=())), "Failed", "Nothing was checked"),
        (
            replace(sample_run(), verdict=None, unfinished="the run was interrupted before its end"),
            "Unfinished",
            "There is no verdict: the run was interrupted before its end.",
        ),
    ],
    ids=["passed", "failed", "invalid", "empty", "unfinished"],
)
def test_header_gives_the_verdict_and_why(run: LoadedRun, badge: str, reason: str) -> None:
    header = build_page(run).split("<main>")[0]
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
    faults = (replace(part.faults[0], skipped=evil), *part.faults[1:])
    sessions = (replace(part, session=session, faults=faults),)
    manifest = replace(
        run.manifest, name=evil, command=evil, versions={evil: evil}, capabilities={evil: {"detail": evil}}
    )
    page = build_page(LoadedRun(manifest=manifest, sessions=sessions, verdict=combined_verdict(sessions)))
    assert page.count("<script>") == 1
    assert "alert(1)" in page
    parsed(page)


def test_infinite_ror_is_written_with_the_reason() -> None:
    page = build_page(sample_run())
    assert "infinite" in page and "1 link carries every packet" in page
    assert "1 link (t0-&gt;s1) carries every packet: no code makes up for that." in page


def test_run_without_sessions_is_a_page_all_the_same() -> None:
    page = build_page(LoadedRun(manifest=sample_runs.sample_manifest(), sessions=(), verdict=None, unfinished="killed"))
    assert "No session was recorded." in page
    parsed(page)


def test_every_element_of_a_session_is_on_its_page() -> None:
    page = build_page(sample_run())
    for words in (
        "Network and route", "Loss and redundancy over time", "Block size", "Faults, prediction beside measurement",
        "loaded links", "checks passed", "Notes", "Machine and versions", "Links carry", "What the machine offers", "Records",
    ):  # fmt: skip
        assert words in page, words


def test_attributes_and_children_are_escaped_and_short() -> None:
    assert tag("p", '<"&', title='a"b') == '<p title="a&quot;b">&lt;&quot;&amp;</p>'
    assert tag("line", x1=1.0, y1=2.3456, hidden=True, id=None) == '<line x1="1" y1="2.35" hidden></line>'
    assert tag("g", [tag("a"), [tag("b"), "<"]]) == "<g><a></a><b></b>&lt;</g>"
