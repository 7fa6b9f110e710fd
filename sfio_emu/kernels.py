"""The compiled loops over fragment lists: striping many blocks, gathering and scattering many pieces of memory.
Imported when first needed (numba takes half a second), compiled once a machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@njit(cache=True, nogil=True)
def _share(end, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    rounds = end // (unit * subfiles)
    rest = end - rounds * unit * subfiles - subfile * unit
    return rounds * unit + min(max(rest, 0), unit)


@njit(cache=True, nogil=True)
def count_fragments(offsets, sizes, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    """How many fragments the blocks have on `subfile`."""
    total = 0
    for i in range(len(offsets)):
        low = _share(offsets[i], unit, subfiles, subfile)
        high = _share(offsets[i] + sizes[i], unit, subfiles, subfile)
        if high > low:
            total += (high - 1) // unit - low // unit + 1
    return total


@njit(cache=True, nogil=True)
def list_fragments(offsets, memory, sizes, unit, subfiles, subfile, merge, run_offset, run_place, place, source):  # type: ignore[no-untyped-def]
    """Fill the lists of `subfile`; returns (runs, fragments).

    Run r is at run_offset[r] of the subfile and begins at byte run_place[r] of the stream, fragment f at source[f] of
    memory and byte place[f] of the stream; one entry more says where the last ends. Neighbours are joined if `merge`.
    """
    runs = 0
    fragments = 0
    stream = 0
    run_end = -1
    memory_end = -1
    for i in range(len(offsets)):
        low = _share(offsets[i], unit, subfiles, subfile)
        high = _share(offsets[i] + sizes[i], unit, subfiles, subfile)
        while low < high:
            size = min(unit - low % unit, high - low)
            start = memory[i] + ((low // unit) * subfiles + subfile) * unit + low % unit - offsets[i]
            if not merge or low != run_end:
                run_offset[runs] = low
                run_place[runs] = stream
                runs += 1
            if not merge or low != run_end or start != memory_end:
                source[fragments] = start
                place[fragments] = stream
                fragments += 1
            low += size
            stream += size
            run_end = low
            memory_end = start + size
    run_place[runs] = stream
    place[fragments] = stream
    return runs, fragments


@njit(cache=True, nogil=True)
def gather_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream."""
    first = place[0]
    for f in range(len(source)):
        size = place[f + 1] - place[f]
        to = place[f] - first
        start = source[f]
        for b in range(size):
            stream[to + b] = memory[start + b]


@njit(cache=True, nogil=True)
def scatter_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory."""
    first = place[0]
    for f in range(len(source)):
        size = place[f + 1] - place[f]
        start = place[f] - first
        to = source[f]
        for b in range(size):
            memory[to + b] = stream[start + b]
