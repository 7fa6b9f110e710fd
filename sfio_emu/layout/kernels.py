"""The compiled loops over fragment lists: striping many blocks, gathering and scattering many pieces of memory.
Imported when first needed (numba takes half a second), compiled once a machine: for arrays that may be read-only where
they are only read, which numba takes writeable ones for, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import boolean, int64, njit, types, uint8
from numba.core import config

# numba takes settings from ``.numba_config.yaml`` in the current directory, too. Among them is the
# directory whose compiled code it loads, and the file may be another user's.
config._config_fname = "/dev/null"
config.reload_config()

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


_READ, _WRITTEN = (
    {kind: types.Array(kind, 1, "C", readonly=readonly) for kind in (uint8, int64)}
    for readonly in (True, False)
)


def _compiled(*kinds: types.Type) -> Callable[[Callable[..., object]], Any]:
    """Compiled for arguments of these kinds (none: for those that compiled callers hand over), without the
    interpreter's lock, and kept; again in every process where no cache directory can be written."""

    def made(function: Callable[..., object]) -> Any:
        try:
            return njit(*([kinds] if kinds else ()), cache=True, nogil=True)(function)
        except RuntimeError:  # numba's "no locator available"
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
        offset = offsets[i]
        first = offset // unit
        if offset + sizes[i] <= (first + 1) * unit:  # the usual small block: within one stripe unit
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
    """Byte by byte, which compiles to vectors; numpy's assignment of slices takes ten times as long for short ones."""
    for i in range(len(to)):
        to[i] = source[i]


@_compiled(_READ[uint8], *[_READ[int64]] * 2, _WRITTEN[uint8])
def gather_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream."""
    for f in range(len(source)):
        size, to = place[f + 1] - place[f], place[f] - place[0]
        _copy(stream[to : to + size], memory[source[f] : source[f] + size])


@_compiled(_WRITTEN[uint8], *[_READ[int64]] * 2, _READ[uint8])
def scatter_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory."""
    for f in range(len(source)):
        size, start = place[f + 1] - place[f], place[f] - place[0]
        _copy(memory[source[f] : source[f] + size], stream[start : start + size])
