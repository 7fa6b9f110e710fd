"""Compiled loops over lists of fragments.

They stripe many blocks, and gather and scatter many pieces of memory. The module is imported when
it is first needed, because importing numba takes half a second. The loops are compiled once per
machine. Their inputs are declared as read-only arrays, for which numba also accepts writeable ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import boolean, int64, njit, types, uint8
from numba.core import config

# By default, numba also reads settings from ``.numba_config.yaml`` in the current directory, which
# may be another user's. One of them is the directory from which numba loads compiled code.
config._config_fname = "/dev/null"
config.reload_config()

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


_READ, _WRITTEN = (
    {kind: types.Array(kind, 1, "C", readonly=readonly) for kind in (uint8, int64)}
    for readonly in (True, False)
)


def _compiled(*kinds: types.Type) -> Callable[[Callable[..., object]], Any]:
    """Return a decorator that compiles a function, without the global interpreter lock.

    The machine code is cached. If no cache directory is writeable, every process compiles again.

    Args:
        kinds: The types of the arguments. If none are given, the function is compiled for the
            types with which other compiled functions call it.
    """

    def made(function: Callable[..., object]) -> Any:
        try:
            return njit(*([kinds] if kinds else ()), cache=True, nogil=True)(function)
        except RuntimeError:  # numba reports "no locator available"
            return njit(*([kinds] if kinds else ()), nogil=True)(function)

    return made


@_compiled()
def _share(end, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    rounds = end // (unit * subfiles)
    rest = end - rounds * unit * subfiles - subfile * unit
    return rounds * unit + min(max(rest, 0), unit)


@_compiled(*[_READ[int64]] * 3, *[int64] * 3, boolean, *[_WRITTEN[int64]] * 4)
def list_fragments(  # type: ignore[no-untyped-def]
    offsets, memory, sizes, unit, subfiles, subfile, merge, run_offset, run_place, place, source
):
    """Fill the lists of the runs and fragments of one subfile.

    The stream is all data of the subfile in sequence. Run r begins at offset run_offset[r] of the
    subfile and at byte run_place[r] of the stream. Fragment f begins at byte source[f] of memory
    and at byte place[f] of the stream. run_place and place have one entry more, the end of the
    stream. The loop is one function, because most of its variables last from fragment to fragment.

    Args:
        offsets: Offsets of the blocks in the file.
        memory: Offsets of the blocks in memory.
        sizes: Sizes of the blocks in bytes.
        unit: The stripe unit in bytes.
        subfiles: The number of subfiles.
        subfile: The number of the subfile whose lists are filled.
        merge: Whether to merge runs, and fragments, that are adjacent.
        run_offset: Output.
        run_place: Output.
        place: Output.
        source: Output.

    Returns:
        The number of runs, and the number of fragments.
    """
    runs = 0
    fragments = 0
    stream = 0
    run_end = -1
    memory_end = -1
    for i in range(len(offsets)):
        offset = offsets[i]
        first = offset // unit
        # Small blocks, which are the most frequent, lie inside one stripe unit.
        if offset + sizes[i] <= (first + 1) * unit:
            if first % subfiles != subfile:
                continue
            low = (first // subfiles - first) * unit + offset
            high = low + sizes[i]
        else:
            low = _share(offset, unit, subfiles, subfile)
            high = _share(offset + sizes[i], unit, subfiles, subfile)
        while low < high:
            stripe = low // unit
            size = min((stripe + 1) * unit, high) - low
            start = memory[i] + (stripe * (subfiles - 1) + subfile) * unit + low - offset
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


@_compiled()
def _copy(to, source):  # type: ignore[no-untyped-def]
    """Copy byte by byte.

    This compiles to vector instructions. numpy's assignment of slices takes ten times as long for
    short slices.
    """
    for i in range(len(to)):
        to[i] = source[i]


@_compiled(_READ[uint8], *[_READ[int64]] * 2, _WRITTEN[uint8])
def gather_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream, with lists as in `list_fragments`."""
    for f in range(len(source)):
        size, to = place[f + 1] - place[f], place[f] - place[0]
        _copy(stream[to : to + size], memory[source[f] : source[f] + size])


@_compiled(_WRITTEN[uint8], *[_READ[int64]] * 2, _READ[uint8])
def scatter_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory, with lists as in `list_fragments`."""
    for f in range(len(source)):
        size, start = place[f + 1] - place[f], place[f] - place[0]
        _copy(memory[source[f] : source[f] + size], stream[start : start + size])
