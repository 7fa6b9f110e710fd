"""The pieces of a call's requests on one subfile: stripes of few blocks, runs that are all alike, or lists of
fragments."""

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

import numpy as np

from sfio_emu.layout.piece import PAGE_BYTES, RUN_COST_BYTES, ListedPiece, RegularInMemory, Rows, StripedPiece
from sfio_emu.layout.requests import Requests
from sfio_emu.layout.striping import Layout
from sfio_emu.wire import STRIDED_TYPE

STRIDED_COST_BYTES = 32
MAX_PERIOD = 256


class RegularPiece(RegularInMemory):
    """`count` runs of `run_bytes`: where the first begins and how far apart they are (bytes), ``at`` in the subfile,
    ``source`` in memory."""

    alike = True

    def __init__(
        self, subfile: int, run_bytes: int, count: int, *, at: tuple[int, int], source: tuple[int, int]
    ) -> None:
        self.subfile, self._run_bytes, self.run_count, self.fragments = subfile, run_bytes, count, count
        (self._low, self._step), (self._source, self._source_step) = at, source
        self.size = run_bytes * count

    @property
    def cost_bytes(self) -> int:
        """A listener takes no more runs in a message than could be listed in it."""
        return STRIDED_COST_BYTES + max(self.size, RUN_COST_BYTES * self.run_count)

    @property
    def bounds(self) -> tuple[int, int]:
        return self._low, self._low + (self.run_count - 1) * self._step + self._run_bytes

    def rows(self) -> Rows:
        """One row for all."""
        return np.array([(self.subfile, self._run_bytes, self._low, self._step, self.run_count, 0)], dtype=STRIDED_TYPE)

    def fitting(self, room_bytes: int) -> int:
        whole = (room_bytes - STRIDED_COST_BYTES) // max(self._run_bytes, RUN_COST_BYTES)
        return max(0, min(self.run_count, whole)) * self._run_bytes

    def grain(self, count: int) -> int:
        return count // self._run_bytes * self._run_bytes if self._run_bytes <= PAGE_BYTES else count

    def slice(self, start: int, end: int) -> "RegularPiece | ListedPiece":
        first, inside = divmod(start, self._run_bytes)
        if inside or end % self._run_bytes:
            return self.listed().slice(start, end)
        return RegularPiece(
            self.subfile, self._run_bytes, end // self._run_bytes - first,
            at=(self._low + first * self._step, self._step),
            source=(self._source + first * self._source_step, self._source_step),
        )  # fmt: skip

    def listed(self) -> ListedPiece:
        numbers = np.arange(self.run_count + 1, dtype=np.int64)
        offsets, source = self._low + self._step * numbers, self._source + self._source_step * numbers
        place = self._run_bytes * numbers
        return ListedPiece(self.subfile, offsets[:-1], place, source[:-1], place)

    def _blocks(self) -> Iterator[tuple[int, int, int, int]]:
        yield self._source, self._run_bytes, self.run_count, self._source_step


Piece = StripedPiece | ListedPiece | RegularPiece


def regular_pieces(requests: Requests, layout: Layout, subfile: int) -> Sequence[Piece] | None:
    """The runs of regular requests on a subfile, where they are regular there, too; None where they may not be.

    The blocks' places within a round of the stripes recur; of one recurrence no more than one block may lie on the
    subfile.
    """
    if requests.regular is None:
        return None
    distance, source_step, size = requests.regular
    unit, round_bytes = layout.stripe_unit, layout.round_bytes
    period = round_bytes // gcd(distance, round_bytes)
    if period > min(MAX_PERIOD, len(requests)):
        return None
    first, memory = requests.first
    places = [(first + number * distance) % round_bytes for number in range(period)]
    mine = [number for number, place in enumerate(places) if place // unit == subfile]
    step = distance * period // round_bytes * unit
    if len(mine) > 1 or step == size or any(place % unit + size > unit for place in places):
        return None
    return [
        RegularPiece(
            subfile, size, (len(requests) - 1 - number) // period + 1,
            at=(layout.share(first + number * distance, subfile), step),
            source=(memory + number * source_step, period * source_step),
        )
        for number in mine
    ]  # fmt: skip


LISTED_FROM = 33
MAX_BATCH = 1 << 16


def pieces_of(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    """The pieces of sorted, disjoint requests on a subfile, in the order of the subfile.

    Where `merge` is off each fragment is a run of its own. Memory: the lists of at most 65536 fragments at a time.
    """
    if merge and len(requests) < LISTED_FROM:
        columns = zip(requests.offsets.tolist(), requests.memory.tolist(), requests.sizes.tolist(), strict=True)
        yield from striped_pieces(columns, layout, subfile)
        return
    regular = regular_pieces(requests, layout, subfile) if merge else None
    if regular is not None:
        yield from regular
        return
    yield from _listed(requests, layout, subfile, merge=merge)


def striped_pieces(blocks: Iterable[tuple[int, int, int]], layout: Layout, subfile: int) -> Iterator[StripedPiece]:
    """What a subfile has of blocks: each its offset in the file, its place in memory, its bytes."""
    for offset, memory, size in blocks:
        low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
        if high > low:
            yield StripedPiece(layout, subfile, low, high, memory - offset)


def _listed(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    batch_bytes = layout.round_bytes * MAX_BATCH
    start = 0
    while start < len(requests):
        end = min(start + MAX_BATCH, len(requests))
        total = np.cumsum(requests.sizes[start:end])
        end = start + max(1, int(np.searchsorted(total, batch_bytes, side="right")))
        batch = requests.chosen(slice(start, end))
        if end == start + 1 and merge:
            yield from striped_pieces([(*batch.first, int(batch.sizes[0]))], layout, subfile)
        else:
            yield from _list_batch(batch, layout, subfile, merge=merge)
        start = end


def _list_batch(batch: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    from sfio_emu.layout.kernels import list_fragments

    shape = layout.stripe_unit, layout.subfiles, subfile
    most = int((batch.sizes // layout.round_bytes).sum()) + 2 * len(batch)  # of the fragments of a block on one subfile
    run_offset, run_place, place, source = (np.empty(most + 1, dtype=np.int64) for _ in range(4))
    runs, fragments = list_fragments(
        batch.offsets, batch.memory, batch.sizes, *shape, merge, run_offset, run_place, place, source
    )
    if runs:
        yield ListedPiece(subfile, run_offset[:runs], run_place[: runs + 1], source[:fragments], place[: fragments + 1])
