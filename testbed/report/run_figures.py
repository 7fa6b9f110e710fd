"""The drawings of a stream's page as figures for a paper, each with a caption that stands alone."""

from testbed.extras import installed
from testbed.model.run_records import LoadedRun, SessionRun
from testbed.report.drawing.network_svg import link_words, network_figure
from testbed.report.drawing.scatter_svg import loss_scatter, size_scatter
from testbed.report.drawing.svg_figures import FigureFiles
from testbed.report.drawing.timeline_svg import timeline_figure
from testbed.report.markup import Markup
from testbed.report.standalone import standalone_svg, svg_to_pdf
from testbed.report.wording import stream_sentence


def run_figures(run: LoadedRun) -> dict[str, FigureFiles]:
    """Name -> figure, for every session of the run. PDF is left empty where svglib is not installed."""
    found = {}
    for number, part in enumerate(run.sessions, start=1):
        before = f"session-{number}-" if len(run.sessions) > 1 else ""
        for name, (drawing, words) in _drawings(part).items():
            found[before + name] = _files(drawing, f"{words} {stream_sentence(part)}")
    return found


def _drawings(part: SessionRun) -> dict[str, tuple[Markup, str]]:
    layers = (
        " Colour: the capillary layer whose bottleneck the link is."
        if any(li.layer for li in part.session.links)
        else ""
    )
    route = (
        f"Route and failed links: a line is as wide as the link\u2019s share of the stream, an arrow points where it goes.{layers} Numbers: "
        f"faults in their order. {link_words(part.session.network)}"
    )
    timeline = (
        "Packets lost and redundancy sent over time. Shaded: a fault, with its number; dashed: what theory predicts for it; dotted: "
        "redundancy at rest."
    )
    agrees = "One point a fault; on the dashed line prediction and measurement agree."
    drawn = {
        "route": (network_figure(part, width=720, height=560), route),
        "timeline": (timeline_figure(part, width=1120, height=380), timeline),
        "loss": (
            loss_scatter(part, side=350),
            f"Loss measured against loss predicted. {agrees} Whiskers: where the true loss lies.",
        ),
        "block-size": (size_scatter(part, side=350), f"Packets of a block, N, measured against predicted. {agrees}"),
    }
    return {name: (drawing, words) for name, (drawing, words) in drawn.items() if drawing is not None}


def _files(drawing: Markup, caption: str) -> FigureFiles:
    document = standalone_svg(str(drawing), caption)
    pdf = svg_to_pdf(document) if installed("svglib") else b""
    return FigureFiles(svg=document.encode(), pdf=pdf, caption=caption)
