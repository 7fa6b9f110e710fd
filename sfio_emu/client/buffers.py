"""The caller's memory as arrays of bytes, without copying it.

Anything with the buffer protocol is accepted. Memory that cannot be used in place is refused with
a reason.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfio_emu.errors import UsageError, whole_number
from sfio_emu.layout.piece import Bytes
from sfio_emu.layout.requests import Requests, make_requests

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer


def as_bytes(buffer: Buffer | npt.NDArray[np.generic], *, writable: bool = False) -> Bytes:
    """Return the bytes of a buffer, in place.

    Args:
        buffer: The buffer.
        writable: Whether the bytes will be written to.

    Raises:
        UsageError: The buffer is not contiguous memory of plain numbers, or is read-only.
    """
    # A fast path for the most frequent types, because this runs for every call.
    quick_types = bytearray if writable else (bytes, bytearray)
    if isinstance(buffer, quick_types) and len(buffer):
        return np.frombuffer(buffer, dtype=np.uint8)
    try:
        # Before Python 3.12, numpy arrays were not typed as buffers.
        view = memoryview(buffer)  # type: ignore[arg-type,unused-ignore]
    except TypeError:
        raise UsageError(
            f"a {type(buffer).__name__} is not a buffer: give bytes, a bytearray or an array"
        ) from None
    except ValueError as fault:
        # An example are numpy arrays of datetime64.
        raise UsageError(
            f"a {type(buffer).__name__} has no bytes, {fault}: view it as numbers"
        ) from None
    dtype = getattr(buffer, "dtype", None)
    if getattr(dtype, "hasobject", view.format == "O"):
        raise UsageError(
            "the buffer holds Python objects, whose bytes are addresses: give an array of numbers"
        )
    if writable and view.readonly:
        raise UsageError(
            "the buffer to read into is read-only: give a bytearray or a writable array"
        )
    if not view.c_contiguous:
        raise UsageError(
            "the buffer is not contiguous: give a contiguous array, "
            "or its parts as blocks or by a datatype"
        )
    if not view.nbytes:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(view.cast("B"), dtype=np.uint8)


def span(buffers: Sequence[Buffer], *, writable: bool) -> tuple[Bytes, list[int], list[int]]:
    """Return one array of bytes that contains several buffers.

    The array reaches from the lowest to the highest address of the buffers. The bytes between them
    must not be touched, and the caller must keep the buffers alive.

    Args:
        buffers: The buffers.
        writable: Whether the buffers will be written to.

    Returns:
        The array, the offset of each buffer in it, and the size of each buffer, in bytes.

    Raises:
        UsageError: A buffer cannot be used in place.
    """
    if not isinstance(buffers, Iterable) or isinstance(buffers, (str, bytes, bytearray)):
        raise UsageError(
            f"the buffers are of type {type(buffers).__name__}: give a list of buffers"
        )
    arrays = [as_bytes(buffer, writable=writable) for buffer in buffers]
    sizes = [len(array) for array in arrays]
    # The address of an empty array means nothing.
    used = {
        number: array.__array_interface__["data"][0]
        for number, array in enumerate(arrays)
        if len(array)
    }
    if not used:
        return np.empty(0, dtype=np.uint8), [0] * len(sizes), sizes
    low = min(used.values())
    high = max(address + sizes[number] for number, address in used.items())
    all_bytes = (ctypes.c_ubyte * (high - low)).from_address(low)
    memory = np.frombuffer(memoryview(all_bytes), dtype=np.uint8)
    offsets = [used.get(number, low) - low for number in range(len(sizes))]
    return memory, offsets, sizes


def each_offset(offsets: int | Sequence[int], sizes: list[int]) -> list[int]:
    """Return the offset of each buffer in the file.

    Args:
        offsets: One offset for each buffer, or the offset of the first if they are contiguous.
        sizes: The sizes of the buffers in bytes.

    Raises:
        UsageError: The offsets are not whole numbers, or not as many as the buffers.
    """
    if isinstance(offsets, (int, np.integer)):
        first = whole_number(offsets, "offset")
        if not sizes:
            return []
        return [first + bytes_before for bytes_before in np.cumsum([0, *sizes[:-1]]).tolist()]
    try:
        result = [
            whole_number(offset, f"offset of block {number}")
            for number, offset in enumerate(offsets)
        ]
    except TypeError:
        raise UsageError(
            f"the offsets are {offsets!r}: give a whole number, or one for each buffer"
        ) from None
    if len(result) != len(sizes):
        raise UsageError(f"{len(result)} offsets for {len(sizes)} buffers: give one for each")
    return result


def blocks_of(
    buffer: Buffer,
    offsets: npt.ArrayLike,
    places: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    writable: bool = False,
) -> tuple[Bytes, Requests]:
    """Return the bytes of a buffer, and the requests for blocks of it.

    Args:
        buffer: The buffer.
        offsets: The offset of each block in the file, in bytes.
        places: The offset of each block in the buffer, in bytes.
        sizes: The size of each block in bytes.
        writable: Whether the buffer will be written to.

    Raises:
        UsageError: A block is outside the buffer, or the buffer cannot be used in place.
    """
    memory = as_bytes(buffer, writable=writable)
    requests = make_requests(offsets, places, sizes)
    low, high = requests.memory_bounds
    if low < 0 or high > len(memory):
        raise UsageError(
            f"a block is outside the buffer of {len(memory)} bytes: check its place and size"
        )
    return memory, requests


def first_bytes(buffer: Buffer, size: int | None) -> Buffer:
    """Return the first `size` bytes of a buffer, or the buffer itself if `size` is None.

    Raises:
        UsageError: The buffer is shorter.
    """
    if size is None:
        return buffer
    memory = as_bytes(buffer)
    name = f"size with a buffer of {len(memory)} bytes"
    count = whole_number(size, name, 0, len(memory))
    return memory[:count].data
