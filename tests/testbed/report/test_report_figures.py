"""The figures: what they show, that they hold every fault, that a reader finds it by pointer and keyboard."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest

from testbed.model.run_records import LinkLoad, SessionRun
from testbed.report.column_units import plain
from testbed.report.drawing.charts import DARK, LAYER_STEPS, LIGHT, Figure, chart, layer_colour
from testbed.report.drawing.network_drawing import line_width
from testbed.report.drawing.stream_figures import (
    loss_figure,
    shown_network,
    stream_figures,
    timeline_figure,
)
from testbed.report.drawing.svg_figures import inlined
from tests.helpers import sample_runs
from tests.helpers.contrast import contrast

RUN = sample_runs.sample_run(wrong=True, most_faults=40)
EVERY = pytest.mark.parametrize(
    "number", range(3), ids=[part.session.title for part in RUN.sessions]
)


@pytest.fixture(scope="module")
def drawn() -> list[dict[str, str]]:
    """Name -> figure as an element, of each session."""
    made = [
        inlined(f"session {k}", lambda p=part: stream_figures(p))
        for k, part in enumerate(RUN.sessions)
    ]
    return [{name: svg for name, (svg, _) in one.items()} for one in made]


def marks(svg: str, name: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    return [e for e in root.iter() if name in e.get("class", "").split()]


@EVERY
def test_drawing_shows_each_loaded_link_once_with_its_load(
    drawn: list[dict[str, str]], number: int
) -> None:
    links = marks(drawn[number]["route"], "link")
    titles = [e.findtext("title", "").split(":")[0] for e in links]
    assert titles == [e.get("data-link") for e in links]
    assert sorted(titles) == sorted(link.label for link in RUN.sessions[number].session.links)


@EVERY
def test_every_fault_that_was_made_has_a_badge_a_band_and_a_point(
    drawn: list[dict[str, str]], number: int
) -> None:
    faults = enumerate(RUN.sessions[number].faults, start=1)
    made = {f"{f.session}-{n}" for n, f in faults}
    kinds = (("route", "badge"), ("timeline", "band"), ("loss", "point"), ("block-size", "point"))
    for figure, name in kinds:
        assert {e.get("data-fault") for e in marks(drawn[number][figure], name)} == made


@EVERY
def test_a_figure_takes_colours_and_letters_of_its_page(
    drawn: list[dict[str, str]], number: int
) -> None:
    for svg in drawn[number].values():
        assert (
            "var(--measured)" in svg
            and "DejaVu" not in svg
            and "url(" not in svg
            and "<style" not in svg
        )
        assert not {LIGHT[name] for name in ("measured", "predicted", "soft")} & set(
            re.findall("#[0-9a-f]{6}", svg)
        )


def test_fault_that_disagrees_is_a_mark_of_its_own_in_the_scatter(
    drawn: list[dict[str, str]],
) -> None:
    (wrong,) = marks(drawn[1]["loss"], "bad")
    assert "var(--bad)" in ElementTree.tostring(wrong, encoding="unicode")


def test_point_of_perfect_agreement_lies_on_the_diagonal() -> None:
    part = RUN.sessions[0]
    fault = replace(part.faults[0], measured_loss=part.faults[0].predicted_loss)
    figure = loss_figure(replace(part, faults=(fault,)))
    assert figure is not None
    (axes,) = figure.axes
    diagonal, _, point = (line.get_xydata() for line in axes.lines)
    assert (diagonal[:, 0] == diagonal[:, 1]).all() and point[0][0] == point[0][1]


def test_timeline_draws_both_series_and_the_predictions(drawn: list[dict[str, str]]) -> None:
    svg = drawn[0]["timeline"]
    made = len(RUN.sessions[0].faults)
    assert len(marks(svg, "steps")) == 2 and len(marks(svg, "predicted")) == 2 * made


@EVERY
def test_nothing_of_a_timeline_lies_outside_it(number: int) -> None:
    figure = timeline_figure(RUN.sessions[number])
    assert figure is not None
    for axes in figure.axes:
        low, high = axes.get_xlim()
        assert all(
            low <= x <= high for line in axes.lines for x in line.get_xdata() if line.get_gid()
        )


def test_session_without_faults_or_timeline_draws_its_network_only() -> None:
    assert list(stream_figures(SessionRun(session=RUN.sessions[0].session))) == ["route"]


def test_hosts_that_carry_nothing_are_left_out_and_counted() -> None:
    part = RUN.sessions[0]
    assert len(part.session.network["nodes"]) - len(shown_network(part).nodes) == 62
    assert "Not drawn: 62 nodes" in stream_figures(part)["route"].get_label()


def test_far_nodes_of_a_large_network_are_left_out() -> None:
    part = RUN.sessions[2]
    ids = {node.id for node in shown_network(part).nodes}
    assert {n for link in part.session.links for n in (link.source, link.target)} <= ids and len(
        ids
    ) < 100


def test_parallel_links_lie_side_by_side() -> None:
    session = RUN.sessions[1].session
    cable = [
        link
        for link in session.network["links"]
        if {link["source"], link["target"]} == {"x0", "x1"}
    ]
    links = [*session.network["links"], *(dict(link, key=1) for link in cable)]
    pair = tuple(LinkLoad(source="x0", target="x1", key=k, load=Fraction(1, 2)) for k in range(2))
    both = SessionRun(
        session=replace(session, links=pair, network={**session.network, "links": links})
    )
    svg, _ = inlined("pair", lambda: stream_figures(both))["route"]
    assert len({e.findall("path")[0].get("d") for e in marks(svg, "load")}) == 2


def test_width_of_a_line_grows_with_its_load() -> None:
    widths = [line_width(load / 10) for load in range(11)]
    assert widths == sorted(widths) and widths[0] >= 1


def test_numbers_are_written_without_trailing_zeros() -> None:
    assert [plain(v) for v in (3.0, 3.14159, -0.001, None, 100.0, -2.5)] == [
        "3",
        "3.14",
        "0",
        "–",
        "100",
        "−2.5",
    ]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_have_contrast_of_at_least_4_5_and_marks_of_at_least_3(theme: dict[str, str]) -> None:
    for name in ("ink", "soft", "measured", "predicted", "good", "bad", "odd"):
        assert min(contrast(theme[name], theme[ground]) for ground in ("paper", "wash")) >= 4.5, (
            name
        )
    for name in ("plain-load", *(f"layer-{k}" for k in range(LAYER_STEPS))):
        assert contrast(theme[name], theme["paper"]) >= 3, name


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_layers_differ_in_lightness_step_by_step(theme: dict[str, str]) -> None:
    against = [contrast(theme[f"layer-{k}"], theme["paper"]) for k in range(LAYER_STEPS)]
    assert against == sorted(against, reverse=True)


def test_first_and_last_layer_get_the_ends_of_the_ramp() -> None:
    assert [layer_colour(k, 3) for k in (0, 1, 2)] == [
        LIGHT[name] for name in ("plain-load", "layer-0", "layer-1")
    ]
    assert (
        layer_colour(1, 40) == LIGHT["layer-0"]
        and layer_colour(40, 40) == LIGHT[f"layer-{LAYER_STEPS - 1}"]
    )


def test_a_name_with_dollars_is_no_formula_and_powers_of_ten_are() -> None:
    def draw() -> dict[str, Figure]:
        figure, axes = chart("$a$", xlabel="$x_2^$", xscale="log")
        axes.barh(["p $\\frac{$", "東 $b$"], [10, 1000], label="$c$ of $d")
        axes.legend()
        return {"named": figure}

    with warnings.catch_warnings(record=True) as warned:
        svg, _ = inlined("salt", draw)["named"]
    root = ElementTree.fromstring(svg.replace("xlink:href", "href"))
    words = {"".join(e.itertext()).strip() for e in root.iter() if e.tag == "text"}
    assert {"$a$", "$x_2^$", "p $\\frac{$", "東 $b$", "$c$ of $d"} <= words
    assert not warned and not any("mathdefault" in word for word in words)
