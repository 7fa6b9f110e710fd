"""Every source with every sink, as a sequence of pairs that takes no room."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class AllPairs(Sequence[tuple[str, str]]):
    """Every source with every sink, sources first, without a list of them."""

    sources: tuple[str, ...]
    sinks: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.sources) * len(self.sinks)

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[str, str]]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, str] | Sequence[tuple[str, str]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        source, sink = divmod(index, len(self.sinks))
        return self.sources[source], self.sinks[sink]

    def shifts(self) -> npt.NDArray[np.int64]:
        """(sink's number - source's number) modulo the number of sinks, shape (pairs,)."""
        n = len(self.sinks)
        return ((np.arange(n)[None, :] - np.arange(len(self.sources))[:, None]) % n).reshape(-1)
