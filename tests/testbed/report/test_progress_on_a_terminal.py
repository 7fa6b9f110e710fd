"""Progress is drawn on a terminal's stderr and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from testbed.model.progress import Progress
from testbed.report.progress_bar import points_bar, progress_bar, spinner


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, kind: str = "xterm") -> Terminal:
    """stderr as a terminal of 120 columns from now on (pytest puts its own stderr back between fixtures and test)."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_run_shows_its_share_and_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with progress_bar("bulk") as report_progress:
        assert report_progress is not None
        report_progress(Progress(done_s=3.0, total_s=4.0, doing="sending"))
    drawn = terminal.getvalue()
    assert "bulk: sending" in drawn and "75 %" in drawn


def test_points_show_how_many_of_them_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with points_bar("squares") as show_points:
        show_points(2, 5)
    assert "2/5" in terminal.getvalue()


def test_a_spinner_says_what_is_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with spinner("building a network"):
        pass
    assert "building a network" in terminal.getvalue()


def test_a_pipe_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with (
        progress_bar("bulk") as report_progress,
        points_bar("squares") as show_points,
        spinner("building"),
    ):
        assert report_progress is None
        show_points(1, 2)
    assert pipe.getvalue() == ""


def test_a_terminal_that_cannot_draw_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, "dumb")
    with progress_bar("bulk") as report_progress, points_bar("squares") as show_points:
        assert report_progress is None
        show_points(1, 2)
    assert terminal.getvalue() == ""
