"""The caller's memory: anything with the buffer protocol as bytes in place, one buffer or many seen as one array.
Nothing is copied; what cannot be used in place is refused with a reason."""

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
    """The bytes of a buffer, in place; raises `UsageError` where that cannot be."""
    if isinstance(buffer, bytearray if writable else (bytes, bytearray)) and len(
        buffer
    ):  # the usual case, quickly
        return np.frombuffer(buffer, dtype=np.uint8)
    try:
        view = memoryview(buffer)  # type: ignore[arg-type,unused-ignore]  # an array, before Python 3.12
    except TypeError:
        raise UsageError(
            f"a {type(buffer).__name__} is no buffer: give bytes, a bytearray or an array"
        ) from None
    except ValueError as fault:  # numpy's times
        raise UsageError(
            f"a {type(buffer).__name__} gives no bytes, {fault}: view it as numbers"
        ) from None
    if getattr(getattr(buffer, "dtype", None), "hasobject", view.format == "O"):
        raise UsageError(
            "the buffer holds Python objects, whose bytes are addresses: give an array of numbers"
        )
    if writable and view.readonly:
        raise UsageError(
            "the buffer to read into is read-only: give a bytearray or a writable array"
        )
    if not view.c_contiguous:
        raise UsageError(
            "the buffer is not contiguous: give a contiguous array, or its parts as blocks or by a datatype"
        )
    if not view.nbytes:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(view.cast("B"), dtype=np.uint8)


def span(buffers: Sequence[Buffer], *, writable: bool) -> tuple[Bytes, list[int], list[int]]:
    """Several buffers as places and sizes in one array that reaches from the lowest to the highest of them.

    Only the bytes of the buffers may be touched; the caller keeps them alive.
    """
    if not isinstance(buffers, Iterable) or isinstance(buffers, (str, bytes, bytearray)):
        raise UsageError(
            f"the buffers are of type {type(buffers).__name__}: give a list of buffers"
        )
    arrays = [as_bytes(buffer, writable=writable) for buffer in buffers]
    sizes = [len(array) for array in arrays]
    addresses = [array.__array_interface__["data"][0] if len(array) else 0 for array in arrays]
    used = [address for address, size in zip(addresses, sizes, strict=True) if size]
    if not used:
        return np.empty(0, dtype=np.uint8), [0] * len(sizes), sizes
    low = min(used)
    high = max(address + size for address, size in zip(addresses, sizes, strict=True) if size)
    memory = np.frombuffer(
        memoryview((ctypes.c_ubyte * (high - low)).from_address(low)), dtype=np.uint8
    )
    return (
        memory,
        [address - low if size else 0 for address, size in zip(addresses, sizes, strict=True)],
        sizes,
    )


def each_offset(offsets: int | Sequence[int], sizes: list[int]) -> list[int]:
    if isinstance(offsets, (int, np.integer)):
        first = whole_number(offsets, "offset")
        return [first + place for place in np.cumsum([0, *sizes[:-1]]).tolist()] if sizes else []
    try:
        every = [
            whole_number(offset, f"offset of block {number}")
            for number, offset in enumerate(offsets)
        ]
    except TypeError:
        raise UsageError(
            f"the offsets are {offsets!r}: give a whole number, or one for each buffer"
        ) from None
    if len(every) != len(sizes):
        raise UsageError(f"{len(every)} offsets for {len(sizes)} buffers: give one for each")
    return every


def blocks_of(
    buffer: Buffer,
    offsets: npt.ArrayLike,
    places: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    writable: bool = False,
) -> tuple[Bytes, Requests]:
    """The bytes of a buffer, and the requests of a call for blocks of it; raises `UsageError` where one is outside."""
    memory, requests = as_bytes(buffer, writable=writable), make_requests(offsets, places, sizes)
    low, high = requests.memory_bounds
    if low < 0 or high > len(memory):
        raise UsageError(
            f"a block is outside the buffer of {len(memory)} bytes: check its place and size"
        )
    return memory, requests


def first_bytes(buffer: Buffer, size: int | None) -> Buffer:
    """The first `size` bytes of a buffer (all if none is given); raises `UsageError` where it is shorter."""
    if size is None:
        return buffer
    memory = as_bytes(buffer)
    return memory[
        : whole_number(size, f"size with a buffer of {len(memory)} bytes", 0, len(memory))
    ].data
