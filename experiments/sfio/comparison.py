"""Figures 13 and 14: one compute node writes a striped file in one call or piece by piece, in pieces of several sizes;
one file whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.sfio.figures import plot_throughput
from experiments.sfio.runs import REPEAT
from testbed.model.studies.study import Points, Rows, where
from testbed.report.drawing.charts import AMBER, BLUE, GREY, INK, Axes, Figure, chart, ticks

LINK_RATE_BPS = 100e6
ON_SWITCHES = (
    "links of 100 Mbit/s as Fast Ethernet has, on a user-space switch; "
    "subfiles lie in the page cache instead of on disks"
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """``size``: of a piece, in bytes, and ``way``: whether all go in one call, as fields of rows."""

    size: str
    way: str
    sizes: Sequence[int]
    quick_sizes: Sequence[int]
    file_bytes: int
    quick_file_bytes: int
    least_bytes: Callable[[int, int], int]
    """Of the file that is written piece by piece, each with a round trip: of the size of a piece, and of the other
    file's."""
    whole_bytes: int
    whole_sizes: Sequence[int]
    """A file written once in pieces of each of these sizes."""

    def points(self, quick: bool, seed: int) -> Points:
        """Both ways at every size, then the whole file."""
        size = self.quick_file_bytes if quick else self.file_bytes
        cases = [
            (at, way, size if way else self.least_bytes(at, size), REPEAT)
            for at in (self.quick_sizes if quick else self.sizes)
            for way in (True, False)
        ]
        cases += [(at, True, self.whole_bytes, 1) for at in (() if quick else self.whole_sizes)]
        names = (self.size, self.way, "file_bytes", "repeat")
        return [dict(zip(names, case, strict=True)) | {"seed": seed} for case in cases]

    def speeds(self, rows: Rows) -> tuple[Mapping[int, float], Mapping[int, float], Mapping[int, float]]:
        """Bit/s by size: in one call, piece by piece, and of the whole file."""
        whole = where(rows, file_bytes=self.whole_bytes)
        reduced = where([row for row in rows if row not in whole], **{self.way: True})
        sets = (reduced, where(rows, **{self.way: False}), whole)
        one, other, all_of = ({row[self.size]: row["throughput_bps"] for row in some} for some in sets)
        return one, other, all_of

    def figure(
        self, rows: Rows, names: tuple[str, str], whole_name: str, share: float, *, title: str, xlabel: str
    ) -> tuple[Figure, Axes]:
        """(figure, axes): throughput over the size, the two ways by ``names``, the whole file as stars; ``share`` of
        the link is claimed."""
        figure, axes = chart(title, size=(7, 4.4), xlabel=xlabel, ylabel="throughput of the file, Mbit/s")
        whole = where(rows, file_bytes=self.whole_bytes)
        reduced = [row for row in rows if row not in whole]
        for way, name, colour, marker in ((True, names[0], BLUE, "o"), (False, names[1], AMBER, "s")):
            plot_throughput(axes, where(reduced, **{self.way: way}), self.size, name, colour, marker=marker)
        claimed = f"{share} of the compute node's link"
        axes.axhline(share * LINK_RATE_BPS / 1e6, color=GREY, linestyle=":", label=claimed)
        ticks(axes, (row[self.size] for row in reduced))
        stars = {"marker": "*", "markersize": 11, "linestyle": "", "zorder": 5}
        plot_throughput(axes, whole, self.size, whole_name, INK, **stars)
        axes.set_ylim(0, None)
        return figure, axes
