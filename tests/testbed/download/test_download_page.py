"""A download is kept like any run: its row, a page with the last mile drawn, and ``report`` draws it anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli import main
from testbed.download.figures import BINS, arrival_rates


def test_a_download_has_a_page_and_report_draws_it_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "download",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--file-size",
        "600kB",
        "--fabric",
        "simulator",
        "--json",
    ]
    code = main([*words, "--faults", "s1->s2@0.2-0.4", "--results", str(tmp_path)])
    document = json.loads(capsys.readouterr().out)
    folder = Path(document["results"])
    (row,) = [json.loads(line) for line in (folder / "points.jsonl").read_text().splitlines()]
    assert (
        len(row["arrivals_pps"]) == BINS and row["measured_s"] == document["duration_s"]["measured"]
    )
    page = (folder / "page.html").read_text()
    assert "A download over many paths" in page and "last mile" in page and "s1-&gt;s2 down" in page
    (folder / "page.html").unlink()
    assert main(["report", str(folder)]) == code
    assert (folder / "page.html").read_text() == page


def test_rates_hold_every_arrival_once() -> None:
    arrivals = [0.0, 0.5, 0.999, 1.0, 1.0]
    assert sum(arrival_rates(arrivals, 1.0)) / BINS == pytest.approx(len(arrivals))
