"""The page in a real browser: no error, no request, every figure there, nothing wider than the window."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.report.page import build_page
from tests.helpers import chromium_pipe, sample_runs

TESTS = Path(__file__).parents[1]

FIGURES = """
[...document.querySelectorAll('figure svg[role=img]')].filter(s => s.checkVisibility()).map(s => {
  const box = s.getBoundingClientRect();
  return {kind: s.getAttribute('class'), width: box.width, height: box.height,
          marks: s.querySelectorAll('.load, .steps, .point').length};
})
"""
MIN_TEXT = """
Math.min(...[...document.querySelectorAll('figure svg[role=img] text')]
  .filter(t => t.checkVisibility() && t.textContent)
  .map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    file.write_text(
        build_page(sample_runs.sample_run(wrong=True, most_faults=40)), encoding="utf-8"
    )
    return file


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = chromium_pipe.find_chromium()
    if program is None:
        if os.environ.get("TESTBED_REQUIRE_CHROMIUM") == "1":
            pytest.fail(
                "no Chromium on this machine, and TESTBED_REQUIRE_CHROMIUM=1 asks for it; install chromium"
            )
        pytest.skip("no Chromium on this machine; install chromium")
    with chromium_pipe.Browser(program) as running:
        yield running


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 900, 400])
def test_page_fits_the_window_and_shows_every_figure(
    browser: Any, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    figures = browser.evaluate(FIGURES)
    assert [f["kind"] for f in figures] == ["route", "loss", "block-size", "timeline"] * 3
    assert all(f["width"] >= 300 and f["height"] >= 250 and f["marks"] for f in figures), figures
    assert browser.evaluate(MIN_TEXT) >= 8
    assert browser.messages == []


def test_page_asks_for_no_other_address(browser: Any, page: Path) -> None:
    browser.requests.clear()
    browser.open(page, width=1280)
    assert [u for u in browser.requests if not u.startswith("data:")] == [page.as_uri()]


def test_dark_page_has_a_dark_ground_and_bright_words(browser: Any, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.open(page, width=1280, dark=dark)
        grounds.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


def test_fault_under_the_keyboard_focus_is_marked_in_every_figure(browser: Any, page: Path) -> None:
    browser.open(page, width=1280)
    browser.evaluate("document.querySelector('td a[data-fault=\"0-2\"]').focus()")
    marked = browser.evaluate(
        "[...document.querySelectorAll('.on')].filter(e => e.checkVisibility()).map(e => e.classList[0])"
    )
    assert {"badge", "band", "point"} <= set(marked)


def test_wide_tables_can_be_reached_and_scrolled_by_keyboard(browser: Any, page: Path) -> None:
    browser.open(page, width=400)
    wide = browser.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth)"
        ".map(s => [s.tabIndex, s.getAttribute('role'), Boolean(s.getAttribute('aria-label'))])"
    )
    assert wide and all(entry == [0, "region", True] for entry in wide)
