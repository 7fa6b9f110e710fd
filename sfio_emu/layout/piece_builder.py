"""The pieces of a call's requests on one subfile: stripes of few blocks, runs that are all alike, or lists of
fragments."""

from collections.abc import Iterator

import numpy as np

from sfio_emu.layout.piece import ListedPiece, Piece, StripedPiece
from sfio_emu.layout.regular_piece import regular_pieces
from sfio_emu.layout.requests import Requests
from sfio_emu.layout.striping import Layout

LISTED_FROM = 33
MAX_BATCH = 1 << 16


def pieces_of(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    """The pieces of sorted, disjoint requests on a subfile, in the order of the subfile.

    Where `merge` is off each fragment is a run of its own. Memory: the lists of at most 65536 fragments at a time.
    """
    if merge and len(requests) < LISTED_FROM:
        columns = zip(requests.offsets.tolist(), requests.memory.tolist(), requests.sizes.tolist(), strict=True)
        for offset, memory, size in columns:
            low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
            if high > low:
                yield StripedPiece(layout, subfile, low, high, memory - offset)
        return
    regular = regular_pieces(requests, layout, subfile) if merge else None
    if regular is not None:
        yield from regular
        return
    yield from _listed(requests, layout, subfile, merge=merge)


def _listed(requests: Requests, layout: Layout, subfile: int, *, merge: bool) -> Iterator[Piece]:
    batch_bytes = layout.round_bytes * MAX_BATCH
    start = 0
    while start < len(requests):
        end = min(start + MAX_BATCH, len(requests))
        total = np.cumsum(requests.sizes[start:end])
        end = start + max(1, int(np.searchsorted(total, batch_bytes, side="right")))
        batch = requests.chosen(slice(start, end))
        if end == start + 1 and merge:
            offset, memory, size = int(batch.offsets[0]), int(batch.memory[0]), int(batch.sizes[0])
            low, high = layout.share(offset, subfile), layout.share(offset + size, subfile)
            if high > low:
                yield StripedPiece(layout, subfile, low, high, memory - offset)
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
