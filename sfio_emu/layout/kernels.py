"""Compiled loops over lists of fragments.

They stripe many blocks, and gather and scatter many pieces of memory. The module is imported when
it is first needed, because importing numba takes half a second. The loops are compiled once per
machine. Their inputs are declared as read-only arrays, for which numba also accepts writeable ones. Without numba
the loops run in Python.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import numba
    from numba.core import config
except ImportError:
    numba = None
    logging.getLogger(__name__).warning(
        "numba is not installed: lists of fragments are handled in Python, many times slower"
    )
else:
    # numba takes settings from ``.numba_config.yaml`` in the current directory, too. Among them is
    # the directory whose compiled code it loads, and the file may be another user's.
    config._config_fname = "/dev/null"
    config.reload_config()

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

# Types of arguments: a scalar, or an array of a scalar type that is read or written.
_READ_BYTES, _WRITTEN_BYTES = ("uint8", "read"), ("uint8", "written")
_READ_INTEGERS, _WRITTEN_INTEGERS = ("int64", "read"), ("int64", "written")
_INTEGER, _TRUTH = ("int64", ""), ("boolean", "")


def _numba_type(scalar: str, access: str) -> Any:
    kind = getattr(numba.types, scalar)
    return numba.types.Array(kind, 1, "C", readonly=access == "read") if access else kind


def _compiled(*kinds: tuple[str, str]) -> Callable[[Callable[..., object]], Any]:
    """Return a decorator that compiles for these types of arguments, and keeps the result.

    Without types the function is compiled for what compiled callers pass. The compiled function
    does not hold the interpreter's lock. It is compiled again in every process if no cache
    directory can be written.
    """

    def decorate(function: Callable[..., object]) -> Any:
        if numba is None:
            return function
        signature = [tuple(_numba_type(*kind) for kind in kinds)] if kinds else []
        try:
            return numba.njit(*signature, cache=True, nogil=True)(function)
        except RuntimeError:  # numba's "no locator available"
            return numba.njit(*signature, nogil=True)(function)

    return decorate


@_compiled()
def _share(end, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    rounds = end // (unit * subfiles)
    rest = end - rounds * unit * subfiles - subfile * unit
    return rounds * unit + min(max(rest, 0), unit)


@_compiled(*[_READ_INTEGERS] * 3, *[_INTEGER] * 3, _TRUTH, *[_WRITTEN_INTEGERS] * 4)
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


def _copy_bytes(to, source):  # type: ignore[no-untyped-def]
    """Copy byte by byte, which compiles to vectors: numpy's slices take ten times as long for short ones."""
    for i in range(len(to)):
        to[i] = source[i]


def _copy_slice(to, source):  # type: ignore[no-untyped-def]
    to[:] = source


_copy = _copy_slice if numba is None else _compiled()(_copy_bytes)


@_compiled(_READ_BYTES, *[_READ_INTEGERS] * 2, _WRITTEN_BYTES)
def gather_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream, with lists as in `list_fragments`."""
    for f in range(len(source)):
        size, to = place[f + 1] - place[f], place[f] - place[0]
        _copy(stream[to : to + size], memory[source[f] : source[f] + size])


@_compiled(_WRITTEN_BYTES, *[_READ_INTEGERS] * 2, _READ_BYTES)
def scatter_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory, with lists as in `list_fragments`."""
    for f in range(len(source)):
        size, start = place[f + 1] - place[f], place[f] - place[0]
        _copy(memory[source[f] : source[f] + size], stream[start : start + size])
