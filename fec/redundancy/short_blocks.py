"""Block sizes of blocks with fewer source packets than usual, by the exact worst window of their own length.

Imported when first used: numba takes half a second to load.
"""

from bisect import bisect_right
from collections.abc import Sequence

from fec.errors import FecError
from fec.redundancy.block_size import Interval
from fec.redundancy.labels import LabelRule
from fec.redundancy.worst_windows import WorstWindows


class ShortBlocks:
    """Parity packets of a block of k < M source packets next to whole blocks of N packets.

    ``sets``: the label intervals that each failure loses, of which N is the exact answer. A short block gets what the
    worst of those failures that N stands asks of its own k; at rest (N up to ``rest``), when failures are answered by
    late parity, the same spare share as a whole block. What no failure of the sets explains it answers with N - M,
    which is never too little: fewer losses lie between which fewer packets arrive. Cost: M walks over 65,536 labels.

    >>> short = ShortBlocks([[(0, 16384)]], 20, 40503)
    >>> short.whole, [short.parity(k, short.whole) for k in (1, 4, 19)], [short.parity(k, 22) for k in (1, 19)]
    (28, [1, 3, 8], [1, 2])
    """

    def __init__(
        self,
        sets: Sequence[Sequence[Interval]],
        source_packets: int,
        rule: LabelRule,
        rest: int = 0,
    ) -> None:
        if not sets:
            raise FecError("no failures: give the label intervals that each of them loses")
        m = self._m = source_packets
        self._rest = rest
        of_k = [WorstWindows(sets, k).sizes(rule).tolist() for k in range(1, m + 1)]
        order = sorted(range(len(sets)), key=lambda number: of_k[-1][number])
        self._whole: list[int] = [of_k[-1][number] for number in order]
        self._parity: list[list[int]] = []
        worst = [0] * m
        for number in order:
            worst = [
                max(most, sizes[number] - k)
                for k, (most, sizes) in enumerate(zip(worst, of_k, strict=True), 1)
            ]
            self._parity.append(worst)

    @property
    def whole(self) -> int:
        """N of a whole block that stands each of the failures."""
        return max(self._whole)

    def parity(self, k: int, size: int) -> int:
        """Of a block of k source packets while whole blocks have N = ``size``."""
        spare = max(0, size - self._m)
        if size > self.whole:
            return spare
        stood = bisect_right(self._whole, size)
        covered = self._parity[stood - 1][k - 1] if stood and size > self._rest else 0
        return min(spare, max(covered, -(-spare * k // self._m)))
