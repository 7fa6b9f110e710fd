"""The figures: what they show, that they hold every fault, that marks do not hide one another."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from fractions import Fraction
from xml.etree import ElementTree

import pytest

from testbed.model.run_records import LinkLoad, SessionRun
from testbed.report.column_units import plain
from testbed.report.drawing.axes import nice_top, ticks
from testbed.report.drawing.colours import DARK, LAYER_STEPS, LIGHT, layer_class
from testbed.report.drawing.layout import (
    Box,
    Line,
    Room,
    around,
    bend_around,
    fit,
    place_badges,
    place_labels,
    surroundings,
    text_box,
)
from testbed.report.drawing.network_svg import hidden_hosts, line_width, network_figure
from testbed.report.drawing.scatter_svg import loss_scatter, size_scatter
from testbed.report.drawing.timeline_svg import gathered, timeline_figure
from tests.helpers import sample_runs
from tests.helpers.contrast import contrast

RUN = sample_runs.sample_run(wrong=True, most_faults=40)
EVERY = pytest.mark.parametrize("part", RUN.sessions, ids=lambda part: part.session.title)


def marks(svg: str, name: str) -> list[ElementTree.Element]:
    return [e for e in ElementTree.fromstring(svg).iter() if name in e.get("class", "").split()]


@EVERY
def test_drawing_shows_each_loaded_link_once_with_its_load(part: SessionRun) -> None:
    drawn = marks(network_figure(part, width=720, height=560), "link")
    titles = [e.findtext("title", "").split(":")[0] for e in drawn]
    assert sorted(titles) == sorted(link.label for link in part.session.links)


@EVERY
def test_every_fault_that_was_made_has_a_badge_a_band_and_a_point(part: SessionRun) -> None:
    made = {f"{f.session}-{n}" for n, f in enumerate(part.faults, start=1) if f.skipped is None}
    for svg, name in (
        (network_figure(part, width=720, height=560), "badge"),
        (timeline_figure(part, width=1120, height=380), "band"),
        (loss_scatter(part, side=350), "point"),
        (size_scatter(part, side=350), "point"),
    ):
        assert {e.get("data-fault") for e in marks(str(svg), name)} == made


def test_fault_that_disagrees_is_a_cross_in_the_scatter() -> None:
    svg = str(loss_scatter(RUN.sessions[1], side=350))
    assert len(marks(svg, "bad")) == 1
    assert all(not e.findall("circle") for e in marks(svg, "bad"))


def test_point_of_perfect_agreement_lies_on_the_diagonal() -> None:
    part = RUN.sessions[0]
    fault = replace(part.faults[0], measured_loss=part.faults[0].predicted_loss)
    svg = str(loss_scatter(replace(part, faults=(fault,)), side=350))
    line, circle = marks(svg, "diagonal")[0], marks(svg, "point")[0].find("circle")
    assert circle is not None
    share = (float(circle.get("cx", 0)) - float(line.get("x1", 0))) / (
        float(line.get("x2", 0)) - float(line.get("x1", 0))
    )
    down = float(line.get("y1", 0)) + share * (float(line.get("y2", 0)) - float(line.get("y1", 0)))
    assert float(circle.get("cy", 0)) == pytest.approx(down, abs=0.1)


def test_timeline_draws_both_series_and_the_predictions() -> None:
    svg = str(timeline_figure(RUN.sessions[0], width=340, height=380))
    assert len(marks(svg, "steps")) == 2 and all(e.get("d") for e in marks(svg, "steps"))
    made = sum(f.skipped is None for f in RUN.sessions[0].faults)
    assert len(marks(svg, "predicted")) == 2 * made


@EVERY
@pytest.mark.parametrize("width", [340, 1120])
def test_nothing_of_a_timeline_lies_outside_it(part: SessionRun, width: int) -> None:
    svg = str(timeline_figure(part, width=width, height=380))
    for path in marks(svg, "steps"):
        along = [float(x) for x in re.findall(r"[HM](-?[\d.]+)", path.get("d", ""))]
        assert all(0 <= x <= width for x in along)


def test_gathered_bins_keep_the_mean_loss_weighted_by_packets() -> None:
    timeline = RUN.sessions[0].timeline
    few = gathered(timeline, 10)

    def mean(t: object) -> float:
        pairs = [(v, w) for v, w in zip(t.loss, t.sent_pps, strict=True) if v is not None]  # type: ignore[attr-defined]
        return sum(v * w for v, w in pairs) / sum(w for _, w in pairs)

    whole = len(timeline.t_s) // 10 * 10 == len(timeline.t_s)
    assert len(few.t_s) <= 10
    assert mean(few) == pytest.approx(mean(timeline), rel=1e-9 if whole else 0.05)


def test_session_without_faults_or_timeline_draws_its_network_only() -> None:
    bare = SessionRun(session=RUN.sessions[0].session)
    assert marks(network_figure(bare, width=720, height=560), "link")
    assert loss_scatter(bare, side=350) is None and size_scatter(bare, side=350) is None
    assert timeline_figure(bare, width=340, height=380) is None


def test_hosts_that_carry_nothing_are_left_out_and_counted() -> None:
    assert hidden_hosts(RUN.sessions[0]) == 62


def test_parallel_links_lie_side_by_side() -> None:
    session = RUN.sessions[1].session
    pair = tuple(LinkLoad(source="x0", target="x1", key=k, load=Fraction(1, 2)) for k in range(2))
    svg = network_figure(SessionRun(session=replace(session, links=pair)), width=720, height=560)
    lines = [e for e in ElementTree.fromstring(svg).iter() if e.get("class") == "load"]
    starts = {e.get("d", "").split("L")[0] for e in lines}
    assert len(starts) == 2


@EVERY
@pytest.mark.parametrize("width", [340, 720])
def test_nodes_lie_inside_the_drawing(part: SessionRun, width: int) -> None:
    root = ElementTree.fromstring(network_figure(part, width=width, height=400))
    for circle in root.iter("circle"):
        assert 0 <= float(circle.get("cx", 0)) <= width and 0 <= float(circle.get("cy", 0)) <= 400


@EVERY
def test_names_in_a_drawing_do_not_overlap(part: SessionRun) -> None:
    names = marks(network_figure(part, width=720, height=660), "name")
    boxes = [
        text_box((float(e.get("x", 0)), float(e.get("y", 0))), e.text or "", 12.0, e.get("text-anchor", "middle"))
        for e in names
        if "end" not in e.get("class", "").split()
    ]
    assert boxes
    assert not any(a.meets(b) for a, b in itertools.combinations(boxes, 2))


def test_label_that_fits_nowhere_is_left_out_unless_it_must_be_there() -> None:
    places = {"a": (50.0, 50.0)}
    wall = [Box(left=0, top=0, right=100, bottom=100)]
    room = Room(frame=wall[0], taken=wall, lines=[])
    assert place_labels([("a", 5.0)], places, room, font_px=12.0) == ()
    assert len(place_labels([("a", 5.0)], places, room, font_px=12.0, must=frozenset("a"))) == 1


def test_badges_on_crossing_lines_step_aside() -> None:
    crossing = [Line(a=(0, 0), b=(100, 100)), Line(a=(0, 100), b=(100, 0))]
    (first, _), (second, roomy) = place_badges(crossing, [], 8.0)
    assert roomy and not around(first, 8.0).meets(around(second, 8.0))


def test_badge_without_room_is_a_dot() -> None:
    taken = [around((50.0, 50.0), 60.0)]
    assert place_badges([Line(a=(0, 0), b=(100, 100))], taken, 8.0) == (((50.0, 50.0), False),)


def test_link_that_runs_over_another_node_is_bent_around_it() -> None:
    along = Line(a=(0.0, 0.0), b=(100.0, 0.0))
    assert bend_around(along, [(0.0, 0.0), (100.0, 0.0), (50.0, 20.0)], (50.0, 50.0)) == along
    bent = bend_around(along, [(50.0, 0.0)], (50.0, 50.0))
    back = bend_around(Line(a=along.b, b=along.a), [(50.0, 0.0)], (50.0, 50.0))
    assert bent.at(0.5)[1] < -5 and bent.at(0.5) == pytest.approx(back.at(0.5))
    assert bent.segments()[0][0] == along.a and bent.segments()[-1][1] == along.b


def test_surroundings_of_a_short_route_leave_far_nodes_out() -> None:
    places = {f"n{x}": (float(x), float(x % 3)) for x in range(100)}
    near = surroundings(places, ["n10", "n14"])
    assert "n12" in near and "n90" not in near
    assert surroundings(places, ["n0", "n99"]) == places


def test_fit_of_one_node_or_none_does_not_divide_by_zero() -> None:
    assert fit({}, 100, 100, 10) == {}
    assert fit({"a": (3.0, 4.0)}, 100, 80, 10) == {"a": (50.0, 40.0)}


def test_width_of_a_line_grows_with_its_load() -> None:
    widths = [line_width(load / 10, 1.0) for load in range(11)]
    assert widths == sorted(widths) and widths[0] > 1


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.43), (0.0, 1.0), (20.0, 38.0), (0.0, 1e-4), (0.0, 7200.0)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high, 6)
    assert 2 <= len(found) <= 6
    assert all(low - 1e-9 <= t <= high + 1e-9 for t in found)


@pytest.mark.parametrize("value", [0.36, 0.41, 0.46, 0.051, 0.9, 1.0, 1.7, 63.0, 1e-5])
def test_nice_top_is_a_tick_not_below_the_value(value: float) -> None:
    top = nice_top(value)
    assert value <= top <= 2 * value and top == ticks(0, top, 5)[-1]


def test_nice_top_of_nothing_is_one() -> None:
    assert nice_top(0.0) == 1.0


def test_numbers_are_written_without_trailing_zeros() -> None:
    assert [plain(v) for v in (3.0, 3.14159, -0.001, None, 100.0, -2.5)] == ["3", "3.14", "0", "–", "100", "−2.5"]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_have_contrast_of_at_least_4_5_and_marks_of_at_least_3(theme: dict[str, str]) -> None:
    for name in ("ink", "soft", "measured", "predicted", "good", "bad", "odd"):
        assert min(contrast(theme[name], theme[ground]) for ground in ("paper", "wash")) >= 4.5, name
    for name in ("plain-load", *(f"layer-{k}" for k in range(LAYER_STEPS))):
        assert contrast(theme[name], theme["paper"]) >= 3, name


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_layers_differ_in_lightness_step_by_step(theme: dict[str, str]) -> None:
    against = [contrast(theme[f"layer-{k}"], theme["paper"]) for k in range(LAYER_STEPS)]
    assert against == sorted(against, reverse=True)


def test_first_and_last_layer_get_the_ends_of_the_ramp() -> None:
    assert [layer_class(k, 3) for k in (0, 1, 2, 3)] == ["l-none", "l-0", "l-1", "l-2"]
    assert layer_class(1, 40) == "l-0" and layer_class(40, 40) == f"l-{LAYER_STEPS - 1}"
