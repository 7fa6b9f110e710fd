"""Compiles the routines that Python calls into the library ``fec/kernels-x86-64-v3.so``.

``make kernels`` and the build of a wheel run this program:

1. Every task of ``compile_ahead`` runs, so that each entry is called with the types of its
   arguments.
2. numba compiles the entries for x86-64-v3, which processors have supported since 2013.
3. For each entry, a C callback of numba reads the arguments from the words of a call (``fec.jit``).
   LLVM makes an object file of the callback.
4. gcc links the object files into one library.

The object files stay in ``build/kernels``. After a change, only changed routines are compiled.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fec.jit import (  # noqa: E402
    FIRST_ARGUMENT,
    KERNELS,
    KERNELS_DIGEST,
    RESULT,
    RETURNED,
    CompiledEntry,
    processor_has_instructions,
)
from testbed.commands.network.compile_ahead import TASKS  # noqa: E402

OBJECTS = ROOT / "build" / "kernels"
# numba compiles for this processor, whichever processor runs this program.
PROCESSOR = "x86-64-v3"
ENVIRONMENT = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": ""}
# The task of ``compile_ahead`` that calls no entry. It imports a module, which is compiled then.
NO_ENTRIES = "striped files"
LINK = ["-O2", "-fPIC", "-shared", "-s", "-Wl,--no-undefined,--build-id=none,-z,noexecstack"]

# The functions of numba's run time that compiled code calls. Compiled code counts the references to
# the arrays that it allocates, and frees them with `NRT_MemInfo_call_dtor`. The ignored functions
# would report an error as a Python exception. They are not needed, because a routine that fails
# does not set its word RETURNED, and `fec.jit` reports that as an error.
RUN_TIME = """
#include <stdlib.h>
typedef struct {
    size_t count;
    void *destructor, *info, *data;
    size_t size;
    void *allocator;
} Array;
void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    Array *array = calloc(1, sizeof(Array) + size + align);
    if (!array) return NULL;
    array->count = 1;
    array->size = size;
    array->data = (void *)(((size_t)(array + 1) + align - 1) / align * align);
    return array;
}
void *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 16); }
void NRT_MemInfo_call_dtor(void *array) { free(array); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *memory) { free(memory); }
int numba_attempt_nocopy_reshape(long nd, const long *shape, const long *strides, long new_nd,
                                 const long *new_shape, long *new_strides, long size, int fortran) {
    /* Compiled code has only C-contiguous arrays. */
    long stride = size;
    for (long k = nd - 1; k >= 0; k--) {
        if (strides[k] != stride) return 0;
        stride *= shape[k];
    }
    stride = size;
    for (long k = new_nd - 1; k >= 0; k--) {
        new_strides[k] = stride;
        stride *= new_shape[k];
    }
    return !fortran;
}
#define IGNORED(name) void *name(void) { return NULL; }
IGNORED(numba_do_raise) IGNORED(numba_gil_ensure) IGNORED(numba_gil_release)
IGNORED(numba_runtime_build_excinfo_struct) IGNORED(numba_unpickle)
IGNORED(PyBytes_FromStringAndSize) IGNORED(PyErr_Clear) IGNORED(PyErr_SetNone)
IGNORED(PyErr_SetString) IGNORED(PyErr_WriteUnraisable) IGNORED(PyExc_RuntimeError)
IGNORED(PyExc_StopIteration) IGNORED(PyExc_SystemError) IGNORED(PyObject_Hash)
IGNORED(PyTuple_Pack) IGNORED(PyUnicode_FromKindAndData) IGNORED(PyUnicode_FromString)
IGNORED(Py_DecRef) IGNORED(Py_IncRef)
"""


class Arguments:
    """The arguments of an entry as Python expressions that read them from the words of a call.

    A call passes an array of 64-bit words (``fec.jit``). Expressions read a word as an integer
    (``words``), as a float (``floats``) or as the address of an array (``pointers``).

    Attributes:
        names: The values to which the expressions refer, by name.
    """

    def __init__(self) -> None:
        from numba import carray

        self.names: dict[str, Any] = {"carray": carray}
        self._next = FIRST_ARGUMENT

    def text(self, value: Any) -> str:
        """Return the expression for the next argument, from a value of its type."""
        if isinstance(value, np.ndarray):
            return self._array_text(value)
        if isinstance(value, tuple):
            parts = "".join(f"{self.text(part)}, " for part in value)
            named_tuple = ""
            if hasattr(value, "_fields"):
                named_tuple = self._name(type(value))
            return f"{named_tuple}({parts})"
        if value is None:
            return "None"
        index = self._next
        self._next += 1
        if isinstance(value, np.generic):
            return f"{self._name(value.dtype.type)}(words[{index}])"
        # bool is a subclass of int, and must come first.
        if isinstance(value, bool):
            return f"(words[{index}] != 0)"
        if isinstance(value, float):
            return f"floats[{index}]"
        return f"words[{index}]"

    def _array_text(self, array: np.ndarray[Any, Any]) -> str:
        """Return the expression for an array: a pointer, and one word per dimension."""
        index = self._next
        self._next += 1 + array.ndim
        sizes = "".join(f"words[{index + 1 + axis}], " for axis in range(array.ndim))
        return f"carray(pointers[{index}], ({sizes}), {self._name(array.dtype)})"

    def _name(self, value: Any) -> str:
        """Give a value a name to which expressions can refer."""
        name = f"name_{len(self.names)}"
        self.names[name] = value
        return name


def callback(entry: CompiledEntry, arguments: tuple[Any, ...]) -> Any:
    """Return a C callback of numba that reads the arguments from its words, and calls the entry.

    Args:
        entry: The entry.
        arguments: Arguments of the entry, of which only the types matter.
    """
    from numba import cfunc, types

    reader = Arguments()
    call = f"entry({', '.join(map(reader.text, arguments))})"
    if entry.result == "None":
        statement = call
    elif entry.result == "float":
        statement = f"floats[{RESULT}] = {call}"
    else:
        statement = f"words[{RESULT}] = {call}"
    lines = [
        "def routine(words, pointers, floats):",
        f"    {statement}",
        f"    words[{RETURNED}] = 1",
    ]
    names = {**reader.names, "entry": entry.by_numba}
    exec("\n".join(lines), names)
    pointers = map(types.CPointer, (types.int64, types.voidptr, types.float64))
    return cfunc(types.void(*pointers))(names["routine"])


def machine_code(symbol: str, c_callback: Any) -> bytes:
    """Return the object file of a callback, which exports only the symbol."""
    from llvmlite import binding

    module = binding.parse_assembly(c_callback.inspect_llvm())
    for definition in (*module.functions, *module.global_variables):
        if definition.name == c_callback.native_name:
            definition.name = symbol
        elif not definition.is_declaration:
            definition.linkage = "internal"
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(
        cpu=PROCESSOR, features="", opt=3, reloc="pic", codemodel="small"
    )
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    options = binding.create_pipeline_tuning_options(3)
    passes.run(module, binding.create_pass_builder(machine, options))
    return bytes(machine.emit_object(module))


def compile_task(name: str) -> list[str]:
    """Run a task, and write the missing object files of the entries that it calls.

    Returns:
        The symbols of all entries that the task calls.
    """
    from numba import typeof

    symbols: list[str] = []

    def write_object(symbol: str, entry: CompiledEntry, arguments: tuple[Any, ...]) -> None:
        symbols.append(symbol)
        path = OBJECTS / f"{symbol}.o"
        if not path.exists():
            entry.by_numba.compile(tuple(map(typeof, arguments)))
            # Another process may write the same file. Renaming makes it complete at once.
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(machine_code(symbol, callback(entry, arguments)))
            unfinished.replace(path)

    CompiledEntry.called = staticmethod(write_object)
    TASKS[name]()
    return symbols


def link(objects: list[Path]) -> None:
    """Link the object files into the library, and write its digest beside it."""
    with tempfile.TemporaryDirectory(dir=OBJECTS) as temporary:
        run_time = Path(temporary) / "run_time.c"
        run_time.write_text(RUN_TIME)
        inputs = [str(run_time), *map(str, objects)]
        library = Path(temporary) / KERNELS.name
        subprocess.run(["gcc", *LINK, "-o", str(library), *inputs, "-lm"], check=True)
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
        library.replace(KERNELS)
    KERNELS_DIGEST.write_text(digest + "\n")
    print(f"{KERNELS}: {len(objects)} routines, {KERNELS.stat().st_size} bytes")


def main() -> int:
    """Compile and link the routines, and return the exit code."""
    if not processor_has_instructions() or shutil.which("gcc") is None:
        print("no kernels are made: this needs gcc and a processor of x86-64-v3", file=sys.stderr)
        return 1
    os.environ.update(ENVIRONMENT)
    OBJECTS.mkdir(parents=True, exist_ok=True)
    tasks = [name for name in TASKS if name != NO_ENTRIES]
    symbols: set[str] = set()
    # A spawned process reads the environment before it imports numba.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        for symbols_of_task in processes.map(compile_task, tasks):
            symbols.update(symbols_of_task)
    link([OBJECTS / f"{symbol}.o" for symbol in sorted(symbols)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
