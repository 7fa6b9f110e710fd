"""The closing table: fits the terminal, keeps what matters, says the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from testbed.report.tables import closing_table
from tests.helpers import sample_runs

sample_run = sample_runs.sample_run


def printed(run: object, width: int) -> str:
    console = Console(width=width, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(closing_table(run, width=width))  # type: ignore[arg-type]
    return console.export_text()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_table_fits_the_terminal_and_keeps_both_losses_and_the_mark(width: int) -> None:
    text = printed(sample_run(wrong=True), width)
    assert max(map(len, text.splitlines())) <= width
    assert "35.71  35.42 ± 0.80" in text
    assert text.count("✗") >= 2 and "FAILED" in text


def test_wide_terminal_shows_every_column() -> None:
    text = printed(sample_run(), 120)
    for heading in (
        "link",
        "fault",
        "pred. %",
        "measured %",
        "N pred.",
        "react. ms",
        "undec.",
        "late",
    ):
        assert heading in text


def test_one_session_alone_has_no_verdict_of_the_run() -> None:
    text = printed(sample_run().sessions[1], 80)
    assert "optical-cloud" in text and "swiss-t1" not in text and "PASSED" not in text


def test_names_with_square_brackets_are_not_taken_for_styles() -> None:
    part = sample_run().sessions[0]
    odd = replace(part, session=replace(part.session, title="[red]net[/red]"))
    assert "[red]net[/red]" in printed(odd, 80)


def test_tables_break_long_link_names_not_figures_and_name_omissions() -> None:
    part = sample_run().sessions[0]
    long = tuple(replace(f, link="a" * 60 + "->" + "b" * 60) for f in part.faults)
    text = printed(replace(part, faults=long), 60)
    assert "35.42 ± 0.80" in text and max(map(len, text.splitlines())) <= 60
    name = "".join(
        line.split()[0] for line in text.splitlines() if line.strip("-> ").startswith(("aa", "bb"))
    )
    assert name.startswith("a" * 60 + "->" + "b" * 60)
    assert "not shown in 60 columns: " in " ".join(text.split())


def test_unfinished_run_says_so() -> None:
    text = printed(
        replace(sample_run(), verdict=None, unfinished="the run was interrupted before its end"), 80
    )
    assert "UNFINISHED" in text and "interrupted" in text


def test_a_packet_that_only_the_labels_ask_for_is_shown_beside_the_bound() -> None:
    part = sample_run().sessions[0]
    fault = part.faults[0]
    needed = fault.predicted_block_size
    assert needed is not None
    more = tuple(replace(f, bound_block_size=needed - 1) if f is fault else f for f in part.faults)
    assert f"{needed:g} = {needed - 1:g}+1" in printed(replace(part, faults=more), 120)
    same = tuple(replace(f, bound_block_size=f.predicted_block_size) for f in part.faults)
    assert "+1" not in printed(replace(part, faults=same), 120)
