"""The comparison of Figures 13 and 14: a striped file is written in one call, or piece by piece.

One compute node writes the file, in pieces of several sizes. Files are smaller than the document's
file to save time. A file of the document's size is written as well, but only in one call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import REPEAT
from testbed.model.studies import Points, Row, Rows
from testbed.report.drawing.charts import Figure, Mark, draw_lines, ticks

LINK_RATE_BPS = 100e6

# How both studies deviate from the document, as their reports say.
ON_SWITCHES = (
    "links of 100 Mbit/s as Fast Ethernet has, on a user-space switch; "
    "subfiles lie in the page cache instead of on disks"
)


class Speeds(NamedTuple):
    """Throughput in bit/s by the size of a piece in bytes.

    Attributes:
        one_call: Throughput if the file is written in one call.
        piecewise: Throughput if the file is written piece by piece.
        complete: Throughput for a file of the document's size, in one call. Empty in a quick run.
    """

    one_call: dict[int, float]
    piecewise: dict[int, float]
    complete: dict[int, float]


class LineNames(NamedTuple):
    """Names of the lines of a figure, as the attributes of ``Speeds``."""

    one_call: str
    piecewise: str
    complete: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The points of a comparison, and how they are drawn.

    Attributes:
        size_field: Field of rows with the size of a piece in bytes.
        call_field: Field of rows that is true if all pieces are written in one call.
        size_label: Label of the size in figures.
        line_names: Names of the lines in figures.
        sizes: Sizes of a piece in bytes.
        quick_sizes: The sizes of a quick run.
        file_bytes: Size of the file that is written in one call.
        quick_file_bytes: The size in a quick run.
        piecewise_bytes: Returns the size of the file that is written piece by piece, from the size
            of a piece and ``file_bytes``. It is at most ``file_bytes``, because each piece takes a
            round trip.
        complete_bytes: Size of the document's file. A file of this size is written once.
        complete_sizes: Sizes of a piece of this file.
    """

    size_field: str
    call_field: str
    size_label: str
    line_names: LineNames
    sizes: Sequence[int]
    quick_sizes: Sequence[int]
    file_bytes: int
    quick_file_bytes: int
    piecewise_bytes: Callable[[int, int], int]
    complete_bytes: int
    complete_sizes: Sequence[int]

    def points(self, quick: bool, seed: int) -> Points:
        """Return the points: each size in one call and piece by piece, then the complete file."""
        file_bytes = self.quick_file_bytes if quick else self.file_bytes
        result = []
        for size in self.quick_sizes if quick else self.sizes:
            result.append(self._point(size, True, file_bytes, REPEAT))
            result.append(self._point(size, False, self.piecewise_bytes(size, file_bytes), REPEAT))
        if not quick:
            for size in self.complete_sizes:
                result.append(self._point(size, True, self.complete_bytes, 1))
        return [{**point, "seed": seed} for point in result]

    def _point(self, size: int, one_call: bool, file_bytes: int, repetitions: int) -> Row:
        return {
            self.size_field: size,
            self.call_field: one_call,
            "file_bytes": file_bytes,
            "repetitions": repetitions,
        }

    def _line(self, row: Row) -> str:
        """Return the attribute of ``Speeds`` and ``LineNames`` to which a row belongs."""
        if not row[self.call_field]:
            return "piecewise"
        return "complete" if row["file_bytes"] == self.complete_bytes else "one_call"

    def speeds(self, rows: Rows) -> Speeds:
        """Return the throughputs of the three files by the size of a piece."""
        speeds = Speeds(one_call={}, piecewise={}, complete={})
        for row in rows:
            getattr(speeds, self._line(row))[row[self.size_field]] = row["throughput_bps"]
        return speeds

    def figure(
        self, title: str, rows: Rows, *, min_link_share: float, upright: Mark | None = None
    ) -> Figure:
        """Draw the throughput over the size of a piece.

        Args:
            title: Title of the figure.
            rows: The rows.
            min_link_share: Claimed minimum of the throughput, as a share of the link rate. It is
                drawn as a horizontal line.
            upright: A size that is drawn as a vertical line.
        """
        figure = draw_lines(
            title,
            throughputs(rows, self.size_field, self._line_name),
            x=self.size_label,
            y=TOGETHER,
            claim=(
                min_link_share * LINK_RATE_BPS / 1e6,
                f"{min_link_share} of the compute node's link",
            ),
            upright=upright,
        )
        finish(figure, rows, self.size_field)
        ticks(figure.axes[0], (row[self.size_field] for row in rows))
        return figure

    def _line_name(self, row: Row) -> str:
        name: str = getattr(self.line_names, self._line(row))
        return name
