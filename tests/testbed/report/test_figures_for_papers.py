"""What ``testbed report --figures`` writes: vector text in SVG and PDF, captions that stand alone; and tables in
units."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from testbed.cli import main
from testbed.commands.studies.report import run_figures
from testbed.report.drawing.svg_figures import (
    caption_in,
    caption_of,
    figures_with_text,
    name_in_words,
    rendered,
)
from tests.helpers.sample_runs import sample_run


def plotted() -> Figure:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([0, 1], [0, 1], label="measured")
    axes.plot([0, 1], [1, 0], label="predicted")
    axes.set(xlabel="load", ylabel="latency, µs", title="Latency at $p = 2$")
    return figure


def test_a_caption_says_what_is_drawn_against_what_and_never_a_slug() -> None:
    words = caption_of(plotted(), "ror-m20-der1e-05")
    assert words == "Latency at p = 2. Latency, µs against load. Drawn: measured; predicted."
    own = plotted()
    own.set_label("What the author says.")
    assert caption_of(own, "x") == "What the author says."
    assert name_in_words("5.6.7") == "as in section 5.6.7 of the document"


def test_letters_are_text_for_papers_and_the_caption_is_in_every_document() -> None:
    (for_page,) = rendered("x", lambda: {"a": plotted()}).values()
    (for_paper,) = figures_with_text("x", lambda: {"a": plotted()}).values()
    assert ">latency, µs</text>" in for_paper.svg.decode() and "<text" not in for_page
    assert caption_in(for_page, "a") == for_paper.caption
    assert for_paper.pdf.startswith(b"%PDF") and b"/Type /Font" in for_paper.pdf


def test_drawings_of_a_stream_stand_alone() -> None:
    run = sample_run()
    found = run_figures(replace(run, sessions=run.sessions[:2]))
    assert {
        "stream-1-route",
        "stream-1-timeline",
        "stream-1-loss",
        "stream-1-block-size",
    } <= set(found)
    for name, figure in found.items():
        document = ElementTree.fromstring(figure.svg)
        assert "var(--" not in figure.svg.decode() and "%5B" not in figure.svg.decode(), name
        assert any(element.tag.endswith("text") for element in document.iter()), name
        assert figure.pdf.startswith(b"%PDF") and len(figure.pdf) > 1000
        assert figure.caption.endswith(".") and len(figure.caption) > 60
    assert "Links carry" in found["stream-1-route"].caption


def test_report_writes_every_figure_of_a_command_and_its_captions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "sfio",
        "crossbar:4",
        "--compute-nodes",
        "2",
        "--io-nodes",
        "2",
        "--file-size",
        "400kB",
    ]
    assert main([*words, "--fabric", "simulator", "--results", str(tmp_path)]) == 0
    (place,) = (tmp_path / "sfio").iterdir()
    assert main(["report", str(place), "--figures"]) == 0
    capsys.readouterr()
    assert (place / "figures" / "throughput.pdf").read_bytes().startswith(b"%PDF")
    assert b"<text" in (place / "figures" / "throughput.svg").read_bytes()
    assert (
        "0.4 MB, striped in units of 200 bytes" in (place / "figures" / "captions.md").read_text()
    )
    page = (place / "page.html").read_text()
    assert (
        "A striped file" in page
        and "throughput (Mbit/s)" in page
        and "Machine and versions" in page
    )
    assert not re.search(r"\d\.\d+e[+-]?\d", re.sub(r"base64,[^\"]+", "", page))
