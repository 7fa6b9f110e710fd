"""Drawings of a schedule: a pictogram of the network for each time frame, and all links by frame.

The pictograms follow Gabrielyan 2007, figure 35. They highlight the links that a frame uses, and
bottlenecks in another colour.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testbed.report.drawing.charts import LIGHT, Axes
from testbed.report.drawing.network_drawing import Load, Marks, draw_on
from testbed.report.drawing.node_positions import place_network
from topologies.network import LinkId, Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Frames that have a pictogram.
MAX_PICTOGRAMS = 24
# Links of which every frame is shown.
MAX_ROWS = 64
PICTOGRAM_INCHES = (1.7, 1.7)
# Height of the frame numbers and their heading.
_LABELS_INCHES = 0.45
BUSY = LIGHT["measured"]
BOTTLENECK = LIGHT["predicted"]

# Values of the cells that are drawn for a link in a frame.
_IDLE_CELL = 0
_BUSY_CELL = 1
_BOTTLENECK_CELL = 2


def draw_schedule(
    transfers: Sequence[Sequence[str]],
    frames: Sequence[Sequence[int]],
    network: Network | None = None,
    *,
    title: str = "",
) -> Figure:
    """Return a matplotlib figure of a schedule.

    It shows the busy links of every frame and, if the network is given, a pictogram of each of the
    first 24 frames.

    Args:
        transfers: The links of each transfer by label (``a->b``).
        frames: The transfer numbers of each frame.
        network: The network.
        title: Title of the figure; by default, the numbers of transfers and frames.
    """
    from matplotlib.figure import Figure

    loads = _loads(transfers)
    pictogram_columns = min(6, max(2, len(frames)))
    pictogram_rows = 0
    if network is not None:
        pictogram_rows = math.ceil(min(len(frames), MAX_PICTOGRAMS) / pictogram_columns)

    pictograms_inches = 2.0 * pictogram_rows
    links_inches = 0.9 + 0.16 * min(len(loads), MAX_ROWS)
    title_inches = 0.3
    if not pictogram_rows:
        links_inches += 0.6
        title_inches = 0.6
    figure = Figure(figsize=(11, pictograms_inches + links_inches))
    default_title = f"{len(transfers)} transfers in {len(frames)} time frames"
    figure.suptitle(title or default_title, y=0.995, fontsize=11)

    lower: Figure = figure
    if pictogram_rows and network is not None:
        parts: Any = figure.subfigures(2, 1, height_ratios=(pictograms_inches, links_inches))
        upper, lower = parts
        _draw_pictograms(
            upper, network, transfers, frames, loads, (pictogram_rows, pictogram_columns)
        )
    bottom = _LABELS_INCHES / links_inches
    height = 1 - (_LABELS_INCHES + title_inches) / links_inches
    draw_busy_links(lower.add_axes((0.17, bottom, 0.81, height)), transfers, frames)

    caption = "Every link over all frames; brown: a bottleneck, blue: another busy link."
    if pictogram_rows:
        caption = (
            "A drawing of the network for each time frame, below it every link over all frames; "
            "brown: a bottleneck, blue: another busy link."
        )
    figure.set_label(caption)
    return figure


def _loads(transfers: Sequence[Sequence[str]]) -> Counter[str]:
    """Return the number of transfers over each link."""
    loads: Counter[str] = Counter()
    for links in transfers:
        loads.update(dict.fromkeys(links, 1))
    return loads


def draw_busy_links(
    axes: Axes, transfers: Sequence[Sequence[str]], frames: Sequence[Sequence[int]]
) -> None:
    """Draw the 64 most loaded links as rows and the frames as columns.

    In a liquid schedule, every bottleneck link is busy in all frames.

    Args:
        axes: The axes.
        transfers: The links of each transfer by label (``a->b``).
        frames: The transfer numbers of each frame.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    loads = _loads(transfers)
    # Links of equal load stay in the order of the transfers, because sorting is stable.
    shown_links = sorted(loads, key=lambda link: -loads[link])[:MAX_ROWS]
    cells = _cells(shown_links, loads, transfers, frames)
    colours = ListedColormap([LIGHT["wash"], BUSY, BOTTLENECK])
    axes.pcolormesh(
        cells,
        cmap=colours,
        vmin=_IDLE_CELL,
        vmax=_BOTTLENECK_CELL,
        edgecolors=LIGHT["paper"],
        linewidth=0.4,
    )
    # The most loaded link is at the top.
    axes.invert_yaxis()
    link_labels = [f"{link} ({loads[link]})" for link in shown_links]
    axes.set_yticks([row + 0.5 for row in range(len(shown_links))], link_labels, fontsize=6)
    # At most some 24 frame numbers fit the width.
    step = max(1, len(frames) // 24)
    numbered_frames = range(0, len(frames), step)
    frame_labels = [str(index + 1) for index in numbered_frames]
    axes.set_xticks([index + 0.5 for index in numbered_frames], frame_labels, fontsize=7)
    axes.tick_params(length=0)
    hidden = len(loads) - len(shown_links)
    y_label = "links (transfers over them)"
    if hidden > 0:
        y_label += f"; {hidden} less loaded ones left out"
    axes.set_xlabel("time frame", fontsize=8)
    axes.set_ylabel(y_label, fontsize=8)
    legend = [
        Patch(color=BOTTLENECK, label="bottleneck, busy"),
        Patch(color=BUSY, label="busy"),
        Patch(color=LIGHT["wash"], label="idle"),
    ]
    axes.legend(
        handles=legend,
        ncols=3,
        fontsize=7,
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
    )
    for side in axes.spines.values():
        side.set_visible(False)


def _cells(
    links: Sequence[str],
    loads: Mapping[str, int],
    transfers: Sequence[Sequence[str]],
    frames: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Return for each link, and each frame, whether the link is idle, busy or a busy bottleneck."""
    row_of_link = {link: row for row, link in enumerate(links)}
    bottleneck_load = max(loads.values())
    cells = [[_IDLE_CELL] * len(frames) for _ in links]
    for column, frame in enumerate(frames):
        for transfer in frame:
            for link in transfers[transfer]:
                if link in row_of_link:
                    is_bottleneck = loads[link] == bottleneck_load
                    cell = _BOTTLENECK_CELL if is_bottleneck else _BUSY_CELL
                    cells[row_of_link[link]][column] = cell
    return cells


def _draw_pictograms(
    figure: Figure,
    network: Network,
    transfers: Sequence[Sequence[str]],
    frames: Sequence[Sequence[int]],
    loads: Mapping[str, int],
    shape: tuple[int, int],
) -> None:
    """Draw the network once for each frame, in a grid of this number of rows and columns."""
    positions = place_network(network)
    bottleneck_load = max(loads.values())
    grid = figure.subplots(*shape, squeeze=False)
    figure.subplots_adjust(
        left=0.02, right=0.98, bottom=0.02, top=1 - 0.26 / shape[0], wspace=0.08, hspace=0.22
    )
    for index, axes in enumerate(grid.flat):
        axes.set_axis_off()
        if index >= min(len(frames), MAX_PICTOGRAMS):
            continue
        busy: dict[LinkId, Load] = {}
        for transfer in frames[index]:
            for label in transfers[transfer]:
                if label in network.link_of_label:
                    colour = BOTTLENECK if loads[label] == bottleneck_load else BUSY
                    busy[network.link_of_label[label]] = Load(share=0.05, colour=colour)
        draw_on(axes, network, positions, Marks(loads=busy), PICTOGRAM_INCHES)
        axes.set_title(f"frame {index + 1}: {len(frames[index])} transfers", fontsize=7, pad=2)
    if len(frames) > MAX_PICTOGRAMS:
        last_axes = grid.flat[-1]
        last_axes.text(
            1.0,
            -0.06,
            f"frames {MAX_PICTOGRAMS + 1} to {len(frames)}: below only",
            transform=last_axes.transAxes,
            ha="right",
            fontsize=7,
            color=LIGHT["soft"],
        )
