"""The kill of a listener and the cut of a cable are drawn where they happened, beside the operation that they happened
to."""

from __future__ import annotations

from typing import Any

from testbed.striping.figures import striping_figures

OPERATION = {
    "direction": "write", "attempt": 1, "under_faults": True, "errors": [], "seconds": 2.0, "throughput_bps": 8e6,
    "verified": True,
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "operations": [OPERATION], "predicted": None, "compute_nodes": 2, "io_nodes": 2, "stripe_unit_bytes": 200,
    "switching": "packet", "schedule": "none", "file_bytes": 2_000_000,
    "killed_processes": [["r2", 0.5]], "cut_links": [["s1->r1", 0.2, 1.4]],
}  # fmt: skip


def test_a_kill_and_a_cut_are_drawn_at_their_moments() -> None:
    figure = striping_figures([DOCUMENT])["faults-over-time"]
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "operation",
        "r2 killed",
        "s1->r1 cut",
    ]
    spans = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert spans == [(0.0, 2.0), (0.5, 2.0), (0.2, 1.4)]
    crosses = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "X"]
    assert crosses == [0.5, 0.2]
    assert "killed" in figure.get_label()


def test_without_faults_there_is_nothing_to_draw_of_them() -> None:
    assert set(striping_figures([{**DOCUMENT, "killed_processes": [], "cut_links": []}])) == {
        "throughput"
    }


def test_an_operation_that_failed_is_named_so() -> None:
    failed = {**DOCUMENT, "operations": [{**OPERATION, "errors": ["r2 is gone"]}]}
    drawn = striping_figures([failed])
    assert "throughput" not in drawn
    assert "failed" in [text.get_text() for text in drawn["faults-over-time"].axes[0].texts]
