"""The steps of an algorithm compiled by numba into one entry: what all compiled code of the testbed is made by.

Steps are plain functions that tests can run as they are. An entry, and the steps that it calls, directly or not, are compiled
together when the entry is first called, which takes seconds; the result is kept (see fec.compile) until one of them changes.

A step that is handed a named tuple of arrays is handed seven words an array in every call, and its code would have to be put into
its callers. ``by_reference(tables)`` in the entry hands tables on as one pointer.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, TypeVar

from fec.compile import compiled

Step = Callable[..., Any]
Table = TypeVar("Table")
_registered: set[Step] = set()


def compiled_entry(entry: Step, steps: Iterable[Step], *, inline: Iterable[Step] = (), **options: Any) -> Any:
    """The entry compiled with the steps that it may call; code of the ``inline`` ones is put where they are called.

    ``options``: numba's, of the entry and of the steps.
    """
    from numba.extending import register_jitable

    register_references()
    register_prefetch()
    inline, steps = tuple(inline), tuple(steps)
    for step in (*inline, *steps):
        if step not in _registered:  # without an entry for C, which only Python would call
            register_jitable(no_cfunc_wrapper=True, forceinline=step in inline, **options)(step)
            _registered.add(step)
    named = FunctionType(entry.__code__, entry.__globals__, entry.__name__)
    named.__qualname__ = f"{entry.__name__}_{fingerprint((entry, *inline, *steps))}"
    return compiled(named, **options)


def fingerprint(steps: Iterable[Step]) -> str:
    """Changes with the code of any step, and with the numbers and the fields of named tuples that one refers to.

    numba itself looks at the file of the entry alone, so the entry is kept under a name with this in it.
    """
    seen = hashlib.sha256()
    for step in steps:
        code, outside = step.__code__, step.__globals__
        names = [*code.co_names, *map(str, step.__annotations__.values())]
        values = [(name, outside[name]) for name in names if name in outside]
        plain = [(name, value) for name, value in values if isinstance(value, int | float)]
        fields = [(name, value.__annotations__) for name, value in values if hasattr(value, "_fields")]
        seen.update(repr((code.co_code, code.co_consts, code.co_names, plain, fields)).encode())
    return seen.hexdigest()[:16]


def by_reference(tables: Table) -> Table:
    """The same named tuple (or None). In compiled code a pointer to a copy in the frame of the caller, which must outlive it."""
    return tables


def prefetch(records: Any, place: int) -> None:
    """Fetch a record of an array into the processor's cache, since it is needed soon. In Python nothing happens."""


@functools.cache
def register_references() -> None:
    """Teach numba ``by_reference``: its type, its fields (of which named tuples are references, too), and how to make one."""
    from numba.core import cgutils, types
    from numba.core.datamodel import models
    from numba.core.typing.templates import AttributeTemplate
    from numba.extending import infer_getattr, lower_builtin, lower_getattr_generic, register_model, type_callable

    class Reference(types.Type):  # type: ignore[misc]
        """A pointer to a named tuple; its name is short, since the names of compiled steps contain it."""

        def __init__(self, to: Any) -> None:
            self.to = to
            digest = hashlib.sha256(repr((to.name, to.fields)).encode()).hexdigest()[:16]
            super().__init__(name=f"Reference_{digest}")

    @register_model(Reference)
    class ReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, manager.lookup(kind.to).get_value_type().as_pointer())

    @type_callable(by_reference)  # type: ignore[untyped-decorator]
    def type_reference(context: Any) -> Any:
        return lambda tables: tables if tables == types.none else Reference(tables)

    @lower_builtin(by_reference, types.Any)  # type: ignore[untyped-decorator]
    def make_reference(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if signature.return_type == types.none:
            return context.get_dummy_value()
        return cgutils.alloca_once_value(builder, arguments[0])

    @infer_getattr
    class ReferenceFields(AttributeTemplate):  # type: ignore[misc]
        key = Reference

        def generic_resolve(self, kind: Any, name: str) -> Any:
            if name not in kind.to.fields:
                return None
            field = kind.to.types[kind.to.fields.index(name)]
            return Reference(field) if hasattr(field, "fields") else field

    @lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
    def read_field(context: Any, builder: Any, kind: Any, pointer: Any, name: str) -> Any:
        place = kind.to.fields.index(name)
        field = cgutils.gep_inbounds(builder, pointer, 0, place)
        return field if hasattr(kind.to.types[place], "fields") else read_parts(builder, field)

    def read_parts(builder: Any, pointer: Any) -> Any:
        """What lies there, part by part: parts that nobody looks at are not read in the end."""
        kind = pointer.type.pointee
        if not hasattr(kind, "elements") and not hasattr(kind, "count"):
            return builder.load(pointer)
        whole = cgutils.get_null_value(kind)
        for i in range(len(kind)):
            whole = builder.insert_value(whole, read_parts(builder, cgutils.gep_inbounds(builder, pointer, 0, i)), i)
        return whole


@functools.cache
def register_prefetch() -> None:
    """Teach numba ``prefetch``."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import lower_builtin, type_callable

    @type_callable(prefetch)  # type: ignore[untyped-decorator]
    def type_prefetch(context: Any) -> Any:
        return lambda records, place: types.none

    @lower_builtin(prefetch, types.Array, types.Integer)  # type: ignore[untyped-decorator]
    def make_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, array = signature.args[0], context.make_array(signature.args[0])(context, builder, arguments[0])
        place = context.cast(builder, arguments[1], signature.args[1], types.intp)
        record = cgutils.get_item_pointer(context, builder, kind, array, [place])
        address = builder.bitcast(record, cgutils.voidptr_t)
        word = ir.IntType(32)
        fetch = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        called = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], fetch)
        builder.call(called, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()
