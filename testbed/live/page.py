"""The live page's HTML: a shell that a script fills, and the drawings of a run's final page that go into it."""

from collections.abc import Mapping, Sequence
from importlib.resources import files

from testbed.model.run_records import SessionRun
from testbed.report import page
from testbed.report.drawing.network_svg import hidden_hosts, lay_out, network_figure
from testbed.report.drawing.svg_figures import caption_in
from testbed.report.drawing.timeline_svg import timeline_figure
from testbed.report.markup import Markup, join, tag
from testbed.report.page import page_head, picture, whole_page
from testbed.report.sections import NARROW, WIDE, both_widths
from testbed.report.wording import counted

CHECK_OUTCOME_TEXT = {"holds": "holds", "fails": "does not hold", "cannot-tell": "cannot tell"}
"""How a check stands with the points that there are; other outcomes are told as they are."""


def _resource(name: str) -> str:
    return files("testbed.live").joinpath(name).read_text(encoding="utf-8")


def policy() -> str:
    """The page's Content-Security-Policy: its own script and nobody else's, events from where it came from, nothing
    else."""
    return f"{page.policy(_resource('live.js'))}; connect-src 'self'; frame-ancestors 'none'"


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
        ),
        tag(
            "main",
            tag("dl", class_="tiles", id="tiles"),
            tag("div", id="curves"),
            tag("div", id="stores"),
            tag("div", id="findings"),
            tag("div", id="scene"),
        ),
        tag("footer", tag("p", "Live values; the page written at the end of the run is authoritative.")),
        tag("script", Markup(_resource("live.js"))),
    )


def view_markup(run: SessionRun) -> Markup:
    """The network's drawing, in both widths."""
    if not run.session.network:
        return tag("div", data_title=run.session.title)
    layout, session = lay_out(run), run.session
    high = 660 if len(session.network.get("nodes", ())) > 12 else 560
    of = "share of the stream on the link, now" if session.source else "share of the link's capacity in use, now"
    caption = f"Width: {of}. Red and dashed: a cable without a carrier."
    if run.faults:
        caption += " Numbers: the faults that are planned."
    hidden = hidden_hosts(run)
    if hidden:
        caption += f" {counted(hidden, 'host')} that {'has' if hidden == 1 else 'have'} no part in it not drawn."
    if layout.elsewhere:
        caption += f" {counted(layout.elsewhere, 'node')} farther away left out."
    return tag(
        "figure",
        tag("h3", "Network and loads"),
        both_widths(
            network_figure(run, width=WIDE, height=high, layout=layout),
            network_figure(run, width=NARROW, height=400, layout=layout),
        ),
        tag("figcaption", caption),
        data_title=session.title,
    )


def curves_markup(run: SessionRun) -> Markup:
    """Loss and redundancy over time; nothing where no packet was counted yet."""
    wide, narrow = (timeline_figure(run, width=width, height=340) for width in (1120, NARROW))
    if wide is None or narrow is None:
        return Markup("")
    caption = "Shaded: a planned fault, with its number; dashed: the loss that it should cause by itself."
    heading = tag("h3", "Loss and redundancy over time")
    return tag("figure", heading, both_widths(wide, narrow), tag("figcaption", caption), class_="across")


def findings_markup(outcomes: Sequence[tuple[str, str]], figures: Mapping[str, str]) -> Markup:
    """What a study's points say so far: each check or study with its outcome, and the figures as they would be now."""
    rows = [
        tag("tr", tag("td", CHECK_OUTCOME_TEXT.get(outcome, outcome)), tag("td", words)) for outcome, words in outcomes
    ]
    listed = tag("div", tag("h3", "Verdicts so far"), tag("table", *rows), class_="across") if rows else None
    drawn = [picture(drawing, caption_in(drawing, name), class_="across") for name, drawing in figures.items()]
    return join([part for part in (listed, *drawn) if part is not None])
