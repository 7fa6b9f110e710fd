"""Compile what Python calls into ``fec/kernels-x86-64-v3.so``: ``make kernels``, and the build of a wheel.

Every task of ``compile_ahead`` runs, so that each entry is called with the types of its arguments.
numba compiles the entries for x86-64-v3, which processors have since 2013.
For each entry a C callback of numba's is made, which reads the arguments from the words of a call
(``fec.jit``), and LLVM makes an object file of it. gcc links the files into one library.

Object files stay in ``build/kernels``: after a change, only what changed is compiled again.
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
# numba compiles for this processor, whichever runs it.
PROCESSOR = "x86-64-v3"
ENVIRONMENT = {"NUMBA_CPU_NAME": PROCESSOR, "NUMBA_CPU_FEATURES": ""}
# This task calls no entry.
NO_ENTRIES = "striped files"
LINK = ["-O2", "-fPIC", "-shared", "-s", "-Wl,--no-undefined,--build-id=none,-z,noexecstack"]

# What compiled code calls of numba's run time. Arrays that it allocates are counted, and freed by
# `NRT_MemInfo_call_dtor`. The others report an error as a Python exception, which is not needed:
# a routine that fails does not set its word RETURNED, which `fec.jit` reports as an error.
RUN_TIME = """
#include <stdlib.h>
typedef struct { size_t count; void *destructor, *about, *data; size_t size; void *allocator; } Array;
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
int numba_attempt_nocopy_reshape(long nd, const long *shape, const long *strides, long new_nd,
                                 const long *new_shape, long *new_strides, long size, int fortran) {
    long whole = size; /* of C-contiguous arrays only: compiled code has no others */
    for (long k = nd - 1; k >= 0; whole *= shape[k--]) if (strides[k] != whole) return 0;
    for (long k = new_nd - 1; k >= 0; size *= new_shape[k--]) new_strides[k] = size;
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
    """The arguments of an entry as text of Python, which reads them from the words of a call.

    Attributes:
        names: What the text refers to.
    """

    def __init__(self) -> None:
        from numba import carray

        self.names: dict[str, Any] = {"carray": carray}
        self._next = FIRST_ARGUMENT

    def text(self, value: Any) -> str:
        """Return the text for a value of this type."""
        if isinstance(value, np.ndarray):
            at = self._next
            self._next += 1 + value.ndim
            shape = "".join(f"words[{at + 1 + k}], " for k in range(value.ndim))
            return f"carray(pointers[{at}], ({shape}), {self._name(value.dtype)})"
        if isinstance(value, tuple):
            parts = "".join(f"{self.text(part)}, " for part in value)
            named = self._name(type(value)) if hasattr(value, "_fields") else ""
            return f"{named}({parts})"
        if value is None:
            return "None"
        self._next += 1
        word = f"words[{self._next - 1}]"
        if isinstance(value, np.generic):
            return f"{self._name(value.dtype.type)}({word})"
        if isinstance(value, bool):
            return f"({word} != 0)"
        return f"floats[{self._next - 1}]" if isinstance(value, float) else word

    def _name(self, value: Any) -> str:
        name = f"name_{len(self.names)}"
        self.names[name] = value
        return name


def callback(entry: CompiledEntry, arguments: tuple[Any, ...]) -> Any:
    """Return a C callback of numba's that calls the entry with the words of a call."""
    from numba import cfunc, types

    reader = Arguments()
    call = f"entry({', '.join(map(reader.text, arguments))})"
    if entry.result == "None":
        lines = [call]
    else:
        words = "floats" if entry.result == "float" else "words"
        lines = [f"{words}[{RESULT}] = {call}"]
    lines = ["def routine(words, pointers, floats):", *lines, f"words[{RETURNED}] = 1"]
    names = {**reader.names, "entry": entry.by_numba}
    exec("\n    ".join(lines), names)
    pointers = map(types.CPointer, (types.int64, types.voidptr, types.float64))
    return cfunc(types.void(*pointers))(names["routine"])


def machine_code(symbol: str, made: Any) -> bytes:
    """Return the object file of a callback; its only name is the symbol."""
    from llvmlite import binding

    module = binding.parse_assembly(made.inspect_llvm())
    for thing in (*module.functions, *module.global_variables):
        if thing.name == made.native_name:
            thing.name = symbol
        elif not thing.is_declaration:
            thing.linkage = "internal"
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

    def note(symbol: str, entry: CompiledEntry, arguments: tuple[Any, ...]) -> None:
        symbols.append(symbol)
        path = OBJECTS / f"{symbol}.o"
        if not path.exists():
            entry.by_numba.compile(tuple(map(typeof, arguments)))
            part = path.with_suffix(f".{os.getpid()}")
            part.write_bytes(machine_code(symbol, callback(entry, arguments)))
            part.replace(path)

    CompiledEntry.called = staticmethod(note)
    TASKS[name]()
    return symbols


def link(objects: list[Path]) -> None:
    """Link the object files into the library, and write its digest beside it."""
    with tempfile.TemporaryDirectory(dir=OBJECTS) as temporary:
        (Path(temporary) / "run_time.c").write_text(RUN_TIME)
        parts = [f"{temporary}/run_time.c", *map(str, objects)]
        made = Path(temporary) / KERNELS.name
        subprocess.run(["gcc", *LINK, "-o", str(made), *parts, "-lm"], check=True)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        made.replace(KERNELS)
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
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as processes:
        symbols = sorted({symbol for part in processes.map(compile_task, tasks) for symbol in part})
    link([OBJECTS / f"{symbol}.o" for symbol in symbols])
    return 0


if __name__ == "__main__":
    sys.exit(main())
