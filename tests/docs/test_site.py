"""The documentation site: every page is in it, it builds without a warning, and its links lead somewhere."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from testbed.commands.command_list import COMMANDS
from tests.helpers.paths import ROOT

DOCS = ROOT / "docs"


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


# `make docs`, which runs for every change, builds the site as well.
@pytest.mark.long
def test_every_page_of_the_folder_is_a_page_of_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file(), page


@pytest.mark.long
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
