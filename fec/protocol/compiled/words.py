"""Steps that both compiled ends share: numbers as they stand on the wire, and calls of ISA-L's functions."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fec.protocol.packet_reader import FIRST_BYTES
from fec.protocol.wire import CRC_OFFSET, HEADER_BYTES

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

HEADER, SEAL = HEADER_BYTES, CRC_OFFSET
"""Bytes of a packet's header; where its seal is."""
PARITY, DATA = FIRST_BYTES
CRC_BITS = 0xFFFFFFFF


def put(row: NDArray[np.uint8], at: int, count: int, value: Any) -> None:
    """A number of so many bytes, big endian."""
    for j in range(count):
        row[at + j] = value >> 8 * (count - 1 - j) & 0xFF


def get(row: NDArray[np.uint8], at: int, count: int) -> Any:
    """The number that these bytes are."""
    value = np.int64(0)
    for j in range(count):
        value = value << 8 | row[at + j]
    return value


def call(function: int, a: int, b: int, c: int, d: int, e: int, f: int) -> int:
    """What a C function at an address returns for up to six whole numbers and addresses."""
    return int(ctypes.CFUNCTYPE(*[ctypes.c_int64] * 7)(function)(a, b, c, d, e, f))


def teach() -> None:
    """Teach numba ``call``."""
    _register_call()


@functools.cache
def _register_call() -> None:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import lower_builtin, type_callable

    @type_callable(call)  # type: ignore[untyped-decorator]
    def type_call(context: "BaseContext") -> Callable[..., Any]:
        return lambda function, a, b, c, d, e, f: types.int64

    @lower_builtin(call, *[types.Integer] * 7)  # type: ignore[untyped-decorator]
    def make_call(
        context: "BaseContext",
        builder: "IRBuilder",
        signature: "Signature",
        arguments: "Sequence[Value]",
    ) -> "Value":
        word = ir.IntType(64)
        function, *given = (
            context.cast(builder, argument, kind, types.int64)
            for argument, kind in zip(arguments, signature.args, strict=True)
        )
        return builder.call(
            builder.inttoptr(function, ir.FunctionType(word, [word] * 6).as_pointer()), given
        )
