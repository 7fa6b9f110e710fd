"""Compiled entries of the testbed, and named tuples that are passed to their steps by reference.

numba passes a named tuple of arrays as seven words per array, in every call. The router simulator
passes 60 arrays to some 150 steps. ``by_reference(tables)``, called in the entry, makes a pointer
to a copy of the named tuple instead. This is the only code here that writes LLVM. Without it, the
first ``simulate`` takes more than twice as long, because LLVM then optimises calls of 400 arguments
(measured: docs/dev/compile.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from fec import jit

if TYPE_CHECKING:  # numba takes half a second to import.
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.datamodel.manager import DataModelManager
    from numba.core.types import Type
    from numba.core.typing.templates import Signature

Step = TypeVar("Step", bound=Callable[..., Any])
Table = TypeVar("Table")

# Steps whose code numba puts where they are called.
_inline: set[Callable[..., Any]] = set()


def inline(step: Step) -> Step:
    """Let numba put the code of a step where it is called.

    This is a decorator for short steps that are called often: to pass them their tables would take
    longer than their work.
    """
    _inline.add(step)
    return step


def compiled_entry(entry: Step, **options: Any) -> Step:
    """Return the entry compiled with the steps that it calls.

    Args:
        entry: A plain function (``fec.jit.compiled_entry``).
        options: Options of ``numba.njit`` for the entry and its steps.
    """
    return cast(
        Step,
        jit.compiled_entry(
            entry, teach=teach_references, taught=(by_reference,), inline=_inline, **options
        ),
    )


def by_reference(tables: Table) -> Table:
    """Return the same named tuple (or None).

    In compiled code the result is a pointer to a copy in the stack frame of the caller. It is valid
    until the caller returns. Arrays in it are read and written as usual.
    """
    return tables


def first_bit(word: int | np.int64) -> int:
    """Return the position of the lowest bit that is 1 in a word of 64 bits.

    >>> first_bit(0b101000)
    3
    """
    shifted = np.int64(word)
    position = 0
    for width in (32, 16, 8, 4, 2, 1):
        if shifted & ((1 << width) - 1) == 0:
            shifted >>= width
            position += width
    return position


def teach_references() -> None:
    """Teach numba the type of ``by_reference``: a pointer to a named tuple, with its fields."""
    reference = _reference_type()
    _teach_call(reference)
    _teach_fields(reference)


def _reference_type() -> Any:
    """Return numba's type of pointers to named tuples."""
    from numba import types
    from numba.extending import models, register_model

    class Reference(types.Type):  # type: ignore[misc]
        """A pointer to a named tuple.

        Its name is short, because the names of compiled steps contain it.
        """

        def __init__(self, to: Any) -> None:
            self.to = to
            digest = hashlib.sha256(repr((to.name, to.fields)).encode()).hexdigest()[:16]
            super().__init__(name=f"Reference_{digest}")

    @register_model(Reference)
    class ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: DataModelManager, kind: Reference) -> None:
            super().__init__(manager, kind, manager.lookup(kind.to).get_value_type().as_pointer())

    return Reference


def _teach_call(reference: Any) -> None:
    """Teach numba the call ``by_reference(tables)``."""
    from numba import types
    from numba.extending import lower_builtin, type_callable

    @type_callable(by_reference)  # type: ignore[untyped-decorator]
    def type_reference(context: BaseContext) -> Callable[[Type], Any]:
        def type_of_result(tables: Type) -> Any:
            if tables == types.none:
                return tables
            return reference(tables)

        return type_of_result

    @lower_builtin(by_reference, types.Any)  # type: ignore[untyped-decorator]
    def make_reference(
        context: BaseContext, builder: IRBuilder, signature: Signature, arguments: Sequence[Value]
    ) -> Value:
        if signature.return_type == types.none:
            return context.get_dummy_value()
        with builder.goto_entry_block():
            pointer = builder.alloca(arguments[0].type)
        builder.store(arguments[0], pointer)
        return pointer


def _teach_fields(reference: Any) -> None:
    """Teach numba to read fields of a reference, also those of named tuples inside it."""
    from llvmlite import ir
    from numba.core.typing.templates import AttributeTemplate
    from numba.extending import infer_getattr, lower_getattr_generic

    @infer_getattr
    class ReferenceFields(AttributeTemplate):  # type: ignore[misc]
        key = reference

        def generic_resolve(self, kind: Any, name: str) -> Any:
            if name not in kind.to.fields:
                return None
            field = kind.to.types[kind.to.fields.index(name)]
            if hasattr(field, "fields"):
                return reference(field)
            return field

    @lower_getattr_generic(reference)  # type: ignore[untyped-decorator]
    def read_field(
        context: BaseContext, builder: IRBuilder, kind: Any, pointer: Value, name: str
    ) -> Value:
        position = kind.to.fields.index(name)
        index_type = ir.IntType(32)
        indices = [ir.Constant(index_type, 0), ir.Constant(index_type, position)]
        field = builder.gep(pointer, indices, inbounds=True)
        field_type = kind.to.types[position]
        if hasattr(field_type, "fields"):
            return field
        value = builder.load(field)
        if context.enable_nrt:
            # The named tuple owns its arrays, so the reader gets a reference of its own.
            context.nrt.incref(builder, field_type, value)
        return value
