"""axe-core over one page of everything that makes one, and over the live page: nothing against WCAG 2.2 AA."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.live.adapters import feed
from testbed.live.events import Sample
from testbed.live.run_views import idle_network_view
from testbed.model.progress import CounterReading
from tests.helpers import chromium_pipe, workload_pages
from tests.helpers.drawn import SOAK
from tests.helpers.outlines import figures_outlined
from topologies import load_network

PACKAGE = "axe_playwright_python"
"""Ships axe.min.js."""
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
FOUND = f"axe.run(document, {{runOnly: {RULES}}}).then((found) => found.violations.map(" + (
    "(one) => `${one.id}: ${one.help} (${one.nodes.length}), ${one.nodes[0].html.slice(0, 160)}`))"
)
WIDTHS = [(1280, True), (390, False)]
"""In CSS pixels, and whether dark. `make test` opens every other page dark and the others narrow, as what axe finds of
structure is in both, and colours are those of one style sheet; `make soak` opens all in both."""
DRAWN = ("stream", "route", "simulate", "schedule")
"""Pages whose figures `make test` draws in full, between them all kinds; those of others are outlines."""
OUTLINED = ("mobility", "bulk-faults", "sfio", "study", "campaign")
"""The others that `make test` opens: one of each kind of page."""


def lack(what: str) -> None:
    if os.environ.get("TESTBED_REQUIRE_CHROMIUM") == "1":
        pytest.fail(f"{what}, and TESTBED_REQUIRE_CHROMIUM=1 asks for it")
    pytest.skip(what)


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's script; its package also brings a browser's driver, which is not used."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        lack("no axe-core here; pip install axe-playwright-python")
    assert found is not None and found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium_pipe.find_chromium()
    if program is None:
        lack("no Chromium on this machine; install chromium")
    assert program is not None
    with chromium_pipe.Browser(program) as running:
        running.call("Page.setBypassCSP", enabled=True)  # axe is no script of the page
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    if SOAK:
        return workload_pages.make_pages(folder)
    drawn = workload_pages.make_pages(folder, DRAWN)
    with figures_outlined():
        return drawn | workload_pages.make_pages(folder, OUTLINED)


def violations(browser: Any, axe: str) -> list[str]:
    """What axe has against the page that is open, folded parts too."""
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
    browser.evaluate(f"{axe};0")
    found: list[str] = browser.evaluate(FOUND)
    return found


@pytest.mark.scaled
@pytest.mark.timeout(900)
def test_no_page_has_a_violation_and_none_is_wider_than_its_window(
    browser: Any, axe: str, pages: dict[str, Path]
) -> None:
    wrong = []
    for number, (name, page) in enumerate(pages.items()):
        for width, dark in WIDTHS if SOAK else (WIDTHS[number % 2],):
            browser.open(page, width=width, dark=dark)
            if browser.evaluate("document.documentElement.scrollWidth") > width:
                wrong.append(f"{name}, {width}: wider than its window")
            hidden = browser.evaluate(
                "[...document.querySelectorAll('.scroll,figure')]"
                ".filter((part) => part.scrollWidth > part.clientWidth + 1 && !part.classList.contains('more')).length"
            )
            wrong += (
                [f"{name}, {width}: {hidden} parts go on beyond the screen without a sign"]
                if hidden
                else []
            )
            wrong += [
                f"{name}, {width}, {'dark' if dark else 'light'}: {one}"
                for one in violations(browser, axe)
            ]
    assert not wrong, "\n".join(wrong)


def test_axe_finds_what_is_wrong(browser: Any, axe: str, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text(
        '<html><body><img src="data:,"><p style="color:#ccc;background:#fff">pale</p></body></html>'
    )
    browser.open(page, width=1280)
    found = " ".join(violations(browser, axe))
    assert "image-alt" in found and "color-contrast" in found and "html-has-lang" in found


@pytest.mark.long
def test_the_live_page_has_none_either(browser: Any, axe: str) -> None:
    pytest.importorskip("aiohttp")
    ring = load_network("ring:4")
    address = feed.start_server(idle_network_view("ring:4", ring, control="ring"))
    own = feed.live_feed()
    assert own is not None
    try:
        for k in range(8):
            loads = {link.id: 1000 * k * (number + 1) for number, link in enumerate(ring.links)}
            reading = CounterReading(
                at_s=float(k),
                link_bytes=loads,
                sent=100 * k,
                received=90 * k,
                down=(ring.links[0].id,),
            )
            own.send(Sample(clock_s=float(k), done=k / 8, doing="at work", reading=reading))
        for dark in (False, True):
            browser.open(address, width=1280, dark=dark)
            ready = "document.querySelector('.cable') && document.querySelector('svg.loads')"
            browser.evaluate(
                f"new Promise((done) => {{const look = () => {ready} ? done(1) : setTimeout(look, 50); look()}})"
            )
            assert violations(browser, axe) == []
            assert browser.evaluate(
                "document.querySelector('.cable').getAttribute('aria-label')"
            ).startswith("repair ")
    finally:
        feed.end_feed("passed")
