"""The figures of a stream: route, loss and redundancy over time, prediction against measurement.

The page of a run, the live page and ``testbed report --figures`` show the same figures.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

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

# Length of a pixel in inches: an inch of a figure is 72 pixels of a page.
PX = 1 / 72
# Largest number of nodes of a network that is drawn completely. Of a larger one, only the nodes
# near the route are drawn.
CROWD = 60
# Faults with their numbers.
Numbered = Sequence[tuple[int, FaultRecord]]
# Predicted loss or redundancy of a fault, None without a prediction.
_Prediction = Callable[[FaultRecord], float | None]
# Writes a value of an axis. matplotlib also passes the number of the tick.
_Formatter = Callable[[float, object], str]


def stream_figures(run: SessionRun) -> dict[str, Figure]:
    """Return the figures of a stream by name, each with its caption as its label.

    A figure without measurements is left out.
    """
    figures = {
        "route": route_figure(run),
        "loss": loss_figure(run),
        "block-size": size_figure(run),
        "timeline": timeline_figure(run),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def numbered_faults(run: SessionRun) -> Numbered:
    """Return the faults of a stream, numbered from 1."""
    return list(enumerate(run.faults, start=1))


def _about(run: SessionRun, *numbers: int) -> str:
    """Return the identifiers by which the page's script finds the marks of these faults."""
    return " ".join(f"{run.session.session}-{number}" for number in numbers)


def shown_network(run: SessionRun) -> Network:
    """Return the part of the network that is drawn.

    Hosts that do not carry the stream are left out. Of a network with more than ``CROWD`` nodes,
    only those at most two links away from the route are drawn.
    """
    session = run.session
    network = parse_document(session.network)
    route_nodes = {session.source, session.sink}
    for load in session.links:
        route_nodes |= {load.source, load.target}
    # Streams without a route have empty names of source and sink.
    route_nodes &= network.node_index.keys()
    shown = set()
    for node in network.nodes:
        if node.kind != "host" or node.id in route_nodes:
            shown.add(node.id)
    if len(shown) > CROWD and route_nodes:
        near = set(route_nodes)
        for _ in range(2):
            near |= _neighbours(network, near)
        shown &= near
    nodes = tuple(node for node in network.nodes if node.id in shown)
    links = tuple(link for link in network.links if link.source in shown and link.target in shown)
    return replace(network, nodes=nodes, links=links)


def _neighbours(network: Network, nodes: set[str]) -> set[str]:
    """Return the nodes that a link connects to one of these, in either direction."""
    neighbours = set()
    for link in network.links:
        if link.source in nodes or link.target in nodes:
            neighbours |= {link.source, link.target}
    return neighbours


def route_figure(run: SessionRun) -> Figure:
    """Return the drawing of the network with the stream's route.

    Widths are loads, colours are capillary layers, and numbered badges are failed links.
    """
    session = run.session
    network = shown_network(run)
    layers = max((load.layer for load in session.links), default=0)
    loads: dict[LinkId, LinkLoad] = {}
    for load in session.links:
        link = (load.source, load.target, load.key)
        if link in network.link_index:
            loads[link] = load
    link_of_label = {load.label: link for link, load in loads.items()}
    faults: dict[LinkId, list[tuple[int, FaultRecord]]] = {
        link: [] for link in link_of_label.values()
    }
    for number, fault in numbered_faults(run):
        if fault.link in link_of_label:
            faults[link_of_label[fault.link]].append((number, fault))
    failed = {link: _failure(run, of_link) for link, of_link in faults.items() if of_link}
    outside_layers = any(load.layer == 0 for load in loads.values())
    marks = Marks(
        loads=_loads(run, loads, faults, layers),
        failed=failed,
        ends=tuple(end for end in (session.source, session.sink) if end in network.node_index),
        legend=_layer_names(layers, outside_layers),
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
    """Return the drawing of a network with loads.

    Args:
        network: The network.
        links: The links as objects with the fields ``source``, ``target``, ``key``, a load, and
            perhaps a ``layer``.
        ends: Source and sink of a stream, or empty texts.
        of: The field of the load, which is a number or a fraction as text.
        caption: The caption. With a source, the caption of a route follows it.
    """
    loads = []
    for link in links:
        load = Fraction(link[of])
        # A load that is 0 as a float cannot be drawn.
        if float(load):
            loads.append(
                LinkLoad(
                    source=link["source"],
                    target=link["target"],
                    key=link["key"],
                    load=load,
                    layer=link.get("layer", 0),
                )
            )
    source, sink = ends
    record = SessionRecord(
        session=0,
        title=network.name,
        network=network_document(network),
        source=source,
        sink=sink,
        method="",
        fabric="",
        links=tuple(loads),
    )
    figure = route_figure(SessionRun(session=record))
    if source:
        caption = f"{caption} {figure.get_label()}"
    figure.set_label(caption)
    return figure


def _layer_names(layers: int, outside_layers: bool) -> dict[str, str]:
    """Return the entries of the legend: description -> colour.

    The legend has all layers if they have different colours, and otherwise the first, a middle and
    the last one.

    Args:
        layers: The number of layers.
        outside_layers: Whether there are links outside the layers.
    """
    shown: Iterable[int] = (1, (layers + 1) // 2, layers)
    if layers <= LAYER_STEPS:
        shown = range(1, layers + 1)
    names = {f"layer {layer}": layer_colour(layer, layers) for layer in shown}
    if layers and outside_layers:
        names["in no layer"] = layer_colour(0, layers)
    return names


def _loads(
    run: SessionRun,
    links: Mapping[LinkId, LinkLoad],
    faults: Mapping[LinkId, Numbered],
    layers: int,
) -> dict[LinkId, Load]:
    shapes = shaped_links(run.session.network)
    largest = max((float(link.load) for link in links.values()), default=1.0) or 1.0
    loads = {}
    for link_id, link in links.items():
        # A badge takes the place of the text.
        text = ""
        if link.load and not faults[link_id]:
            text = percent(float(link.load), 0)
        loads[link_id] = Load(
            share=float(link.load) / largest,
            words=text,
            colour=layer_colour(link.layer, layers) if layers else LIGHT["predicted"],
            title=link_title(link, faults[link_id], shapes.get(link_id, {})),
        )
    return loads


def _failure(run: SessionRun, faults: Numbered) -> Failure:
    """Return the badge of a link: the number of its first fault, with a plus if there are more."""
    numbers = [number for number, _ in faults]
    text = f"{numbers[0]}+" if len(numbers) > 1 else f"{numbers[0]}"
    return Failure(
        words=text,
        title="\n".join(fault_title(number, fault) for number, fault in faults),
        about=_about(run, *numbers),
        wrong=any(fault.passed is False for _, fault in faults),
    )


def _route_caption(run: SessionRun, network: Network, layers: int) -> str:
    sentences = []
    if run.session.source:
        sentences.append(
            "A line is as wide as the link\u2019s share of the stream; an arrow points where it "
            "goes."
        )
    elif run.session.links:
        sentences.append("A line is as wide as the link\u2019s load beside the busiest\u2019s.")
    if layers:
        sentences.append("Colour: the capillary layer whose bottleneck the link is.")
    if run.faults:
        sentences.append("Numbers: faults in their order.")
    hidden = len(run.session.network.get("nodes", ())) - len(network.nodes)
    if hidden:
        sentences.append(f"Not drawn: {counted(hidden, 'node')} without a part in it.")
    sentences.append(link_words(run.session.network))
    return " ".join(sentences).strip()


def drawn_until_s(run: SessionRun) -> float:
    """Return the end of the timeline's axis, in seconds since the start.

    The axis of a finished stream ends when its last packet was sent or its last fault ended. The
    time of the playback buffer, in which nothing is sent any more, is not drawn; it is 8 s in slow
    streams. The axis of a running stream ends at the end of its last bin or fault.
    """
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return 0.0
    last_bin_s = timeline.t_s[-1]
    if run.summary:
        for t_s, sent_pps in zip(timeline.t_s, timeline.sent_pps, strict=True):
            if sent_pps > 0:
                last_bin_s = t_s
    return float(max([last_bin_s + timeline.bin_s, *(fault.stop_s for fault in run.faults)]))


# Size of the timeline in pixels.
_TIMELINE_WIDTH = 1120
_TIMELINE_HEIGHT = 380


def timeline_figure(run: SessionRun) -> Figure | None:
    """Return the figure of loss and redundancy over time, or None without a timeline.

    Faults are numbered bands, and predictions are dashed lines.
    """
    timeline = run.timeline
    if timeline is None or not timeline.t_s:
        return None
    figure = bare(_TIMELINE_WIDTH * PX, _TIMELINE_HEIGHT * PX)
    until_s = drawn_until_s(run)

    def axes_at(bottom: float) -> Axes:
        box = (54 / _TIMELINE_WIDTH, bottom, 1 - 64 / _TIMELINE_WIDTH, 0.33)
        return figure.add_axes(box, xlim=(0, until_s))

    def predicted_redundancy(fault: FaultRecord) -> float | None:
        return _redundancy(run, fault.predicted_block_size)

    upper = axes_at(0.57)
    _draw_series(upper, run, "loss", timeline.loss, lambda fault: fault.predicted_loss)
    # The numbers of the faults are below the title.
    upper.set_title("Packets lost", loc="left", fontweight="bold", pad=20)
    _number_bands(upper, numbered_faults(run), until_s / _TIMELINE_WIDTH)

    lower = axes_at(0.57 - 0.46)
    _draw_series(lower, run, "redundancy", timeline.redundancy, predicted_redundancy)
    lower.set_title("Redundancy N/M − 1", loc="left", fontweight="bold", pad=8)
    base_redundancy = _redundancy(run, run.summary.base_block_size if run.summary else None)
    if base_redundancy is not None:
        lower.axhline(base_redundancy, color=LIGHT["predicted"], linestyle=":", linewidth=1)
    lower.set_xlabel("seconds since the stream’s start", loc="right")

    figure.set_label(
        "Packets lost and redundancy sent over time. Shaded: a fault, with its number; dashed: "
        "what theory predicts for it; dotted: redundancy at rest. What is lost at the start of a "
        "fault goes out before the sender knows of it."
    )
    return figure


def _draw_series(
    axes: Axes,
    run: SessionRun,
    name: str,
    values: Sequence[float | None],
    predicted: _Prediction,
) -> None:
    """Draw a series of the timeline as steps, with the faults and their predictions.

    Args:
        axes: The axes.
        run: The stream.
        name: CSS class of the series.
        values: A share for each bin of the timeline, or None.
        predicted: Returns the predicted value during a fault.
    """
    timeline = run.timeline
    assert timeline is not None
    faults = numbered_faults(run)
    axes.grid(True, axis="y")
    # The last value is repeated at the end of its bin.
    times_s = [*timeline.t_s, timeline.t_s[-1] + timeline.bin_s]
    shares = [math.nan if value is None else value for value in (*values, values[-1])]
    (line,) = axes.plot(times_s, shares, drawstyle="steps-post", color=LIGHT["measured"])
    mark(line, f"steps {name}")
    largest = 0.01
    for value in values:
        if value is not None:
            largest = max(largest, value)
    for number, fault in faults:
        prediction = predicted(fault)
        _draw_fault(axes, run, number, fault, prediction)
        largest = max(largest, prediction or 0.0)
    axes.set_ylim(0, 1.08 * largest)
    axes.yaxis.set_major_formatter(_percent_label)
    axes.locator_params(axis="y", nbins=5)


def _percent_label(value: float, _: object) -> str:
    return f"{plain(100 * value, 1)} %"


def _number_label(value: float, _: object) -> str:
    return plain(value, 1)


def _redundancy(run: SessionRun, block_size: float | None) -> float | None:
    """Return N/M - 1, with M from the parameters of the stream, or None if it is unknown."""
    source_packets = run.session.parameters.get("source_packets")
    if block_size is None or not isinstance(source_packets, (int, float)) or source_packets <= 0:
        return None
    return block_size / source_packets - 1


def _draw_fault(
    axes: Axes, run: SessionRun, number: int, fault: FaultRecord, predicted: float | None
) -> None:
    """Draw a fault as a band, and its prediction as a dashed line."""
    band = axes.axvspan(fault.start_s, fault.stop_s, color=LIGHT["band"], alpha=0.16, linewidth=0)
    mark(band, "band", title=fault_title(number, fault), about=_about(run, number))
    if predicted is not None:
        ends_s = [fault.start_s, fault.stop_s]
        (dashed,) = axes.plot(
            ends_s, [predicted] * 2, color=LIGHT["predicted"], linestyle="--", linewidth=2
        )
        mark(dashed, "predicted")


def _number_bands(axes: Axes, faults: Numbered, s_per_px: float) -> None:
    """Write the number of each fault above its band, unless it would touch the previous number.

    Args:
        axes: The axes.
        faults: The faults with their numbers.
        s_per_px: Scale of the axis, in seconds per pixel.
    """
    free_from_s = -1.0
    style: JsonObject = {
        "transform": axes.get_xaxis_transform(),
        "ha": "center",
        "va": "bottom",
        "fontweight": "bold",
    }
    for number, fault in faults:
        middle_s = (fault.start_s + fault.stop_s) / 2
        # Half of the width of a digit is 5 pixels.
        half_width_s = s_per_px * (5 * len(str(number)) + 1)
        if middle_s - half_width_s >= free_from_s:
            colour = LIGHT["bad"] if fault.passed is False else LIGHT["predicted"]
            axes.text(middle_s, 1.03, str(number), color=colour, **style)
            free_from_s = middle_s + half_width_s


@dataclass(frozen=True, kw_only=True)
class _Point:
    """A fault in a scatter plot.

    Attributes:
        number: Number of the fault.
        fault: The fault.
        predicted: The predicted value.
        measured: The measured value.
        interval: Range of the true value (loss) or of the allowed values (block size), or None.
        holds: Whether prediction and measurement agree.
    """

    number: int
    fault: FaultRecord
    predicted: float
    measured: float
    interval: tuple[float, float] | None
    holds: bool


def loss_figure(run: SessionRun) -> Figure | None:
    """Return the figure of measured against predicted losses, or None without measurements."""
    points = []
    for number, fault in numbered_faults(run):
        if fault.measured_loss is not None:
            point = _Point(
                number=number,
                fault=fault,
                predicted=fault.predicted_loss,
                measured=fault.measured_loss,
                interval=fault.interval,
                holds=fault.loss_agrees,
            )
            points.append(point)
    whiskers = "where the true loss lies, given the packets counted."
    return _scatter(run, points, "loss", whiskers, _percent_label)


def size_figure(run: SessionRun) -> Figure | None:
    """Return the figure of measured against predicted block sizes, or None without measurements."""
    points = []
    for number, fault in numbered_faults(run):
        if fault.measured_block_size is not None and fault.predicted_block_size is not None:
            point = _Point(
                number=number,
                fault=fault,
                predicted=fault.predicted_block_size,
                measured=fault.measured_block_size,
                interval=fault.block_size_range,
                holds=_size_holds(fault, fault.measured_block_size),
            )
            points.append(point)
    whiskers = "sizes that the sender may settle at, as its measurement of the loss allows."
    return _scatter(run, points, "block size N", whiskers, _number_label)


def _size_holds(fault: FaultRecord, measured: float) -> bool:
    if fault.block_size_range is None:
        return True
    smallest, largest = fault.block_size_range
    # A block size is a whole number of packets.
    return smallest - 0.5 <= measured <= largest + 0.5


def _scatter(
    run: SessionRun,
    points: Sequence[_Point],
    quantity: str,
    whiskers: str,
    formatter: _Formatter,
) -> Figure | None:
    """Return a figure with one mark per fault: a dot, or a cross if it differs from the prediction.

    Args:
        run: The stream.
        points: The faults. Without any, there is no figure.
        quantity: Name of the quantity.
        whiskers: Meaning of the whiskers, for the caption.
        formatter: Writes a value.
    """
    if not points:
        return None
    limits = _limits(points)
    figure = bare(350 * PX, 350 * PX)
    axes = figure.add_axes((0.17, 0.14, 0.79, 0.76), xlim=limits, ylim=limits)
    axes.grid(True)
    (diagonal,) = axes.plot(limits, limits, color=LIGHT["predicted"], linestyle="--")
    mark(diagonal, "diagonal")
    for point in points:
        _draw_point(axes, run, point, quantity, formatter)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(formatter)
    axes.locator_params(nbins=5)
    axes.set_title(f"Measured {quantity}", loc="left", fontweight="bold")
    axes.set_xlabel(f"Predicted {quantity}", loc="right")
    figure.set_label(
        f"{quantity[0].upper()}{quantity[1:]} measured against predicted, one point a fault; on "
        f"the dashed line both agree. Whiskers: {whiskers}"
    )
    return figure


def _limits(points: Sequence[_Point]) -> tuple[float, float]:
    """Return the limits of both axes: the range of all values with a margin, not below 0."""
    values: list[float] = []
    for point in points:
        values += (point.predicted, point.measured, *(point.interval or ()))
    margin = 0.06 * (max(values) - min(values)) or 0.1 * max(values) or 1.0
    return max(0.0, min(values) - margin), max(values) + margin


def _draw_point(
    axes: Axes, run: SessionRun, point: _Point, quantity: str, formatter: _Formatter
) -> None:
    if point.interval is not None:
        axes.plot(
            [point.predicted] * 2,
            point.interval,
            "_-",
            color=LIGHT["measured"],
            linewidth=1.2,
            alpha=0.75,
        )
    kind = "point"
    style: JsonObject = {"color": LIGHT["measured"], "marker": "o", "alpha": 0.7}
    if not point.holds:
        kind = "point bad"
        style = {"color": LIGHT["bad"], "marker": "x", "markeredgewidth": 2.6}
    (drawn,) = axes.plot([point.predicted], [point.measured], markersize=8, **style)
    predicted = formatter(point.predicted, None)
    measured = formatter(point.measured, None)
    title = (
        f"{fault_title(point.number, point.fault)}\n"
        f"{quantity}: {predicted} predicted, {measured} measured"
    )
    mark(drawn, kind, title=title, about=_about(run, point.number))
