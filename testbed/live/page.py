"""The HTML of the live page: a frame that a script fills, and the drawings that go into it.

The drawings are those of the final page of a run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files

from testbed.model.naming.printable import printable
from testbed.model.run_records import SessionRun
from testbed.report import page
from testbed.report.column_units import plain
from testbed.report.drawing.charts import HUES, Figure, bare
from testbed.report.drawing.stream_figures import PX, route_figure, timeline_figure
from testbed.report.drawing.svg_figures import caption_in, inlined, without_matplotlib
from testbed.report.markup import Markup, join, tag
from testbed.report.page import page_head, picture, whole_page
from testbed.report.sections import stream_figure
from topologies import LinkId, label_of

# Times in seconds with the loads of links at that time.
Loads = Sequence[tuple[float, Mapping[LinkId, float]]]
# The loads are drawn if there are more samples than this, and for at most this number of links.
MIN_SAMPLES = 3
MAX_LINES = 6
# Outcomes of checks with the points measured up to now. Other outcomes are shown unchanged.
CHECK_OUTCOME_TEXT = {"holds": "holds", "fails": "does not hold", "cannot-tell": "cannot tell"}


def _resource(name: str) -> str:
    return files("testbed.live").joinpath(name).read_text(encoding="utf-8")


def policy() -> str:
    """Return the Content-Security-Policy of the live page.

    It allows the scripts of the page and events from its server, and forbids frames.
    """
    scripts = page.policy(_resource("live.js"), page.page_script())
    return f"{scripts}; connect-src 'self'; frame-ancestors 'none'"


def live_page(title: str) -> str:
    """Return the frame of the page, whose contents arrive as events."""
    return whole_page(
        page_head(title, style=_resource("live.css"), forbids=False),
        tag(
            "header",
            tag("p", "testbed, live", class_="kicker"),
            tag("h1", title, id="title"),
            tag("p", "Waiting for the run to start.", class_="lead", id="doing", role="status"),
            tag("div", tag("i", id="done"), class_="bar", aria_hidden="true"),
            tag("p", "No active fault.", id="faults", class_="faults-now", role="status"),
            tag("p", id="end", role="status", hidden=True),
            tag("p", id="refused", role="alert", class_="failed"),
        ),
        tag(
            "main",
            tag("dl", class_="tiles", id="tiles"),
            tag("div", id="curves"),
            tag("div", id="stores"),
            tag("div", id="findings"),
            tag("div", id="scene"),
        ),
        tag(
            "footer",
            tag("p", "Live values; the page written at the end of the run is authoritative."),
        ),
        script=_resource("live.js"),
    )


def view_markup(run: SessionRun) -> Markup:
    """Return the drawing of the network, or a text if it cannot be drawn."""
    title = run.session.title
    if not run.session.network:
        return tag("div", data_title=title)
    drawn = inlined("live", lambda: {"route": route_figure(run)})
    if not drawn:
        return tag("p", without_matplotlib(), data_title=title)
    width = "share of the link's capacity in use, now"
    if run.session.source:
        width = "share of the stream on the link, now"
    caption = f"Width: {width}. Red and dashed: a cable without a carrier."
    if run.session.parameters.get("control"):
        caption += " A click on a link cuts its cable, another repairs it."
    return stream_figure("route", drawn["route"][0], caption, data_title=title)


def curves_markup(run: SessionRun, history: Loads = ()) -> Markup:
    """Return the curves of the page.

    They are loss and redundancy over time, if packets are counted, and the loads of the busiest
    links.

    Args:
        run: The stream with its timeline.
        history: Loads over time.
    """
    reference = "the stream." if run.session.source else "the link\u2019s capacity."
    captions = {
        "timeline": "Shaded: a planned fault, with its number; dashed: the loss that it should "
        "cause by itself.",
        "loads": f"Each load as a share of {reference}",
    }

    def draw() -> dict[str, Figure]:
        figures = {}
        timeline = timeline_figure(run)
        if timeline is not None:
            figures["timeline"] = timeline
        if len(history) > MIN_SAMPLES:
            figures["loads"] = _loads_figure(history)
        return figures

    elements = []
    for name, (drawing, _) in inlined("live", draw).items():
        elements.append(stream_figure(name, drawing, captions[name]))
    return join(elements)


def _loads_figure(history: Loads) -> Figure:
    """Return a figure with a line for each of the busiest links, whose name is at its end."""
    sums: Counter[LinkId] = Counter()
    largest = 0.0
    for _, loads in history:
        sums.update(loads)
        largest = max(largest, *loads.values(), 0.0)
    top = largest or 1.0
    figure = bare(1120 * PX, 260 * PX)
    axes = figure.add_axes((54 / 1120, 0.18, 0.82, 0.68))
    axes.grid(True, axis="y")
    times_s = [at_s for at_s, _ in history]
    _, last_loads = history[-1]
    busiest = [link for link, total in sums.most_common(MAX_LINES) if total > 0]
    colours = dict(zip(busiest, HUES, strict=False))
    label_y = -1.0
    for link in sorted(busiest, key=lambda link: last_loads.get(link, 0.0)):
        values = [loads.get(link, 0.0) for _, loads in history]
        axes.plot(times_s, values, color=colours[link])
        # Each name is above the previous one, so that they do not overlap.
        label_y = max(values[-1], label_y + 0.11 * top)
        axes.annotate(
            f" {printable(label_of(link))}",
            (times_s[-1], label_y),
            va="center",
            color=colours[link],
            annotation_clip=False,
        )
    axes.set_ylim(0, 1.08 * top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{plain(100 * value, 1)} %")
    axes.set_xlabel("seconds", loc="right")
    return figure


def findings_markup(outcomes: Sequence[tuple[str, str]], figures: Mapping[str, str]) -> Markup:
    """Return the verdicts and figures of a study from the points measured up to now.

    Args:
        outcomes: Pairs of an outcome and the name of its check or run.
        figures: SVG documents by name.
    """
    parts = []
    if outcomes:
        rows = []
        for outcome, name in outcomes:
            text = CHECK_OUTCOME_TEXT.get(outcome, outcome)
            rows.append(tag("tr", tag("td", text), tag("td", name)))
        heading = tag("h3", "Verdicts so far")
        parts.append(tag("div", heading, tag("table", *rows), class_="across"))
    for name, drawing in figures.items():
        parts.append(picture(drawing, caption_in(drawing, name), class_="across"))
    return join(parts)
