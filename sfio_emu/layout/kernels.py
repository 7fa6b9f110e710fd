"""The compiled loops over fragment lists: striping many blocks, gathering and scattering many pieces of memory.
Imported when first needed (numba takes half a second), compiled once a machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def _compiled(function: Callable[..., Any]) -> Any:
    """Compiled without the interpreter's lock, and kept; again in every process where no cache directory can be
    written."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba's "no locator available"
        return njit(nogil=True)(function)


@intrinsic
def _copy(typing_context, to, source, size):  # type: ignore[no-untyped-def]
    """memcpy(to, source, size) of addresses: a loop over single bytes takes three times as long."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = ir.IntType(8).as_pointer()
        there, here = (builder.inttoptr(address, pointer) for address in arguments[:2])
        cgutils.raw_memcpy(builder, there, here, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


def _vector_copy(width: int) -> Any:
    """A copy of `width` bytes between two addresses by vectors of the processor, in line."""

    @intrinsic
    def copy(typing_context, to, source):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            pointer = ir.VectorType(ir.IntType(8), width).as_pointer()
            there, here = (builder.inttoptr(address, pointer) for address in arguments)
            builder.store(builder.load(here, align=1), there, align=1)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), generate

    return copy


_copy_16, _copy_32, _copy_64 = _vector_copy(16), _vector_copy(32), _vector_copy(64)
MAX_INLINE_BYTES = 1024


@_compiled
def _copy_short(to, source, size):  # type: ignore[no-untyped-def]
    """As `_copy`, for fragments so short that a call takes as long as their bytes: by vectors, the last of which may
    overlap."""
    if size < 16 or size > MAX_INLINE_BYTES:
        _copy(to, source, size)
    elif size < 32:
        _copy_16(to, source)
        _copy_16(to + size - 16, source + size - 16)
    elif size < 64:
        _copy_32(to, source)
        _copy_32(to + size - 32, source + size - 32)
    else:
        done = 0
        while done + 64 < size:
            _copy_64(to + done, source + done)
            done += 64
        _copy_64(to + size - 64, source + size - 64)


@_compiled
def _deal_whole(memory, unit, stripes, start, stages, gather):  # type: ignore[no-untyped-def]
    """`deal` of stripes of which all subfiles have all bytes."""
    subfiles = len(stages)
    here = memory + stripes[0] * subfiles * unit
    for inside in range(stripes[0] * unit - start, stripes[1] * unit - start, unit):
        for s in range(subfiles):
            there = stages[s] + inside
            if gather:
                _copy_short(there, here, unit)
            else:
                _copy_short(here, there, unit)
            here += unit


@_compiled
def _deal_parts(memory, unit, stripes, window, bounds, stages, gather):  # type: ignore[no-untyped-def]
    """`deal` of stripes at the borders."""
    subfiles = len(stages)
    start, end = window
    for stripe in range(stripes[0], stripes[1]):
        for s in range(subfiles):
            low = max(stripe * unit, start, bounds[0, s])
            high = min(stripe * unit + unit, end, bounds[1, s])
            if low < high and stages[s]:
                here = memory + (stripe * (subfiles - 1) + s) * unit + low
                there = stages[s] + low - start
                if gather:
                    _copy_short(there, here, high - low)
                else:
                    _copy_short(here, there, high - low)


@_compiled
def deal(memory, unit, start, end, bounds, stages, gather):  # type: ignore[no-untyped-def]
    """Copy bytes [start, end) of all subfiles between memory and their stages, stripe by stripe in the order of the
    file.

    Addresses: `memory` of byte 0 of the file, stages[s] of byte `start` of subfile s (0: leave it out). Of subfile s
    only bytes [bounds[0, s], bounds[1, s]) are touched.
    """
    first, behind = start // unit, (end - 1) // unit + 1
    low = (max(start, bounds[0].max()) + unit - 1) // unit  # from here to `high` every stripe unit is whole
    high = min(end, bounds[1].min()) // unit
    if low >= high or stages.min() == 0:
        low = high = behind
    _deal_parts(memory, unit, (first, low), (start, end), bounds, stages, gather)
    _deal_whole(memory, unit, (low, high), start, stages, gather)
    _deal_parts(memory, unit, (high, behind), (start, end), bounds, stages, gather)


@_compiled
def _share(end, unit, subfiles, subfile):  # type: ignore[no-untyped-def]
    rounds = end // (unit * subfiles)
    rest = end - rounds * unit * subfiles - subfile * unit
    return rounds * unit + min(max(rest, 0), unit)


@_compiled
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


@_compiled
def gather_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy fragments of memory to the stream."""
    first = place[0]
    memory_address, stream_address = memory.ctypes.data, stream.ctypes.data
    for f in range(len(source)):
        size = place[f + 1] - place[f]
        to = place[f] - first
        start = source[f]
        _copy_short(stream_address + to, memory_address + start, size)


@_compiled
def scatter_list(memory, source, place, stream):  # type: ignore[no-untyped-def]
    """Copy the stream to fragments of memory."""
    first = place[0]
    memory_address, stream_address = memory.ctypes.data, stream.ctypes.data
    for f in range(len(source)):
        size = place[f + 1] - place[f]
        start = place[f] - first
        to = source[f]
        _copy_short(memory_address + to, stream_address + start, size)
