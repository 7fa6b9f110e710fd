"""``make kernels``: what is compiled ahead for everybody, ``fec/kernels-x86-64-v3.so``.

Every task of ``compile_ahead`` runs with numba set to that processor. Of each routine that was called, the optimised
code is kept, without what Python would call it by; instead it gets a caller that takes one pointer to all words of a
call (``fec.jit``). gcc links the routines, with the few functions of numba's that count references.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fec.jit import KERNELS, KERNELS_DIGEST, RESULT_WORDS, CompiledEntry

if TYPE_CHECKING:  # numba takes long to import
    from llvmlite.binding import ModuleRef
    from numba.core.compiler import CompileResult
    from numba.core.types import Type

REFERENCES = """
#include <stdlib.h>
typedef struct { size_t count; void *destructor, *about, *data; size_t size; void *allocator; } Held;
void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    Held *held = calloc(1, sizeof(Held) + size + align);
    if (!held) return NULL;
    held->count = 1, held->size = size;
    held->data = (void *)(((size_t)(held + 1) + align - 1) / align * align);
    return held;
}
void NRT_MemInfo_call_dtor(void *held) { free(held); }
void *NRT_Allocate(size_t size) { return malloc(size); }
void NRT_Free(void *place) { free(place); }
int numba_attempt_nocopy_reshape(long nd, const long *shape, const long *strides, long new_nd,
                                 const long *new_shape, long *new_strides, long size, int fortran) {
    long whole = size; /* of C-contiguous arrays only: compiled code has no others */
    for (long k = nd - 1; k >= 0; whole *= shape[k--]) if (strides[k] != whole) return 0;
    for (long k = new_nd - 1; k >= 0; size *= new_shape[k--]) new_strides[k] = size;
    return !fortran;
}
void release_array(Held *held) { if (held && __atomic_sub_fetch(&held->count, 1, __ATOMIC_ACQ_REL) == 0) free(held); }
"""
PROCESSOR = {
    "TESTBED_KERNELS": "numba",
    "NUMBA_CPU_NAME": "x86-64-v3",
    "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.1,+sse4.2,+ssse3,+xsave",
}


def build() -> None:
    """Compile every routine, link them, and put the result in its place."""
    from testbed.commands.network.compile_ahead import TASKS

    found = {}

    def note(symbol: str, entry: CompiledEntry, arguments: tuple[object, ...]) -> None:
        from numba import typeof

        found[symbol] = entry.by_numba.overloads[tuple(map(typeof, arguments))]

    CompiledEntry.missed = staticmethod(note)
    for task in TASKS.values():
        task()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "references.c").write_text(REFERENCES)
        for symbol, made in found.items():
            (Path(folder) / f"{symbol}.o").write_bytes(machine_code(symbol, made))
        parts = sorted(map(str, Path(folder).glob("*.[oc]")))
        flags = [
            "-O2",
            "-fPIC",
            "-shared",
            "-s",
            "-Wl,--no-undefined,--build-id=none,-z,noexecstack",
        ]
        subprocess.run(["gcc", *flags, "-o", str(KERNELS), *parts, "-lm"], check=True)
    KERNELS_DIGEST.write_text(hashlib.sha256(KERNELS.read_bytes()).hexdigest() + "\n")
    print(f"{KERNELS}: {len(found)} routines, {KERNELS.stat().st_size} bytes")


def letters_of(returned: Type) -> str:
    """What ``fec.jit`` reads the result by."""
    from numba.core import types
    from numba.np.numpy_support import as_dtype

    if returned == types.none:
        return ""
    if hasattr(returned, "types"):
        return "".join(map(letters_of, returned.types))
    if isinstance(returned, types.Array):
        return f"A{as_dtype(returned.dtype).char}"
    return str(as_dtype(returned).char)


def without_paths(assembly: str) -> str:
    """Blank what names files of this machine, so that the same source gives the same bytes.

    These are texts and pickled errors that compiled code would give to Python. Nobody reads them:
    a routine that is compiled ahead reports its status only.
    """
    import numba

    blank = "[1 x i8] zeroinitializer"
    pickled = r"^(@[^ ]*\.const\.pickledata[^ ]* = internal constant) \[\d+ x i8\] c\".*\"$"
    assembly = re.sub(pickled, rf"\1 {blank}", assembly, flags=re.MULTILINE)
    length = r"^(@[^ ]*\.const\.picklebuf[^ ]* = .*?, i32) \d+,"
    assembly = re.sub(length, r"\1 0,", assembly, flags=re.MULTILINE)
    folder = re.escape(str(Path(numba.__file__).parent))
    return re.sub(rf'\[\d+ x i8\] c"[^"\n]*{folder}[^"\n]*"', blank, assembly)


def machine_code(symbol: str, made: CompileResult) -> bytes:
    """The object file of a routine and its caller, with all that it calls; nothing else of it has a name outside."""
    from llvmlite import binding

    module = binding.parse_assembly(without_paths(made.library.get_llvm_str()))
    name = made.fndesc.llvm_func_name
    module.link_in(
        binding.parse_assembly(caller(symbol, name, letters_of(made.signature.return_type), module))
    )
    for thing in (*module.functions, *module.global_variables):
        if not thing.is_declaration and thing.name not in (symbol, f"{symbol}_returns"):
            thing.linkage = "internal"
    target = binding.Target.from_triple(binding.get_process_triple())
    machine = target.create_target_machine(
        cpu=PROCESSOR["NUMBA_CPU_NAME"],
        features=PROCESSOR["NUMBA_CPU_FEATURES"],
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(
        module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(3))
    )
    return bytes(machine.emit_object(module))


def caller(symbol: str, name: str, letters: str, module: ModuleRef) -> str:
    """A function that reads the routine's arguments from words and leaves there what it returns."""
    kinds = [str(argument.type) for argument in module.get_function(name).arguments][2:]
    given = ["ptr %words", "ptr %failure", *(f"{kind} %a{k}" for k, kind in enumerate(kinds))]
    reads = [
        f"%p{k} = getelementptr i64, ptr %words, i64 {RESULT_WORDS + k}\n%a{k} = load {kind}, ptr %p{k}"
        for k, kind in enumerate(kinds)
    ]
    return f"""
        target triple = "{module.triple}"
        target datalayout = "{module.data_layout}"
        @{symbol}_returns = constant [{len(letters) + 1} x i8] c"{letters}\\00"
        declare i32 @"{name}"({", ".join(["ptr", "ptr", *kinds])})
        define i32 @{symbol}(ptr %words) {{
            %failure = alloca ptr
            store ptr null, ptr %failure
            {chr(10).join(reads)}
            %status = call i32 @"{name}"({", ".join(given)})
            ret i32 %status
        }}"""


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in PROCESSOR.items()):
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, **PROCESSOR, "NUMBA_CACHE_DIR": cache}
            sys.exit(
                subprocess.run([sys.executable, __file__], env=environment, check=False).returncode
            )
    build()
