"""Figures of a striped-file run: throughput of each operation, and faults over time.

They are drawn from the document of the run alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from testbed.report.drawing.charts import BELOW, Figure, chart
from topologies import Json, JsonObject

Row = Json
_OPERATION_COLOUR = "#3b6ea5"
_FAULT_COLOUR = "#b3261e"
_LIQUID_COLOUR = "#c98b2b"


class _Lane(NamedTuple):
    """A bar of the figure of faults; ``stop_s`` is None for a permanent fault."""

    name: str
    start_s: float
    stop_s: float | None
    text: str


def striping_figures(rows: Sequence[Row]) -> JsonObject:
    """Return the figures of a run by their names, from its one row."""
    (document,) = rows
    completed = [record for record in document["operations"] if not record["errors"]]
    figures = {}
    if completed:
        figures["throughput"] = _throughput(document, completed)
    faults = ("killed_processes", "cut_links", "impaired_links")
    if any(document.get(name) for name in faults):
        figures["faults-over-time"] = _faults(document)
    return figures


def _faults(document: Row) -> Figure:
    """Draw the operation under faults, and below it when links failed and listeners were killed."""
    operations = document["operations"]
    under_faults = [record for record in operations if record["under_faults"]]
    record = under_faults[0] if under_faults else operations[-1]
    lanes = _lanes(document, record)
    figure, axes = chart(
        size=(7, 1.3 + 0.5 * len(lanes)), xlabel="seconds since the operation began"
    )
    for position, lane in enumerate(lanes):
        is_fault = position > 0
        stop_s = lane.stop_s
        if stop_s is None:
            stop_s = max(record["seconds"], lane.start_s)
        axes.barh(
            position,
            stop_s - lane.start_s,
            left=lane.start_s,
            height=0.5,
            color=_FAULT_COLOUR if is_fault else _OPERATION_COLOUR,
        )
        aside: JsonObject = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(lane.text, (lane.start_s, position), color="white", fontsize=9, **aside)
        if is_fault:
            axes.plot(
                [lane.start_s], [position], marker="X", color="black", markersize=9, clip_on=False
            )
    ended = f"the operation ended, {record['seconds']:.2f} s"
    axes.axvline(record["seconds"], color="black", linestyle=":", linewidth=1, label=ended)
    axes.set_yticks(range(len(lanes)), [lane.name for lane in lanes])
    axes.invert_yaxis()
    axes.set(xlim=(0, None))
    figure.set_label(
        "The operation under faults (blue) and what happened to the network meanwhile (red): a"
        " cross marks the moment at which a listener was killed, or a cable cut or impaired."
        " Dotted: the end of the operation."
    )
    axes.legend(**BELOW)
    return figure


def _lanes(document: Row, record: Row) -> list[_Lane]:
    """Return the lane of the operation, then those of killed listeners, cuts and impairments."""
    seconds = record["seconds"]
    lanes = [_Lane("operation", 0.0, seconds, _outcome(record))]
    for node, at_s in document["killed_processes"]:
        lanes.append(_Lane(f"{node} killed", at_s, max(seconds, at_s), "no listener"))
    for link, start_s, stop_s in document["cut_links"]:
        lanes.append(_Lane(f"{link} cut", start_s, stop_s, "cut"))
    for description, start_s, stop_s in document.get("impaired_links", ()):
        lanes.append(_Lane(description, start_s, stop_s, "impaired"))
    return lanes


def _outcome(record: Row) -> str:
    if record["errors"]:
        return "failed"
    return "verified" if record["verified"] else "wrong"


def _throughput(document: Row, completed: list[Row]) -> Figure:
    figure, axes = chart(
        size=(7, 1.6 + 0.6 * len(completed)), xlabel="throughput of the file, Mbit/s"
    )
    values = [record["throughput_bps"] / 1e6 for record in completed]
    bars = axes.barh(_names(completed), values, color=_OPERATION_COLOUR, height=0.55)
    for label in axes.bar_label(bars, [f"{v:.1f}" for v in values], padding=4, zorder=3):
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    limit = max(values)
    if document["predicted"] is not None:
        predicted = document["predicted"]["throughput_bps"] / 1e6
        liquid = document["liquid_throughput_bps"] / 1e6
        axes.axvline(
            predicted, color="black", linewidth=1.3, label=f"predicted, {predicted:.1f} Mbit/s"
        )
        axes.axvline(
            liquid,
            color=_LIQUID_COLOUR,
            linewidth=1.3,
            linestyle="--",
            label=f"liquid, {liquid:.1f} Mbit/s",
        )
        limit = max(limit, predicted, liquid)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.set_xlim(0, 1.15 * limit)
    figure.set_label(
        f"Throughput of a file of {document['file_bytes'] / 1e6:g} MB, striped in units of"
        f" {document['stripe_unit_bytes']} bytes from {document['compute_nodes']} compute nodes"
        f" over {document['io_nodes']} I/O nodes, {document['switching']} switching, schedule"
        f" {document['schedule']}; one bar an operation. Lines: what is predicted for it, and what"
        " a liquid schedule would reach."
    )
    return figure


def _names(completed: list[Row]) -> list[str]:
    """Return a unique name for each operation; equal names are numbered from the second one on."""
    counts: dict[str, int] = {}
    names = []
    for record in completed:
        name = record["direction"]
        if record["attempt"] > 1:
            name += " (again)"
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return names
