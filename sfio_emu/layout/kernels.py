"""Compiled loops over lists of fragments.

They stripe many blocks, and gather and scatter many pieces of memory. The module is imported when
it is first needed, because importing numba takes half a second. The loops are compiled once per
machine. Their inputs are declared as read-only arrays, for which numba also accepts writeable ones.
Without numba the loops run in Python.
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

# Types of arguments: numba's name of a scalar type, and whether an array of it is read or written
# ("" for a scalar).
_READ_BYTES = ("uint8", "read")
_WRITTEN_BYTES = ("uint8", "written")
_READ_INTEGERS = ("int64", "read")
_WRITTEN_INTEGERS = ("int64", "written")
_INTEGER = ("int64", "")
_TRUTH = ("boolean", "")


def _numba_type(scalar: str, access: str) -> Any:
    """Return numba's type for a type of arguments."""
    kind = getattr(numba.types, scalar)
    if not access:
        return kind
    return numba.types.Array(kind, 1, "C", readonly=access == "read")


def _compiled(*kinds: tuple[str, str]) -> Callable[[Callable[..., object]], Any]:
    """Return a decorator that compiles for these types of arguments, and stores the result.

    Without types, the function is compiled for the arguments that compiled callers pass. The
    compiled function does not hold the interpreter's lock. It is compiled again in every process if
    no cache directory can be written.
    """

    def decorate(function: Callable[..., object]) -> Any:
        if numba is None:
            return function
        signatures = []
        if kinds:
            signatures.append(tuple(_numba_type(*kind) for kind in kinds))
        try:
            return numba.njit(*signatures, cache=True, nogil=True)(function)
        except RuntimeError:  # numba's "no locator available"
            return numba.njit(*signatures, nogil=True)(function)

    return decorate


@_compiled()
def _share(end, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    """Return how many of the first ``end`` bytes of a file are in the subfile.

    Args:
        end: Number of bytes.
        unit: The stripe unit in bytes.
        subfiles: The number of subfiles.
        subfile: The number of the subfile.
    """
    rounds = end // (unit * subfiles)
    in_last_round = end - rounds * unit * subfiles - subfile * unit
    return rounds * unit + min(max(in_last_round, 0), unit)


@_compiled(*[_READ_INTEGERS] * 3, *[_INTEGER] * 3, _TRUTH, *[_WRITTEN_INTEGERS] * 4)
def list_fragments(  # type: ignore[no-untyped-def]
    offsets,
    memory,
    sizes,
    unit,
    subfiles,
    subfile,
    merge,
    run_offset,
    run_position,
    position,
    source,
):
    """Fill the lists of the runs and fragments of one subfile.

    The stream is all data of the subfile in sequence. Run r begins at offset run_offset[r] of the
    subfile and at byte run_position[r] of the stream. Fragment f begins at byte source[f] of memory
    and at byte position[f] of the stream. run_position and position have one entry more, the end of
    the stream. The loop is one function, because most of its variables last from fragment to
    fragment.

    Args:
        offsets: Offsets of the blocks in the file.
        memory: Offsets of the blocks in memory.
        sizes: Sizes of the blocks in bytes.
        unit: The stripe unit in bytes.
        subfiles: The number of subfiles.
        subfile: The number of the subfile whose lists are filled.
        merge: Whether to merge runs, and fragments, that are adjacent.
        run_offset: Receives the offset of each run in the subfile.
        run_position: Receives the position of each run in the stream, and the end of the stream.
        position: Receives the position of each fragment in the stream, and the end of the stream.
        source: Receives the position of each fragment in memory.

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
                run_position[runs] = stream
                runs += 1
            if not merge or low != run_end or start != memory_end:
                source[fragments] = start
                position[fragments] = stream
                fragments += 1
            low += size
            stream += size
            run_end = low
            memory_end = start + size
    run_position[runs] = stream
    position[fragments] = stream
    return runs, fragments


def _copy_bytes(to, source):  # type: ignore[no-untyped-def]
    """Copy byte by byte, which numba compiles to vector instructions.

    Short slices of numpy take ten times as long in compiled code.
    """
    for i in range(len(to)):
        to[i] = source[i]


def _copy_slice(to, source):  # type: ignore[no-untyped-def]
    to[:] = source


_copy = _copy_slice if numba is None else _compiled()(_copy_bytes)


@_compiled(_READ_BYTES, *[_READ_INTEGERS] * 2, _WRITTEN_BYTES)
def gather_list(memory, source, position, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream.

    Args:
        memory: The bytes of memory.
        source: Position of each fragment in memory, as in `list_fragments`.
        position: Position of each fragment in the stream, and the end of the stream. The stream
            begins at the first of them.
        stream: Receives the bytes.
    """
    for f in range(len(source)):
        size = position[f + 1] - position[f]
        to = position[f] - position[0]
        _copy(stream[to : to + size], memory[source[f] : source[f] + size])


@_compiled(_WRITTEN_BYTES, *[_READ_INTEGERS] * 2, _READ_BYTES)
def scatter_list(memory, source, position, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory.

    Args:
        memory: Receives the bytes.
        source: Position of each fragment in memory, as in `list_fragments`.
        position: Position of each fragment in the stream, and the end of the stream. The stream
            begins at the first of them.
        stream: The bytes of the stream.
    """
    for f in range(len(source)):
        size = position[f + 1] - position[f]
        start = position[f] - position[0]
        _copy(memory[source[f] : source[f] + size], stream[start : start + size])
