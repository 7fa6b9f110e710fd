"""Compile the entries that Python calls into ``fec/kernels-x86-64-v3.so``.

``make kernels`` and the build of a wheel run this program. Every task of ``compile_ahead`` runs, so
that each entry is called with the types of its arguments. numba compiles the entries for x86-64-v3,
which processors have had since 2013. For each entry numba makes a C callback, which reads the
arguments from the words of a call (``fec.jit``), and LLVM writes it to an object file. gcc links
the files into one library.

Object files stay in ``build/kernels``: after a change, only the changed entries are compiled again.
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
# The processor for which numba compiles, whatever the processor of this machine is.
PROCESSOR = "x86-64-v3"
ENVIRONMENT = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": ""}
# This task calls no entry.
NO_ENTRIES = "striped files"
LINK = [
    "-O2",
    "-fPIC",
    "-shared",
    "-s",
    "-Wl,--no-undefined,--build-id=none,-z,noexecstack",
]

# The functions of numba's run time that compiled code calls. Arrays have a reference count, and
# `NRT_MemInfo_call_dtor` frees them. The functions behind `IGNORED` would report an error as a
# Python exception. This is not needed, because a routine that fails does not set its word RETURNED,
# which `fec.jit` reports as an error.
RUN_TIME = """
#include <stdlib.h>
typedef struct {
    size_t count;
    void *destructor, *about, *data;
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
void NRT_Free(void *place) { free(place); }
/* Only for C-contiguous arrays, because compiled code has no others. */
int numba_attempt_nocopy_reshape(long nd, const long *shape, const long *strides, long new_nd,
                                 const long *new_shape, long *new_strides, long size,
                                 int fortran) {
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


class ArgumentReader:
    """Writes Python expressions that read the arguments of an entry from the words of a call.

    Attributes:
        names: The values of the names in the expressions.
    """

    def __init__(self) -> None:
        from numba import carray

        self.names: dict[str, Any] = {"carray": carray}
        self._next = FIRST_ARGUMENT

    def expression(self, value: Any) -> str:
        """Return an expression that reads a value of the type of this one."""
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, tuple):
            parts = "".join(f"{self.expression(part)}, " for part in value)
            if hasattr(value, "_fields"):
                return f"{self._name(type(value))}({parts})"
            return f"({parts})"
        if value is None:
            return "None"
        position = self._next
        self._next += 1
        if isinstance(value, np.generic):
            return f"{self._name(value.dtype.type)}(words[{position}])"
        if isinstance(value, bool):
            return f"(words[{position}] != 0)"
        if isinstance(value, float):
            return f"floats[{position}]"
        return f"words[{position}]"

    def _array(self, value: np.ndarray[Any, Any]) -> str:
        """Return an expression that reads an array: its address, then its shape."""
        position = self._next
        self._next += 1 + value.ndim
        shape = "".join(f"words[{position + 1 + k}], " for k in range(value.ndim))
        return f"carray(pointers[{position}], ({shape}), {self._name(value.dtype)})"

    def _name(self, value: Any) -> str:
        """Return a new name for a value."""
        name = f"name_{len(self.names)}"
        self.names[name] = value
        return name


def callback(entry: CompiledEntry, arguments: tuple[Any, ...]) -> Any:
    """Return a C callback, made by numba, that calls an entry with the words of a call.

    Args:
        entry: The entry.
        arguments: Arguments of the types for which it is compiled.
    """
    from numba import cfunc, types

    reader = ArgumentReader()
    expressions = map(reader.expression, arguments)
    statement = f"entry({', '.join(expressions)})"
    if entry.result == "float":
        statement = f"floats[{RESULT}] = {statement}"
    elif entry.result != "None":
        statement = f"words[{RESULT}] = {statement}"
    lines = ["def routine(words, pointers, floats):", statement, f"words[{RETURNED}] = 1"]
    names = {**reader.names, "entry": entry.by_numba}
    exec("\n    ".join(lines), names)
    pointers = map(types.CPointer, (types.int64, types.voidptr, types.float64))
    return cfunc(types.void(*pointers))(names["routine"])


def machine_code(symbol: str, c_callback: Any) -> bytes:
    """Return the object file of a callback, which exports only this symbol."""
    from llvmlite import binding

    module = binding.parse_assembly(c_callback.inspect_llvm())
    for item in (*module.functions, *module.global_variables):
        if item.name == c_callback.native_name:
            item.name = symbol
        elif not item.is_declaration:
            item.linkage = "internal"
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
    """Run a task, write an object file for each entry that has none, and return the symbols."""
    from numba import typeof

    symbols: list[str] = []

    def compile_call(symbol: str, entry: CompiledEntry, arguments: tuple[Any, ...]) -> None:
        symbols.append(symbol)
        path = OBJECTS / f"{symbol}.o"
        if not path.exists():
            entry.by_numba.compile(tuple(map(typeof, arguments)))
            # Another process may write the same file, so it is written under another name first.
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(machine_code(symbol, callback(entry, arguments)))
            part.replace(path)

    CompiledEntry.called = staticmethod(compile_call)
    TASKS[name]()
    return symbols


def link(objects: list[Path]) -> None:
    """Link the object files into the library, and write its digest beside it."""
    with tempfile.TemporaryDirectory(dir=OBJECTS) as temporary:
        run_time = Path(temporary) / "run_time.c"
        run_time.write_text(RUN_TIME)
        library = Path(temporary) / KERNELS.name
        command = ["gcc", *LINK, "-o", str(library), str(run_time), *map(str, objects), "-lm"]
        subprocess.run(command, check=True)
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
        library.replace(KERNELS)
    KERNELS_DIGEST.write_text(digest + "\n")
    print(f"{KERNELS}: {len(objects)} routines, {KERNELS.stat().st_size} bytes")


def main() -> int:
    """Compile and link; return the exit code."""
    if not processor_has_instructions() or shutil.which("gcc") is None:
        print("no kernels are made: this needs gcc and a processor of x86-64-v3", file=sys.stderr)
        return 1
    os.environ.update(ENVIRONMENT)
    OBJECTS.mkdir(parents=True, exist_ok=True)
    tasks = [name for name in TASKS if name != NO_ENTRIES]
    symbols: set[str] = set()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        for symbols_of_task in processes.map(compile_task, tasks):
            symbols.update(symbols_of_task)
    link([OBJECTS / f"{symbol}.o" for symbol in sorted(symbols)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
