"""Figures of one striped-file run, drawn from its document alone: throughput of every operation next to what was
predicted."""

from collections.abc import Sequence

from testbed.report.drawing.charts import BELOW, Figure, chart
from topologies import Json, JsonObject

Row = Json


def striping_figures(rows: Sequence[Row]) -> JsonObject:
    """Figure name -> matplotlib figure, for the one row of a run."""
    (found,) = rows
    ended = [record for record in found["operations"] if not record["errors"]]
    drawn = {"throughput": _throughput(found, ended)} if ended else {}
    if found.get("killed_processes") or found.get("cut_links") or found.get("impaired_links"):
        drawn["faults-over-time"] = _faults(found)
    return drawn


def _faults(found: Row) -> Figure:
    """The operation under faults from its start to its end, and next to it what was cut or killed when."""
    record = next(
        (one for one in found["operations"] if one["under_faults"]), found["operations"][-1]
    )
    outcome = "failed" if record["errors"] else "verified" if record["verified"] else "wrong"
    lanes = [("operation", 0.0, record["seconds"], outcome)]
    lanes += [
        (f"{node} killed", at_s, max(record["seconds"], at_s), "no listener")
        for node, at_s in found["killed_processes"]
    ]
    lanes += [
        (f"{link} cut", start_s, stop_s, "cut") for link, start_s, stop_s in found["cut_links"]
    ]
    lanes += [
        (words, start_s, stop_s, "impaired")
        for words, start_s, stop_s in found.get("impaired_links", ())
    ]
    figure, axes = chart(
        size=(7, 1.3 + 0.5 * len(lanes)), xlabel="seconds since the operation began"
    )
    for place, (_, start_s, ends_s, words) in enumerate(lanes):
        stop_s = max(record["seconds"], start_s) if ends_s is None else ends_s  # None: for good
        axes.barh(
            place,
            stop_s - start_s,
            left=start_s,
            height=0.5,
            color="#3b6ea5" if not place else "#b3261e",
        )
        aside: JsonObject = {"xytext": (9, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(words, (start_s, place), color="white", fontsize=9, **aside)
        if place:
            axes.plot([start_s], [place], marker="X", color="black", markersize=9, clip_on=False)
    ended = f"the operation ended, {record['seconds']:.2f} s"
    axes.axvline(record["seconds"], color="black", linestyle=":", linewidth=1, label=ended)
    axes.set_yticks(range(len(lanes)), [name for name, *_ in lanes])
    axes.invert_yaxis()
    axes.set(xlim=(0, None))
    figure.set_label(
        "The operation under faults (blue) and what happened to the network meanwhile (red): a cross marks the moment"
        " at which a listener was killed, or a cable cut or impaired. Dotted: the end of the operation."
    )
    axes.legend(**BELOW)
    return figure


def _throughput(found: Row, ended: list[Row]) -> Figure:
    figure, axes = chart(size=(7, 1.6 + 0.6 * len(ended)), xlabel="throughput of the file, Mbit/s")
    names = _names(ended)
    values = [record["throughput_bps"] / 1e6 for record in ended]
    bars = axes.barh(names, values, color="#3b6ea5", height=0.55)
    for text in axes.bar_label(bars, [f"{v:.1f}" for v in values], padding=4, zorder=3):
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    most = max(values)
    if found["predicted"] is not None:
        predicted, liquid = (
            found["predicted"]["throughput_bps"] / 1e6,
            found["liquid_throughput_bps"] / 1e6,
        )
        axes.axvline(
            predicted, color="black", linewidth=1.3, label=f"predicted, {predicted:.1f} Mbit/s"
        )
        axes.axvline(
            liquid,
            color="#c98b2b",
            linewidth=1.3,
            linestyle="--",
            label=f"liquid, {liquid:.1f} Mbit/s",
        )
        most = max(most, predicted, liquid)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.set_xlim(0, 1.15 * most)
    figure.set_label(
        f"Throughput of a file of {found['file_bytes'] / 1e6:g} MB, striped in units of {found['stripe_unit_bytes']} bytes"
        f" from {found['compute_nodes']} compute nodes over {found['io_nodes']} I/O nodes,"
        f" {found['switching']} switching, schedule {found['schedule']}; one bar an operation. Lines:"
        " what is predicted for it, and what a liquid schedule would reach."
    )
    return figure


def _names(ended: list[Row]) -> list[str]:
    """A name of its own for each operation: several of a direction are numbered."""
    named: dict[str, int] = {}
    found = []
    for record in ended:
        name = record["direction"] + (" (again)" if record["attempt"] > 1 else "")
        named[name] = named.get(name, 0) + 1
        found.append(name if named[name] == 1 else f"{name} {named[name]}")
    return found
