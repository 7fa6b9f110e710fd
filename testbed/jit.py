"""The steps of an algorithm compiled by numba into one entry: what all compiled code of the testbed is made by.

Steps are plain functions that tests can run as they are. An entry, and the steps that it calls, directly or not (it
finds them by their names in the code), are compiled together when the entry is first called, which takes seconds; the
result is kept (see fec.jit) until one of them changes.

A step that is handed a named tuple of arrays is handed seven words an array in every call, and its code would have to
be put into its callers. ``by_reference(tables)`` in the entry hands tables on as one pointer. Where an array lies never
changes, which the compiler is told, and indices into arrays of a reference are taken as they are: they must not be
negative.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from fec import jit
from testbed.arrays import IntArray, Records

if TYPE_CHECKING:  # numba takes long to import
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.datamodel.manager import DataModelManager
    from numba.core.types import Type
    from numba.core.typing.templates import Signature

Step = TypeVar("Step", bound=Callable[..., Any])
Table = TypeVar("Table")
_inline: set[Callable[..., Any]] = set()


def inline(step: Step) -> Step:
    """Put the code of a step where it is called, since its tables cost much to hand over."""
    _inline.add(step)
    return step


def compiled_entry(entry: Step, **options: Any) -> Step:
    """The entry compiled with the steps that it calls.

    ``options``: numba's, of the entry and of the steps.
    """
    made = jit.compiled_entry(entry, teach=teach, taught=TAUGHT, inline=_inline, **options)
    return (
        made if made is not entry else cast(Step, lambda *tables: entry(*map(as_records, tables)))
    )


def teach() -> None:
    """Teach numba all that compiled steps may use of this module."""
    register_references()
    register_prefetch()
    register_first_bit()
    register_fetch_add()


def as_records(tables: Any) -> Any:
    """The same arrays, alone or in named tuples: Python then reads fields of records by name, as compiled code does."""
    if isinstance(tables, np.ndarray):
        return tables.view(np.recarray) if tables.dtype.names else tables
    return tables._make(map(as_records, tables)) if hasattr(tables, "_make") else tables


def by_reference(tables: Table) -> Table:
    """The same named tuple (or None). In compiled code a pointer to a copy in the frame of the caller, which must
    outlive it."""
    return tables


def prefetch(records: Records[object], place: int) -> None:
    """Fetch a record of an array into the processor's cache, since it is needed soon. In Python nothing happens."""


def first_bit(word: int | np.uint64) -> int:
    """Place of the lowest bit that is 1 in a word of 64 bits, of which one must be.

    >>> first_bit(0b101000)
    3
    """
    return (int(word) & -int(word)).bit_length() - 1


def fetch_add(words: IntArray, place: int, more: int) -> int:
    """Add to a number that other threads read, too, and return what it was. Whoever sees the sum sees all that was
    written before."""
    before = int(words[place])
    if more:
        words[place] = before + more
    return before


TAUGHT = (by_reference, prefetch, first_bit, fetch_add)
"""What compiled steps may use of this module, and Python runs as it is."""


@functools.cache
def register_references() -> None:
    """Teach numba ``by_reference``: its type, its fields (of which named tuples are references, too), and how to make
    one."""
    from numba.core import cgutils, types
    from numba.core.datamodel import models
    from numba.core.typing.templates import AttributeTemplate
    from numba.extending import (
        infer_getattr,
        lower_builtin,
        lower_getattr_generic,
        register_model,
        type_callable,
    )

    rows_of = register_rows()

    class Reference(types.Type):  # type: ignore[misc]
        """A pointer to a named tuple; its name is short, since the names of compiled steps contain it."""

        def __init__(self, to: Any) -> None:
            self.to = to
            digest = hashlib.sha256(repr((to.name, to.fields)).encode()).hexdigest()[:16]
            super().__init__(name=f"Reference_{digest}")

    @register_model(Reference)
    class ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: DataModelManager, kind: Reference) -> None:
            super().__init__(manager, kind, manager.lookup(kind.to).get_value_type().as_pointer())

    @type_callable(by_reference)  # type: ignore[untyped-decorator]
    def type_reference(context: BaseContext) -> Callable[[Type], Type]:
        return lambda tables: tables if tables == types.none else Reference(tables)

    @lower_builtin(by_reference, types.Any)  # type: ignore[untyped-decorator]
    def make_reference(
        context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]
    ) -> Value:
        if signature.return_type == types.none:
            return context.get_dummy_value()
        return opaque(builder, cgutils.alloca_once_value(builder, arguments[0]))

    @infer_getattr
    class ReferenceFields(AttributeTemplate):  # type: ignore[misc]
        key = Reference

        def generic_resolve(self, kind: Reference, name: str) -> Type | None:
            if name not in kind.to.fields:
                return None
            field = kind.to.types[kind.to.fields.index(name)]
            if is_whole(field):
                return rows_of(field)
            return Reference(field) if hasattr(field, "fields") else field

    @lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
    def read_field(
        context: BaseContext, builder: IRBuilder, kind: Reference, pointer: Value, name: str
    ) -> Value:
        place = kind.to.fields.index(name)
        field = cgutils.gep_inbounds(builder, pointer, 0, place)
        whole = kind.to.types[place]
        return field if hasattr(whole, "fields") or is_whole(whole) else read_parts(builder, field)

    def is_whole(field: Type) -> bool:
        return isinstance(field, types.Array) and field.layout == "C"


def opaque(builder: IRBuilder, pointer: Value) -> Value:
    """The same pointer; the compiler does not know what it points to, so what is read through it cannot be read
    before."""
    from llvmlite import ir

    kind = ir.FunctionType(pointer.type, [pointer.type])
    return builder.asm(kind, "", "=r,0,~{memory}", [pointer], True)


def constant(builder: IRBuilder, loaded: Value) -> Value:
    """What was read through a reference never changes: it need not be read again after code has written elsewhere."""
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def read_parts(builder: IRBuilder, pointer: Value) -> Value:
    """What lies there, part by part: parts that nobody looks at are not read in the end."""
    from numba.core import cgutils

    kind = pointer.type.pointee
    if not hasattr(kind, "elements") and not hasattr(kind, "count"):
        return constant(builder, builder.load(pointer))
    whole = cgutils.get_null_value(kind)
    for i in range(len(kind)):
        whole = builder.insert_value(
            whole, read_parts(builder, cgutils.gep_inbounds(builder, pointer, 0, i)), i
        )
    return whole


@functools.cache
def register_rows() -> type[Type]:
    """Teach numba the arrays that a reference names: a pointer to what numba knows of the array. Indices are not looked
    at: they must not be negative. Returns the type's class.
    """
    import operator

    from numba.core import cgutils, types
    from numba.core.datamodel import models
    from numba.core.types.containers import BaseTuple, UniTuple
    from numba.core.typing.templates import (
        AbstractTemplate,
        AttributeTemplate,
        infer_global,
        signature,
    )
    from numba.extending import infer_getattr, lower_builtin, lower_getattr, register_model
    from numba.np.arrayobj import load_item, store_item

    class Rows(types.Type):  # type: ignore[misc]
        def __init__(self, of: types.Array[Type]) -> None:
            self.of = of
            super().__init__(name=f"Rows_{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}")

        def at(self, place: Type) -> Type | None:
            """The type of what is there, None: that is no place."""
            count = 1 if isinstance(place, types.Integer) else getattr(place, "count", 0)
            if count == self.of.ndim:
                return self.of.dtype
            return types.Array(self.of.dtype, 1, "C") if count == 1 and self.of.ndim == 2 else None

    @register_model(Rows)
    class RowsModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: DataModelManager, kind: Rows) -> None:
            super().__init__(manager, kind, manager.lookup(kind.of).get_value_type().as_pointer())

    @infer_global(operator.getitem)
    class GetRow(AbstractTemplate):  # type: ignore[misc]
        def generic(
            self, arguments: tuple[Type, ...], keywords: dict[str, Type]
        ) -> Signature | None:
            found = arguments[0].at(arguments[1]) if isinstance(arguments[0], Rows) else None
            return None if found is None else signature(found, *arguments)

    @infer_global(operator.setitem)
    class SetRow(AbstractTemplate):  # type: ignore[misc]
        def generic(
            self, arguments: tuple[Type, ...], keywords: dict[str, Type]
        ) -> Signature | None:
            rows, place, _ = arguments
            if isinstance(rows, Rows) and rows.at(place) is rows.of.dtype:
                return signature(types.none, rows, place, rows.of.dtype)
            return None

    @infer_global(len)
    class CountRows(AbstractTemplate):  # type: ignore[misc]
        def generic(
            self, arguments: tuple[Type, ...], keywords: dict[str, Type]
        ) -> Signature | None:
            return signature(types.intp, *arguments) if isinstance(arguments[0], Rows) else None

    @infer_getattr
    class RowsFields(AttributeTemplate):  # type: ignore[misc]
        key = Rows

        def resolve_shape(self, rows: Rows) -> Any:
            return UniTuple(types.intp, rows.of.ndim)

    @lower_getattr(Rows, "shape")  # type: ignore[untyped-decorator]
    def read_shape(context: BaseContext, builder: IRBuilder, kind: Type, rows: Value) -> Value:
        return read_parts(builder, cgutils.gep_inbounds(builder, rows, 0, SHAPE))

    @lower_builtin(len, Rows)  # type: ignore[untyped-decorator]
    def count_rows(
        context: BaseContext, builder: IRBuilder, signed: Signature, arguments: Sequence[Value]
    ) -> Value:
        return array_field(builder, arguments[0], SHAPE, 0)

    @lower_builtin(operator.getitem, Rows, types.Integer)  # type: ignore[untyped-decorator]
    @lower_builtin(operator.getitem, Rows, BaseTuple)  # type: ignore[untyped-decorator]
    def get_row(
        context: BaseContext, builder: IRBuilder, signed: Signature, arguments: Sequence[Value]
    ) -> Value:
        rows = signed.args[0].of
        if signed.return_type != rows.dtype:
            of_array = context.get_function(
                operator.getitem, signature(signed.return_type, rows, signed.args[1])
            )
            return of_array(builder, [read_parts(builder, arguments[0]), arguments[1]])
        return load_item(context, builder, rows, row_pointer(context, builder, signed, arguments))

    @lower_builtin(operator.setitem, Rows, types.Integer, types.Any)  # type: ignore[untyped-decorator]
    @lower_builtin(operator.setitem, Rows, BaseTuple, types.Any)  # type: ignore[untyped-decorator]
    def set_row(
        context: BaseContext, builder: IRBuilder, signed: Signature, arguments: Sequence[Value]
    ) -> Value:
        row = row_pointer(context, builder, signed, arguments)
        store_item(context, builder, signed.args[0].of, arguments[2], row)
        return context.get_dummy_value()

    return Rows


DATA, SHAPE = 4, 5
"""Fields of what numba knows of an array."""


def array_field(builder: IRBuilder, array: Value, *place: int) -> Value:
    """A field of what a pointer to an array points to."""
    from numba.core import cgutils

    return constant(builder, builder.load(cgutils.gep_inbounds(builder, array, 0, *place)))


def row_pointer(
    context: BaseContext, builder: IRBuilder, signed: Signature, arguments: Sequence[Value]
) -> Value:
    """Where that is which code asks for: (rows, its place, ...)."""
    from numba.core import cgutils, types

    kind, row = signed.args[1], arguments[1]
    kinds, places = (
        ([kind], [row])
        if isinstance(kind, types.Integer)
        else (list(kind), cgutils.unpack_tuple(builder, row))
    )
    at = None
    for k, (of, place) in enumerate(zip(kinds, places, strict=True)):
        place = context.cast(builder, place, of, types.intp)
        at = (
            place
            if at is None
            else builder.add(builder.mul(at, array_field(builder, arguments[0], SHAPE, k)), place)
        )
    return builder.gep(array_field(builder, arguments[0], DATA), [at], inbounds=True)


@functools.cache
def register_prefetch() -> None:
    """Teach numba ``prefetch``."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import lower_builtin, type_callable

    @type_callable(prefetch)  # type: ignore[untyped-decorator]
    def type_prefetch(context: BaseContext) -> Callable[[Type, Type], Type]:
        return lambda records, place: types.none

    @lower_builtin(prefetch, register_rows(), types.Integer)  # type: ignore[untyped-decorator]
    def make_prefetch(
        context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]
    ) -> Value:
        address = builder.bitcast(
            row_pointer(context, builder, signature, arguments), cgutils.voidptr_t
        )
        word = ir.IntType(32)
        fetch = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        called = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], fetch)
        builder.call(called, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()


@functools.cache
def register_fetch_add() -> None:
    """Teach numba ``fetch_add``: one instruction, which nothing is moved across."""
    from numba.core import types
    from numba.extending import lower_builtin, type_callable

    type_callable(fetch_add)(lambda context: lambda words, place, more: types.int64)

    @lower_builtin(fetch_add, register_rows(), types.Integer, types.Integer)  # type: ignore[untyped-decorator]
    def make(
        context: BaseContext, builder: IRBuilder, signed: Signature, arguments: Sequence[Value]
    ) -> Value:
        more = context.cast(builder, arguments[2], signed.args[2], types.int64)
        return builder.atomic_rmw(
            "add", row_pointer(context, builder, signed, arguments), more, "seq_cst"
        )


@functools.cache
def register_first_bit() -> None:
    """Teach numba ``first_bit``: one instruction."""
    from numba.cpython.unsafe.numbers import trailing_zeros
    from numba.extending import overload

    overload(first_bit, inline="always")(lambda word: lambda word: trailing_zeros(np.int64(word)))
