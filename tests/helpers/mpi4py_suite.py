"""mpi4py's own tests of MPI.File (its test_io.py and test_file.py) on striped files, through examples/mpi4py_file.py.

``[mpiexec -n N] python -m tests.helpers.mpi4py_suite TESTS`` with SFIO_LISTENERS set: TESTS is the folder ``test`` of
mpi4py's source distribution. One line a rank, and one for each test that did not pass.
"""

import importlib.util
import io
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

ARRAYS = ("array", "numpy")
"""The kinds of buffers that are tried: those of Python and numpy."""


def shim() -> Any:
    path = Path(__file__).parents[2] / "examples" / "mpi4py_file.py"
    spec = importlib.util.spec_from_file_location("mpi4py_file", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases(module: ModuleType) -> list[unittest.TestCase]:
    found = []
    for kind in vars(module).values():
        if (
            isinstance(kind, type)
            and issubclass(kind, unittest.TestCase)
            and kind.__module__ == module.__name__
        ):
            found += list(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
    return found  # type: ignore[return-value]


def main(folder: str) -> int:
    from mpi4py import MPI

    sys.path.insert(0, folder)
    MPI.File = shim().File  # type: ignore[misc]
    arrays: Any = importlib.import_module("arrayimpl")
    known = arrays.ArrayBackends
    known[:] = [each for each in known if each.backend in ARRAYS and "GPU" not in str(each)]
    modules = map(importlib.import_module, ("test_io", "test_file"))
    suite = unittest.TestSuite(test for module in modules for test in cases(module))
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    wrong = [
        (str(test), trace.strip().splitlines()[-1])
        for test, trace in result.errors + result.failures
    ]
    counts = f"{result.testsRun} run, {len(wrong)} failed, {len(result.skipped)} skipped"
    print(f"rank {MPI.COMM_WORLD.rank}: {counts}", flush=True)
    for test, text in wrong:
        print(f"  {test}: {text}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
