"""Figures 13 and 14: one compute node writes a striped file in one call or piece by piece, in pieces of several sizes;
one file whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import REPEAT
from testbed.model.studies import Points, Row, Rows, where
from testbed.report.drawing.charts import Figure, Mark, draw_lines, ticks

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
        names = (self.size, self.way, "file_bytes", "repetitions")
        return [dict(zip(names, case, strict=True)) | {"seed": seed} for case in cases]

    def speeds(
        self, rows: Rows
    ) -> tuple[Mapping[int, float], Mapping[int, float], Mapping[int, float]]:
        """Bit/s by size: in one call, piece by piece, and of the whole file."""
        whole = where(rows, file_bytes=self.whole_bytes)
        reduced = where([row for row in rows if row not in whole], **{self.way: True})
        sets = (reduced, where(rows, **{self.way: False}), whole)
        one, other, all_of = (
            {row[self.size]: row["throughput_bps"] for row in some} for some in sets
        )
        return one, other, all_of

    def figure(
        self,
        title: str,
        rows: Rows,
        names: tuple[str, str, str],
        share: float,
        x: str,
        upright: Mark | None = None,
    ) -> Figure:
        """Throughput over the size by ``names``: in one call, piece by piece, and of the whole file; ``share`` of the
        link is claimed."""

        def name(row: Row) -> str:
            return names[2 if row["file_bytes"] == self.whole_bytes else not row[self.way]]

        samples = throughputs(rows, self.size, name)
        claim = share * LINK_RATE_BPS / 1e6, f"{share} of the compute node's link"
        figure = draw_lines(title, samples, x=x, y=TOGETHER, claim=claim, upright=upright)
        finish(figure, rows, self.size)
        ticks(figure.axes[0], (row[self.size] for row in rows))
        return figure
