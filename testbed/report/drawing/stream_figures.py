"""The figures of a stream: its route with the links that failed, loss and redundancy over time, prediction against
measurement. The page of a run, the live page and ``testbed report --figures`` show the same ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from testbed.model.run_records import (
    FaultRecord,
    LinkLoad,
    SessionRecord,
    SessionRun,
    network_document,
)
from testbed.report.column_units import percent, plain
from testbed.report.drawing.charts import LAYER_STEPS, LIGHT, Axes, Figure, bare, layer_colour
from testbed.report.drawing.network_drawing import Failure, Load, Marks, network_figure
from testbed.report.drawing.svg_figures import mark
from testbed.report.wording import counted, fault_title, link_title, link_words, shaped_links
from topologies import Json, JsonObject, LinkId, Network
from topologies.files.node_link import parse_document

PX = 1 / 72
"""An inch of a figure is 72 pixels of a page."""
CROWD = 60
Numbered = Sequence[tuple[int, FaultRecord]]


def stream_figures(run: SessionRun) -> dict[str, Figure]:
    """Name -> figure, each with its caption as its label; a figure of which nothing was measured is left out."""
    made = {
        "route": route_figure(run),
        "loss": loss_figure(run),
        "block-size": size_figure(run),
        "timeline": timeline_figure(run),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def numbered_faults(run: SessionRun) -> Numbered:
    """The faults with their numbers."""
    return list(enumerate(run.faults, start=1))


def _about(run: SessionRun, *numbers: int) -> str:
    """What a mark of these faults is found by."""
    return " ".join(f"{run.session.session}-{n}" for n in numbers)


def shown_network(run: SessionRun) -> Network:
    """The stream's network without the hosts that carry nothing of the stream; of one of more than ``CROWD`` nodes
    those that are two links away from the route at most."""
    session = run.session
    whole = parse_document(session.network)
    busy = {
        session.source,
        session.sink,
        *(n for link in session.links for n in (link.source, link.target)),
    }
    busy &= whole.node_index.keys()
    near = {node.id for node in whole.nodes if node.kind != "host" or node.id in busy}
    if len(near) > CROWD and busy:
        around = set(busy)
        for _ in range(2):
            around |= {
                end
                for link in whole.links
                for end in (link.source, link.target)
                if around & {*link.id[:2]}
            }
        near &= around
    nodes = tuple(node for node in whole.nodes if node.id in near)
    links = tuple(link for link in whole.links if link.source in near and link.target in near)
    return replace(whole, nodes=nodes, links=links)


def route_figure(run: SessionRun) -> Figure:
    """Loads as widths, capillary layers as colours, failed links as numbered badges."""
    session, network, faults = run.session, shown_network(run), numbered_faults(run)
    layers = max((link.layer for link in session.links), default=0)
    ends = tuple(end for end in (session.source, session.sink) if end in network.node_index)
    drawn = {(li.source, li.target, li.key): li for li in session.links}
    drawn = {link: load for link, load in drawn.items() if link in network.link_index}
    labels = {load.label: link for link, load in drawn.items()}
    by_link: dict[LinkId, Numbered] = {
        link: [one for one in faults if one[1].link == label] for label, link in labels.items()
    }
    marks = Marks(
        loads=_loads(run, drawn, by_link, layers),
        failed={link: _failure(run, own) for link, own in by_link.items() if own},
        ends=ends,
        legend=_layer_names(layers, any(load.layer == 0 for load in drawn.values())),
    )
    figure = network_figure(network, marks, titled=False, least_font=8.5)
    figure.set_label(_route_caption(run, network, layers))
    return figure


def loaded_figure(
    network: Network,
    links: Iterable[Json],
    *,
    ends: tuple[str, str] = ("", ""),
    of: str = "load",
    caption: str = "",
) -> Figure:
    """The network with these links loaded: objects of ``link_fields`` with a ``load`` (field ``of``, a number or a
    fraction as text) and perhaps a ``layer``."""
    loads = tuple(
        LinkLoad(
            **{k: one[k] for k in ("source", "target", "key")},
            load=Fraction(one[of]),
            layer=one.get("layer", 0),
        )
        for one in links
        if float(Fraction(one[of]))
    )
    record = SessionRecord(
        session=0, title=network.name, network=network_document(network), source=ends[0], sink=ends[1], method="",
        fabric="", links=loads,
    )  # fmt: skip
    figure = route_figure(SessionRun(session=record))
    figure.set_label(f"{caption} {figure.get_label()}" if ends[0] else caption)
    return figure


def _layer_names(layers: int, others: bool) -> dict[str, str]:
    """What the legend names, with its colour: all layers where each has a colour of its own, else the first, a middle
    and the last."""
    chosen = range(1, layers + 1) if layers <= LAYER_STEPS else (1, (layers + 1) // 2, layers)
    named = {f"layer {k}": layer_colour(k, layers) for k in chosen}
    return named | ({"in no layer": layer_colour(0, layers)} if layers and others else {})


def _loads(
    run: SessionRun,
    drawn: Mapping[LinkId, LinkLoad],
    faults: Mapping[LinkId, Numbered],
    layers: int,
) -> dict[LinkId, Load]:
    shapes = shaped_links(run.session.network)
    most = max((float(load.load) for load in drawn.values()), default=1.0) or 1.0
    return {
        link: Load(
            share=float(load.load) / most,
            words="" if faults[link] or not load.load else percent(float(load.load), 0),
            colour=layer_colour(load.layer, layers) if layers else LIGHT["predicted"],
            title=link_title(load, faults[link], shapes.get(link, {})),
        )
        for link, load in drawn.items()
    }


def _failure(run: SessionRun, faults: Numbered) -> Failure:
    numbers = [number for number, _ in faults]
    return Failure(
        words=f"{numbers[0]}{'+' * (len(numbers) > 1)}",
        title="\n".join(fault_title(*one) for one in faults),
        about=_about(run, *numbers),
        wrong=any(fault.passed is False for _, fault in faults),
    )


def _route_caption(run: SessionRun, network: Network, layers: int) -> str:
    hidden = len(run.session.network.get("nodes", ())) - len(network.nodes)
    return " ".join(
        [
            *(
                [
                    "A line is as wide as the link\u2019s share of the stream; an arrow points where it goes."
                ]
                if run.session.source
                else ["A line is as wide as the link\u2019s load beside the busiest\u2019s."]
                * bool(run.session.links)
            ),
            *(["Colour: the capillary layer whose bottleneck the link is."] if layers else []),
            *(["Numbers: faults in their order."] if run.faults else []),
            *([f"Not drawn: {counted(hidden, 'node')} without a part in it."] if hidden else []),
            link_words(run.session.network),
        ]
    ).strip()


def drawn_until_s(run: SessionRun) -> float:
    """Where the timeline's axis ends: of a run that is over when its last packet was sent or its last fault ended,
    since in its playback buffer, 8 s of slow streams, nothing is sent; of one that goes on at the end that is
    planned."""
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return 0.0
    sent = (
        [t for t, pps in zip(timeline.t_s, timeline.sent_pps, strict=True) if pps > 0]
        if run.summary
        else []
    )
    return float(
        max([(sent or timeline.t_s)[-1] + timeline.bin_s, *(f.stop_s for f in run.faults)])
    )


def timeline_figure(run: SessionRun) -> Figure | None:
    """Loss and redundancy over time, faults as numbered bands, predictions as dashed lines; None where there is no
    timeline."""
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return None
    width = 1120
    figure, until_s, faults = bare(width * PX, 380 * PX), drawn_until_s(run), numbered_faults(run)
    at_rest = run.summary.base_block_size if run.summary else None
    series: tuple[
        tuple[str, str, Sequence[float | None], Callable[[FaultRecord], float | None]], ...
    ] = (
        ("loss", "Packets lost", timeline.loss, lambda fault: fault.predicted_loss),
        (
            "redundancy",
            "Redundancy N/M − 1",
            timeline.redundancy,
            lambda f: _redundancy(run, f.predicted_block_size),
        ),
    )
    for k, (name, title, values, predicted) in enumerate(series):
        axes = figure.add_axes(
            (54 / width, 0.57 - 0.46 * k, 1 - 64 / width, 0.33), xlim=(0, until_s)
        )
        axes.grid(True, axis="y")
        drawn = [value if value is not None else float("nan") for value in (*values, values[-1])]
        (line,) = axes.plot(
            [*timeline.t_s, timeline.t_s[-1] + timeline.bin_s],
            drawn,
            drawstyle="steps-post",
            color=LIGHT["measured"],
        )
        mark(line, f"steps {name}")
        for number, fault in faults:
            _draw_fault(axes, run, number, fault, predicted(fault))
        axes.set_title(title, loc="left", fontweight="bold", pad=20 if k == 0 else 8)
        most = max(
            [0.01, *(v for v in values if v is not None), *(predicted(f) or 0.0 for _, f in faults)]
        )
        axes.set_ylim(0, 1.08 * most)
        axes.yaxis.set_major_formatter(lambda value, _: f"{plain(100 * value, 1)} %")
        axes.locator_params(axis="y", nbins=5)
    if (resting := _redundancy(run, at_rest)) is not None:
        axes.axhline(resting, color=LIGHT["predicted"], linestyle=":", linewidth=1)
    axes.set_xlabel("seconds since the stream’s start", loc="right")
    _number_bands(figure.axes[0], faults, until_s / width)
    figure.set_label(
        "Packets lost and redundancy sent over time. Shaded: a fault, with its number; dashed: what theory predicts for"
        " it; dotted: redundancy at rest. What is lost at the start of a fault goes out before the sender knows of it."
    )
    return figure


def _redundancy(run: SessionRun, block_size: float | None) -> float | None:
    """N/M - 1 with M of the stream's code, from its parameters."""
    m = run.session.parameters.get("source_packets")
    return (
        block_size / m - 1
        if block_size is not None and isinstance(m, (int, float)) and m > 0
        else None
    )


def _draw_fault(
    axes: Axes, run: SessionRun, number: int, fault: FaultRecord, predicted: float | None
) -> None:
    band = axes.axvspan(fault.start_s, fault.stop_s, color=LIGHT["band"], alpha=0.16, linewidth=0)
    mark(band, "band", title=fault_title(number, fault), about=_about(run, number))
    if predicted is not None:
        ends_s = [fault.start_s, fault.stop_s]
        (dashed,) = axes.plot(
            ends_s, [predicted] * 2, color=LIGHT["predicted"], linestyle="--", linewidth=2
        )
        mark(dashed, "predicted")


def _number_bands(axes: Axes, faults: Numbered, s_per_px: float) -> None:
    """Each band's number above it, where it does not run into the one before."""
    clear_from_s = -1.0
    for number, fault in faults:
        middle_s, half_s = (fault.start_s + fault.stop_s) / 2, s_per_px * (5 * len(str(number)) + 1)
        if middle_s - half_s >= clear_from_s:
            colour = LIGHT["bad" if fault.passed is False else "predicted"]
            place: JsonObject = {
                "transform": axes.get_xaxis_transform(),
                "ha": "center",
                "va": "bottom",
            }
            axes.text(middle_s, 1.03, str(number), color=colour, fontweight="bold", **place)
            clear_from_s = middle_s + half_s


class _Point(NamedTuple):
    """One fault: predicted and measured value, where the true (or allowed) value lies, whether both agree."""

    number: int
    fault: FaultRecord
    predicted: float
    measured: float
    interval: tuple[float, float] | None
    holds: bool


def loss_figure(run: SessionRun) -> Figure | None:
    """Measured against predicted losses; None where none was measured."""
    points = [
        _Point(n, f, f.predicted_loss, f.measured_loss, f.interval, f.loss_agrees)
        for n, f in numbered_faults(run)
        if f.measured_loss is not None
    ]
    where = "where the true loss lies, given the packets counted."
    return _scatter(run, points, "loss", where, lambda value, _: f"{plain(100 * value, 1)} %")


def size_figure(run: SessionRun) -> Figure | None:
    """Measured against predicted block sizes; None where none was measured."""
    points = [
        _Point(
            n,
            f,
            f.predicted_block_size,
            f.measured_block_size,
            f.block_size_range,
            _size_holds(f, f.measured_block_size),
        )
        for n, f in numbered_faults(run)
        if f.measured_block_size is not None and f.predicted_block_size is not None
    ]
    where = "sizes that the sender may settle at, as its measurement of the loss allows."
    return _scatter(run, points, "block size N", where, lambda value, _: plain(value, 1))


def _size_holds(fault: FaultRecord, measured: float) -> bool:
    return (
        fault.block_size_range is None
        or fault.block_size_range[0] - 0.5 <= measured <= fault.block_size_range[1] + 0.5
    )


def _scatter(
    run: SessionRun,
    points: Sequence[_Point],
    quantity: str,
    where: str,
    write: Callable[[float, object], str],
) -> Figure | None:
    """One mark a fault, a cross where both do not agree, whiskers where there is an interval."""
    if not points:
        return None
    every = [value for p in points for value in (p.predicted, p.measured, *(p.interval or ()))]
    room = 0.06 * (max(every) - min(every)) or 0.1 * max(every) or 1.0
    ends = max(0.0, min(every) - room), max(every) + room
    figure = bare(350 * PX, 350 * PX)
    axes = figure.add_axes((0.17, 0.14, 0.79, 0.76), xlim=ends, ylim=ends)
    axes.grid(True)
    mark(axes.plot(ends, ends, color=LIGHT["predicted"], linestyle="--")[0], "diagonal")
    for point in points:
        if point.interval is not None:
            axes.plot(
                [point.predicted] * 2,
                point.interval,
                "_-",
                color=LIGHT["measured"],
                linewidth=1.2,
                alpha=0.75,
            )
        style: JsonObject = (
            {"marker": "o", "alpha": 0.7}
            if point.holds
            else {"marker": "x", "markeredgewidth": 2.6}
        )
        colour = LIGHT["measured" if point.holds else "bad"]
        (drawn,) = axes.plot(
            [point.predicted], [point.measured], markersize=8, color=colour, **style
        )
        title = f"{fault_title(point.number, point.fault)}\n{quantity}: {write(point.predicted, None)} predicted, "
        title += f"{write(point.measured, None)} measured"
        mark(
            drawn,
            "point" if point.holds else "point bad",
            title=title,
            about=_about(run, point.number),
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(write)
    axes.locator_params(nbins=5)
    axes.set_title(f"Measured {quantity}", loc="left", fontweight="bold")
    axes.set_xlabel(f"Predicted {quantity}", loc="right")
    figure.set_label(
        f"{quantity[0].upper()}{quantity[1:]} measured against predicted, one point a fault; on the dashed line both"
        f" agree. Whiskers: {where}"
    )
    return figure
