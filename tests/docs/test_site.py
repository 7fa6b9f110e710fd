"""The documentation site: every page is in it, it builds without a warning, and its links lead somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from testbed.commands.command_list import COMMANDS
from tests.helpers import chromium_pipe
from tests.helpers.drawn import SOAK
from tests.helpers.paths import ROOT

DOCS = ROOT / "docs"
# The page that the site's search has to name first for what a newcomer types.
FIRST_PAGES = {
    "topology zoo": "reference/networks",
    "testbed.network": "reference/python/testbed",
    "mininet topology": "howto/migration",
    "install": "howto/install",
    "link failure": "howto/break_links",
    "packet loss": "howto/delay_and_shape",
    "run my own program": "howto/run_own_program",
    "capture packets wireshark": "howto/capture",
    "compare two runs": "howto/compare_runs",
    "several machines": "howto/several_machines",
    "shell completion": "reference/commands",
    "licence": "index",
}
FIRST_ANSWER = """
(async () => {
  for (let i = 0; i < 400 && !/found|not match/.test(document.querySelector('.search-summary')?.innerText); i++)
    await new Promise(done => setTimeout(done, 50));
  return document.querySelector('#search-results li > a')?.getAttribute('href') ?? 'nothing';
})()
"""


class Links(HTMLParser):
    """Targets and ids of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.targets.append(str(values["href"]))
        if values.get("id"):
            self.ids.add(str(values["id"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    pytest.importorskip("myst_parser", reason="the extra docs is not installed")
    out = tmp_path_factory.mktemp("site")
    # No warning and no link of a page depends on the pages of the sources, the theme or the search.
    extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
    if not SOAK:
        extensions.append("tests.helpers.site_without_search")
    plain = ["-D", f"extensions={','.join(extensions)}", "-D", "html_theme=basic"]
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        *plain,
        str(DOCS),
        str(out),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return out


def test_every_page_of_the_folder_is_a_page_of_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file(), page


def test_links_between_pages_lead_to_a_place_that_is_there(site: Path) -> None:
    parsed = {}
    for page in site.rglob("*.html"):
        parsed[page] = Links()
        parsed[page].feed(page.read_text(encoding="utf-8"))
    lost = []
    for page, links in parsed.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = parsed.get(place)
            if not place.exists() or (
                known and parts.fragment and unquote(parts.fragment) not in known.ids
            ):
                lost.append(f"{page.relative_to(site)}: {target}")
    assert len(parsed) > 30 and not lost, lost[:20]


@pytest.mark.long
def test_the_search_leads_a_newcomer_to_the_page(site: Path) -> None:
    """Search in a browser, and compare the first results with ``FIRST_PAGES``."""
    program = chromium_pipe.find_chromium()
    if program is None:
        assert os.environ.get("TESTBED_REQUIRE_CHROMIUM") != "1", (
            "no Chromium on this machine; install chromium"
        )
        pytest.skip("no Chromium on this machine; install chromium")
    led = {}
    with chromium_pipe.Browser(program) as browser:
        for asked in FIRST_PAGES:
            browser.open(f"{(site / 'search.html').as_uri()}?q={quote(asked)}", width=1200)
            led[asked] = browser.evaluate(FIRST_ANSWER).partition(".html")[0]
    assert led == FIRST_PAGES


@pytest.mark.long
def test_every_command_has_a_manual_page(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser", reason="the extra docs is not installed")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-b",
        "man",
        "-t",
        "man",
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0 and {
        path.name for path in tmp_path.iterdir() if path.is_file()
    } == {
        "testbed.1",
        *(f"testbed-{name}.1" for name in COMMANDS),
    }
    assert "\\-\\-fault\\-kind" in (tmp_path / "testbed-stream.1").read_text()
    assert "exit code" in (tmp_path / "testbed.1").read_text()


def test_a_page_that_is_in_no_list_or_a_lost_link_fails_the_build(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser", reason="the extra docs is not installed")
    (tmp_path / "index.md").write_text("# Front\n\n[nowhere](there_is_no_such_page.md)\n")
    words = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        "-c",
        str(DOCS),
        str(tmp_path),
        str(tmp_path / "out"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "there_is_no_such_page" in done.stderr
