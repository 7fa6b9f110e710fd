"""Drawings of time frames: what is busy stands in them, and the same schedule gives the same file."""

from __future__ import annotations

from pathlib import Path

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from testbed.report.drawing.frame_drawing import BOTTLENECK, BUSY, draw_busy_links, draw_schedule
from testbed.report.drawing.svg_figures import write_figure
from topologies import load_network

TRANSFERS = [
    ["h0->s0", "s0->s1", "s1->h1"],
    ["h1->s1", "s1->s2", "s2->h2"],
    ["h2->s2", "s2->s1", "s1->h1"],
]
FRAMES = [[0, 1], [2]]


def test_rows_are_links_by_load_and_columns_are_frames() -> None:
    axes = Figure().add_subplot()
    draw_busy_links(axes, TRANSFERS, FRAMES)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[0] == "s1->h1 (2)" and names[1] == "h0->s0 (1)"
    cells = axes.collections[0].get_array().reshape(len(names), len(FRAMES)).tolist()
    assert cells[0] == [2, 2]
    assert cells[1] == [1, 0]
    assert axes.get_xlabel() == "time frame"


def test_pictograms_show_busy_links_and_bottlenecks_in_their_colours() -> None:
    figure = draw_schedule(TRANSFERS, FRAMES, load_network("ring:3"))
    first = next(
        axes
        for axes in figure.subfigs[0].axes
        if axes.get_title().startswith("frame 1: 2 transfers")
    )
    lit = [to_hex(patch.get_edgecolor()) for patch in first.patches]
    assert sorted(lit) == sorted([BOTTLENECK] + [BUSY] * 5)


def test_files_are_the_same_twice(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        write_figure(
            tmp_path / name,
            "frames",
            lambda: {"frames": draw_schedule(TRANSFERS, FRAMES, load_network("ring:3"))},
        )
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()
