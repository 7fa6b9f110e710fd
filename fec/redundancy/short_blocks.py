"""Block sizes of blocks with fewer source packets than usual, by the exact worst window.

Import this module only where it is used: numba takes half a second to load.
"""

from bisect import bisect_right
from collections.abc import Sequence

from fec.errors import FecError
from fec.redundancy.block_size import Interval
from fec.redundancy.labels import LabelRule
from fec.redundancy.worst_windows import WorstWindows


class ShortBlocks:
    """Parity of blocks with k < M source packets, while full blocks have N packets.

    The parity of a short block depends on why full blocks have N packets:

    - In steady state, late parity repairs failures, and a short block has the same share of parity
      as a full block.
    - If N is large enough for some known failures, a short block has at least the parity that the
      worst of these failures requires.
    - If no known failure explains N, a short block has N - M parity packets. This always suffices,
      because a shorter window of labels contains no more losses.

    >>> short = ShortBlocks([[(0, 16384)]], 20, 40503)
    >>> short.whole, [short.parity(k, short.whole) for k in (1, 4, 19)]
    (28, [1, 3, 8])
    >>> [short.parity(k, 22) for k in (1, 19)]
    [1, 2]
    """

    def __init__(
        self,
        sets: Sequence[Sequence[Interval]],
        source_packets: int,
        rule: LabelRule,
        base_size: int = 0,
    ) -> None:
        """Compute the parity of every k, in M passes over the 65,536 labels.

        Args:
            sets: The label intervals that each failure loses.
            source_packets: M, the source packets of a full block.
            rule: The rule of the order of labels.
            base_size: N in steady state. Up to this N, late parity answers failures.

        Raises:
            FecError: There are no failures.
        """
        if not sets:
            raise FecError("no failures: give the label intervals that each of them loses")
        self._m = source_packets
        self._base_size = base_size
        # sizes_of_k[k - 1][i]: block size of k source packets for failure i.
        sizes_of_k = [
            WorstWindows(sets, k).sizes(rule).tolist() for k in range(1, source_packets + 1)
        ]
        full_sizes = sizes_of_k[-1]
        order = sorted(range(len(sets)), key=full_sizes.__getitem__)
        # Failures by the N of a full block, and the parity of each k that answers all up to there.
        self._full_sizes: list[int] = [full_sizes[failure] for failure in order]
        self._parity: list[list[int]] = []
        worst = [0] * source_packets
        for failure in order:
            worst = [
                max(parity, sizes[failure] - k)
                for k, (parity, sizes) in enumerate(zip(worst, sizes_of_k, strict=True), 1)
            ]
            self._parity.append(worst)

    @property
    def whole(self) -> int:
        """N of a full block that tolerates each of the failures."""
        return max(self._full_sizes)

    def parity(self, k: int, size: int) -> int:
        """Return the number of parity packets of a block.

        Args:
            k: Source packets of the block.
            size: N of full blocks at that time.
        """
        spare = max(0, size - self._m)
        if size > self.whole:
            return spare
        tolerated = bisect_right(self._full_sizes, size)
        covered = 0
        if tolerated and size > self._base_size:
            covered = self._parity[tolerated - 1][k - 1]
        share = -(-spare * k // self._m)
        return min(spare, max(covered, share))
