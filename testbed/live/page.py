"""The live page's HTML: a shell that a script fills, and the drawings of a run's final page that go into it."""

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

Loads = Sequence[tuple[float, Mapping[LinkId, float]]]
MIN_SAMPLES, MOST_LINES = 3, 6
CHECK_OUTCOME_TEXT = {"holds": "holds", "fails": "does not hold", "cannot-tell": "cannot tell"}
"""How a check stands with the points that there are; other outcomes are told as they are."""


def _resource(name: str) -> str:
    return files("testbed.live").joinpath(name).read_text(encoding="utf-8")


def policy() -> str:
    """The page's Content-Security-Policy: its own script and nobody else's, events from where it came from, nothing
    else."""
    return f"{page.policy(_resource('live.js'), page.page_script())}; connect-src 'self'; frame-ancestors 'none'"


def live_page(title: str) -> str:
    """The shell. What is in it comes as events."""
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
    """The network's drawing."""
    title = run.session.title
    if not run.session.network:
        return tag("div", data_title=title)
    drawn = inlined("live", lambda: {"route": route_figure(run)})
    if not drawn:
        return tag("p", without_matplotlib(), data_title=title)
    of = (
        "share of the stream on the link, now"
        if run.session.source
        else "share of the link's capacity in use, now"
    )
    caption = f"Width: {of}. Red and dashed: a cable without a carrier."
    if run.session.parameters.get("control"):
        caption += " A click on a link cuts its cable, another repairs it."
    return stream_figure("route", drawn["route"][0], caption, data_title=title)


def curves_markup(run: SessionRun, history: Loads = ()) -> Markup:
    """Loss and redundancy over time, where packets are counted, and the loads of the busiest links."""
    captions = {
        "timeline": "Shaded: a planned fault, with its number; dashed: the loss that it should cause by itself.",
        "loads": "Each load as a share of "
        + ("the stream." if run.session.source else "the link\u2019s capacity."),
    }

    def draw() -> dict[str, Figure]:
        timeline = timeline_figure(run)
        return ({} if timeline is None else {"timeline": timeline}) | (
            {"loads": _loads_figure(history)} if len(history) > MIN_SAMPLES else {}
        )

    drawn = inlined("live", draw)
    return join(
        [stream_figure(name, drawing, captions[name]) for name, (drawing, _) in drawn.items()]
    )


def _loads_figure(history: Loads) -> Figure:
    """A line a link, named at its end, of those that are busiest on the whole."""
    sums: Counter[LinkId] = Counter()
    for _, loads in history:
        sums.update(loads)
    figure = bare(1120 * PX, 260 * PX)
    axes = figure.add_axes((54 / 1120, 0.18, 0.82, 0.68))
    axes.grid(True, axis="y")
    last_s, top, place = (
        history[-1][0],
        max(max(loads.values(), default=0.0) for _, loads in history) or 1.0,
        -1.0,
    )
    busiest = [link for link, total in sums.most_common(MOST_LINES) if total > 0]
    for k, link in sorted(enumerate(busiest), key=lambda one: history[-1][1].get(one[1], 0.0)):
        values = [loads.get(link, 0.0) for _, loads in history]
        axes.plot([at for at, _ in history], values, color=HUES[k])
        place = max(values[-1], place + 0.11 * top)
        axes.annotate(
            f" {printable(label_of(link))}",
            (last_s, place),
            va="center",
            color=HUES[k],
            annotation_clip=False,
        )
    axes.set_ylim(0, 1.08 * top)
    axes.yaxis.set_major_formatter(lambda value, _: f"{plain(100 * value, 1)} %")
    axes.set_xlabel("seconds", loc="right")
    return figure


def findings_markup(outcomes: Sequence[tuple[str, str]], figures: Mapping[str, str]) -> Markup:
    """What a study's points say so far: each check or study with its outcome, and the figures as they would be now."""
    rows = [
        tag("tr", tag("td", CHECK_OUTCOME_TEXT.get(outcome, outcome)), tag("td", words))
        for outcome, words in outcomes
    ]
    listed = (
        tag("div", tag("h3", "Verdicts so far"), tag("table", *rows), class_="across")
        if rows
        else None
    )
    drawn = [
        picture(drawing, caption_in(drawing, name), class_="across")
        for name, drawing in figures.items()
    ]
    return join([part for part in (listed, *drawn) if part is not None])
