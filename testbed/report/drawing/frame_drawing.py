"""Time frames of a schedule as pictures: a pictogram of the network for each frame, and all links over all frames.

After the pictograms of Gabrielyan 2007, figure 35: the links that a frame uses stand out, bottlenecks most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from testbed.report.drawing.charts import LIGHT, Axes
from testbed.report.drawing.network_drawing import Load, Marks, draw_on
from testbed.report.drawing.node_positions import place_network
from topologies.network import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_PICTOGRAMS = 24
MAX_ROWS = 64
PICTOGRAM_INCHES = (1.7, 1.7)
BUSY, BOTTLENECK = LIGHT["measured"], LIGHT["predicted"]


def draw_schedule(
    transfers: Sequence[Sequence[str]],
    frames: Sequence[Sequence[int]],
    network: Network | None = None,
    *,
    title: str = "",
) -> Figure:
    """A matplotlib figure: pictograms where the network is given (the first 24 frames), and the busy links of every
    frame.

    ``transfers``: the links of each transfer by label (``a->b``); ``frames``: transfer numbers a frame.
    """
    from matplotlib.figure import Figure

    loads = Counter(link for transfer in transfers for link in dict.fromkeys(transfer))
    columns = min(6, max(2, len(frames)))
    rows = math.ceil(min(len(frames), MAX_PICTOGRAMS) / columns) if network is not None else 0
    strip = 0.9 + 0.16 * min(len(loads), MAX_ROWS)
    figure = Figure(figsize=(11, 2.0 * rows + strip + (0.0 if rows else 0.6)))
    figure.suptitle(
        title or f"{len(transfers)} transfers in {len(frames)} time frames", y=0.995, fontsize=11
    )
    upper: Figure | None = None
    lower: Figure = figure
    if rows:
        parts: Any = figure.subfigures(2, 1, height_ratios=(2.0 * rows, strip))
        upper, lower = parts
    if upper is not None and network is not None:
        _draw_pictograms(upper, network, transfers, frames, loads, (rows, columns))
    height = strip if rows else strip + 0.6
    below, above = 0.45, 0.3 if rows else 0.6  # inches
    box = (0.17, below / height, 0.81, 1 - (below + above) / height)
    draw_busy_links(lower.add_axes(box), transfers, frames)
    pictograms = "A drawing of the network for each time frame, below it e" if rows else "E"
    figure.set_label(
        f"{pictograms}very link over all frames; brown: a bottleneck, blue: another busy link."
    )
    return figure


def draw_busy_links(
    axes: Axes, transfers: Sequence[Sequence[str]], frames: Sequence[Sequence[int]]
) -> None:
    """One row a link (the 64 most loaded), one column a frame; a bottleneck's row is full in a liquid schedule."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    loads = Counter(link for transfer in transfers for link in dict.fromkeys(transfer))
    order = {link: at for at, link in enumerate(loads)}
    shown = sorted(loads, key=lambda link: (-loads[link], order[link]))[:MAX_ROWS]
    row = {link: at for at, link in enumerate(shown)}
    most = max(loads.values())
    cells = [[0] * len(frames) for _ in shown]
    for at, frame in enumerate(frames):
        for link in (link for i in frame for link in transfers[i]):
            if link in row:
                cells[row[link]][at] = 2 if loads[link] == most else 1
    colours = ListedColormap([LIGHT["wash"], BUSY, BOTTLENECK])
    axes.pcolormesh(cells, cmap=colours, vmin=0, vmax=2, edgecolors=LIGHT["paper"], linewidth=0.4)
    axes.invert_yaxis()
    axes.set_yticks(
        [at + 0.5 for at in range(len(shown))],
        [f"{link} ({loads[link]})" for link in shown],
        fontsize=6,
    )
    step = max(1, len(frames) // 24)
    shown_frames = range(0, len(frames), step)
    axes.set_xticks(
        [at + 0.5 for at in shown_frames], [str(at + 1) for at in shown_frames], fontsize=7
    )
    axes.tick_params(length=0)
    hidden = (
        f"; {len(loads) - len(shown)} less loaded ones left out" if len(loads) > len(shown) else ""
    )
    axes.set_xlabel("time frame", fontsize=8)
    axes.set_ylabel(f"links (transfers over them){hidden}", fontsize=8)
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


def _draw_pictograms(
    figure: Figure,
    network: Network,
    transfers: Sequence[Sequence[str]],
    frames: Sequence[Sequence[int]],
    loads: Mapping[str, int],
    shape: tuple[int, int],
) -> None:
    places, most = place_network(network), max(loads.values())
    grid = figure.subplots(*shape, squeeze=False)
    figure.subplots_adjust(
        left=0.02, right=0.98, bottom=0.02, top=1 - 0.26 / shape[0], wspace=0.08, hspace=0.22
    )
    for at, axes in enumerate(grid.flat):
        axes.set_axis_off()
        if at < min(len(frames), MAX_PICTOGRAMS):
            busy = {
                link for i in frames[at] for link in transfers[i] if link in network.link_of_label
            }
            colours = {
                network.link_of_label[link]: BOTTLENECK if loads[link] == most else BUSY
                for link in busy
            }
            marks = Marks(
                loads={link: Load(share=0.05, colour=colour) for link, colour in colours.items()}
            )
            draw_on(axes, network, places, marks, PICTOGRAM_INCHES)
            axes.set_title(f"frame {at + 1}: {len(frames[at])} transfers", fontsize=7, pad=2)
    if len(frames) > MAX_PICTOGRAMS:
        grid.flat[-1].text(
            1.0, -0.06, f"frames {MAX_PICTOGRAMS + 1} to {len(frames)}: below only",
            transform=grid.flat[-1].transAxes, ha="right", fontsize=7, color=LIGHT["soft"],
        )  # fmt: skip
